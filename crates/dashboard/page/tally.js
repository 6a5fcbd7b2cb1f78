// Adds up what a fleet costs and how much of it is used, held idle, idle and withheld. Pure; the same sums as the server's Summary.

export const kinds = ['used', 'heldIdle', 'idle', 'withheld'];

export function emptyTally() {
  return { nodes: 0, gpus: 0, held: 0, slices: 0, perHour: 0, used: 0, heldIdle: 0, idle: 0, withheld: 0, parts: { used: 0, heldIdle: 0, idle: 0, withheld: 0 } };
}

/**
 * One GPU: its price split in four. Used is what was measured, held idle what was promised beyond that, idle what nobody holds,
 * withheld what nobody could hold (a sick or lost GPU; the free part of one being cut or on a node that is not ready).
 */
export function tallyGpu(gpu, parts, price, ready) {
  const dollars = price ?? 0;
  const held = Math.min(1, parts.reduce((sum, one) => sum + (one.slice ? one.w : 0), 0));
  const measured = (gpu.slices ?? []).reduce((sum, slice) => sum + (slice.computeUsed ?? 0), 0);
  const gone = gpu.state === 'sick' || gpu.state === 'lost';
  const used = gone ? 0 : Math.min(held, measured);
  const heldIdle = gone ? 0 : held - used;
  const free = gone ? 1 : 1 - held;
  const withheld = gone || gpu.state === 'cutting' || ready === false ? free : 0;
  const split = { used, heldIdle, idle: free - withheld, withheld };
  return {
    nodes: 0, gpus: 1, held: held > 0 ? 1 : 0, slices: gpu.slices?.length ?? 0, perHour: dollars,
    used: used * dollars, heldIdle: heldIdle * dollars, idle: split.idle * dollars, withheld: withheld * dollars, parts: split,
  };
}

/** Adds `one` to `sum` in place, `sign` times. */
export function addTally(sum, one, sign = 1) {
  for (const key of ['nodes', 'gpus', 'held', 'slices', 'perHour', ...kinds]) sum[key] += sign * one[key];
  for (const kind of kinds) sum.parts[kind] += sign * one.parts[kind];
}
