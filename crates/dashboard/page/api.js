// Asks the server: every request is relative to the page's own address, carries the token where there is one, and fails with words.

import { askForToken, forgetToken, token } from './token.js';

/** What the server said when it said no. */
export class Refusal extends Error {
  constructor(status, said) {
    super(said?.message ?? `The server answered ${status}.`);
    this.status = status;
    this.field = said?.field;
    this.hint = said?.hint;
  }
}

const address = (path) => new URL(`api/v1/${path}`, document.baseURI);

/** Sends a request; on 401 asks for the token and tries again, as often as it takes. */
export async function send(path, options = {}) {
  for (;;) {
    const used = token();
    const headers = { ...options.headers };
    if (used) headers.authorization = `Bearer ${used}`;
    const response = await fetch(address(path), { ...options, headers, cache: 'no-store' });
    if (response.status !== 401) return response;
    // Another request may have got a new token meanwhile; only a refused one is forgotten.
    if (used) forgetToken(used);
    await askForToken(Boolean(used));
  }
}

async function answer(response) {
  const text = await response.text();
  let said = null;
  try {
    said = text ? JSON.parse(text) : {};
  } catch {
    said = { message: text.slice(0, 300) };
  }
  if (!response.ok) throw new Refusal(response.status, said);
  return said;
}

export const get = async (path) => answer(await send(path));

export const post = async (path, body) =>
  answer(await send(path, { method: 'POST', headers: { 'content-type': 'application/json' }, body: JSON.stringify(body) }));

export const postYaml = async (path, text) =>
  answer(await send(path, { method: 'POST', headers: { 'content-type': 'application/yaml' }, body: text }));
