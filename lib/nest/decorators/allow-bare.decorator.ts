import { LockConfigError } from '../../errors.js';
import { BARE } from '../guard-spec.js';
import { faultOfTarget } from './decorate-method.js';

/**
 * On an override of a decorated method: it is meant to run without the lock or the idempotency of the method
 * it replaces. Without it such an override stops the start-up.
 */
export function AllowBare(): MethodDecorator {
  return (target: object, method: string | symbol, descriptor?: PropertyDescriptor) => {
    const fault = faultOfTarget(target, method, descriptor);
    if (fault) throw new LockConfigError({ path: fault.path, message: `@AllowBare ${fault.message}` });
    Reflect.defineMetadata(BARE, true, (descriptor as PropertyDescriptor).value as object);
  };
}
