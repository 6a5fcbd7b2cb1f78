// Who waits for a GPU, what they ask for, why they can not have it yet, and for how long.

import { byId, calmly, h, keyed, setText } from '../dom.js';
import { count, duration, shortDuration, splitPod } from '../format.js';

/** More than anyone reads; the rest is told as a number. */
const mostShown = 100;

export function waitingPanel(state) {
  const list = byId('waiting-list');
  const times = new Map();

  const show = calmly(() => {
    const all = Object.entries(state.picture.waiting).sort((a, b) => a[1].since - b[1].since);
    setText(byId('waiting-count'), count(all.length));
    keyed(list, all.slice(0, mostShown), ([pod, { asks, why, since }]) => [pod, asks, why, since].join('\n'), ([pod, waiting]) => item(pod, waiting));
    setText(byId('waiting-more'), all.length > mostShown ? `and ${count(all.length - mostShown)} more` : '');
    for (const time of times.keys()) if (!time.isConnected) times.delete(time);
    byId('waiting-none').hidden = all.length > 0;
    tick();
  }, 250);

  function item(pod, waiting) {
    const [namespace, name] = splitPod(pod);
    const time = h('span', { class: 'time' });
    times.set(time, waiting.since);
    return h('li', {},
      h('div', { class: 'line' }, h('span', { class: 'grow name', title: waiting.workload }, h('span', { class: 'muted' }, `${namespace}/`), name), time),
      h('div', { class: 'why' }, h('span', { class: 'asks' }, waiting.asks), h('span', { class: 'muted' }, `. ${waiting.why}`)));
  }

  function tick() {
    for (const [time, since] of times) {
      setText(time, shortDuration(state.now - since));
      time.title = `waits for ${duration(state.now - since)}`;
    }
  }

  setInterval(tick, 1000);
  state.on('waiting', show);
}
