/** The module's option for the contender with shards. */
export const SHARDS = 8;
/** Keys that begin so are spread by that contender. */
export const SPREAD = 'bench:spread';

/**
 * @typedef {object} QuotaSession one contender, connected
 * @property {(key: string, amount: number) => Promise<unknown>} prepare
 * @property {(key: string, id: string) => Promise<unknown>} take one unit; rejects when it gets none
 * @property {(key: string) => Promise<number>} remaining
 * @property {() => unknown} close
 */
