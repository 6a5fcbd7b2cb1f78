// The card that says everything about one GPU and its slices, for the pointer and for the keyboard.

import { fill, h } from '../dom.js';
import { clock, dollars, knownBy, memory, percent, shortDuration } from '../format.js';
import { mechanism, states } from './mechanism.js';
import { promisedCompute } from './shares.js';

/** A coloured letter for a mechanism. */
export function chip(id) {
  const kind = mechanism(id);
  return h('span', { class: `chip ${kind.colour}`, title: kind.name, 'aria-hidden': 'true' }, kind.letter);
}

/** Promised against measured as a bar: the frame is the promise, the fill what was measured. */
export function meter(part, colour) {
  const bar = h('span', { class: `meter ${colour}`, 'aria-hidden': 'true' }, h('span', {}));
  bar.firstChild.style.width = `${Math.round(Math.min(1, part) * 100)}%`;
  return bar;
}

/** One sentence for ears. */
export function spoken(tile) {
  const { gpu, entry } = tile;
  const slices = gpu.slices?.length ?? 0;
  const words = [`${entry.name}, GPU ${gpu.index}`, gpu.state === 'ok' ? null : `${gpu.state}${gpu.why ? `: ${gpu.why}` : ''}`];
  words.push(slices === 0 ? 'nobody uses it' : slices === 1 ? `one slice, ${gpu.slices[0].pod}` : `${slices} slices`);
  if (gpu.busy !== undefined) words.push(`${percent(gpu.busy)} busy`);
  return `${words.filter(Boolean).join(', ')}.`;
}

/** Fills `card` with a GPU; `part` is the place of the slice pointed at, which comes first. */
export function fillDetail(card, tile, part, now, most, showsDollars) {
  const { gpu, entry } = tile;
  const parts = tile.parts.map((one, i) => ({ ...one, pointed: i === part }));
  parts.sort((a, b) => b.pointed - a.pointed);
  const shown = parts.slice(0, most);
  fill(
    card,
    h('div', { class: 'detail-head' },
      h('strong', {}, `${entry.name} · GPU ${gpu.index}`),
      gpu.state !== 'ok' && h('span', { class: `state ${gpu.state}` }, `${states[gpu.state]?.mark ?? '?'} ${gpu.state}`)),
    h('div', { class: 'muted' }, gpu.product),
    gpu.why && h('div', { class: 'bad' }, gpu.why),
    entry.node.ready === false && h('div', { class: 'bad' }, `The node is not ready${entry.node.why ? `: ${entry.node.why}` : '.'}`),
    h('dl', { class: 'facts' },
      fact('Memory', `${memory(gpu.memoryUsed ?? 0)} of ${memory(gpu.memory)}`),
      fact('Busy', gpu.busy === undefined ? 'not measured' : percent(gpu.busy)),
      showsDollars && tile.price !== undefined && fact('Price', `${dollars(tile.price)}/h, ${dollars(tile.tally.heldIdle + tile.tally.idle + tile.tally.withheld)} not used`),
      gpu.slots && fact('Slots', `${gpu.slots}, ${(gpu.instances ?? []).length} instances`)),
    shown.length === 0 && h('p', { class: 'muted' }, 'Nobody uses it.'),
    shown.map((one) => (one.slice ? sliceFacts(one, gpu, now) : freeInstance(one))),
    parts.length > shown.length && h('p', { class: 'muted' }, `${parts.length - shown.length} more: press Enter or click to see all.`),
  );
}

/** The memory a slice may count on: promised, else its instance's, else all of it where it holds all. */
export function memoryRoom({ slice, instance }, gpu) {
  return slice.memory ?? instance?.memory ?? (slice.mechanism === 'exclusive' ? gpu.memory : undefined);
}

function sliceFacts(one, gpu, now) {
  const { slice, instance } = one;
  const kind = mechanism(slice.mechanism);
  const promised = promisedCompute(slice, one.w);
  const room = memoryRoom(one, gpu);
  return h('section', { class: `slice${one.pointed ? ' pointed' : ''}`, 'aria-label': slice.pod },
    h('div', { class: 'slice-head' }, chip(slice.mechanism), h('strong', {}, slice.pod), h('span', { class: 'muted' }, kind.name + (instance ? ` ${instance.profile}` : ''))),
    h('div', { class: 'muted' }, `${slice.workload}${slice.container ? `, container ${slice.container}` : ''}`),
    h('div', { class: 'measure' }, meter(one.fill, kind.colour),
      h('span', {}, slice.computeUsed === undefined ? `time not measured, ${percent(promised)} promised` : `${percent(slice.computeUsed)} used of ${percent(promised)} promised`)),
    h('div', { class: 'measure' }, meter(one.memory, kind.colour),
      h('span', {}, room ? `${memory(slice.memoryUsed ?? 0)} of ${memory(room)}` : `${memory(slice.memoryUsed ?? 0)}, no limit`)),
    h('div', { class: 'muted' }, `${sentence(knownBy(slice.how))}. Since ${clock(slice.since)}, for ${shortDuration(now - slice.since)}.`),
    slice.throttled > 0 && h('div', { class: 'warn' }, `Held back ${percent(slice.throttled)} of the time.`),
    one.over && h('div', { class: 'warn' }, 'Takes more than it was promised.'));
}

function freeInstance({ instance, pointed }) {
  return h('section', { class: `slice free${pointed ? ' pointed' : ''}`, 'aria-label': `${instance.profile}, free` },
    h('div', { class: 'slice-head' }, h('strong', {}, instance.profile), h('span', { class: 'muted' }, `free, ${memory(instance.memory)}`)));
}

const fact = (name, value) => [h('dt', {}, name), h('dd', {}, value)];
const sentence = (words) => words.charAt(0).toUpperCase() + words.slice(1);

/** Puts the card beside what it is about, inside the bounds it may not leave. */
export function placeBeside(card, spot, bounds) {
  const gap = 10;
  const { offsetWidth: w, offsetHeight: high } = card;
  let left = spot.x + spot.w + gap;
  if (left + w > bounds.width - 4) left = spot.x - w - gap;
  if (left < 4) left = Math.max(4, Math.min(bounds.width - w - 4, spot.x));
  const top = Math.max(4, Math.min(bounds.height - high - 4, spot.y));
  card.style.transform = `translate(${Math.round(left)}px, ${Math.round(top)}px)`;
}
