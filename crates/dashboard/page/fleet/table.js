// The fleet as a real table: one row per slice, or per GPU nobody uses; only the rows in view are in the document.

import { fill, h } from '../dom.js';
import { clock, dollars, memory, percent, shortProduct } from '../format.js';
import { chip, memoryRoom, meter } from './detail.js';
import { mechanism } from './mechanism.js';
import { promisedCompute } from './shares.js';
import { sliceMatches } from './tiles.js';

const rowHeight = 30;
const spare = 6;
const columns = ['Node', 'GPU', 'Product', 'State', 'Pod', 'Workload', 'Mechanism', 'Promised', 'Measured', 'Memory', '$/h', 'Since'];

const numeric = new Set(['GPU', 'Promised', 'Measured', 'Memory', '$/h', 'Since']);

export class FleetTable {
  constructor(holder) {
    this.holder = holder;
    this.rows = [];
    this.before = h('tr', { class: 'spacer', 'aria-hidden': 'true' }, h('td', { colspan: columns.length }));
    this.after = h('tr', { class: 'spacer', 'aria-hidden': 'true' }, h('td', { colspan: columns.length }));
    this.body = h('tbody', {});
    this.caption = h('caption', {});
    this.table = h('table', { class: 'fleet-table' }, this.caption,
      h('thead', {}, h('tr', { 'aria-rowindex': '1' }, columns.map((name) => h('th', { scope: 'col', class: numeric.has(name) ? 'number' : null }, name)))), this.body);
    holder.append(this.table);
    holder.addEventListener('scroll', () => this.draw(), { passive: true });
    new ResizeObserver(() => this.draw()).observe(holder);
  }

  show({ tiles, terms }, summary) {
    this.rows = [];
    for (const tile of tiles) {
      const parts = tile.parts.filter((part) => part.slice && (!terms.length || sliceMatches(tile, part.slice, terms)));
      if (parts.length === 0) this.rows.push({ tile, pod: null });
      for (const part of parts) this.rows.push({ tile, pod: part.slice.pod, container: part.slice.container });
    }
    this.caption.textContent = summary;
    this.table.setAttribute('aria-rowcount', this.rows.length + 1);
    this.draw();
  }

  draw() {
    if (this.holder.hidden) return;
    const from = Math.max(0, Math.floor(this.holder.scrollTop / rowHeight) - spare);
    const to = Math.min(this.rows.length, from + Math.ceil(this.holder.clientHeight / rowHeight) + 2 * spare);
    this.before.firstChild.style.height = `${from * rowHeight}px`;
    this.after.firstChild.style.height = `${(this.rows.length - to) * rowHeight}px`;
    const rows = [];
    for (let i = from; i < to; i++) rows.push(this.row(this.rows[i], i));
    fill(this.body, from > 0 && this.before, rows, to < this.rows.length && this.after);
    if (this.rows.length === 0) fill(this.body, h('tr', {}, h('td', { colspan: columns.length, class: 'muted' }, 'No GPU matches.')));
  }

  row({ tile, pod, container }, i) {
    const { gpu, entry } = tile;
    const part = pod ? tile.parts.find((one) => one.slice?.pod === pod && one.slice.container === container) : null;
    const slice = part?.slice;
    const room = slice && memoryRoom(part, gpu);
    const kind = slice && mechanism(slice.mechanism);
    return h('tr', { 'aria-rowindex': i + 2 },
      h('th', { scope: 'row' }, entry.name),
      cell(gpu.index, 'number'),
      cell(shortProduct(gpu.product)),
      h('td', { class: gpu.state === 'ok' && entry.node.ready !== false ? '' : 'bad' }, entry.node.ready === false ? 'not ready' : gpu.state),
      cell(slice?.pod ?? 'nobody', slice ? '' : 'muted'),
      cell(slice?.workload ?? ''),
      slice ? h('td', {}, chip(slice.mechanism), ` ${kind.name}${part.instance ? ` ${part.instance.profile}` : ''}`) : cell(''),
      cell(slice ? percent(promisedCompute(slice, part.w)) : '', 'number'),
      slice ? h('td', { class: 'number' }, slice.computeUsed === undefined ? '–' : percent(slice.computeUsed), ' ', meter(part.fill, kind.colour)) : cell(''),
      cell(slice ? `${memory(slice.memoryUsed ?? 0)}${room ? ` of ${memory(room)}` : ''}` : `${memory(gpu.memoryUsed ?? 0)} of ${memory(gpu.memory)}`, 'number'),
      cell(tile.price === undefined ? '' : dollars(slice ? tile.price * part.w : tile.price), 'number'),
      cell(slice ? clock(slice.since) : '', 'number'));
  }
}

function cell(text, kind = '') {
  return h('td', { class: kind, title: String(text).length > 20 ? text : null }, String(text));
}
