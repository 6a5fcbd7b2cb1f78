// Changes things, where that is allowed: scales and deletes workloads, applies YAML, and cuts a node's GPUs anew.

import { get, post, postYaml } from '../api.js';
import { byId, calmly, fill, h, setText } from '../dom.js';
import { plural } from '../format.js';
import { examples } from './examples.js';
import { showDone, showRefusal } from './refusal.js';

export function changePanel(state, tabs) {
  const note = byId('change-note');
  const list = byId('workloads');
  let shown = '';

  /** Does something, says how it went, and looks at the workloads again. */
  async function act(work, words) {
    try {
      const said = await work();
      showDone(note, words?.(said) ?? said.message ?? 'Done.');
      await ask();
      return true;
    } catch (error) {
      showRefusal(note, error);
      return false;
    }
  }

  async function ask() {
    if (!state.about.mayChange || !tabs.isShown('change')) return;
    try {
      const { items = [] } = await get('workloads');
      const said = JSON.stringify(items);
      // Not while somebody is about to confirm, or writes a number: the row would vanish under the finger.
      const writing = document.activeElement?.matches?.('#workloads input') && document.activeElement.value !== document.activeElement.defaultValue;
      if (said === shown || list.querySelector('.confirm') || writing) return;
      shown = said;
      const focused = document.activeElement?.dataset?.key;
      setText(byId('change-count'), plural(items.length, 'workload'));
      fill(list, items.map(row));
      if (focused) list.querySelector(`[data-key="${CSS.escape(focused)}"]`)?.focus();
    } catch (error) {
      showRefusal(note, error);
    }
  }

  function row(item) {
    const { kind, namespace, name, replicas } = item;
    const which = `${namespace}/${name}`;
    const scale = (n) => act(() => post('scale', { kind, namespace, name, replicas: n }));
    const typed = async ({ target }) => {
      const wanted = target.value.trim();
      // What was sent is no longer being written, so the list may be drawn again.
      target.defaultValue = wanted;
      const done = /^\d+$/.test(wanted) && await scale(Number(wanted));
      if (!done) target.defaultValue = target.value = replicas;
    };
    const stepper = Number.isFinite(replicas) && h('span', { class: 'stepper', role: 'group', 'aria-label': `Replicas of ${name}` },
      h('button', { type: 'button', 'data-key': `${which} less`, 'aria-label': `One ${name} less`, disabled: replicas <= 0, onclick: () => scale(replicas - 1) }, '−'),
      h('input', { type: 'number', min: 0, value: replicas, 'data-key': `${which} many`, 'aria-label': `How many ${name}`, onchange: typed }),
      h('button', { type: 'button', 'data-key': `${which} more`, 'aria-label': `One ${name} more`, onclick: () => scale(replicas + 1) }, '+'));
    const end = h('span', { class: 'end' });
    const askDelete = () => {
      fill(end, h('span', { class: 'confirm', role: 'group', 'aria-label': `Delete ${name}?` },
        h('button', { type: 'button', class: 'small danger', onclick: async () => { fill(end); await act(() => post('delete', { kind, namespace, name })); } }, 'Yes, delete'),
        h('button', { type: 'button', class: 'small', onclick: () => { offer(); end.querySelector('button').focus(); } }, 'Keep')));
      // The harmless answer is the one a hasty Enter gives.
      end.querySelector('button:last-child').focus();
    };
    const offer = () => fill(end, h('button', { type: 'button', class: 'small', 'data-key': `${which} delete`, 'aria-label': `Delete ${name}`, onclick: askDelete }, 'Delete'));
    offer();
    return h('li', {},
      h('div', { class: 'line' }, h('span', { class: 'grow name' }, h('span', { class: 'muted' }, `${namespace}/`), name), stepper, end),
      h('div', { class: 'muted' }, `${kind}, ${item.running ?? 0} running`, item.waiting > 0 && h('span', { class: 'warn' }, `, ${item.waiting} waiting`), item.asks && `, each ${item.asks}`));
  }

  const editor = byId('yaml');
  const example = byId('example');
  fill(example, h('option', { value: '' }, 'Start from an example…'), examples.map(({ name }, i) => h('option', { value: i }, name)));
  example.addEventListener('change', () => {
    if (example.value !== '') editor.value = examples[Number(example.value)].text;
    example.value = '';
    editor.focus();
  });
  byId('apply').addEventListener('click', () => act(() => postYaml('apply', editor.value), (said) => (said.results ?? []).map((one) => `${one.object} ${one.outcome}`)));

  migConfig(state, tabs, act);
  tabs.onShow('change', ask);
  const soon = calmly(ask, 2000);
  state.on('numbers', soon);
  state.on('waiting', soon);
  return (text) => {
    tabs.show('change');
    editor.value = text;
    editor.focus();
  };
}

/** The layout of a node's MIG GPUs, as a choice. */
function migConfig(state, tabs, act) {
  const node = byId('mig-node');
  const config = byId('mig-config');
  const label = 'nvidia.com/mig.config';
  let chosen = false;
  let asked = 0;
  /** The node whose layouts are offered, and those; null until they are known. */
  let offered = null;

  const names = calmly(() => {
    const cuttable = (name) => state.fleet.nodes.get(name).tiles.some(({ gpu }) => gpu.slots);
    const all = [...state.fleet.nodes.keys()].sort((a, b) => cuttable(b) - cuttable(a) || (a < b ? -1 : 1));
    if (document.activeElement === node || all.join() === [...node.options].map((one) => one.value).join()) return;
    const before = node.value;
    fill(node, all.map((name) => h('option', { value: name }, name)));
    if (all.includes(before)) node.value = before;
    else unknown();
    look();
  }, 500);

  async function look() {
    const name = node.value;
    if (!name || !state.about.mayChange) return;
    const mine = ++asked;
    try {
      const said = await get(`node?name=${encodeURIComponent(name)}`);
      // Answers may come in another order than they were asked for; only the last question's counts.
      if (mine !== asked) return;
      layouts(name, said);
      offers(said);
    } catch (error) {
      if (mine === asked) fill(byId('node-resources'), h('li', {}, error.message));
    }
  }

  /** Layouts of another node are none of this one's: nothing is cut until they are known. */
  function unknown() {
    offered = null;
    chosen = false;
    config.disabled = true;
    choice();
  }

  function layouts(name, { labels, migConfigs: configs = [] }) {
    // What the reader chose stays chosen until it is cut.
    const kept = chosen ? config.value : null;
    const now = labels?.[label] ?? '';
    // A node without the label has no layout of these: it is whole, or cut on demand. One that is labelled with something else has a wish that nobody knows.
    const none = configs.length === 0 ? 'this node has no MIG' : 'no layout is set';
    const others = now && !configs.includes(now) ? [now] : [];
    fill(config, !now && h('option', { value: '' }, none), [...others, ...configs].map((one) => h('option', { value: one }, one)));
    config.value = configs.includes(kept) ? kept : now;
    config.disabled = configs.length === 0;
    offered = `${name} ${configs}`;
    choice();
  }

  /** Nothing is cut into a layout that is none. */
  function choice() {
    byId('mig-cut').disabled = config.disabled || !config.value;
  }

  function offers({ resources = {} }) {
    fill(byId('node-resources'), Object.entries(resources).map(([name, { all, used }]) => h('li', {}, h('span', { class: 'grow' }, name), ' ', Number.isFinite(used) ? `${used} of ${all} used` : String(all))));
  }

  /** What a node offers changes once it is cut; the layout chosen here stays as it is meanwhile. */
  const again = calmly(async () => {
    const name = node.value;
    if (!name || !tabs.isShown('change') || !state.about.mayChange) return;
    const said = await get(`node?name=${encodeURIComponent(name)}`).catch(() => null);
    if (!said || name !== node.value) return;
    // Its GPUs may have been seen only after their layouts were asked for, and the question may have failed.
    if (offered !== `${name} ${said.migConfigs ?? []}`) look();
    offers(said);
  }, 2000);

  unknown();
  node.addEventListener('change', () => { unknown(); look(); });
  config.addEventListener('change', () => { chosen = true; choice(); });
  byId('mig-cut').addEventListener('click', () => {
    chosen = false;
    act(() => post('label', { kind: 'Node', name: node.value, labels: { [label]: config.value } })).then(look);
  });
  state.on('fleet', names);
  state.on('about', names);
  tabs.onShow('change', again);
  // A node says what it offers a little after its GPUs are cut, and then nothing more may happen.
  setInterval(() => document.hidden || again(), 2000);
}
