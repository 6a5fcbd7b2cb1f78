// Keeps the picture live: fetches it, follows the stream, and comes back calmly when the line breaks.

import { get, send } from './api.js';
import { eventReader } from './sse.js';

const patience = 3000;
/** A stream that says nothing at all for this long (the server sends comments) is taken for dead. */
const silence = 45000;

export class Live {
  /** `onReturn` is called when a lost line is back: the server may be another one by then. */
  constructor(state, onReturn) {
    this.state = state;
    this.onReturn = onReturn;
    this.version = null;
    this.lostAt = null;
  }

  /** Runs for as long as the page lives. */
  async run() {
    let pause = 250;
    for (;;) {
      try {
        if (this.version === null) await this.fetchPicture();
        await this.follow(() => {
          pause = 250;
          this.found();
        });
      } catch (error) {
        // A broken line is no error of the page: it is shown, not logged.
        if (error?.status === 404) this.version = null;
      }
      this.lost();
      await new Promise((resolve) => setTimeout(resolve, pause));
      pause = Math.min(5000, pause * 2);
    }
  }

  async fetchPicture() {
    const { version, picture } = await get('picture');
    // A picture asked for again may be another server's.
    if (this.version !== null) this.onReturn?.();
    this.version = version;
    this.state.setPicture(picture);
    this.found();
  }

  async follow(onAlive) {
    const stop = new AbortController();
    let watch = null;
    const alive = () => {
      clearTimeout(watch);
      watch = setTimeout(() => stop.abort(), silence);
    };
    try {
      const response = await send(`stream?since=${encodeURIComponent(this.version)}`, { signal: stop.signal, headers: { accept: 'text/event-stream', 'last-event-id': String(this.version) } });
      if (!response.ok) throw Object.assign(new Error('no stream'), { status: response.status });
      onAlive();
      this.fresh = true;
      const gaps = [];
      const read = eventReader((event) => this.take(event, gaps));
      const decoder = new TextDecoder();
      const reader = response.body.getReader();
      for (;;) {
        alive();
        const { done, value } = await reader.read();
        if (done) return;
        read(decoder.decode(value, { stream: true }));
        if (gaps.length) {
          gaps.length = 0;
          await this.fetchPicture();
        }
      }
    } finally {
      clearTimeout(watch);
      stop.abort();
    }
  }

  take({ event, id, data }, gaps) {
    if (event === 'gap') {
      this.fresh = false;
      gaps.push(id);
    } else if (event === 'changes') {
      const said = JSON.parse(data);
      const fresh = this.fresh;
      this.fresh = false;
      if (said.version <= this.version) {
        // A new stream that begins below our version is another server's; later, it only repeats what a fetched picture holds.
        if (fresh) gaps.push(id);
        return;
      }
      this.version = said.version ?? Number(id);
      this.state.change(said);
    }
  }

  found() {
    if (this.state.link === 'reconnecting') this.onReturn?.();
    this.lostAt = null;
    clearTimeout(this.lostTimer);
    this.state.setLink('live');
  }

  lost() {
    if (this.lostAt !== null) return;
    this.lostAt = performance.now();
    this.lostTimer = setTimeout(() => this.state.setLink('reconnecting'), patience);
  }
}
