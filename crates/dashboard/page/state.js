// What the page knows: the live picture, the one shown (live or past), and what the reader chose. Tells listeners what changed.

import { applyChanges, wholePicture } from './changes.js';
import { Emitter } from './emitter.js';
import { Fleet } from './fleet/tiles.js';

/**
 * Events: `about`; `fleet` (another fleet is shown, or its nodes changed); `tiles` (a set of tiles to draw again); `numbers`;
 * `waiting`; `happening`; `link`; `past`; `view` (filter, order or kind of view chosen).
 */
export class State extends Emitter {
  about = { name: '', kind: '', version: '', mayChange: false, dollars: true };
  fleet = new Fleet(wholePicture(null));
  past = null;
  link = 'connecting';
  query = '';
  sort = 'name';
  table = false;
  #heardAt = 0;
  #heardWhen = 0;

  /** The fleet shown: the past one while travelling. */
  get shown() {
    return this.past?.fleet ?? this.fleet;
  }

  get picture() {
    return this.shown.picture;
  }

  /** The server's time now; clocks of browsers may be wrong, and a simulated fleet has its own. */
  get now() {
    if (this.past) return this.past.at;
    return this.#heardAt + (performance.now() - this.#heardWhen) / 1000;
  }

  get liveAt() {
    return this.#heardAt;
  }

  setAbout(about) {
    this.about = { ...this.about, ...about };
    this.emit('about');
  }

  setPicture(picture) {
    this.fleet = new Fleet(wholePicture(picture));
    this.summary = null;
    this.#heard(picture.at);
    this.#emitAll();
  }

  /** Takes one event of the stream. */
  change({ at, changes, summary }) {
    this.#heard(at);
    this.summary = summary ?? null;
    const { picture } = this.fleet;
    const touched = applyChanges(picture, changes ?? []);
    picture.at = at;
    const tiles = new Set();
    let sameShape = true;
    for (const name of touched.nodes) {
      if (!this.fleet.setNode(name)) sameShape = false;
      for (const tile of this.fleet.nodes.get(name)?.tiles ?? []) tiles.add(tile);
    }
    for (const [name, place] of touched.gpus) {
      const tile = this.fleet.setGpu(name, place);
      if (tile) tiles.add(tile);
    }
    if (this.past) return;
    if (!sameShape) this.emit('fleet');
    else if (tiles.size) this.emit('tiles', tiles);
    if (touched.nodes.size || touched.gpus.length || touched.waiting) this.emit('numbers');
    if (touched.waiting) this.emit('waiting');
    if (touched.happening) this.emit('happening');
  }

  /** Shows a picture of the past, or the present again with null. */
  setPast(picture, at) {
    this.past = picture ? { at, fleet: new Fleet(wholePicture(picture)) } : null;
    this.emit('past');
    this.#emitAll();
  }

  setLink(link) {
    if (this.link === link) return;
    this.link = link;
    this.emit('link');
  }

  choose(choice) {
    Object.assign(this, choice);
    this.emit('view');
  }

  #heard(at) {
    if (!Number.isFinite(at)) return;
    this.#heardAt = at;
    this.#heardWhen = performance.now();
  }

  #emitAll() {
    for (const name of ['fleet', 'numbers', 'waiting', 'happening']) this.emit(name);
  }
}
