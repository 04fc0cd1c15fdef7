/** The lease that everybody asks for, in milliseconds: long enough that nobody renews within a section. */
export const TTL_MS = 30_000;

/**
 * @typedef {() => unknown} Release may return a promise
 *
 * @typedef {object} Session one contender, connected
 * @property {(key: string) => Promise<Release>} acquire waits as long as it takes
 * @property {(key: string, section: () => Promise<unknown>) => Promise<unknown>} [run] the section as a function
 * @property {(key: string) => Promise<unknown>} [prepare] once per key, in one process, before anybody asks
 * @property {() => unknown} close
 */
