// Short texts on a canvas: cut to fit, with the measuring remembered, because measuring is slow.

const known = new Map();
const mostKnown = 4000;

export const fonts = {
  name: '600 13px system-ui, -apple-system, "Segoe UI", Roboto, sans-serif',
  text: '400 12px system-ui, -apple-system, "Segoe UI", Roboto, sans-serif',
  small: '400 11px system-ui, -apple-system, "Segoe UI", Roboto, sans-serif',
  bold: '600 11px system-ui, -apple-system, "Segoe UI", Roboto, sans-serif',
  tiny: '600 10px system-ui, -apple-system, "Segoe UI", Roboto, sans-serif',
};

export function widthOf(ctx, font, text) {
  const key = `${font}\n${text}`;
  let width = known.get(key);
  if (width === undefined) {
    if (known.size > mostKnown) known.clear();
    ctx.font = font;
    width = ctx.measureText(text).width;
    known.set(key, width);
  }
  return width;
}

/** Draws `text` cut to `room` and returns the width taken; nothing where not even two letters fit. */
export function write(ctx, font, colour, text, x, y, room = Infinity, align = 'left') {
  let shown = text;
  let width = widthOf(ctx, font, shown);
  if (width > room) {
    let keep = Math.floor((text.length * room) / width);
    while (keep > 1 && (width = widthOf(ctx, font, `${text.slice(0, keep)}…`)) > room) keep--;
    if (keep < 2) return 0;
    shown = `${text.slice(0, keep)}…`;
  }
  const left = align === 'right' ? x - width : align === 'center' ? x - width / 2 : x;
  ctx.font = font;
  ctx.fillStyle = colour;
  ctx.fillText(shown, left, y);
  return width;
}
