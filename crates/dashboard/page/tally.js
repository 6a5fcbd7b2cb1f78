// Adds up what a fleet costs and how much of it is used, held idle, idle and withheld. Pure; the same sums as the server's Summary.

export const kinds = ['used', 'heldIdle', 'idle', 'withheld'];

export function emptyTally() {
  return { nodes: 0, gpus: 0, held: 0, slices: 0, perHour: 0, used: 0, heldIdle: 0, idle: 0, withheld: 0, parts: { used: 0, heldIdle: 0, idle: 0, withheld: 0 } };
}

/**
 * One GPU: its price split in four. Used is what was measured, held idle what was promised beyond that, idle what nobody holds,
 * withheld what nobody could hold (the free part of a GPU that is sick or lost, or on a node that is not ready).
 */
export function tallyGpu(gpu, price, ready) {
  const dollars = price ?? 0;
  const held = heldOf(gpu);
  const measured = (gpu.slices ?? []).reduce((sum, slice) => sum + (slice.computeUsed ?? 0), 0);
  const used = Math.min(held, measured);
  const free = 1 - held;
  const withheld = gpu.state === 'sick' || gpu.state === 'lost' || ready === false ? free : 0;
  const split = { used, heldIdle: held - used, idle: free - withheld, withheld };
  return {
    nodes: 0, gpus: 1, held: held > 0 ? 1 : 0, slices: gpu.slices?.length ?? 0, perHour: dollars,
    used: used * dollars, heldIdle: split.heldIdle * dollars, idle: split.idle * dollars, withheld: withheld * dollars, parts: split,
  };
}

/** The part of a GPU that is given away: MIG instances as a whole, all where pods take turns, else the larger of promised time and memory. */
function heldOf(gpu) {
  const slices = gpu.slices ?? [];
  if (slices.some((slice) => !slice.instance && (slice.mechanism === 'exclusive' || slice.mechanism === 'time-slicing'))) return 1;
  const size = (uuid) => ((gpu.instances ?? []).find((one) => one.uuid === uuid)?.size ?? 0) / (gpu.slots || 8);
  const instances = new Set(slices.map((slice) => slice.instance).filter(Boolean));
  let held = 0;
  for (const uuid of instances) held += size(uuid);
  for (const slice of slices) if (!slice.instance) held += Math.max(slice.compute ?? 0, (slice.memory ?? 0) / (gpu.memory || 1));
  return Math.min(1, held);
}

/** Adds `one` to `sum` in place, `sign` times. */
export function addTally(sum, one, sign = 1) {
  for (const key of ['nodes', 'gpus', 'held', 'slices', 'perHour', ...kinds]) sum[key] += sign * one[key];
  for (const kind of kinds) sum.parts[kind] += sign * one.parts[kind];
}
