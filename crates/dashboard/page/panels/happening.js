// What is happening: the newest first, warnings marked, each leading to what it is about.

import { byId, calmly, h, keyed } from '../dom.js';
import { clockSeconds } from '../format.js';

const mostShown = 120;

export function happeningPanel(state, search) {
  const list = byId('happening-list');
  const show = calmly(() => {
    const { happenings } = state.picture;
    const at = state.past?.at ?? Infinity;
    const shown = happenings.filter((one) => one.at <= at).slice(-mostShown).reverse();
    keyed(list, shown, (one) => `${one.number} ${one.at} ${one.words}`, item);
    byId('happening-none').hidden = shown.length > 0;
  }, 300);

  function item(one) {
    const warning = one.tone === 'warning';
    return h('li', { class: warning ? 'warning' : '' },
      h('time', { class: 'time' }, clockSeconds(one.at)),
      h('span', { class: 'mark', role: warning ? 'img' : null, 'aria-label': warning ? 'warning' : null, 'aria-hidden': warning ? null : 'true' }, warning ? '!' : '·'),
      h('span', { class: 'grow' }, h('strong', {}, one.reason), ' ', one.words, ' ',
        one.about && h('button', { type: 'button', class: 'link', onclick: () => search(query(one.about)) }, one.about)));
  }

  state.on('happening', show);
}

/** `node/p4d-1` to `node:p4d-1`, `pod/team/web-1` to `pod:team/web-1`. */
export function query(about) {
  const slash = about.indexOf('/');
  const kind = about.slice(0, slash);
  return kind === 'node' || kind === 'pod' ? `${kind}:${about.slice(slash + 1)}` : about;
}
