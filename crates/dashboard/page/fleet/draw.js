// Draws one GPU into a rectangle: width is what was promised, the level is what is measured, hatched is free.

import { lastName, memory, percent, shortProduct } from '../format.js';
import { mechanism, states } from './mechanism.js';
import { palette, pattern } from './paint.js';
import { fonts, widthOf, write } from './text.js';

/** Draws a GPU at the given zoom. `dimmed(slice)` says whether a slice is outside of what the reader searches. */
export function drawGpu(ctx, tile, x, y, w, h, zoom, dimmed, phase = 0) {
  if (zoom.name === 'tiles') drawTile(ctx, tile, x, y, w, h, dimmed);
  else if (zoom.name === 'cards') drawCard(ctx, tile, x, y, w, h, dimmed, phase);
  else if (zoom.name === 'bars') drawLabelledBar(ctx, tile, x, y, w, h, dimmed, phase);
  else {
    drawBar(ctx, tile, x, y, w, h, dimmed, false);
    drawState(ctx, tile, x, y, w, h, phase, false);
  }
}

function drawCard(ctx, tile, x, y, w, h, dimmed, phase) {
  const { gpu } = tile;
  const c = palette();
  const left = write(ctx, fonts.bold, c.text, `GPU ${gpu.index}`, x, y + 11);
  let right = 0;
  const stated = gpu.state !== 'ok';
  if (stated) right = write(ctx, fonts.bold, gpu.state === 'cutting' ? c.accent : c.bad, `${states[gpu.state]?.mark ?? '?'} ${gpu.state}`, x + w, y + 11, 80, 'right');
  else if (gpu.busy !== undefined) right = write(ctx, fonts.small, c.muted, `${percent(gpu.busy)} busy`, x + w, y + 11, 80, 'right');
  write(ctx, fonts.small, c.muted, shortProduct(gpu.product), x + left + 7, y + 11, w - left - right - 18);
  const barHeight = h - 18 - 19;
  drawBar(ctx, tile, x, y + 18, w, barHeight, dimmed, true);
  drawState(ctx, tile, x, y + 18, w, barHeight, phase, true);
  drawMemory(ctx, gpu, x, y + h - 9, w);
}

/** The GPU's memory: what is filled of what there is, with numbers. */
function drawMemory(ctx, gpu, x, y, w) {
  const c = palette();
  const wide = write(ctx, fonts.small, c.muted, `${memory(gpu.memoryUsed ?? 0)} of ${memory(gpu.memory)}`, x + w, y + 4, w - 40, 'right');
  const room = w - wide - 10;
  ctx.fillStyle = c.well;
  ctx.fillRect(x, y - 2, room, 4);
  ctx.fillStyle = c.muted;
  ctx.fillRect(x, y - 2, Math.round(room * Math.min(1, (gpu.memoryUsed ?? 0) / (gpu.memory || 1))), 4);
}

function drawLabelledBar(ctx, tile, x, y, w, h, dimmed, phase) {
  const { gpu } = tile;
  const c = palette();
  const left = write(ctx, fonts.tiny, c.muted, String(gpu.index), x, y + 9);
  if (gpu.state !== 'ok') write(ctx, fonts.tiny, gpu.state === 'cutting' ? c.accent : c.bad, `${states[gpu.state]?.mark ?? '?'} ${gpu.state}`, x + w, y + 9, w - left - 8, 'right');
  else if (gpu.busy !== undefined) write(ctx, fonts.tiny, c.muted, percent(gpu.busy), x + w, y + 9, w - left - 8, 'right');
  drawBar(ctx, tile, x, y + 13, w, h - 13, dimmed, true);
  drawState(ctx, tile, x, y + 13, w, h - 13, phase, false);
}

/** The bar itself: a hatched well, then every part to scale. */
function drawBar(ctx, tile, x, y, w, h, dimmed, labels) {
  const { gpu, parts } = tile;
  const c = palette();
  ctx.fillStyle = c.well;
  ctx.fillRect(x, y, w, h);
  ctx.fillStyle = pattern(ctx, 'hatch');
  ctx.fillRect(x, y, w, h);
  if (gpu.slots && w / gpu.slots > 4) {
    ctx.fillStyle = c.line;
    for (let slot = 1; slot < gpu.slots; slot++) ctx.fillRect(Math.round(x + (w * slot) / gpu.slots), y, 1, h);
  }
  for (const part of parts) {
    const left = Math.round(x + part.x * w);
    const wide = Math.max(2, Math.round(x + (part.x + part.w) * w) - left - 1);
    drawPart(ctx, part, left, y, wide, h, part.slice ? dimmed(part.slice) : dimmed(null), labels);
  }
}

function drawPart(ctx, part, x, y, w, h, dim, labels) {
  const c = palette();
  const { slice, instance } = part;
  if (dim) ctx.globalAlpha = 0.25;
  if (!slice) {
    ctx.fillStyle = c.box;
    ctx.fillRect(x, y, w, h);
    ctx.strokeStyle = c.faint;
    ctx.lineWidth = 1;
    ctx.strokeRect(x + 0.5, y + 0.5, w - 1, h - 1);
    if (labels && w > 18) write(ctx, fonts.small, c.muted, fittingProfile(instance.profile, w), x + w / 2, y + Math.min(h - 4, h / 2 + 4), w - 4, 'center');
  } else {
    const kind = mechanism(slice.mechanism);
    const ink = c[kind.colour];
    ctx.fillStyle = ink.tint;
    ctx.fillRect(x, y, w, h);
    // Words stand above the level, never in it: a line through a name would make both unreadable.
    const strip = labels && h >= 25 ? 15 : 0;
    if (strip) labelPart(ctx, part, kind, ink, x, y, w);
    drawLevel(ctx, part, kind, ink, x, y + strip, w, h - strip);
  }
  ctx.globalAlpha = 1;
}

function drawLevel(ctx, part, kind, ink, x, y, w, h) {
  const high = Math.round(h * (part.shown ?? part.fill));
  if (high > 0) {
    ctx.fillStyle = ink.fill;
    ctx.fillRect(x, y + h - high, w, high);
    ctx.fillStyle = pattern(ctx, kind.colour);
    ctx.fillRect(x, y + h - high, w, high);
  }
  // The level line is what the eye reads; at the very bottom it says "nothing".
  ctx.fillStyle = ink.level;
  ctx.fillRect(x, y + h - Math.max(high, 2), w, 2);
  if (part.over) ctx.fillRect(x, y, w, 5);
}

/** Letter, then as much of name, profile and measure as there is room for. */
function labelPart(ctx, part, kind, ink, x, y, w) {
  if (w < 11) return;
  const c = palette();
  const profile = part.instance?.profile;
  const letter = w < 18 ? x + w / 2 : x + 8;
  write(ctx, fonts.tiny, ink.level, kind.letter, letter, y + 11.5, 20, 'center');
  if (w < 27) return;
  const right = w > 110 ? write(ctx, fonts.small, c.text, percent(part.fill), x + w - 4, y + 11.5, 40, 'right') + 8 : 0;
  const room = w - 19 - right;
  const name = lastName(part.slice.workload);
  const short = profile?.split('.')[0];
  const words = profile ? [`${profile} ${name}`, `${short} ${name}`, profile, short].find((one) => widthOf(ctx, fonts.small, one) <= room) : name;
  if (words) write(ctx, fonts.small, c.text, words, x + 15, y + 11.5, room);
}

/** `3g.20gb` where it fits, `3g` where it does not. */
function fittingProfile(profile, w) {
  return w > 50 ? profile : profile.split('.')[0];
}

/** A GPU that is not well wears an edge: dashes that walk while it is cut, a firm one where it is sick or lost. */
function drawState(ctx, tile, x, y, w, h, phase, words) {
  const { state, why } = tile.gpu;
  if (state === 'ok') return;
  const c = palette();
  ctx.lineWidth = 2;
  if (state === 'cutting') {
    ctx.strokeStyle = c.accent;
    ctx.setLineDash([6, 4]);
    ctx.lineDashOffset = -phase;
    ctx.strokeRect(x + 1, y + 1, w - 2, h - 2);
    ctx.setLineDash([]);
    return;
  }
  ctx.strokeStyle = c.bad;
  ctx.strokeRect(x + 1, y + 1, w - 2, h - 2);
  if (state === 'lost' || !words) {
    ctx.lineWidth = 1.5;
    ctx.beginPath();
    ctx.moveTo(x + 2, y + 2);
    ctx.lineTo(x + w - 2, y + h - 2);
    if (state === 'lost') {
      ctx.moveTo(x + w - 2, y + 2);
      ctx.lineTo(x + 2, y + h - 2);
    }
    ctx.stroke();
  }
  if (words && why && h > 30) {
    ctx.fillStyle = c.panel;
    ctx.fillRect(x + 6, y + h / 2 - 10, w - 12, 20);
    write(ctx, fonts.small, c.bad, why, x + w / 2, y + h / 2 + 4, w - 22, 'center');
  }
}

/** The smallest: columns as wide as promised, filled as high as measured. As few strokes as that needs. */
function drawTile(ctx, tile, x, y, w, h, dimmed) {
  const { gpu, parts } = tile;
  const c = palette();
  ctx.fillStyle = c.box;
  ctx.fillRect(x, y, w, h);
  for (const part of parts) {
    const left = x + part.x * w;
    const wide = Math.max(1, part.w * w - (w > 10 ? 0.5 : 0));
    if (!part.slice) continue;
    const kind = mechanism(part.slice.mechanism);
    const ink = c[kind.colour];
    const dim = dimmed(part.slice);
    if (dim) ctx.globalAlpha = 0.25;
    // So small a drawing needs stronger colours: bright is used, middling held idle, dark free.
    ctx.fillStyle = ink.fill;
    ctx.fillRect(left, y, wide, h);
    const high = h * part.fill;
    ctx.fillStyle = ink.level;
    ctx.fillRect(left, y + h - high, wide, high);
    if (dim) ctx.globalAlpha = 1;
  }
  if (gpu.state !== 'ok') {
    ctx.lineWidth = 1.5;
    ctx.strokeStyle = gpu.state === 'cutting' ? c.accent : c.bad;
    ctx.strokeRect(x + 0.75, y + 0.75, w - 1.5, h - 1.5);
    if (gpu.state !== 'cutting') {
      ctx.beginPath();
      ctx.moveTo(x + 1, y + 1);
      ctx.lineTo(x + w - 1, y + h - 1);
      ctx.stroke();
    }
  }
}
