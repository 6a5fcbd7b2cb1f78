// Turns the looks of the history into stacked lines for the time line. Pure.

import { kinds } from './tally.js';

/** The four parts of a look: dollars an hour, or parts of the fleet where nothing has a price. */
export function partsOf(look) {
  if (look.money?.perHour > 0) return kinds.map((kind) => Math.max(0, look.money[kind] ?? 0));
  const withheld = look.gpus ? (look.gpusWithheld ?? 0) / look.gpus : 0;
  const used = look.used ?? 0;
  return [used, Math.max(0, (look.given ?? 0) - used), Math.max(0, 1 - (look.given ?? 0) - withheld), withheld];
}

/** Merges new looks into old ones: sorted, one for each time, none older than `keep` seconds before the last. */
export function mergeLooks(before, more, keep = 86400) {
  const byTime = new Map([...before, ...more].map((look) => [look.at, look]));
  const all = [...byTime.values()].sort((a, b) => a.at - b.at);
  const last = all.at(-1)?.at ?? 0;
  return all.filter((look) => look.at >= last - keep);
}

/** At most `most` looks, averaged in equal spans of time, so that drawing costs the same for an hour and a day. */
export function thin(looks, most) {
  if (looks.length <= most) return looks.map((look) => ({ at: look.at, parts: partsOf(look) }));
  const from = looks[0].at;
  const span = (looks.at(-1).at - from) / most || 1;
  const spans = new Map();
  for (const look of looks) {
    const key = Math.min(most - 1, Math.floor((look.at - from) / span));
    const one = spans.get(key) ?? { at: 0, n: 0, parts: [0, 0, 0, 0] };
    one.at += look.at;
    one.n++;
    partsOf(look).forEach((value, i) => { one.parts[i] += value; });
    spans.set(key, one);
  }
  return [...spans.values()].map(({ at, n, parts }) => ({ at: at / n, parts: parts.map((value) => value / n) }));
}

/** SVG paths of the four areas, bottom to top, in a box of `width` by `height`, over the time `from` to `to`. */
export function areas(points, from, to, width, height) {
  const top = Math.max(...points.map(({ parts }) => parts.reduce((a, b) => a + b, 0)), 1e-9) * 1.04;
  const x = (at) => (((at - from) / (to - from || 1)) * width).toFixed(1);
  const y = (value) => (height - (value / top) * height).toFixed(1);
  const floors = points.map(() => 0);
  return [0, 1, 2, 3].map((i) => {
    const bottom = points.map(({ at }, k) => `${x(at)},${y(floors[k])}`).reverse();
    const line = points.map(({ at, parts }, k) => {
      floors[k] += parts[i];
      return `${x(at)},${y(floors[k])}`;
    });
    return points.length ? `M${line.join('L')}L${bottom.join('L')}Z` : '';
  });
}

/** Round times for the axis, about `most` of them. */
export function ticks(from, to, most) {
  const steps = [10, 30, 60, 120, 300, 600, 900, 1800, 3600, 7200, 10800, 21600, 43200];
  const step = steps.find((one) => (to - from) / one <= most) ?? 86400;
  // Full hours of the reader's clock, not of Greenwich's.
  const zone = new Date(from * 1000).getTimezoneOffset() * 60;
  const first = Math.ceil((from - zone) / step) * step + zone;
  const all = [];
  for (let at = first; at <= to; at += step) all.push(at);
  return all;
}

/** The look nearest to a time. */
export function nearest(looks, at) {
  let low = 0;
  let high = looks.length - 1;
  while (low < high) {
    const middle = (low + high) >> 1;
    if (looks[middle].at < at) low = middle + 1;
    else high = middle;
  }
  if (low > 0 && at - looks[low - 1].at < looks[low].at - at) return looks[low - 1];
  return looks[low];
}
