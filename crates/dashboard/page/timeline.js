// The time line: the money of the last hours, and a slider that shows the fleet as it was.

import { get } from './api.js';
import { byId, calmly, fill, h, setText, svg } from './dom.js';
import { clock, clockSeconds, dollars, duration, percent } from './format.js';
import { areas, mergeLooks, nearest, partsOf, thin, ticks } from './series.js';
import { kinds } from './tally.js';

const every = 10000;
const step = 10;

export function timeLine(state) {
  const slider = byId('when');
  const chart = byId('chart');
  let looks = [];
  let asked = 0;
  let pause = every;
  // Where the reader moved the slider while the picture of then is still on its way.
  let wish = null;

  async function load() {
    try {
      const last = looks.at(-1)?.at;
      const { looks: more = [] } = await get(last ? `history?since=${last}` : 'history');
      // A server that does not know `since` sends everything each time; then it is asked less often.
      pause = last && more.length > 100 ? 6 * every : every;
      looks = mergeLooks(looks, more);
      draw();
    } catch {
      // Without history there is only now; the line stays as it is.
    }
  }

  async function refresh() {
    await load();
    setTimeout(refresh, pause);
  }

  function bounds() {
    const to = Math.max(state.liveAt, looks.at(-1)?.at ?? 0);
    const from = Math.min(looks[0]?.at ?? to - 60, to - step);
    return [Math.floor(from), Math.ceil(to)];
  }

  function draw() {
    const [from, to] = bounds();
    // The last step is "now", wherever that is; the first not before the first look.
    slider.min = to - Math.floor((to - Math.max(from, looks[0]?.at ?? to)) / step) * step;
    slider.max = to;
    slider.step = step;
    slider.disabled = looks.length === 0;
    slider.value = wish ?? state.past?.at ?? to;
    const width = Math.max(100, chart.clientWidth);
    const high = chart.clientHeight || 60;
    const points = thin(looks, Math.min(400, Math.floor(width / 3)));
    // Until the next look, all is as it was at the last one.
    if (points.length && points.at(-1).at < to) points.push({ ...points.at(-1), at: to });
    const paths = areas(points, from, to, width, high);
    fill(chart, svg('svg', { viewBox: `0 0 ${width} ${high}`, preserveAspectRatio: 'none', 'aria-hidden': 'true' },
      svg('defs', {}, svg('pattern', { id: 'chart-hatch', width: 6, height: 6, patternUnits: 'userSpaceOnUse', patternTransform: 'rotate(45)' }, svg('line', { x1: 0, y1: 0, x2: 0, y2: 6 }))),
      paths.map((d, i) => svg('path', { d, class: `area ${kinds[i]}` })),
      warnings(from, to, width)));
    const times = ticks(from, to, Math.max(2, width / 110));
    const written = times[1] - times[0] < 60 ? clockSeconds : clock;
    // A label stands around its time, and must not be cut off at the edges.
    const edge = (30 / width) * (to - from);
    fill(byId('axis'), times.filter((at) => at - from > edge && to - at > edge).map((at) => {
      const label = h('span', {}, written(at));
      label.style.left = `${(100 * (at - from)) / (to - from)}%`;
      return label;
    }));
    say();
  }

  /** Warnings stand as marks on the line, for that is where one wants to look. */
  function warnings(from, to, width) {
    return state.fleet.picture.happenings.filter((one) => one.tone === 'warning' && one.at >= from).slice(-60)
      .map((one) => svg('path', { class: 'alarm', d: `M${(((one.at - from) / (to - from)) * width).toFixed(1)},0v7` }, svg('title', {}, `${clockSeconds(one.at)} ${one.reason} ${one.words}`)));
  }

  function words(at) {
    const look = looks.length ? nearest(looks, at) : null;
    if (!look) return '';
    const parts = partsOf(look);
    const all = parts.reduce((a, b) => a + b, 0);
    const used = look.money?.perHour > 0 ? `${dollars(parts[0])} of ${dollars(look.money.perHour)} an hour used` : `${percent(all ? parts[0] / all : 0)} used`;
    return `${used}, ${look.waiting ?? 0} waiting`;
  }

  function say() {
    const [, to] = bounds();
    const past = state.past?.at;
    slider.setAttribute('aria-valuetext', past ? `${clockSeconds(past)}, ${duration(to - past)} ago, ${words(past)}` : `now, ${words(to)}`);
    setText(byId('when-words'), past ? `${clockSeconds(past)}: ${words(past)}` : words(to));
  }

  /** Asks for the picture of then; of many wishes while dragging only the last counts. */
  const travel = calmly(async () => {
    const mine = ++asked;
    if (wish === null) return;
    const at = wish;
    // Less than a step away is now: the end of the line may have moved on since the slider was put there.
    if (at > Number(slider.max) - step) return backToNow();
    try {
      const { picture } = await get(`picture?at=${at}`);
      if (mine !== asked) return;
      // The slider may have moved on meanwhile; then that wish stands.
      if (wish === at) wish = null;
      state.setPast(picture, at);
    } catch (error) {
      if (mine !== asked || wish !== at) return;
      wish = null;
      slider.value = state.past?.at ?? slider.max;
      setText(byId('when-words'), error.message);
    }
  }, 90);

  function backToNow() {
    asked++;
    wish = null;
    state.setPast(null);
    slider.value = slider.max;
  }

  const wished = () => {
    wish = Number(slider.value);
    travel();
  };
  slider.addEventListener('input', wished);
  slider.addEventListener('keydown', (event) => {
    // A page is ten minutes: the browser's own tenth of the range would be half an hour or a day.
    const jump = { PageUp: 600, PageDown: -600 }[event.key];
    if (!jump) return;
    event.preventDefault();
    slider.value = Number(slider.value) + jump;
    wished();
  });
  byId('back-to-now').addEventListener('click', () => {
    backToNow();
    slider.focus();
  });
  state.on('past', () => {
    const { past } = state;
    document.body.classList.toggle('in-past', Boolean(past));
    byId('past').hidden = !past;
    if (past && wish === null) slider.value = past.at;
    if (past) setText(byId('past-words'), `as it was at ${clockSeconds(past.at).replace(/:00$/, '')}`);
    say();
  });
  // A server that was started anew remembers only what it has seen itself.
  let since = state.about.since;
  state.on('about', () => {
    if (since === state.about.since) return;
    since = state.about.since;
    looks = [];
    if (state.past) backToNow();
    load();
  });
  const redraw = calmly(draw, 2000);
  state.on('numbers', () => state.past || redraw());
  new ResizeObserver(redraw).observe(chart);
  refresh();
  return { backToNow: () => state.past && backToNow() };
}
