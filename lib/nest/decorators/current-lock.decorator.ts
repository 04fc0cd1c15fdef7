import { createCurrentLockDecorator } from '../route-arguments.js';

/**
 * Gives the parameter the `Lock` that the method runs under, in handlers and in plain methods: for its fencing
 * token, its signal, `assertHeld()`. The method must carry `@DistributedLock`, else it stays undefined.
 */
export const CurrentLock = (): ParameterDecorator => createCurrentLockDecorator();
