// Lets levels glide to what was measured instead of jumping: calmer to the eye, and only where few GPUs are drawn large.

const glide = 320;
const mostTiles = 100;

export class Ease {
  #moving = new Map();

  /** Begins to move a GPU's levels from where they are shown now. A new slice rises from nothing. */
  begin(place, tile, time) {
    const from = new Map((tile.before ?? []).map((part) => [keyOf(part), part.shown ?? part.fill]));
    for (const part of tile.parts) {
      part.from = from.get(keyOf(part)) ?? 0;
      part.shown = part.from;
    }
    this.#moving.set(place, { tile, start: time });
  }

  /** Moves all levels on to `time` and returns the places that need to be drawn. */
  step(time) {
    const places = [...this.#moving.keys()];
    for (const [place, { tile, start }] of this.#moving) {
      const part = Math.min(1, Math.max(0, (time - start) / glide));
      // Fast first, then gently: the end is what is true.
      const eased = 1 - (1 - part) ** 3;
      for (const one of tile.parts) one.shown = part < 1 && one.from !== undefined ? one.from + (one.fill - one.from) * eased : one.fill;
      if (part === 1) this.#moving.delete(place);
    }
    return places;
  }

  get moving() {
    return this.#moving.size > 0;
  }

  /** Forgets all movement: what is drawn next is what is true. */
  stop() {
    this.step(Infinity);
  }
}

/** Whether levels glide at all at this zoom, with so many GPUs. */
export function glides(zoom, tiles) {
  return (zoom.name === 'cards' || zoom.name === 'bars') && tiles <= mostTiles;
}

const keyOf = ({ slice, instance }) => (slice ? `${slice.pod}/${slice.container}` : instance?.uuid);
