// The picture of the fleet: one canvas as large as the view, which draws only what is in view and only what changed.

import { drawBox, drawSection } from './box.js';
import { drawGpu } from './draw.js';
import { Ease, glides } from './ease.js';
import { boxesInView, fittingLayout, gpuAt, layout, rect, zooms } from './layout.js';
import { palette } from './paint.js';
import { sliceMatches } from './tiles.js';

const stillMotion = matchMedia('(prefers-reduced-motion: reduce)');

export class FleetCanvas {
  /** `stage` scrolls; `canvas` sticks to its top; `sizer` gives it the height of the whole plan. */
  constructor(stage, canvas, sizer) {
    Object.assign(this, { stage, canvas, sizer });
    this.ctx = canvas.getContext('2d', { alpha: false });
    this.zoomChoice = null;
    this.arranged = { groups: [], tiles: [], terms: [] };
    this.plan = layout([], 100, zooms[0]);
    this.placeOf = new Map();
    this.dirty = new Set();
    this.ease = new Ease();
    this.full = true;
    this.asked = false;
    this.top = 0;
    this.ratio = 1;
    this.frames = { full: 0, dirty: 0 };
    stage.addEventListener('scroll', () => this.ask(), { passive: true });
    new ResizeObserver(() => this.resize()).observe(stage);
  }

  /** Shows these GPUs. */
  show(arranged) {
    this.ease.stop();
    this.arranged = arranged;
    this.placeOf = new Map(arranged.tiles.map((tile, place) => [tile, place]));
    this.relayout();
  }

  relayout() {
    const { groups } = this.arranged;
    const width = Math.max(40, this.stage.clientWidth - 2 * this.margin);
    const height = this.stage.clientHeight - 2 * this.margin;
    this.plan = this.zoomChoice === null ? fittingLayout(groups, width, height) : layout(groups, width, zooms[this.zoomChoice]);
    this.sizer.style.height = `${Math.max(0, Math.ceil(this.plan.height + 2 * this.margin) - this.stage.clientHeight)}px`;
    this.redraw();
    this.onLayout?.();
  }

  margin = 14;

  resize() {
    const ratio = Math.min(2, devicePixelRatio || 1);
    this.ratio = ratio;
    const [w, h] = [this.stage.clientWidth, this.stage.clientHeight];
    if (!w || !h) return;
    this.canvas.width = Math.round(w * ratio);
    this.canvas.height = Math.round(h * ratio);
    this.canvas.style.width = `${w}px`;
    this.canvas.style.height = `${h}px`;
    this.ctx.setTransform(ratio, 0, 0, ratio, 0, 0);
    this.relayout();
    // At once, for a resized canvas is blank until drawn.
    this.frame(performance.now());
  }

  /** Richer (+1) or smaller (−1); null lets the size of the fleet decide. */
  zoomBy(step) {
    if (step === null) this.zoomChoice = null;
    else this.zoomChoice = Math.max(0, Math.min(zooms.length - 1, zooms.indexOf(this.plan.zoom) - step));
    this.relayout();
  }

  redraw() {
    this.full = true;
    this.ask();
  }

  /** Notes GPUs to draw again in the next frame. */
  touch(tiles) {
    const glide = !stillMotion.matches && glides(this.plan.zoom, this.placeOf.size) && !document.hidden;
    for (const tile of tiles) {
      const place = this.placeOf.get(tile);
      if (place === undefined) continue;
      this.dirty.add(place);
      if (glide) this.ease.begin(place, tile, performance.now());
    }
    if (this.dirty.size) this.ask();
  }

  ask() {
    if (this.asked) return;
    this.asked = true;
    requestAnimationFrame((time) => this.frame(time));
  }

  frame(time) {
    this.asked = false;
    for (const place of this.ease.step(time)) this.dirty.add(place);
    this.phase = stillMotion.matches ? 0 : (time / 50) % 10;
    const top = Math.round(this.stage.scrollTop);
    const moved = top - this.top;
    this.top = top;
    if (this.full || !this.shift(moved)) this.drawBand(0, this.stage.clientHeight);
    if (!this.full) this.drawDirty();
    this.full = false;
    this.dirty.clear();
    if (this.ease.moving) this.ask();
    this.animate();
  }

  /** Scrolling copies what is drawn already and draws only the band that comes into view. Says whether that was possible. */
  shift(moved) {
    const high = this.stage.clientHeight;
    const pixels = moved * this.ratio;
    if (moved === 0) return true;
    if (Math.abs(moved) > high * 0.8 || !Number.isInteger(pixels)) return false;
    const { ctx } = this;
    ctx.save();
    ctx.setTransform(1, 0, 0, 1, 0, 0);
    ctx.drawImage(this.canvas, 0, -pixels);
    ctx.restore();
    if (moved > 0) this.drawBand(high - moved, high);
    else this.drawBand(0, -moved);
    return true;
  }

  /** Draws everything between two heights of the view. */
  drawBand(from, to) {
    const { ctx, plan, arranged, top, margin } = this;
    const width = this.stage.clientWidth;
    ctx.save();
    ctx.beginPath();
    ctx.rect(0, from, width, to - from);
    ctx.clip();
    ctx.fillStyle = palette().panel;
    ctx.fillRect(0, from, width, to - from);
    ctx.translate(margin, margin - top);
    const [upper, lower] = [top + from - margin, top + to - margin];
    for (const section of plan.sections) {
      if (section.y + 30 >= upper && section.y <= lower) drawSection(ctx, section, arranged.groups);
    }
    const [first, last] = boxesInView(plan, upper, lower);
    for (let i = first; i < last; i++) {
      if (plan.zoom.header) drawBox(ctx, plan.boxes[i], arranged.groups[i].entry, plan.zoom);
      for (let place = plan.first[i]; place < plan.first[i + 1]; place++) {
        const y = plan.rects[place * 4 + 1];
        if (y <= lower && y + plan.rects[place * 4 + 3] >= upper) this.drawPlace(place);
      }
    }
    ctx.restore();
    this.frames.full++;
  }

  drawDirty() {
    if (!this.dirty.size) return;
    const { ctx, plan, top } = this;
    const bottom = top + this.stage.clientHeight;
    const c = palette();
    ctx.save();
    ctx.translate(this.margin, this.margin - top);
    for (const place of this.dirty) {
      const [x, y, w, h] = rect(plan, place);
      if (y + h + this.margin < top || y > bottom) continue;
      ctx.fillStyle = plan.zoom.header ? c.box : c.panel;
      // A hair larger: letters and edges reach over the rectangle.
      ctx.fillRect(x - 1, y - 1, w + 2, h + 2);
      this.drawPlace(place);
      this.frames.dirty++;
    }
    ctx.restore();
  }

  drawPlace(place) {
    const [x, y, w, h] = rect(this.plan, place);
    const tile = this.arranged.tiles[place];
    const { terms } = this.arranged;
    const dimmed = terms.length ? (slice) => slice === null || !sliceMatches(tile, slice, terms) : never;
    drawGpu(this.ctx, tile, x, y, w, h, this.plan.zoom, dimmed, this.phase);
  }

  /** While a GPU in view is being cut its edge walks; nothing moves otherwise. */
  animate() {
    clearTimeout(this.animation);
    if (stillMotion.matches || this.plan.zoom.name === 'tiles' || !this.arranged.tiles.some((tile) => tile.gpu.state === 'cutting')) return;
    this.animation = setTimeout(() => {
      this.placeOf.forEach((place, tile) => tile.gpu.state === 'cutting' && this.dirty.add(place));
      this.ask();
    }, 60);
  }

  /** The GPU and part at a point of the view. */
  at(clientX, clientY) {
    const bounds = this.stage.getBoundingClientRect();
    const x = clientX - bounds.left - this.margin;
    const y = clientY - bounds.top - this.margin + this.stage.scrollTop;
    const place = gpuAt(this.plan, x, y);
    if (place < 0) return null;
    const [left, , w] = rect(this.plan, place);
    const tile = this.arranged.tiles[place];
    const along = (x - left) / w;
    return { place, tile, part: tile.parts.findIndex((one) => along >= one.x && along <= one.x + one.w) };
  }

  /** Where a GPU stands in the view, in CSS pixels from the stage's corner. */
  where(place) {
    const [x, y, w, h] = rect(this.plan, place);
    return { x: x + this.margin, y: y + this.margin - this.stage.scrollTop, w, h };
  }

  /** Scrolls as little as needed to bring a GPU into view. */
  reveal(place) {
    const { y, h } = this.where(place);
    if (y < 30) this.stage.scrollTop += y - 40;
    else if (y + h > this.stage.clientHeight - 10) this.stage.scrollTop += y + h - this.stage.clientHeight + 20;
  }
}

const never = () => false;
