// A button that copies a text and says that it did.

import { h } from '../dom.js';

export function copyButton(text, what) {
  const button = h('button', { type: 'button', class: 'small', 'aria-label': `Copy ${what}`, onclick: copy }, 'Copy');
  async function copy() {
    button.textContent = (await toClipboard(text)) ? 'Copied' : 'Not allowed here';
    setTimeout(() => { button.textContent = 'Copy'; }, 1600);
  }
  return button;
}

async function toClipboard(text) {
  try {
    await navigator.clipboard.writeText(text);
    return true;
  } catch {
    // Pages that came over plain HTTP have no clipboard; the old way still works there.
    const field = h('textarea', { class: 'offscreen', 'aria-hidden': 'true', '.value': text });
    document.body.append(field);
    field.select();
    const done = document.execCommand('copy');
    field.remove();
    return done;
  }
}
