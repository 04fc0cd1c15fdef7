import { PASSED_ON_LEASE_MS } from '../../lib/backend/backend.js';
import { grantedSince } from '../../lib/lock/grant-clock.js';

/** The local clocks, in milliseconds; the store's own time begins elsewhere and counts microseconds. */
const START = { monotonic: 1_000, wall: 1_700_000_000_000 };
const STORE = 1_699_999_000_000_000;

function at(ms: number, wallMs = ms): { monotonic: number; wall: number } {
  return { monotonic: START.monotonic + ms, wall: START.wall + wallMs };
}

function clockAt(ms: number, wallMs = ms): { monotonic(): number; wall(): number } {
  const { monotonic, wall } = at(ms, wallMs);
  return { monotonic: () => monotonic, wall: () => wall };
}

const look = { sentAt: START, time: STORE, epoch: 7 };
const grantedAfter = (ms: number): number => STORE + ms * 1_000;

describe('from when a lease that was passed on surely lasts', () => {
  it('counts from the look by the time of the store, less the drift, and never from after the receipt', () => {
    expect(grantedSince(look, grantedAfter(500), at(510), 7, clockAt(510))).toEqual(at(495));
    expect(grantedSince(look, grantedAfter(500), at(490), 7, clockAt(510))).toEqual(at(490));
  });

  it('is not believed when the process was stopped until little of it was left', () => {
    const enough = PASSED_ON_LEASE_MS * 0.6;
    expect(grantedSince(look, grantedAfter(500), at(500 + enough), 7, clockAt(500 + enough))).toBeDefined();
    const late = PASSED_ON_LEASE_MS * 0.8;
    expect(grantedSince(look, grantedAfter(500), at(500 + late), 7, clockAt(500 + late))).toBeUndefined();
    expect(grantedSince(look, grantedAfter(500), at(500 + 3_000), 7, clockAt(500 + 3_000))).toBeUndefined();
  });

  it('is not believed when the clocks cannot be compared', () => {
    const now = clockAt(510);
    expect(grantedSince(undefined, grantedAfter(500), at(510), 7, now)).toBeUndefined();
    expect(grantedSince(look, grantedAfter(500), at(510), 8, now)).toBeUndefined(); // another connection
    expect(grantedSince(look, grantedAfter(-1), at(510), 7, now)).toBeUndefined(); // before the look
    expect(grantedSince(look, grantedAfter(500), at(510, 800), 7, clockAt(510, 800))).toBeUndefined(); // suspended
  });
});
