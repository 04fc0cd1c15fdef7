/** The few things that every part of the page needs. Text goes in as text, never as markup. */

const SVG = 'http://www.w3.org/2000/svg';

export const byId = (id) => document.getElementById(id);

export function element(name, { text, ...attributes } = {}, ...children) {
  return filled(document.createElement(name), text, attributes, children);
}

export function svg(name, { text, ...attributes } = {}, ...children) {
  return filled(document.createElementNS(SVG, name), text, attributes, children);
}

function filled(node, text, attributes, children) {
  for (const [key, value] of Object.entries(attributes)) {
    if (value !== undefined) node.setAttribute(key, String(value));
  }
  if (text !== undefined) node.textContent = text;
  node.append(...children);
  return node;
}

/** Writes only what has changed: a screen reader would read the same text again. */
export function setText(node, text) {
  if (node.textContent !== text) node.textContent = text;
}

const numbers = new Intl.NumberFormat('en');
export const formatNumber = (value) => numbers.format(value);
export const plural = (count, one, many = `${one}s`) => `${formatNumber(count)} ${count === 1 ? one : many}`;

export function formatMs(ms) {
  if (ms < 1_000) return `${Math.round(ms)} ms`;
  return ms < 60_000 ? `${(ms / 1_000).toFixed(1)} s` : `${Math.round(ms / 60_000)} min`;
}

export const formatTime = (at) => new Date(at).toLocaleTimeString('en-GB');
