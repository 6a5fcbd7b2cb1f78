// Starts the page: joins the state with the fleet, the panels and the time line, and goes live.

import { readAddress, writeAddress } from './address.js';
import { get } from './api.js';
import { byId, fill, h, setText } from './dom.js';
import { FleetView } from './fleet/view.js';
import { pageKeys } from './fleet/keys.js';
import { Live } from './live.js';
import { advicePanel } from './panels/advice.js';
import { changePanel } from './panels/change.js';
import { costPanel } from './panels/cost.js';
import { happeningPanel } from './panels/happening.js';
import { moneyPanel } from './panels/money.js';
import { waitingPanel } from './panels/waiting.js';
import { whatIfPanel } from './panels/whatif.js';
import { State } from './state.js';
import { Tabs } from './tabs.js';
import { isDark, onTheme, toggleTheme } from './theme.js';
import { timeLine } from './timeline.js';

const state = new State();
const tabs = new Tabs(byId('tabs'));
const fleet = new FleetView(state);

moneyPanel(state);
waitingPanel(state);
happeningPanel(state, (query) => fleet.search(query));
costPanel(state, tabs);
whatIfPanel(state);
const edit = changePanel(state, tabs);

// What the address says is chosen before anything is drawn; what is chosen later is written back without filling the history.
const asked = readAddress(location.hash);
tabs.show('now');
byId('search').value = asked.query;
byId('sort').value = asked.sort;
fleet.showTable(asked.table);
state.choose({ query: asked.query, sort: asked.sort });
const remember = () => history.replaceState(null, '', `${location.pathname}${location.search}${writeAddress({ ...state, tab: tabs.shown })}`);
state.on('view', remember);

const kinds = { simulated: 'simulated', machine: 'this machine', cluster: 'cluster' };

state.on('about', () => {
  const { name, kind, version, mayChange } = state.about;
  document.title = name ? `${name} · carve` : 'carve';
  fill(byId('who'), h('strong', {}, name), kind && h('span', { class: 'badge' }, kinds[kind] ?? kind), !mayChange && h('span', { class: 'badge', id: 'read-only' }, 'read-only'));
  byId('who').title = version ? `carve ${version}` : '';
  tabs.allow('change', mayChange === true);
});

state.on('link', () => {
  const words = { live: 'live', reconnecting: 'reconnecting…', connecting: 'connecting…' };
  byId('link').dataset.link = state.link;
  setText(byId('link-words'), words[state.link]);
});

function labelTheme() {
  byId('theme').setAttribute('aria-label', isDark() ? 'Use light colours' : 'Use dark colours');
}
byId('keys').addEventListener('click', () => byId('keys-dialog').showModal());
byId('theme').addEventListener('click', toggleTheme);
onTheme(labelTheme);
labelTheme();

/** What the page is about is asked until it is known; the rest starts at once. */
async function askAbout() {
  for (let pause = 500; ; pause = Math.min(5000, pause * 2)) {
    try {
      state.setAbout(await get('about'));
      return;
    } catch {
      await new Promise((resolve) => setTimeout(resolve, pause));
    }
  }
}

await askAbout();
if (tabs.has(asked.tab)) tabs.show(asked.tab);
tabs.onAny(remember);
advicePanel(state, edit);
const time = timeLine(state);
pageKeys({
  '/': () => { byId('search').focus(); byId('search').select(); },
  t: () => fleet.toggleTable(),
  n: () => time.backToNow(),
  '?': () => byId('keys-dialog').showModal(),
});
new Live(state, askAbout).run();

// For measuring, and for whoever is curious in the console.
window.carve = { state, fleet };
