export interface Installation<T> {
  /** Undefined where it is not installed. */
  find(): T | undefined;
  packageName: string;
  /** What is thrown where it cannot be installed: one line. */
  advice: string;
}
/** What `find` gives, after installing the package where it gives nothing (root with apt); else throws the advice. */
export declare function findOrInstall<T>(installation: Installation<T>): T;
export declare function isExecutable(path: string): boolean;
