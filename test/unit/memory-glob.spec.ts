import { compileGlob } from '../../lib/backend/memory/glob.js';

describe('compileGlob', () => {
  it.each([
    ['*', 'anything', true],
    ['*', '', true],
    ['', '', true],
    ['', 'a', false],
    ['order:*', 'order:1', true],
    ['order:*', 'stock:1', false],
    ['*:1', 'order:1', true],
    ['*a*b*', 'xxaxxbxx', true],
    ['*a*b*', 'xxbxxaxx', false],
    ['a**b', 'a--b', true],
    ['o?der', 'order', true],
    ['o?der', 'oder', false],
    ['h[ae]llo', 'hallo', true],
    ['h[ae]llo', 'hillo', false],
    ['h[^e]llo', 'hallo', true],
    ['h[^e]llo', 'hello', false],
    ['h[a-b]llo', 'hbllo', true],
    ['h[b-a]llo', 'hallo', true],
    ['h[a-b]llo', 'hcllo', false],
    ['[a-]', '-', false], // a range from a to ], as Redis reads it
    ['[a-]', '_', true],
    ['[]]', ']', false],
    ['[\\]]', ']', true],
    ['[ab', 'b', true],
    ['[', 'a', false],
    ['[^', 'a', true],
    ['\\*', '*', true],
    ['\\*', 'a', false],
    ['a\\', 'a\\', true],
    ['\\[a]', '[a]', true],
    ['a.c', 'abc', false],
    ['(a|b)+', 'a', false],
    ['{tag}:*', '{tag}:1', true],
    // é is two bytes
    ['?', 'é', false],
    ['??', 'é', true],
    ['é*', 'été', true],
  ])('%p on %p: %p', (pattern, text, expected) => {
    expect(compileGlob(pattern)(text)).toBe(expected);
  });

  it('takes no exponential time', () => {
    const fits = compileGlob(`${'a*'.repeat(50)}b`);
    expect(fits('a'.repeat(5_000))).toBe(false);
  });
});
