// Shows why the server said no: its words, the field they are about, and its hint.

import { fill, h } from '../dom.js';

export function showRefusal(element, error) {
  element.hidden = !error;
  element.className = 'refusal';
  if (!error) return fill(element);
  fill(element, h('strong', {}, error.message), error.field && h('div', { class: 'muted' }, `In ${error.field}.`), error.hint && h('div', {}, error.hint));
}

/** Says what was done, in the same place. */
export function showDone(element, words) {
  element.hidden = false;
  element.className = 'done';
  fill(element, [words].flat().map((one) => h('div', {}, one)));
}
