// What to change: every piece of advice with its saving, its evidence, its risk, and the files and diff that do it.

import { get } from '../api.js';
import { byId, fill, h, setText } from '../dom.js';
import { clock, dollars } from '../format.js';
import { copyButton } from './copy.js';

const every = 30000;

/** `edit(text)` puts a file into the editor of the Change panel; it is null where nothing may be changed. */
export function advicePanel(state, edit) {
  const list = byId('advice-list');
  let shown = '';

  async function ask() {
    try {
      const advice = await get('advice');
      // The same advice again is not drawn again: what the reader opened stays open.
      const items = advice.items ?? [];
      const said = JSON.stringify([items, advice.note, state.about.mayChange]);
      byId('advice-at').textContent = advice.at ? `as of ${clock(advice.at)}` : '';
      if (said === shown) return;
      shown = said;
      show(items, advice.note);
    } catch (error) {
      if (!shown) setText(byId('advice-note'), error.message);
    }
  }

  function show(items, note) {
    const open = new Set([...list.querySelectorAll('details[open]')].map((one) => one.dataset.key));
    const saves = items.reduce((sum, one) => sum + (one.saves ?? 0), 0);
    setText(byId('advice-count'), saves > 0 ? `saves ${dollars(saves)} a month` : '');
    setText(byId('advice-note'), items.length ? '' : note || 'Nothing to change. That is good news.');
    const sorted = [...items].sort((a, b) => (b.saves ?? 0) - (a.saves ?? 0));
    fill(list, sorted.map((one) => h('li', {}, item(one, open))));
  }

  function item(one, open) {
    const key = `${one.workload}\n${one.title}`;
    return h('details', { '.open': open.has(key), 'data-key': key },
      h('summary', {}, h('span', { class: 'grow' }, one.title), one.saves !== null && one.saves !== undefined && h('strong', { class: 'saves' }, dollars(one.saves), h('small', {}, '/month'))),
      h('div', { class: 'advice-body' },
        one.workload && h('p', { class: 'muted' }, one.workload),
        one.evidence?.length > 0 && [h('h3', { class: 'minor' }, 'Evidence'), h('ul', { class: 'evidence' }, one.evidence.map((words) => h('li', {}, words)))],
        one.risk && [h('h3', { class: 'minor' }, 'Risk'), h('p', {}, one.risk)],
        one.diff && [h('div', { class: 'line' }, h('h3', { class: 'minor grow' }, 'Diff'), copyButton(one.diff, 'the diff')), diff(one.diff)],
        (one.files ?? []).map((file) => [
          h('div', { class: 'line' }, h('h3', { class: 'minor grow' }, file.name), copyButton(file.text, file.name),
            edit && state.about.mayChange && h('button', { type: 'button', class: 'small', onclick: () => edit(file.text) }, 'Open in editor')),
          code(file.text, file.name)])));
  }

  ask();
  setInterval(() => document.hidden || ask(), every);
  state.on('about', ask);
}

/** Long text scrolls, so it must be reachable by keyboard. */
function code(text, label) {
  return h('pre', { tabindex: '0', role: 'group', 'aria-label': label }, text);
}

function diff(text) {
  return h('pre', { class: 'diff', tabindex: '0', role: 'group', 'aria-label': 'Diff' }, text.replace(/\n$/, '').split('\n').map((line) =>
    h('span', { class: /^(\+\+\+|---|@@)/.test(line) ? 'place' : line.startsWith('+') ? 'plus' : line.startsWith('-') ? 'minus' : '' }, `${line}\n`)));
}
