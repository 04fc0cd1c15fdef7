/** Milliseconds of a clock that all processes of this machine share and that never steps. */
export function now() {
  return Number(process.hrtime.bigint()) / 1e6;
}
