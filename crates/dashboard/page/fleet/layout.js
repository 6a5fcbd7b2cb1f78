// Places nodes and their GPUs on a plane for a given width, at one of several zooms. Pure: numbers in, rectangles out.

/** From rich to small. `w` is the least width of a GPU; cards, bars and compact stretch to fill the line, tiles do not. */
export const zooms = [
  { name: 'cards', w: 200, h: 78, tall: 136, gap: 12, pad: 12, header: 34, apart: 10 },
  { name: 'bars', w: 92, h: 40, tall: 74, gap: 10, pad: 9, header: 24, apart: 8 },
  { name: 'compact', w: 38, h: 18, tall: 22, gap: 3, pad: 5, header: 17, apart: 6 },
  { name: 'tiles', w: 16, h: 16, tall: 16, gap: 1, pad: 0, header: 0, apart: 5 },
  { name: 'tiles', w: 12, h: 12, tall: 12, gap: 1, pad: 0, header: 0, apart: 4 },
  { name: 'tiles', w: 9, h: 9, tall: 9, gap: 1, pad: 0, header: 0, apart: 4 },
];

export const sectionHeight = 22;

/**
 * Lays out `groups` ([{ name, type, count }]) in `width`. Returns { zoom, width, height, boxes, rects, first, sections }:
 * `boxes[i]` is the node's box, `rects` four numbers per GPU in order, `first[i]` the place of the node's first GPU in it.
 */
export function layout(groups, width, zoom, stretch = 0) {
  const total = groups.reduce((sum, group) => sum + group.count, 0);
  const plan = { zoom, width, height: 0, boxes: [], rects: new Float32Array(total * 4), first: [], sections: [] };
  const tiles = zoom.name === 'tiles';
  const gpuHeight = Math.min(zoom.tall, zoom.h + stretch);
  const step = tiles ? zoom.w + zoom.gap : columnStep(width, zoom, commonCount(groups));
  const columns = Math.max(1, Math.floor((width + zoom.apart) / step));
  let x = 0;
  let y = 0;
  let lineHeight = 0;
  let place = 0;
  let type = null;
  const byType = tiles && typesTogether(groups);
  for (const group of groups) {
    const [across, down] = block(group.count, tiles ? 4 : columns);
    const w = tiles ? across * step - zoom.gap : across * step - zoom.apart;
    const h = zoom.header + Math.max(1, down) * (gpuHeight + zoom.gap) - zoom.gap + zoom.pad;
    const newSection = byType && group.type !== type;
    if (newSection || (x > 0 && x + w > width + 0.5)) {
      x = 0;
      y += lineHeight ? lineHeight + zoom.apart : 0;
      lineHeight = 0;
    }
    if (newSection) {
      type = group.type;
      plan.sections.push({ type, y: y + (plan.sections.length ? 6 : 0) });
      y += sectionHeight + (plan.sections.length > 1 ? 6 : 0);
    }
    plan.boxes.push({ name: group.name, x: Math.round(x), y: Math.round(y), w: Math.round(w), h: Math.round(h) });
    plan.first.push(place);
    const inner = w - 2 * zoom.pad;
    const gpuWidth = tiles ? zoom.w : (inner - (across - 1) * zoom.gap) / across;
    for (let i = 0; i < group.count; i++, place++) {
      plan.rects[place * 4] = Math.round(x + zoom.pad + (i % across) * (gpuWidth + zoom.gap));
      plan.rects[place * 4 + 1] = Math.round(y + zoom.header + Math.floor(i / across) * (gpuHeight + zoom.gap));
      plan.rects[place * 4 + 2] = Math.floor(gpuWidth);
      plan.rects[place * 4 + 3] = Math.floor(gpuHeight);
    }
    x += w + zoom.apart;
    lineHeight = Math.max(lineHeight, h);
  }
  plan.first.push(place);
  plan.height = y + lineHeight;
  return plan;
}

/** Tiles get a headline per type only where the order keeps types together. */
function typesTogether(groups) {
  const seen = new Set();
  let last = null;
  for (const { type } of groups) {
    if (type === last) continue;
    if (seen.has(type)) return false;
    seen.add(type);
    last = type;
  }
  return true;
}

/** The width of one column such that whole columns, and whole nodes of the common size, fill the line. */
function columnStep(width, zoom, common) {
  const least = zoom.w + 2 * zoom.pad + zoom.apart - zoom.gap;
  const most = Math.max(1, Math.floor((width + zoom.apart) / least));
  const columns = most >= common ? Math.floor(most / common) * common : block(common, most)[0];
  return (width + zoom.apart) / columns;
}

/** The size of node that most GPUs are in. */
function commonCount(groups) {
  const gpus = new Map();
  for (const { count } of groups) gpus.set(count, (gpus.get(count) ?? 0) + count);
  return [...gpus].reduce((best, one) => (one[1] > best[1] ? one : best), [1, 0])[0];
}

/** Columns and rows for `count` GPUs: rows of equal length where that is possible (8 in 5 columns is 4 + 4, not 5 + 3). */
export function block(count, columns) {
  if (count <= 0) return [1, 1];
  const down = Math.ceil(count / Math.max(1, columns));
  return [Math.ceil(count / down), down];
}

/** The richest zoom at which the whole fleet fits the view; the smallest where none does. What room is left makes GPUs taller. */
export function fittingLayout(groups, width, height) {
  // A small window (a phone) scrolls rather than shrinking a small fleet to dots.
  const gpus = groups.reduce((sum, group) => sum + group.count, 0);
  const smallest = gpus <= 4 ? 0 : gpus <= 48 ? 1 : gpus <= 400 ? 2 : zooms.length - 1;
  for (const zoom of zooms.slice(0, smallest + 1)) {
    const plan = layout(groups, width, zoom);
    if (plan.height <= height) return stretched(plan, groups, width, height);
  }
  return layout(groups, width, zooms[smallest]);
}

function stretched(plan, groups, width, height) {
  const most = plan.zoom.tall - plan.zoom.h;
  for (let stretch = most; stretch > 0; stretch -= 2) {
    const taller = layout(groups, width, plan.zoom, stretch);
    if (taller.height <= height) return taller;
  }
  return plan;
}

/** First and last (exclusive) box that may show between two heights. Boxes come in lines, so tops only grow. */
export function boxesInView(plan, top, bottom) {
  let from = 0;
  while (from < plan.boxes.length && plan.boxes[from].y + plan.boxes[from].h < top) from++;
  // A short box may stand before a tall one in the same line.
  let to = from;
  while (to < plan.boxes.length && plan.boxes[to].y <= bottom) to++;
  return [from, to];
}

/** The GPU at a point, or −1. */
export function gpuAt(plan, x, y) {
  for (let i = 0; i < plan.boxes.length; i++) {
    const box = plan.boxes[i];
    if (x < box.x || y < box.y || x > box.x + box.w || y > box.y + box.h) continue;
    for (let place = plan.first[i]; place < plan.first[i + 1]; place++) {
      const [gx, gy, gw, gh] = rect(plan, place);
      if (x >= gx && x <= gx + gw + plan.zoom.gap && y >= gy && y <= gy + gh + plan.zoom.gap) return place;
    }
  }
  return -1;
}

export function rect(plan, place) {
  return [plan.rects[place * 4], plan.rects[place * 4 + 1], plan.rects[place * 4 + 2], plan.rects[place * 4 + 3]];
}

/** Where an arrow key leads from a GPU: left and right in order, up and down to the nearest in the next line. */
export function neighbour(plan, place, key, pageHeight = 400) {
  const count = plan.rects.length / 4;
  if (count === 0) return -1;
  if (place < 0) return 0;
  if (key === 'ArrowLeft') return Math.max(0, place - 1);
  if (key === 'ArrowRight') return Math.min(count - 1, place + 1);
  if (key === 'Home') return 0;
  if (key === 'End') return count - 1;
  const [x, y, w, gpuHeight] = rect(plan, place);
  const down = key === 'ArrowDown' || key === 'PageDown';
  const far = key.startsWith('Page') ? pageHeight : 0;
  const middle = x + w / 2;
  let best = place;
  let bestScore = Infinity;
  for (let i = 0; i < count; i++) {
    const rise = (plan.rects[i * 4 + 1] - y) * (down ? 1 : -1) - far;
    if (rise < (far ? -gpuHeight : 1)) continue;
    const aside = Math.abs(plan.rects[i * 4] + plan.rects[i * 4 + 2] / 2 - middle);
    const score = Math.abs(rise) * 4 + aside;
    if (score < bestScore) {
      bestScore = score;
      best = i;
    }
  }
  if (best === place && far) return down ? count - 1 : 0;
  return best;
}
