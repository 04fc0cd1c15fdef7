import { type TestingModule } from '@nestjs/testing';
import { isRedisLockError, type LockConfigError } from '../../lib/errors.js';
import { DistributedLock } from '../../lib/nest/decorators/distributed-lock.decorator.js';
import { Idempotent } from '../../lib/nest/decorators/idempotent.decorator.js';
import { LockParam } from '../../lib/nest/decorators/lock-param.decorator.js';

const open: TestingModule[] = [];
afterEach(async () => {
  await Promise.all(open.splice(0).map((module) => module.close()));
  jest.restoreAllMocks();
});

describe('a decoration fails when', () => {
  const faultsOf = (decorate: () => unknown): string => {
    try {
      decorate();
    } catch (error) {
      if (isRedisLockError(error, 'LOCK_CONFIG')) return (error as LockConfigError).message;
      throw error;
    }
    return 'decorated';
  };
  const method = (): PropertyDescriptor => ({
    value: async () => undefined,
    configurable: true,
    writable: true,
  });
  class Target {}

  it.each([
    [
      'a class',
      () => DistributedLock('lock:1')(...([Target] as unknown as [object, string, never])),
      /on a class/,
    ],
    ['a static method', () => DistributedLock('lock:1')(Target, 'job', method()), /static method/],
    [
      'an accessor',
      () => DistributedLock('lock:1')(Target.prototype, 'job', { get: () => 1, configurable: true }),
      /accessor/,
    ],
    [
      'an arrow property',
      () => DistributedLock('lock:1')(...([Target.prototype, 'job'] as unknown as [object, string, never])),
      /property/,
    ],
    [
      'a generator',
      () =>
        DistributedLock('lock:1')(Target.prototype, 'job', {
          *value() {
            yield 1;
          },
        }),
      /generator/,
    ],
    [
      'an async generator',
      () =>
        Idempotent({ key: 'k' })(Target.prototype, 'job', {
          async *value() {
            yield 1;
          },
        }),
      /generator/,
    ],
    [
      'a standard decorator context',
      () =>
        DistributedLock('lock:1')(
          ...([() => 1, { kind: 'method', name: 'job' }] as unknown as [object, string, never]),
        ),
      /experimentalDecorators/,
    ],
  ])('%s carries it', (_, decorate, message) => {
    expect(faultsOf(decorate)).toMatch(message);
  });

  it('the same decorator stands on a method twice, also with another between', () => {
    expect(
      faultsOf(() => {
        class Twice {
          @DistributedLock('lock:1')
          @Idempotent({ key: 'k' })
          @DistributedLock('lock:2')
          async job(): Promise<void> {}
        }
        return Twice;
      }),
    ).toMatch(/Twice\.job: @DistributedLock stands on this method twice/);
  });

  it.each([
    ['a ttl that is no duration', { ttl: 'soon' as never }, /Target\.job\.ttl/],
    ['a ttl that is too short', { ttl: 50 }, /Target\.job\.ttl.*at least 100/],
    ['an unknown option', { tll: '5s' } as never, /Target\.job\.tll: is no option/],
    ['an option that is not built', { replicas: 1 }, /Target\.job\.replicas/],
    ['onBusy that is none', { onBusy: 'ignore' as never }, /Target\.job\.onBusy/],
    ['an empty instance name', { instance: '' }, /instance/],
    ['a list as options', [] as never, /options/],
  ])('N22: it has %s', (_, options, message) => {
    expect(
      faultsOf(() => DistributedLock('lock:1', options)(class Target {}.prototype, 'job', method())),
    ).toMatch(message);
  });

  it.each(['lock:<a><b>', 'lock:<a>-<b>', 'lock:{orderId}', 'lock:<a', '', 'lock:{}:<a>', 'lock:a}b:<a>'])(
    'N22: its template is %j',
    (template) => {
      expect(faultsOf(() => DistributedLock(template)(class Target {}.prototype, 'job', method()))).toMatch(
        /^Target\.job/,
      );
      // Braces that form no tag matter to locks alone: a record's name is hashed.
      if (!/[{}]/.test(template.replace('{orderId}', ''))) {
        expect(
          faultsOf(() => Idempotent({ key: template })(class Target {}.prototype, 'job', method())),
        ).toMatch(/^Target\.job/);
      }
    },
  );

  it('a parameter has no usable name', () => {
    expect(faultsOf(() => LockParam('a.b')(Target.prototype, 'job', 0))).toMatch(/Target\.job/);
    expect(faultsOf(() => LockParam('id')(Target, undefined, 0))).toMatch(/^Target/);
    const twice = class Twice {}.prototype;
    LockParam('id')(twice, 'job', 0);
    expect(faultsOf(() => LockParam('id')(twice, 'job', 1))).toMatch(/Twice\.job.*two parameters/);
  });
});
