// Draws what stands around GPUs: a node's box with its headline, and the headline of a type among tiles.

import { dollars, plural } from '../format.js';
import { palette } from './paint.js';
import { fonts, write } from './text.js';

export function drawBox(ctx, box, entry, zoom) {
  const c = palette();
  const { node } = entry;
  const sick = node.ready === false;
  const cards = zoom.name === 'cards';
  ctx.fillStyle = c.box;
  ctx.strokeStyle = sick ? c.bad : c.line;
  ctx.lineWidth = 1;
  ctx.beginPath();
  ctx.roundRect(box.x + 0.5, box.y + 0.5, box.w - 1, box.h - 1, cards ? 8 : 4);
  ctx.fill();
  ctx.stroke();
  const base = box.y + (cards ? 22 : zoom.name === 'bars' ? 16 : 12);
  const small = cards ? fonts.text : fonts.small;
  const left = box.x + zoom.pad;
  const room = box.w - 2 * zoom.pad;
  let right = 0;
  const priced = node.dollarsPerHour !== undefined && zoom.name !== 'compact' && !(sick && room < 260);
  if (priced) right = write(ctx, small, c.text, `${dollars(node.dollarsPerHour)}/h`, left + room, base, room / 2, 'right') + 8;
  const name = write(ctx, cards ? fonts.name : zoom.name === 'bars' ? fonts.bold : fonts.tiny, c.text, entry.name, left, base, room - right) + 8;
  const words = sick ? `! not ready${node.why ? `: ${node.why}` : ''}` : node.type;
  if (room - right - name > 30) write(ctx, small, sick ? c.bad : c.muted, words, left + name, base, room - right - name);
  if (entry.tiles.length === 0) write(ctx, fonts.small, c.muted, 'no GPUs', left, box.y + box.h - zoom.pad - 4, room);
}

export function drawSection(ctx, { type, y }, groups) {
  const c = palette();
  const own = groups.filter((group) => group.type === type);
  const gpus = own.reduce((sum, group) => sum + group.count, 0);
  const wide = write(ctx, fonts.bold, c.text, type, 0, y + 13, 300);
  write(ctx, fonts.small, c.muted, `${plural(own.length, 'node')}, ${plural(gpus, 'GPU')}`, wide + 8, y + 13, 300);
}
