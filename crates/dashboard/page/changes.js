// Applies the stream's changes to a picture, and says what they touched so that only that is drawn again.

/** Happenings kept in the browser; older ones are history, not news. */
export const happeningsKept = 400;

/** What nothing has touched yet. */
export function untouched() {
  return { nodes: new Set(), gpus: [], waiting: false, happening: false };
}

/** Applies one change to `picture` in place and notes it in `touched`. Unknown changes are ignored: a newer server may send them. */
export function applyChange(picture, change, touched) {
  if (change.gpu) {
    const [name, place, gpu] = change.gpu;
    const node = picture.nodes[name];
    if (!node || !Number.isInteger(place) || place < 0) return;
    node.gpus ??= [];
    if (place > node.gpus.length) return;
    const isNew = place === node.gpus.length;
    node.gpus[place] = gpu;
    if (isNew) touched.nodes.add(name);
    else touched.gpus.push([name, place]);
  } else if (change.used) {
    const [name, place, used] = change.used;
    const gpu = picture.nodes[name]?.gpus?.[place];
    if (!gpu) return;
    gpu.busy = used.busy;
    gpu.memoryUsed = used.memoryUsed;
    (gpu.slices ?? []).forEach((slice, number) => {
      const [compute, memory, how, throttled] = used.slices[number] ?? [];
      slice.computeUsed = compute ?? undefined;
      slice.memoryUsed = memory ?? 0;
      slice.how = how ?? undefined;
      slice.throttled = throttled ?? 0;
    });
    touched.gpus.push([name, place]);
  } else if (change.node) {
    const [name, node] = change.node;
    picture.nodes[name] = node;
    touched.nodes.add(name);
  } else if (typeof change.nodeGone === 'string') {
    delete picture.nodes[change.nodeGone];
    touched.nodes.add(change.nodeGone);
  } else if (change.waiting) {
    const [pod, waiting] = change.waiting;
    picture.waiting[pod] = waiting;
    touched.waiting = true;
  } else if (typeof change.waitingGone === 'string') {
    delete picture.waiting[change.waitingGone];
    touched.waiting = true;
  } else if (change.happening) {
    addHappening(picture.happenings, change.happening);
    touched.happening = true;
  }
}

/** Applies all of them. */
export function applyChanges(picture, changes) {
  const touched = untouched();
  for (const change of changes) applyChange(picture, change, touched);
  return touched;
}

/** Fills in what a picture may leave out, so that nobody else has to ask. */
export function wholePicture(picture) {
  return {
    at: picture?.at ?? 0,
    nodes: picture?.nodes ?? {},
    waiting: picture?.waiting ?? {},
    happenings: [...(picture?.happenings ?? [])].sort((a, b) => a.number - b.number).slice(-happeningsKept),
  };
}

/** A happening may be told again with a higher count or after a reconnect; its number keeps it single. */
function addHappening(list, happening) {
  const known = list.findIndex((one) => one.number === happening.number);
  if (known >= 0) {
    list[known] = happening;
    return;
  }
  list.push(happening);
  if (list.length > happeningsKept) list.splice(0, list.length - happeningsKept);
}
