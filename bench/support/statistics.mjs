/** A small seeded generator (mulberry32), so that two runs over the same samples give the same interval.
 * @param {number} seed
 * @returns {() => number} numbers in [0, 1)
 */
function generator(seed) {
  let state = seed >>> 0;
  return () => {
    state = (state + 0x6d2b79f5) >>> 0;
    let mixed = Math.imul(state ^ (state >>> 15), state | 1);
    mixed ^= mixed + Math.imul(mixed ^ (mixed >>> 7), mixed | 61);
    return ((mixed ^ (mixed >>> 14)) >>> 0) / 2 ** 32;
  };
}

/**
 * @param {readonly number[]} samples
 * @param {number} fraction 0.5 is the median
 */
export function quantile(samples, fraction) {
  const sorted = [...samples].sort((a, b) => a - b);
  const at = (sorted.length - 1) * fraction;
  const low = sorted[Math.floor(at)] ?? NaN;
  const high = sorted[Math.ceil(at)] ?? NaN;
  return low + (high - low) * (at - Math.floor(at));
}

/** @param {readonly number[]} samples */
export function median(samples) {
  return quantile(samples, 0.5);
}

/**
 * The percentile bootstrap of the median: 95 % of the medians of resampled rounds lie in it.
 *
 * @param {readonly number[]} samples
 * @returns {[number, number]}
 */
export function medianInterval(samples, resamples = 4_000, seed = 20_240_601) {
  const random = generator(seed);
  const medians = Array.from({ length: resamples }, () =>
    median(samples.map(() => samples[Math.floor(random() * samples.length)] ?? NaN)),
  );
  return [quantile(medians, 0.025), quantile(medians, 0.975)];
}

/**
 * Ratios within each round. The machine is shared and its speed drifts: two figures of one round met the same
 * machine, two medians of different rounds did not.
 *
 * @param {readonly number[]} samples
 * @param {readonly number[]} base
 */
export function pairwiseRatios(samples, base) {
  return samples.map((sample, round) => sample / (base[round] ?? NaN));
}

/** @param {readonly number[]} numbers */
export function sum(numbers) {
  return numbers.reduce((total, number) => total + number, 0);
}

/**
 * Jain's index of fairness: 1 when all have the same, 1/n when one has everything
 * (R. Jain, D. Chiu, W. Hawe, DEC TR-301, 1984).
 *
 * @param {readonly number[]} shares
 */
export function jain(shares) {
  const squares = sum(shares.map((share) => share * share));
  return squares === 0 ? NaN : sum(shares) ** 2 / (shares.length * squares);
}
