/** The server's binary, or undefined. Throws when `REDIS_SERVER` names none. */
export declare function findRedis(): string | undefined;
/** The server's binary, installed when there was none (root with apt); else throws one line of advice. */
export declare function ensureRedis(): string;
