/** Listens to the server's events and hands each to the part of the page that shows it. */
import { startActions, suggestOrder, switchActions } from './actions.js';
import { byId, element, formatNumber, formatTime, plural, setText } from './dom.js';
import { showGates } from './gates.js';
import { locksInWords, showLocks } from './locks.js';
import { addSections, replaceSections, seenFrom, startTimeline, timelineInWords } from './timeline.js';

/** A summary that changes more often than this would only interrupt whoever has it read aloud. */
const SUMMARY_EVERY_MS = 4_000;
const STORY_LINES = 14;

let counts = { in: 0, taken: 0, replayed: 0, refused: 0, reasons: {} };
let steps = [];
let summaryTimer;

const show = {
  hello(data) {
    setText(byId('where'), `Seen from ${data.process}, with what other processes on the same Redis tell.`);
    switchActions(data.actionsOff, data);
    suggestOrder(data.order);
    seenFrom(data.process);
    replaceSections(data.sections);
    steps = data.steps;
    showStory();
    for (const part of ['callbacks', 'gates', 'locks']) show[part](data[part]);
    summarise();
  },
  callbacks(data) {
    counts = data;
    for (const outcome of ['in', 'taken', 'replayed', 'refused']) {
      setText(byId(`count-${outcome}`), formatNumber(data[outcome]));
    }
    const reasons = Object.entries(data.reasons).sort(([, a], [, b]) => b - a);
    setText(
      byId('reasons'),
      reasons.length === 0
        ? 'no reason to'
        : reasons.map(([code, count]) => `${count} ${inWords(code)}`).join(', '),
    );
  },
  sections: addSections,
  gates: showGates,
  locks: showLocks,
  step(data) {
    steps = [...steps, data].slice(-STORY_LINES);
    showStory();
  },
};

const inWords = (code) => code.toLowerCase().replaceAll('_', ' ');

function showStory() {
  if (steps.length === 0) return;
  byId('story').replaceChildren(
    ...steps
      .slice(-STORY_LINES)
      .reverse()
      .map(({ at, text, tone }) =>
        element(
          'li',
          { 'data-tone': tone },
          element('time', { datetime: new Date(at).toISOString(), text: formatTime(at) }),
          element('span', { text }),
        ),
      ),
  );
}

function summarise() {
  clearTimeout(summaryTimer);
  summaryTimer = undefined;
  const { taken, replayed, refused } = counts;
  const callbacks = `${plural(counts.in, 'callback')} in: ${formatNumber(taken)} taken, ${formatNumber(replayed)} replayed, ${formatNumber(refused)} refused.`;
  setText(byId('summary'), `${callbacks} ${timelineInWords()} ${locksInWords()}`);
}

function connection(state, text) {
  const node = byId('connection');
  node.dataset.state = state;
  setText(node, text);
}

function listen() {
  const source = new EventSource('/dashboard/events');
  source.addEventListener('open', () => connection('live', 'Live'));
  source.addEventListener('error', () => {
    connection('lost', 'Connection lost, trying again');
    // The browser gives up for good when the server answers with an error, as a proxy before a server that starts does.
    if (source.readyState === EventSource.CLOSED) setTimeout(listen, 3_000);
  });
  for (const [type, handle] of Object.entries(show)) {
    source.addEventListener(type, (event) => {
      handle(JSON.parse(event.data));
      summaryTimer ??= setTimeout(summarise, SUMMARY_EVERY_MS);
    });
  }
}

startTimeline();
startActions();
listen();
