import { from, mergeMap, of } from 'rxjs';

/** How long a reply is kept. */
const TTL_MS = 86_400_000;

/**
 * The least that de-duplicates at all, and what many write by hand: no fingerprint, no owner, no renewal, no
 * headers, and the key stays taken when the handler fails. `NX GET` needs Redis 7.
 *
 * @param {import('ioredis').Redis} redis
 * @returns {{ intercept(context: any, next: any): Promise<import('rxjs').Observable<unknown>> }}
 */
export function bareInterceptor(redis) {
  return {
    async intercept(context, next) {
      const key = `bare:${context.switchToHttp().getRequest().headers['idempotency-key']}`;
      const known = await redis.set(key, 'pending', 'PX', TTL_MS, 'NX', 'GET');
      if (known === 'pending') throw new Error('The first request still runs.');
      if (known !== null) return of(JSON.parse(known));
      const keep = async (/** @type {unknown} */ value) => {
        await redis.set(key, JSON.stringify(value), 'PX', TTL_MS);
        return value;
      };
      return next.handle().pipe(mergeMap((/** @type {unknown} */ value) => from(keep(value))));
    },
  };
}
