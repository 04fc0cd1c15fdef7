/** The locks that are held at this moment, and who waits. */
import { byId, element, formatMs, plural } from './dom.js';

/** The longest lease seen of a lock: its bar is full there. */
const longest = new Map();
const rows = new Map();
let held = { locks: [], more: false };

export function showLocks(news) {
  held = news;
  const box = byId('locks');
  if (news.fault !== undefined) {
    rows.clear();
    box.replaceChildren(element('p', { class: 'fault', text: news.fault }));
    return;
  }
  const keys = new Set(news.locks.map(({ key }) => key));
  for (const key of rows.keys()) {
    if (keys.has(key)) continue;
    rows.delete(key);
    longest.delete(key);
  }
  if (news.locks.length === 0) {
    box.replaceChildren(element('p', { class: 'muted', text: 'No lock is held.' }));
    return;
  }
  // The same rows as before, so that a bar shrinks instead of starting anew.
  const list = element('ul', { class: 'locks' }, ...news.locks.map(row));
  if (news.more) list.append(element('li', { class: 'muted', text: 'And more.' }));
  box.replaceChildren(list);
}

/** In words, for the summary. */
export function locksInWords() {
  if (held.fault !== undefined) return held.fault;
  const waiting = held.locks.reduce((sum, { waitingProcesses }) => sum + waitingProcesses, 0);
  const count = held.locks.length;
  const holds = `${plural(count, 'lock')} ${count === 1 ? 'is' : 'are'} held`;
  return `${holds}, ${waitersInWords(waiting)}.`;
}

const waitersInWords = (count) =>
  count === 0 ? 'nobody waits' : plural(count, 'process waits', 'processes wait');

function row({ key, fencingToken, remainingMs, waitingProcesses }) {
  longest.set(key, Math.max(remainingMs, longest.get(key) ?? 0));
  const parts = rows.get(key) ?? newRow(key);
  rows.set(key, parts);
  parts.state.textContent = `${formatMs(remainingMs)} of the lease left, ${waitersInWords(waitingProcesses)}`;
  parts.token.textContent = fencingToken === undefined ? '' : `fencing token ${fencingToken}`;
  parts.fill.style.width = `${Math.round((100 * remainingMs) / Math.max(1, longest.get(key)))}%`;
  parts.item.dataset.waiting = String(waitingProcesses > 0);
  return parts.item;
}

function newRow(key) {
  const state = element('span', {});
  const token = element('span', { class: 'muted' });
  const fill = element('span', { class: 'fill' });
  const item = element(
    'li',
    {},
    element('p', { class: 'key', text: key }),
    element('span', { class: 'bar-track', 'aria-hidden': 'true' }, fill),
    element('p', { class: 'facts' }, state, token),
  );
  return { item, state, token, fill };
}
