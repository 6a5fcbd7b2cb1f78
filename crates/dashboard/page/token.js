// Asks for the token when the server wants one, and keeps it for this tab only.

import { byId } from './dom.js';

const place = 'carve.token';
let asking = null;

export function token() {
  try {
    return sessionStorage.getItem(place);
  } catch {
    return null;
  }
}

/** Forgets a token the server refused, unless it was replaced meanwhile. */
export function forgetToken(refused) {
  if (token() === refused) sessionStorage.removeItem(place);
}

/** Shows the form once, however many requests wait for it. */
export function askForToken(refused) {
  asking ??= new Promise((resolve) => {
    const dialog = byId('token-dialog');
    const field = byId('token-field');
    byId('token-refused').hidden = !refused;
    const done = (event) => {
      event.preventDefault();
      const given = field.value.trim();
      if (!given) return;
      sessionStorage.setItem(place, given);
      field.value = '';
      dialog.removeEventListener('submit', done);
      dialog.close();
      asking = null;
      resolve();
    };
    dialog.addEventListener('submit', done);
    // Without a token there is nothing to show, so Escape does not close the form.
    dialog.addEventListener('cancel', (event) => event.preventDefault());
    if (!dialog.open) dialog.showModal();
    field.focus();
  });
  return asking;
}
