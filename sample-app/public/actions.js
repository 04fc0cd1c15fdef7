/** The buttons: they ask the server, and say in words what came of it. */
import { byId, setText } from './dom.js';

export function startActions() {
  const order = byId('order-id');
  const amount = byId('amount');

  onSubmit('callback', 'send-callback', () => ({
    orderId: order.value.trim(),
    amount: numberOrText(amount.value),
    provider: byId('provider').value,
    forged: byId('forged').checked,
  }));
  onSubmit('race', 'race', () => ({ units: numberOrText(byId('units').value) }));
  onSubmit('kill', 'kill-holder', () => ({}));

  const button = byId('new-order');
  button.addEventListener('click', () => {
    void busyWhile(button, byId('callback-result'), async () => {
      suggestOrder(await post('new-order', {}), { force: true });
      return { text: 'A new order waits for its payment.', tone: 'good' };
    });
  });
}

/** Fills in an order to play with, unless somebody has typed one. */
export function suggestOrder(order, { force = false } = {}) {
  const field = byId('order-id');
  if (!order || (field.value !== '' && !force)) return;
  field.value = order.id;
  byId('amount').value = order.amount;
}

/** @param why why the buttons are switched off; null when they are not. */
export function switchActions(why, { shared }) {
  const notice = byId('actions-off');
  notice.hidden = why === null && shared;
  setText(
    notice,
    why ??
      (shared
        ? ''
        : 'Locks live in the memory of this process: no other process could hold one. Start a Redis to kill a holder.'),
  );
  for (const button of byId('try').querySelectorAll('button')) button.disabled = why !== null;
  if (!shared) byId('kill-form').querySelector('button').disabled = true;
}

function onSubmit(name, action, read) {
  const form = byId(`${name}-form`);
  form.addEventListener('submit', (event) => {
    event.preventDefault();
    void busyWhile(form.querySelector('[type=submit]'), byId(`${name}-result`), async () => {
      const { summary, refused, oversold, status } = await post(action, read());
      const bad =
        (typeof refused === 'number' && refused > 0) || oversold > 0 || (status ?? 'paid') !== 'paid';
      return { text: summary, tone: bad ? 'bad' : 'good' };
    });
  });
}

/** Not `disabled` while it runs: the focus would be lost. */
async function busyWhile(button, output, work) {
  if (button.getAttribute('aria-disabled') === 'true') return;
  button.setAttribute('aria-disabled', 'true');
  output.dataset.tone = 'busy';
  setText(output, 'Running: watch the page.');
  try {
    const { text, tone } = await work();
    output.dataset.tone = tone;
    setText(output, text);
  } catch (error) {
    output.dataset.tone = 'bad';
    setText(output, error.message);
  } finally {
    button.removeAttribute('aria-disabled');
  }
}

async function post(action, body) {
  let response;
  try {
    response = await fetch(`/dashboard/actions/${action}`, {
      method: 'POST',
      headers: { 'Content-Type': 'application/json' },
      body: JSON.stringify(body),
    });
  } catch {
    throw new Error('The server does not answer: is it still running?');
  }
  const answer = await response.json().catch(() => ({}));
  if (response.ok) return answer;
  const words = [answer.message ?? `The server answered ${response.status}.`].flat().join(' ');
  throw new Error(answer.code ? `${words} (${answer.code})` : words);
}

/** What is no number goes as it is: the server says what is wrong with it. */
function numberOrText(value) {
  const text = value.trim();
  return text !== '' && Number.isFinite(Number(text)) ? Number(text) : text;
}
