import { closeSync, openSync, readSync, writeSync } from 'node:fs';

/**
 * A number in a file that several processes raise by reading, then writing: two sections that overlap lose a raise.
 *
 * @typedef {object} CounterFile
 * @property {() => number} read
 * @property {(value: number) => void} write
 * @property {() => void} close
 */

/** @param {string} path @returns {CounterFile} */
export function openCounter(path) {
  const file = openSync(path, 'r+');
  const bytes = Buffer.alloc(8);
  return {
    read() {
      readSync(file, bytes, 0, 8, 0);
      return bytes.readDoubleLE(0);
    },
    write(value) {
      bytes.writeDoubleLE(value, 0);
      writeSync(file, bytes, 0, 8, 0);
    },
    close: () => closeSync(file),
  };
}

/** @param {string} path creates it with the value 0 */
export function createCounter(path) {
  const file = openSync(path, 'w');
  writeSync(file, Buffer.alloc(8));
  closeSync(file);
}
