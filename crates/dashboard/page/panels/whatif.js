// What if the fleet were another: sends a question, shows the packing now beside then, and the bill of both.

import { post } from '../api.js';
import { byId, fill, h, setText } from '../dom.js';
import { dollars, plural } from '../format.js';
import { drawMini } from '../fleet/mini.js';
import { onTheme } from '../theme.js';
import { showRefusal } from './refusal.js';

export function whatIfPanel(state) {
  const form = byId('whatif-form');
  const fleet = byId('whatif-fleet');
  let shown = null;

  form.addEventListener('submit', async (event) => {
    event.preventDefault();
    const mechanisms = [...form.querySelectorAll('input[name=mechanism]:checked')].map((box) => box.value);
    const button = byId('whatif-ask');
    button.disabled = true;
    showRefusal(byId('whatif-note'), null);
    try {
      shown = await post('what-if', { fleet: fleet.value.trim(), mechanisms, shares: Number(byId('whatif-shares').value) || 1 });
      show();
    } catch (error) {
      showRefusal(byId('whatif-note'), error);
    }
    button.disabled = false;
  });

  function show() {
    if (!shown) return;
    const { now, then } = shown;
    const saved = now.dollarsPerMonth - then.dollarsPerMonth;
    const nowSide = side('Now', now);
    const thenSide = side('Then', then);
    fill(byId('whatif-result'),
      h('div', { class: 'sides' }, nowSide, thenSide),
      Number.isFinite(saved) && Math.abs(saved) >= 0.5 && h('p', { class: saved > 0 ? 'verdict good' : 'verdict more' }, saved > 0 ? `Saves ${dollars(saved)} a month.` : `Costs ${dollars(-saved)} a month more.`),
      h('ul', { class: 'words' }, (shown.words ?? []).map((words) => h('li', {}, words))));
    for (const [element, one] of [[nowSide, now], [thenSide, then]]) {
      const drawn = drawMini(element.querySelector('canvas'), one.picture);
      element.querySelector('canvas').setAttribute('aria-label', `${plural(drawn.total.nodes, 'node')}, ${plural(drawn.total.gpus, 'GPU')}, ${plural(drawn.total.slices, 'slice')}`);
      if (!drawn.whole) element.append(h('div', { class: 'muted' }, 'Only a part is drawn.'));
      setText(element.querySelector('.sizes'), `${plural(drawn.total.nodes, 'node')}, ${plural(drawn.total.gpus, 'GPU')}`);
    }
  }

  function side(title, one) {
    return h('section', { class: 'side', 'aria-label': title },
      h('h3', {}, title, ' ', h('span', { class: 'muted sizes' })),
      h('div', { class: 'bill' }, h('strong', {}, dollars(one.dollarsPerHour)), ' /h'),
      h('div', { class: 'muted' }, `${dollars(one.dollarsPerMonth)} a month`),
      h('div', { class: one.waiting > 0 ? 'warn' : 'muted' }, one.waiting > 0 ? `${plural(one.waiting, 'pod')} would wait`.replace('would wait', title === 'Now' ? (one.waiting === 1 ? 'waits' : 'wait') : 'would wait') : 'nobody waits'),
      h('div', { class: 'mini' }, h('canvas', { role: 'img' })));
  }

  // The fleet there is makes the best first question.
  state.on('fleet', () => {
    if (fleet.value || document.activeElement === fleet) return;
    const types = new Map();
    for (const { node } of state.fleet.nodes.values()) types.set(node.type, (types.get(node.type) ?? 0) + 1);
    fleet.value = [...types].map(([type, n]) => `${type}=${n}`).join(',');
  });
  onTheme(show);
}
