// The top line: what the fleet costs, how that splits, and how much there is of everything.

import { byId, calmly, fill, h, setText } from '../dom.js';
import { count, dollars, monthly, percent } from '../format.js';
import { kinds } from '../tally.js';

export const kindNames = { used: 'used', heldIdle: 'held idle', idle: 'idle', withheld: 'withheld' };
const meaning = {
  used: 'Promised to a pod, and measured in use.',
  heldIdle: 'Promised to a pod that does not use it.',
  idle: 'Free: nobody holds it.',
  withheld: 'Nobody could hold it: sick, lost, being cut, or on a node that is not ready.',
};

export function moneyPanel(state) {
  const segments = Object.fromEntries(kinds.map((kind) => [kind, h('span', { class: `seg ${kind}` })]));
  const numbers = Object.fromEntries(kinds.map((kind) => [kind, h('dd', {})]));
  const bar = h('div', { class: 'split', role: 'img' }, kinds.map((kind) => segments[kind]));
  fill(byId('split'), bar, h('dl', { class: 'split-legend' }, kinds.map((kind) =>
    h('div', { title: meaning[kind] }, h('dt', {}, h('span', { class: `swatch ${kind}`, 'aria-hidden': 'true' }), kindNames[kind]), numbers[kind]))));

  const show = calmly(() => {
    const { total } = state.shown;
    // The server's own sums are used where it tells them; ours are the same rule, for every change at once.
    const money = (!state.past && state.summary?.money) || total;
    const inDollars = state.about.dollars !== false && money.perHour > 0;
    const whole = inDollars ? money.perHour : total.gpus;
    const parts = inDollars ? money : total.parts;
    const words = (value) => (inDollars ? `${dollars(value)}/h` : `${value.toFixed(1)} GPUs`);
    setText(byId('per-hour'), inDollars ? dollars(money.perHour) : count(total.gpus));
    setText(byId('per-hour-unit'), inDollars ? 'an hour' : 'GPUs');
    setText(byId('per-month'), inDollars ? `${monthly(money.perHour)} a month` : '');
    for (const kind of kinds) {
      const part = whole > 0 ? Math.max(0, parts[kind]) / whole : 0;
      segments[kind].style.flexGrow = part;
      segments[kind].hidden = part < 0.0005;
      fill(numbers[kind], words(Math.max(0, parts[kind])), ' ', h('span', { class: 'muted' }, percent(part)));
    }
    bar.setAttribute('aria-label', kinds.map((kind) => `${kindNames[kind]} ${words(Math.max(0, parts[kind]))}`).join(', '));
    setText(byId('count-nodes'), count(total.nodes));
    setText(byId('count-gpus'), count(total.gpus));
    setText(byId('count-slices'), count(total.slices));
    const waiting = Object.keys(state.picture.waiting).length;
    setText(byId('count-waiting'), count(waiting));
    byId('count-waiting').classList.toggle('warn', waiting > 0);
  }, 250);
  state.on('numbers', show);
  state.on('about', show);
}
