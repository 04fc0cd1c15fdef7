const { createHash } = require('node:crypto');
const { relative } = require('node:path');
const { createTransformer } = require('@swc/jest').default ?? require('@swc/jest');

/**
 * The project's own Jest transform, with one text replaced in one file on the way. The work tree stays as it
 * is, so several mutants can be tested at the same time.
 *
 * MUTANT is JSON: { file, find, replace }.
 */
const mutant = JSON.parse(process.env.MUTANT ?? 'null');
const swc = createTransformer();

const isMutated = (filename, options) =>
  mutant !== null && relative(options.config.rootDir, filename) === mutant.file;

module.exports = {
  ...swc,
  process(source, filename, options) {
    if (!isMutated(filename, options)) return swc.process(source, filename, options);
    const [before, after, ...more] = source.split(mutant.find);
    if (after === undefined || more.length > 0) {
      throw new Error(`The text to mutate must stand exactly once in ${mutant.file}: ${mutant.find}`);
    }
    return swc.process(before + mutant.replace + after, filename, options);
  },
  getCacheKey(source, filename, options) {
    const key = swc.getCacheKey(source, filename, options);
    if (!isMutated(filename, options)) return key;
    return createHash('sha256').update(key).update(process.env.MUTANT).digest('hex');
  },
};
