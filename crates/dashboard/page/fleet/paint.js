// The colours and patterns of the canvas, read from the style sheet so that both follow the theme.

import { mechanisms } from './mechanism.js';

let colours = null;
let patterns = new Map();

/** Forgets colours after the theme changed. */
export function repaint() {
  colours = null;
  patterns = new Map();
}

export function palette() {
  if (colours) return colours;
  const style = getComputedStyle(document.documentElement);
  const read = (name) => style.getPropertyValue(`--${name}`).trim();
  colours = {};
  for (const name of ['panel', 'box', 'well', 'line', 'text', 'muted', 'faint', 'hatch', 'warn', 'bad', 'accent']) colours[name] = read(name);
  for (const { colour } of mechanisms) {
    colours[colour] = { level: read(`${colour}-level`), fill: read(`${colour}-fill`), tint: read(`${colour}-tint`) };
  }
  return colours;
}

/** A repeating pattern laid over a mechanism's fill: each has its own, so that colour is never alone. */
export function pattern(ctx, name) {
  if (patterns.has(name)) return patterns.get(name);
  const size = name === 'hatch' ? 6 : 5;
  const ratio = 2;
  const canvas = document.createElement('canvas');
  canvas.width = canvas.height = size * ratio;
  const p = canvas.getContext('2d');
  p.scale(ratio, ratio);
  p.strokeStyle = name === 'hatch' ? palette().hatch : palette()[name].level;
  p.fillStyle = p.strokeStyle;
  p.globalAlpha = name === 'hatch' ? 1 : 0.5;
  p.lineWidth = 1;
  strokes[name]?.(p, size);
  const made = ctx.createPattern(canvas, 'repeat');
  made.setTransform(new DOMMatrix([1 / ratio, 0, 0, 1 / ratio, 0, 0]));
  patterns.set(name, made);
  return made;
}

const diagonal = (p, size, rising) => {
  p.beginPath();
  for (const shift of [-size, 0, size]) {
    p.moveTo(shift - 1, rising ? size + 1 : -1);
    p.lineTo(shift + size + 1, rising ? -1 : size + 1);
  }
  p.stroke();
};

const strokes = {
  hatch: (p, size) => diagonal(p, size, true),
  time: (p, size) => p.fillRect(1, 0, 1, size),
  mps: (p) => p.fillRect(1, 1, 1.5, 1.5),
  limiter: (p, size) => diagonal(p, size, false),
  exclusive: (p, size) => p.fillRect(0, 2, size, 1),
  mig: null,
};
