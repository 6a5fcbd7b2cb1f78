// Says how a GPU is divided: which part of its width each slice takes, and how full each is. Pure, no drawing.

/**
 * The parts of a GPU from left to right, as parts of one:
 * { x, w, slice?, instance?, fill, over, memory }, where `fill` is measured ÷ promised, `over` says it took more than promised.
 * A part without a slice is a MIG instance nobody uses. What no part covers is free.
 */
export function shares(gpu) {
  return gpu.slots ? migShares(gpu) : memoryShares(gpu);
}

function migShares(gpu) {
  const held = new Map();
  const loose = [];
  for (const slice of gpu.slices ?? []) {
    if (!slice.instance) {
      loose.push(slice);
      continue;
    }
    if (!held.has(slice.instance)) held.set(slice.instance, []);
    held.get(slice.instance).push(slice);
  }
  const parts = [];
  for (const instance of gpu.instances ?? []) {
    const x = instance.start / gpu.slots;
    const w = instance.size / gpu.slots;
    const slices = held.get(instance.uuid) ?? [];
    if (slices.length === 0) parts.push({ x, w, instance, fill: 0, over: false, memory: 0 });
    // Several pods may share one instance (time-slicing on top of MIG); they stand side by side in it.
    slices.forEach((slice, i) => parts.push(part(x + (w * i) / slices.length, w / slices.length, slice, instance, gpu)));
  }
  // A slice whose instance is not listed yet (between two looks) is still shown, over the whole width.
  loose.forEach((slice, i) => parts.push(part(i / loose.length, 1 / loose.length, slice, null, gpu)));
  return parts.sort((a, b) => a.x - b.x);
}

function memoryShares(gpu) {
  const slices = gpu.slices ?? [];
  const widths = slices.map((slice) => promisedWidth(slice, gpu));
  const said = widths.reduce((sum, w) => sum + (w ?? 0), 0);
  const silent = widths.filter((w) => w === null).length;
  // Slices that were promised nothing share what the others leave, and never vanish.
  const rest = silent ? Math.max(1 - said, 0.1 * silent) / silent : 0;
  const sum = said + rest * silent;
  const squeeze = sum > 1 ? 1 / sum : 1;
  let x = 0;
  return slices.map((slice, i) => {
    const w = (widths[i] ?? rest) * squeeze;
    const one = part(x, w, slice, null, gpu);
    x += w;
    return one;
  });
}

/** Exclusive holds all; else the promised memory says the width, else the promised time. */
function promisedWidth(slice, gpu) {
  if (slice.mechanism === 'exclusive') return 1;
  if (slice.memory > 0 && gpu.memory > 0) return Math.min(1, slice.memory / gpu.memory);
  if (slice.compute > 0) return Math.min(1, slice.compute);
  return null;
}

function part(x, w, slice, instance, gpu) {
  const promised = promisedCompute(slice, w);
  const ratio = promised > 0 ? (slice.computeUsed ?? 0) / promised : 0;
  const room = slice.memory ?? instance?.memory ?? gpu.memory * w;
  return {
    x, w, slice, instance,
    fill: clamp(ratio),
    over: ratio > 1.02,
    memory: room > 0 ? clamp((slice.memoryUsed ?? 0) / room) : 0,
  };
}

/** The part of the GPU's time a slice may count on; its width where nothing was said. */
export function promisedCompute(slice, width) {
  if (slice.mechanism === 'exclusive') return slice.compute ?? 1;
  return slice.compute ?? width;
}

const clamp = (x) => (x < 0 ? 0 : x > 1 ? 1 : x);
