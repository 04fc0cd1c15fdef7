/** The folder of `initdb` and `postgres`, or undefined. Throws when `POSTGRES_BIN` names none. */
export declare function findPostgres(): string | undefined;
/** That folder, after installing the server when there was none (root with apt); else throws one line of advice. */
export declare function ensurePostgres(): string;
