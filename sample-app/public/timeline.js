/** The critical sections: a block for each lock, a lane for each process. */
import { byId, element, formatMs, formatTime, plural, setText, svg } from './dom.js';
import { overlapsOf, scaleOf, tokensRise } from './timeline-scale.js';

const KEPT = 800;
const PER_LOCK = 24;
const MOST_BLOCKS = 5;
const MOST_PER_FAMILY = 3;
const CROWD = 10;
const MOST_CROWDS = 1;
const TABLE_ROWS = 30;
const LANE = 22;
const BAR = 14;
const LABEL = 84;
const CUT_TEXT = 14;
const COLOURS = 4;

const sections = new Map();
const processes = [];
let planned = false;

/** Its bars come in the first colour. */
export function seenFrom(process) {
  if (processes.length === 0) processes.push(process);
}

export function startTimeline() {
  new ResizeObserver(plan).observe(byId('timeline'));
  byId('timeline-table-box').addEventListener('toggle', plan);
}

export function replaceSections(list) {
  sections.clear();
  addSections(list);
}

export function addSections(list) {
  for (const section of list) {
    sections.set(`${section.fencingToken} ${section.key}`, section);
    const name = nameOf(section);
    if (!processes.includes(name)) processes.push(name);
  }
  for (const id of sections.keys()) {
    if (sections.size <= KEPT) break;
    sections.delete(id);
  }
  plan();
}

/** In words, for the summary. */
export function timelineInWords() {
  if (sections.size === 0) return 'No critical section yet.';
  const overlaps = [...byLock().values()].flatMap(overlapsOf);
  if (overlaps.length === 0) return `No overlap among the last ${plural(sections.size, 'critical section')}.`;
  const [{ sections: both }] = overlaps;
  return `${plural(overlaps.length, 'overlap')}: two holders at once of ${both[0].key}.`;
}

/** Many messages, one drawing. */
function plan() {
  if (planned) return;
  planned = true;
  requestAnimationFrame(() => {
    planned = false;
    draw();
  });
}

function draw() {
  const locks = byLock();
  const overlaps = [...locks.values()].reduce((sum, list) => sum + overlapsOf(list).length, 0);
  const verdict = byId('verdict');
  verdict.dataset.tone = sections.size === 0 ? 'plain' : overlaps > 0 ? 'bad' : 'good';
  setText(
    verdict,
    sections.size === 0 ? 'none yet' : overlaps > 0 ? plural(overlaps, 'overlap') : 'no overlap',
  );
  const box = byId('timeline');
  const width = box.clientWidth;
  if (width === 0) return;
  const { shown, crowds } = worthShowing(locks);
  const blocks = shown.map((key) => block(key, locks.get(key), width));
  if (blocks.length === 0 && crowds.length === 0) {
    blocks.push(element('p', { class: 'empty', text: 'Send a callback, and its section appears here.' }));
  }
  for (const { family, keys } of crowds) {
    blocks.push(
      element(
        'div',
        { class: 'block' },
        element('p', { class: 'key', text: `${family}:…` }),
        element('p', {
          class: 'muted',
          text: `${plural(keys.length, 'different lock')}, one section each: these may run side by side.`,
        }),
      ),
    );
  }
  const others = locks.size - shown.length - crowds.reduce((sum, { keys }) => sum + keys.length, 0);
  if (others > 0) {
    blocks.push(
      element('p', {
        class: 'muted',
        text: `Not drawn, but in the verdict: ${plural(others, 'other lock')}.`,
      }),
    );
  }
  box.replaceChildren(...blocks);
  if (byId('timeline-table-box').open) drawTable();
}

function block(key, all, width) {
  const list = all.slice(-PER_LOCK);
  const overlaps = overlapsOf(list);
  const lanes = [...new Set(list.map(nameOf))];
  const lanesHeight = lanes.length * LANE + 8;
  const scale = scaleOf(list, width - LABEL - 2);
  const height = lanesHeight + (scale.cuts.some(hasRoom) ? CUT_TEXT : 0);
  const x = (at) => LABEL + scale.x(at);
  const words = inWords(list, lanes, overlaps);
  const picture = svg('svg', { width, height, role: 'img', 'aria-label': `${key}: ${words}` });
  lanes.forEach((lane, index) => {
    const y = index * LANE + 4;
    picture.append(
      svg('line', { class: 'lane', x1: LABEL, x2: width, y1: y + LANE / 2, y2: y + LANE / 2 }),
      svg('text', { class: 'lane-name', x: 0, y: y + LANE / 2 + 4, text: lane }),
    );
  });
  for (const cut of scale.cuts) {
    const middle = LABEL + cut.x + cut.width / 2;
    picture.append(svg('line', { class: 'cut', x1: middle, x2: middle, y1: 2, y2: lanesHeight - 2 }));
    if (hasRoom(cut))
      picture.append(
        svg('text', { class: 'cut-text', x: middle, y: lanesHeight + 9, text: formatMs(cut.ms) }),
      );
  }
  for (const section of list) picture.append(bar(section, x, lanes.indexOf(nameOf(section)), width));
  for (const { startedAt, endedAt } of overlaps) {
    const left = x(startedAt);
    picture.append(
      svg('rect', {
        class: 'overlap',
        x: left,
        y: 1,
        width: Math.max(4, x(endedAt) - left),
        height: lanesHeight - 2,
      }),
    );
  }
  return element(
    'div',
    { class: 'block', 'data-overlap': overlaps.length > 0 },
    element('p', { class: 'key', text: key }),
    picture,
    element('p', { class: 'muted words', text: words }),
  );
}

const hasRoom = ({ width }) => width >= 36;

function bar(section, x, lane, width) {
  const left = Math.min(x(section.startedAt), width - 3);
  const wide = Math.max(3, x(section.endedAt) - left);
  const y = lane * LANE + 4 + (LANE - BAR) / 2;
  const took = formatMs(section.endedAt - section.startedAt);
  const killed = section.process.includes('killed');
  const group = svg(
    'g',
    { class: killed ? 'bar killed' : `bar colour-${processes.indexOf(nameOf(section)) % COLOURS}` },
    svg('rect', { x: left, y, width: wide, height: BAR, rx: 3 }),
    svg('title', { text: `${section.process}, ${took}, fencing token ${section.fencingToken}` }),
  );
  const label = killed ? `${took}, killed` : took;
  if (wide > label.length * 6.6 + 8) {
    group.append(svg('text', { class: 'took', x: left + 5, y: y + BAR - 3.5, text: label }));
  }
  return group;
}

function inWords(list, lanes, overlaps) {
  const parts = [`${plural(list.length, 'section')} by ${plural(lanes.length, 'process', 'processes')}`];
  parts.push(
    overlaps.length > 0 ? `${plural(overlaps.length, 'overlap')}: two holders at once` : 'no overlap',
  );
  if (list.length > 1) parts.push(tokensRise(list) ? 'fencing tokens rise' : 'fencing tokens do not rise');
  return parts.join(', ');
}

/**
 * The locks with the latest news, those with an overlap before all others. Of a crowd, as of buyers who each have a lock
 * of their own, only the number is told: no two of them exclude each other.
 */
function worthShowing(locks) {
  const last = (key) => locks.get(key).at(-1).endedAt;
  const overlap = (key) => (overlapsOf(locks.get(key)).length > 0 ? 1 : 0);
  const latestFirst = (a, b) => overlap(b) - overlap(a) || last(b) - last(a);
  const families = Map.groupBy(locks.keys(), (key) => key.slice(0, key.lastIndexOf(':')));
  const crowds = [];
  const candidates = [];
  for (const [family, keys] of families) {
    const crowd = crowdOf(keys, locks);
    if (crowd.size > 0) crowds.push({ family, keys: [...crowd] });
    const others = keys.filter((key) => !crowd.has(key));
    candidates.push(...others.sort(latestFirst).slice(0, MOST_PER_FAMILY));
  }
  return { shown: candidates.sort(latestFirst).slice(0, MOST_BLOCKS), crowds: crowds.slice(-MOST_CROWDS) };
}

/** Many locks of a kind, held once each, at the same time. */
function crowdOf(keys, locks) {
  const single = keys.flatMap((key) => (locks.get(key).length === 1 ? locks.get(key) : []));
  const together = new Set(overlapsOf(single).flatMap(({ sections }) => sections.map(({ key }) => key)));
  return together.size >= CROWD ? together : new Set();
}

function drawTable() {
  const rows = [...sections.values()].sort((a, b) => b.startedAt - a.startedAt).slice(0, TABLE_ROWS);
  byId('timeline-table').replaceChildren(
    ...rows.map(({ key, process, startedAt, endedAt, fencingToken }) =>
      element(
        'tr',
        {},
        element('td', { class: 'key', text: key }),
        element('td', { text: process }),
        element('td', { text: formatTime(startedAt) }),
        element('td', { class: 'right', text: formatMs(endedAt - startedAt) }),
        element('td', { class: 'right', text: fencingToken }),
      ),
    ),
  );
}

function byLock() {
  const locks = new Map();
  for (const section of sections.values()) {
    if (!locks.has(section.key)) locks.set(section.key, []);
    locks.get(section.key).push(section);
  }
  for (const list of locks.values()) list.sort((a, b) => a.startedAt - b.startedAt);
  return locks;
}

const nameOf = ({ process }) => process.replace(' (killed)', '');
