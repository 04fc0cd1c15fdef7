/** Stock and quota: how much is left, by Redis and by the database. */
import { byId, element, formatNumber } from './dom.js';

export function showGates(news) {
  const box = byId('gates');
  if (news.fault !== undefined) {
    box.replaceChildren(element('p', { class: 'fault', text: news.fault }));
    return;
  }
  const stock = news.stock.map(({ sku, stock, sold, remaining }) =>
    row({ name: sku, all: stock, booked: sold, left: remaining, verb: 'sold' }),
  );
  const quota = news.quota.map(({ id, granted, spent, remaining, shards }) =>
    row({
      name: id,
      all: granted,
      booked: spent,
      left: remaining,
      verb: 'spent',
      note: shards > 1 ? `spread over ${shards} keys` : undefined,
    }),
  );
  if (news.moreStock > 0) {
    stock.push(element('li', { class: 'muted', text: `And ${formatNumber(news.moreStock)} more.` }));
  }
  box.replaceChildren(...group('Stock', stock), ...group('Prepaid orders of merchants', quota));
}

function group(title, rows) {
  if (rows.length === 0) return [];
  return [element('div', {}, element('h3', { text: title }), element('ul', { class: 'gates' }, ...rows))];
}

/** What Redis has granted and the database has not booked (yet) differs for moments while orders come in. */
function row({ name, all, booked, left, verb, note }) {
  const rest = left ?? all - booked;
  const share = all === 0 ? 0 : Math.max(0, Math.min(100, (100 * rest) / all));
  const fill = element('span', { class: 'fill' });
  fill.style.width = `${share}%`;
  const difference = left === null ? 0 : all - booked - left;
  const facts = [`${formatNumber(booked)} ${verb}`];
  if (left === null) facts.push('no count in Redis');
  if (difference !== 0) facts.push(`Redis and the database differ by ${formatNumber(Math.abs(difference))}`);
  if (note) facts.push(note);
  return element(
    'li',
    { 'data-empty': rest === 0, 'data-gate': name },
    element(
      'p',
      { class: 'gate-head' },
      element('span', { class: 'key', text: name }),
      element(
        'span',
        { class: 'left' },
        element('strong', { text: formatNumber(rest) }),
        ` of ${formatNumber(all)} left`,
      ),
    ),
    element('span', { class: 'bar-track', 'aria-hidden': 'true' }, fill),
    element('p', { class: 'muted facts', text: facts.join(', ') }),
  );
}
