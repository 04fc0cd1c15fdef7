import { ExpiringMap } from '../../lib/backend/memory/expiring-map.js';

describe('ExpiringMap', () => {
  let now = 0;
  let map: ExpiringMap<string>;
  beforeEach(() => {
    now = 1_000;
    map = new ExpiringMap(() => now);
  });

  it('never shows an entry past its end, swept or not', () => {
    map.set('a', 'x', 10);
    now += 9;
    expect(map.get('a')).toBe('x');
    now += 1;
    expect(map.get('a')).toBeUndefined();
    expect(map.remainingMs('a')).toBe(0);
    expect(map.delete('a')).toBe(false);
    map.set('a', 'y', 10);
    now += 10;
    map.prolong('a', 100);
    map.expire('a', 100);
    expect(map.get('a')).toBeUndefined();
  });

  it('tells a rest of less than a millisecond as 1, not as 0', () => {
    map.set('a', 'x', 10);
    now += 9.7;
    expect(map.remainingMs('a')).toBe(1);
  });

  it('prolong never shortens, expire does', () => {
    map.set('a', 'x', 100);
    map.prolong('a', 10);
    expect(map.remainingMs('a')).toBe(100);
    map.prolong('a', 200);
    expect(map.remainingMs('a')).toBe(200);
    map.expire('a', 10);
    expect(map.remainingMs('a')).toBe(10);
  });

  it('sweeps ended entries among many that live, in bounded steps', () => {
    for (let i = 0; i < 10_000; i++) map.set(`live:${i}`, 'x', 1_000);
    for (let i = 0; i < 100; i++) map.set(`ended:${i}`, 'x', 1);
    now += 10;
    map.sweep();
    expect(map.size).toBe(10_100);
    for (let sweeps = 0; map.size > 10_000; sweeps++) {
      expect(sweeps).toBeLessThan(10);
      map.sweep();
    }
    expect(map.get('live:0')).toBe('x');
  });

  it('goes on sweeping while most have ended', () => {
    for (let i = 0; i < 50_000; i++) map.set(`${i}`, 'x', 1);
    now += 10;
    map.sweep();
    expect(map.size).toBe(0);
    map.set('later', 'x', 1);
    now += 10;
    map.sweep();
    map.sweep();
    expect(map.size).toBe(0);
  });
});
