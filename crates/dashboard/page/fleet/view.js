// Joins picture, table, detail card and toolbar of the fleet, and keeps them on the same GPUs.

import { byId, calmly, fill, h, setText } from '../dom.js';
import { count, dollars, percent, plural } from '../format.js';
import { onTheme } from '../theme.js';
import { FleetCanvas } from './canvas.js';
import { fillDetail, placeBeside, spoken } from './detail.js';
import { fleetKeys } from './keys.js';
import { mechanisms } from './mechanism.js';
import { repaint } from './paint.js';
import { FleetTable } from './table.js';
import { arrange } from './tiles.js';

export class FleetView {
  constructor(state) {
    this.state = state;
    this.stage = byId('stage');
    this.card = byId('detail');
    this.ring = byId('ring');
    this.canvas = new FleetCanvas(this.stage, byId('fleet-canvas'), byId('sizer'));
    this.table = new FleetTable(byId('table-holder'));
    this.cursor = { place: -1, part: -1 };
    this.pinned = false;
    this.toolbar();
    this.pointer();
    fleetKeys(this.stage, this);
    this.canvas.onLayout = () => this.follow();
    state.on('fleet', () => this.rearrange());
    state.on('view', () => this.rearrange());
    state.on('tiles', (tiles) => this.touched(tiles));
    onTheme(() => {
      repaint();
      this.canvas.redraw();
    });
    // Order and filter follow the measurements, but not so fast that GPUs jump about under the pointer.
    this.settle = calmly(() => {
      if (this.state.query || this.state.sort !== 'name' || this.state.table) this.rearrange(true);
      else this.say();
    }, 2000);
  }

  rearrange(calm = false) {
    const { state } = this;
    const under = this.tile();
    const before = this.arranged;
    this.arranged = arrange(state.shown, state.query, state.sort);
    // Looked again, and all is where it was: then nothing needs to be drawn anew.
    if (calm && !state.table && same(before.tiles, this.arranged.tiles)) return this.say();
    byId('table-holder').hidden = !state.table;
    byId('stage-holder').hidden = state.table;
    if (state.table) this.table.show(this.arranged, this.summary());
    else this.canvas.show(this.arranged);
    // Found by name, for another picture (the past) has other tiles of the same GPUs.
    this.cursor.place = under ? this.arranged.tiles.findIndex((tile) => tile.place === under.place && tile.entry.name === under.entry.name) : -1;
    if (this.cursor.place < 0) this.close();
    this.follow();
    this.say();
    const all = state.shown.total.gpus;
    setText(byId('found'), state.query ? `${count(this.arranged.tiles.length)} of ${plural(all, 'GPU')}` : '');
    byId('nothing').hidden = this.arranged.tiles.length > 0 || this.arranged.groups.length > 0 || state.table;
    setText(byId('nothing'), state.query ? 'No GPU matches. Clear the search to see all.' : state.link === 'connecting' ? 'Looking…' : 'There are no GPUs here yet.');
  }

  touched(tiles) {
    if (!this.state.table) this.canvas.touch(tiles);
    if (!this.card.hidden && tiles.has(this.tile())) this.fillCard();
    this.settle();
  }

  tile() {
    return this.cursor.place < 0 ? null : this.canvas.arranged.tiles[this.cursor.place] ?? null;
  }

  /** One sentence about all: what the picture shows, for those who do not see it. */
  summary() {
    const { total } = this.state.shown;
    const waiting = Object.keys(this.state.picture.waiting).length;
    const money = this.state.about.dollars && total.perHour ? `, ${dollars(total.perHour)} an hour` : '';
    const used = total.gpus ? `, ${percent(total.parts.used / total.gpus)} used` : '';
    return `${plural(total.nodes, 'node')}, ${plural(total.gpus, 'GPU')}, ${plural(total.slices, 'slice')}${used}${money}, ${waiting} waiting.`;
  }

  say() {
    byId('fleet-canvas').setAttribute('aria-label', this.summary());
  }

  /** Moves the cursor to a GPU (and a slice of it) and shows its card. */
  point(place, part) {
    if (place < 0) return;
    this.cursor = { place, part };
    this.canvas.reveal(place);
    this.fillCard();
    this.card.hidden = false;
    this.follow();
    setText(byId('spoken'), spoken(this.tile()));
  }

  fillCard() {
    const tile = this.tile();
    if (!tile) return;
    const top = this.card.scrollTop;
    const held = [...this.card.querySelectorAll('button')].indexOf(document.activeElement);
    fillDetail(this.card, tile, this.cursor.part, this.state.now, this.pinned ? 100 : 3, this.state.about.dollars);
    if (this.pinned) {
      const find = (label, query) => h('button', { type: 'button', onclick: () => this.search(query) }, label);
      const workload = tile.parts[this.cursor.part]?.slice?.workload ?? tile.gpu.slices?.[0]?.workload;
      this.card.append(h('div', { class: 'detail-do' },
        h('button', { type: 'button', class: 'close', onclick: () => this.close(true) }, 'Close'),
        find('Only this node', `node:${tile.entry.name}`),
        workload && find('Only this workload', `workload:${workload}`)));
      if (held >= 0) this.card.querySelectorAll('button')[held]?.focus({ preventScroll: true });
    }
    this.card.scrollTop = top;
  }

  open() {
    this.pinned = true;
    this.card.classList.add('pinned');
    this.card.hidden = false;
    this.fillCard();
    this.follow();
    this.card.querySelector('.close').focus({ preventScroll: true });
  }

  close(back) {
    const held = back || this.card.contains(document.activeElement);
    this.pinned = false;
    this.card.classList.remove('pinned');
    this.card.hidden = true;
    if (held) this.stage.focus({ preventScroll: true });
    this.follow();
  }

  search(query) {
    byId('search').value = query;
    this.close(true);
    this.state.choose({ query });
  }

  /** Keeps ring and card at the GPU while the view scrolls or is laid out anew. */
  follow() {
    const tile = this.tile();
    this.ring.hidden = !tile || (this.card.hidden && document.activeElement !== this.stage);
    if (!tile) return;
    const spot = this.canvas.where(this.cursor.place);
    this.ring.style.transform = `translate(${spot.x - 3}px, ${spot.y - 3}px)`;
    this.ring.style.width = `${spot.w + 6}px`;
    this.ring.style.height = `${spot.h + 6}px`;
    if (!this.card.hidden) placeBeside(this.card, spot, this.stage.getBoundingClientRect());
  }

  pointer() {
    this.stage.addEventListener('pointermove', (event) => {
      if (this.pinned || event.pointerType === 'touch') return;
      const hit = this.canvas.at(event.clientX, event.clientY);
      if (!hit) return this.close();
      if (hit.place === this.cursor.place && hit.part === this.cursor.part && !this.card.hidden) return;
      this.cursor = { place: hit.place, part: hit.part };
      this.fillCard();
      this.card.hidden = false;
      this.follow();
    });
    this.stage.addEventListener('pointerleave', () => this.pinned || this.close());
    this.stage.addEventListener('click', (event) => {
      const hit = this.canvas.at(event.clientX, event.clientY);
      if (!hit) return this.close();
      this.cursor = { place: hit.place, part: hit.part };
      this.open();
    });
    this.stage.addEventListener('scroll', () => this.follow(), { passive: true });
    this.stage.addEventListener('focus', () => {
      if (this.cursor.place < 0 && this.canvas.arranged.tiles.length && this.stage.matches(':focus-visible')) this.point(0, -1);
      this.follow();
    });
    this.stage.addEventListener('blur', () => this.pinned || this.card.contains(document.activeElement) || this.close());
    this.card.addEventListener('keydown', (event) => {
      if (event.key === 'Escape') this.close(true);
    });
  }

  toolbar() {
    const { state } = this;
    const search = byId('search');
    const typed = calmly(() => state.choose({ query: search.value.trim() }), 120);
    search.addEventListener('input', typed);
    search.addEventListener('keydown', (event) => {
      if (event.key !== 'Escape') return;
      search.value = '';
      state.choose({ query: '' });
      this.stage.focus();
    });
    byId('sort').addEventListener('change', (event) => state.choose({ sort: event.target.value }));
    byId('view-toggle').addEventListener('click', () => this.toggleTable());
    byId('zoom-in').addEventListener('click', () => this.canvas.zoomBy(1));
    byId('zoom-out').addEventListener('click', () => this.canvas.zoomBy(-1));
    byId('zoom-fit').addEventListener('click', () => this.canvas.zoomBy(null));
    fill(byId('legend'), mechanisms.map(({ id, letter, name, colour }) =>
      h('button', { type: 'button', class: 'key', title: `Show only ${name}`, onclick: () => this.toggleWord(`mechanism:${id}`) },
        h('span', { class: `chip ${colour}`, 'aria-hidden': 'true' }, letter), name)),
    h('span', { class: 'key' }, h('span', { class: 'swatch free', 'aria-hidden': 'true' }), 'free'),
    h('span', { class: 'key' }, h('span', { class: 'swatch sick', 'aria-hidden': 'true' }), 'sick or lost'),
    h('span', { class: 'key wide' }, h('span', { class: 'swatch level', 'aria-hidden': 'true' }), 'width promised, level measured'));
  }

  /** Adds a word to the search, or takes it away again. */
  toggleWord(word) {
    const search = byId('search');
    const words = search.value.split(/\s+/).filter(Boolean);
    const others = words.filter((one) => one !== word && !(one.startsWith('mechanism:') && word.startsWith('mechanism:')));
    search.value = [...others, ...(words.includes(word) ? [] : [word])].join(' ');
    this.state.choose({ query: search.value });
  }

  showTable(table) {
    this.state.choose({ table });
    byId('view-toggle').setAttribute('aria-pressed', String(table));
  }

  toggleTable() {
    this.showTable(!this.state.table);
    if (this.state.table) byId('table-holder').focus();
    else this.stage.focus();
  }
}

const same = (a, b) => a.length === b.length && a.every((one, i) => one === b[i]);
