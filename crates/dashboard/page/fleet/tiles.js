// The fleet as a flat list of GPUs with what is derived from each, kept up to date GPU by GPU, and its filter and order.

import { addTally, emptyTally, tallyGpu } from '../tally.js';
import { shares } from './shares.js';

/** Holds a picture's GPUs as tiles, grouped by node, with running totals. */
export class Fleet {
  constructor(picture) {
    this.picture = picture;
    this.nodes = new Map();
    this.total = emptyTally();
    for (const name of Object.keys(picture.nodes)) this.setNode(name);
  }

  /** Takes a node over from the picture again. Says whether its GPUs are the same in number and its headline the same, so that all but the GPUs may stay. */
  setNode(name) {
    const node = this.picture.nodes[name];
    const before = this.nodes.get(name);
    if (before) addTally(this.total, before.tally, -1);
    if (!node) return !this.nodes.delete(name);
    const entry = { name, node, tiles: [], tally: emptyTally() };
    entry.tally.nodes = 1;
    (node.gpus ?? []).forEach((gpu, place) => {
      const tile = before?.tiles[place] ?? { entry, place };
      tile.entry = entry;
      derive(tile, gpu, node);
      entry.tiles.push(tile);
      addTally(entry.tally, tile.tally);
    });
    // A node without GPUs still costs; nobody could use it.
    if (entry.tiles.length === 0) {
      entry.tally.perHour = node.dollarsPerHour ?? 0;
      entry.tally.withheld = entry.tally.perHour;
    }
    this.nodes.set(name, entry);
    addTally(this.total, entry.tally);
    return before?.tiles.length === entry.tiles.length && headline(before.node) === headline(node);
  }

  /** Takes one GPU over from the picture again and returns its tile. */
  setGpu(name, place) {
    const entry = this.nodes.get(name);
    const tile = entry?.tiles[place];
    const gpu = this.picture.nodes[name]?.gpus[place];
    if (!tile || !gpu) return null;
    addTally(entry.tally, tile.tally, -1);
    addTally(this.total, tile.tally, -1);
    derive(tile, gpu, entry.node);
    addTally(entry.tally, tile.tally);
    addTally(this.total, tile.tally);
    return tile;
  }
}

const headline = ({ type, ready, why, dollarsPerHour }) => [type, ready, why, dollarsPerHour].join('\n');

function derive(tile, gpu, node) {
  tile.gpu = gpu;
  tile.before = tile.parts;
  tile.parts = shares(gpu);
  tile.price = node.dollarsPerHour === undefined ? undefined : node.dollarsPerHour / node.gpus.length;
  tile.tally = tallyGpu(gpu, tile.price, node.ready);
  tile.text = null;
}

/** The words a GPU is found by, made only when somebody searches. */
export function searchText(tile) {
  if (tile.text === null) {
    const { gpu, entry } = tile;
    const words = [entry.name, entry.node.type, entry.node.ready === false ? 'not-ready' : '', gpu.product, gpu.state, gpu.uuid];
    for (const slice of gpu.slices ?? []) words.push(slice.pod, slice.workload, slice.mechanism);
    for (const instance of gpu.instances ?? []) words.push(instance.profile);
    if (!gpu.slices?.length) words.push('free');
    tile.text = words.join('\n').toLowerCase();
  }
  return tile.text;
}

const fields = {
  namespace: (tile, slice) => slice?.pod?.split('/')[0],
  ns: (tile, slice) => slice?.pod?.split('/')[0],
  pod: (tile, slice) => slice?.pod,
  workload: (tile, slice) => slice?.workload,
  mechanism: (tile, slice) => slice?.mechanism,
  node: (tile) => tile.entry.name,
  type: (tile) => tile.entry.node.type,
  product: (tile) => tile.gpu.product,
  state: (tile) => tile.gpu.state,
};

/** `team-a mechanism:mig` to terms: all must match; a term with a field looks only there. */
export function parseQuery(query) {
  return query.toLowerCase().split(/\s+/).filter(Boolean).map((word) => {
    const colon = word.indexOf(':');
    const field = colon > 0 ? word.slice(0, colon) : null;
    return field && fields[field] ? { field, value: word.slice(colon + 1) } : { field: null, value: word };
  });
}

/** Whether a GPU matches all terms. */
export function matches(tile, terms) {
  return terms.every(({ field, value }) => {
    if (!field) return searchText(tile).includes(value);
    const slices = tile.gpu.slices?.length ? tile.gpu.slices : [undefined];
    return slices.some((slice) => String(fields[field](tile, slice) ?? '').toLowerCase().includes(value));
  });
}

/** Whether one slice is among what the terms ask for; terms about the GPU hold for each of its slices. */
export function sliceMatches(tile, slice, terms) {
  return terms.every(({ field, value }) => {
    if (field) return String(fields[field](tile, slice) ?? '').toLowerCase().includes(value);
    const own = `${slice.pod}\n${slice.workload}\n${slice.mechanism}`.toLowerCase();
    const gpu = `${tile.entry.name}\n${tile.entry.node.type}\n${tile.gpu.product}\n${tile.gpu.state}`.toLowerCase();
    return own.includes(value) || gpu.includes(value);
  });
}

const natural = new Intl.Collator('en', { numeric: true });
const waste = (tally) => (tally.perHour ? tally.heldIdle + tally.idle + tally.withheld : tally.gpus - tally.parts.used);
const use = (tally) => (tally.gpus ? tally.parts.used / tally.gpus : 0);

const orders = {
  name: (a, b) => natural.compare(a.node.type, b.node.type) || natural.compare(a.name, b.name),
  waste: (a, b) => waste(b.tally) - waste(a.tally),
  price: (a, b) => b.tally.perHour - a.tally.perHour,
  use: (a, b) => use(b.tally) - use(a.tally),
};

/** The GPUs to show, in order: { groups for the layout, tiles in the same order }. */
export function arrange(fleet, query, sort) {
  const terms = parseQuery(query);
  const entries = [...fleet.nodes.values()].sort((a, b) => orders[sort]?.(a, b) || natural.compare(a.name, b.name));
  const groups = [];
  const tiles = [];
  for (const entry of entries) {
    const shown = terms.length ? entry.tiles.filter((tile) => matches(tile, terms)) : entry.tiles;
    if (terms.length && shown.length === 0) continue;
    groups.push({ name: entry.name, type: entry.node.type, count: shown.length, entry });
    for (const tile of shown) tiles.push(tile);
  }
  return { groups, tiles, terms };
}
