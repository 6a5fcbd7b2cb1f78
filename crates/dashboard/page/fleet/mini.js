// A small still drawing of a picture, the same as the large one: for putting "now" beside "then".

import { wholePicture } from '../changes.js';
import { drawBox, drawSection } from './box.js';
import { drawGpu } from './draw.js';
import { layout, rect, zooms } from './layout.js';
import { palette } from './paint.js';
import { arrange, Fleet } from './tiles.js';

const mostHigh = 320;

/** Draws into `canvas` as wide as it stands in the page; returns the fleet, and whether all of it found room. */
export function drawMini(canvas, picture) {
  const fleet = new Fleet(wholePicture(picture));
  const { groups, tiles } = arrange(fleet, '', 'name');
  const width = canvas.parentElement.clientWidth;
  let plan = null;
  for (const zoom of zooms.slice(1)) {
    plan = layout(groups, width, zoom);
    if (plan.height <= mostHigh) break;
  }
  const height = Math.max(24, Math.min(plan.height, mostHigh));
  const ratio = Math.min(2, devicePixelRatio || 1);
  canvas.width = width * ratio;
  canvas.height = height * ratio;
  canvas.style.width = `${width}px`;
  canvas.style.height = `${height}px`;
  const ctx = canvas.getContext('2d');
  ctx.scale(ratio, ratio);
  ctx.fillStyle = palette().panel;
  ctx.fillRect(0, 0, width, height);
  for (const section of plan.sections) drawSection(ctx, section, groups);
  groups.forEach((group, i) => plan.zoom.header && drawBox(ctx, plan.boxes[i], group.entry, plan.zoom));
  tiles.forEach((tile, place) => drawGpu(ctx, tile, ...rect(plan, place), plan.zoom, () => false));
  return { total: fleet.total, whole: plan.height <= mostHigh };
}
