/** The arithmetic of the timeline: which sections overlap, and where on the line a moment stands. */

/** Processes tell whole milliseconds: less than this is no overlap but rounding. */
const CLOCK_GRAIN_MS = 1;
/** A longer time in which nobody held the lock is cut out. */
const IDLE_MS = 40;
const CUT_PX = 44;
const MOST_PX_PER_MS = 5;

/** Where two sections of one lock ran at the same time. */
export function overlapsOf(sections) {
  const overlaps = [];
  let last;
  for (const section of [...sections].sort(byStart)) {
    if (last && section.startedAt < last.endedAt - CLOCK_GRAIN_MS) {
      const endedAt = Math.min(last.endedAt, section.endedAt);
      overlaps.push({ startedAt: section.startedAt, endedAt, sections: [last, section] });
    }
    if (!last || section.endedAt > last.endedAt) last = section;
  }
  return overlaps;
}

/** Whether each holder's token was larger than the one of the holder before. */
export function tokensRise(sections) {
  const sorted = [...sections].sort(byStart);
  return sorted.every(
    (section, index) => index === 0 || section.fencingToken > sorted[index - 1].fencingToken,
  );
}

/** A scale from time to pixels without the idle times; the same number of pixels per millisecond everywhere else. */
export function scaleOf(sections, width) {
  const busy = busyTimes(sections);
  const cuts = busy.length - 1;
  const cutPx = Math.min(CUT_PX, (width * 0.4) / Math.max(1, cuts));
  const busyMs = busy.reduce((sum, { from, to }) => sum + Math.max(1, to - from), 0);
  const pxPerMs = Math.min(MOST_PX_PER_MS, (width - cuts * cutPx) / busyMs);
  let left = 0;
  const pieces = busy.map(({ from, to }, index) => {
    const piece = { from, to, left };
    left += Math.max(1, to - from) * pxPerMs + cutPx;
    return index === 0
      ? piece
      : { ...piece, cut: { x: piece.left - cutPx, width: cutPx, ms: from - busy[index - 1].to } };
  });
  return {
    x(at) {
      const piece = pieces.findLast(({ from }) => at >= from) ?? pieces[0];
      return piece.left + Math.max(0, at - piece.from) * pxPerMs;
    },
    cuts: pieces.flatMap(({ cut }) => (cut ? [cut] : [])),
  };
}

function busyTimes(sections) {
  const busy = [];
  for (const { startedAt, endedAt } of [...sections].sort(byStart)) {
    const last = busy.at(-1);
    if (last && startedAt - last.to <= IDLE_MS) last.to = Math.max(last.to, endedAt);
    else busy.push({ from: startedAt, to: endedAt });
  }
  return busy;
}

const byStart = (a, b) => a.startedAt - b.startedAt || a.fencingToken - b.fencingToken;
