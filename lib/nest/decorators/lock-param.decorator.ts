import { LockConfigError } from '../../errors.js';
import { labelOf, nameParam, paramNames } from '../guard-spec.js';

/**
 * Names a parameter of a plain method for the templates: with `@LockParam('orderId') id: string`, `<orderId>`
 * is found. Parameter names themselves are never read from source.
 *
 * @throws LockConfigError at decoration, when the name is no name or stands where it cannot act.
 */
export function LockParam(name: string): ParameterDecorator {
  return (target: object, method: string | symbol | undefined, index: number) => {
    if (method === undefined || typeof target === 'function') {
      const className = typeof target === 'function' ? target.name : target.constructor.name;
      throw new LockConfigError({
        path: className,
        message: '@LockParam names a parameter of a method, not of a constructor or a static method',
      });
    }
    if (typeof name !== 'string' || !/^[^\s.<>:{}%]+$/u.test(name)) {
      throw new LockConfigError({
        path: labelOf(target, method),
        message: '@LockParam needs the name that templates use, e.g. @LockParam("orderId")',
      });
    }
    const known = [...paramNames(target, method)].find(([at, other]) => other === name && at !== index);
    if (known) {
      throw new LockConfigError({
        path: labelOf(target, method),
        message: `@LockParam('${name}') names two parameters: templates could not tell which one is meant`,
      });
    }
    nameParam(target, method, index, name);
  };
}
