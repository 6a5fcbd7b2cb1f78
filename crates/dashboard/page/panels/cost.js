// What was paid for, by namespace, workload, node or mechanism, over a window of time.

import { get } from '../api.js';
import { byId, fill, h, setText } from '../dom.js';
import { dollars, percent } from '../format.js';

const every = 30000;
const names = { allocated: 'Held', used: 'Used', idleHeld: 'Held idle', idle: 'Idle', overhead: 'Withheld', withheld: 'Withheld' };

export function costPanel(state, tabs) {
  const by = byId('cost-by');
  const since = byId('cost-since');
  let asked = 0;

  async function ask() {
    const mine = ++asked;
    try {
      const said = await get(`cost?since=${encodeURIComponent(since.value)}&by=${encodeURIComponent(by.value)}`);
      if (mine === asked) show(said);
    } catch (error) {
      if (mine === asked) setText(byId('cost-note'), error.message);
    }
  }

  function show({ rows = [], total, currency }) {
    const columns = Object.keys(names).filter((name) => rows.some((row) => Number.isFinite(row[name])));
    const main = columns[0];
    const sum = (name) => (Number.isFinite(total?.[name]) ? total[name] : rows.reduce((all, row) => all + (row[name] ?? 0), 0));
    const most = Math.max(...rows.map((row) => row[main] ?? 0), 0.01);
    const sorted = [...rows].sort((a, b) => (b[main] ?? 0) - (a[main] ?? 0));
    setText(byId('cost-note'), rows.length ? '' : 'Nothing was held in this time.');
    const paid = Number.isFinite(total) ? total : total?.total ?? sum(main);
    setText(byId('cost-count'), rows.length ? `${dollars(paid)}${currency && currency !== 'USD' ? ` ${currency}` : ''}` : '');
    fill(byId('cost-table'), rows.length > 0 && [
      h('caption', { class: 'offscreen' }, `Cost by ${by.value}, last ${since.value}`),
      h('thead', {}, h('tr', {}, h('th', { scope: 'col' }, by.options[by.selectedIndex].text), columns.map((name) => h('th', { scope: 'col', class: 'number' }, names[name])))),
      h('tbody', {}, sorted.map((row) => h('tr', {},
        h('th', { scope: 'row' }, h('span', { class: 'name', title: row.name }, row.name || 'nobody'), bar(row, main, most)),
        columns.map((name) => h('td', { class: 'number' }, Number.isFinite(row[name]) ? dollars(row[name]) : '–'))))),
      h('tfoot', {}, h('tr', {}, h('th', { scope: 'row' }, 'All'), columns.map((name) => h('td', { class: 'number' }, dollars(sum(name))))))]);
  }

  /** Length is what was held, the solid part what was used of it. */
  function bar(row, main, most) {
    const used = row[main] > 0 ? (row.used ?? 0) / row[main] : 0;
    const solid = h('span', { class: 'solid' });
    const held = h('span', { class: 'cost-bar', title: `${percent(used)} of it used`, 'aria-hidden': 'true' }, solid);
    held.style.width = `${Math.max(1, (100 * (row[main] ?? 0)) / most)}%`;
    solid.style.width = `${Math.min(100, 100 * used)}%`;
    return held;
  }

  by.addEventListener('change', ask);
  since.addEventListener('change', ask);
  tabs.onShow('cost', ask);
  setInterval(() => document.hidden || !tabs.isShown('cost') || ask(), every);
}
