/** The browser's binary, or undefined. Throws when `CHROMIUM` names none. */
export declare function findChromium(): string | undefined;
/** The browser's binary, installed when there was none (root with apt); else throws one line of advice. */
export declare function ensureChromium(): string;
