/**
 * Loaded before the sample by `npm run demo -- --without-module`. The sample's own code runs unchanged, but the
 * decorators that it imports do nothing: no record, no lock, and so no fencing token. What is left is what the
 * code would be without the module: look at the order, then write.
 */
import { createParamDecorator } from '@nestjs/common';
import * as lib from 'nestjs-redis-lock';
import type { Lock } from 'nestjs-redis-lock';

const nothing = (): MethodDecorator => () => undefined;

/** Nobody's token is larger than another's: the fence lets everybody through. */
const noLock: Lock = {
  keys: [],
  token: '',
  fencingToken: 0,
  signal: new AbortController().signal,
  remainingMs: 0,
  held: false,
  assertHeld: () => undefined,
  run: (fn) => fn(),
  extend: async () => undefined,
  release: async () => 'released',
  [Symbol.asyncDispose]: async () => undefined,
};

const loaded = require.cache[require.resolve('nestjs-redis-lock')];
if (!loaded) throw new Error('The package was not loaded, so its decorators cannot be switched off');
loaded.exports = {
  ...lib,
  Idempotent: nothing,
  DistributedLock: nothing,
  CurrentLock: createParamDecorator(() => noLock),
};
