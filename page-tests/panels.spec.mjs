// Every panel shows what the API says at that moment: words and numbers are compared with the JSON.
import { expect, test } from '@playwright/test';
import { Carve } from './carve.mjs';
import { open, tab } from './page.mjs';
import { clock, dollars, percent } from './words.mjs';

let carve;
let complaints;
test.beforeAll(async () => {
  carve = await Carve.up('--allow-changes');
  // The demo cuts GPUs first; what waits for that has its place then.
  await expect.poll(async () => slicesOf(await carve.picture()).length, { timeout: 60_000 }).toBeGreaterThan(15);
});
test.afterAll(() => carve.stop());
test.beforeEach(async ({ page }) => { complaints = await open(page, carve); });
test.afterEach(() => expect(complaints).toEqual([]));

const gpusOf = (picture) => Object.values(picture.nodes).flatMap((node) => node.gpus);
const slicesOf = (picture) => gpusOf(picture).flatMap((gpu) => gpu.slices ?? []);
/** The fleet moves while it is looked at, so both sides are read anew until they agree. */
const agree = (look) => expect(look).toPass({ timeout: 30_000, intervals: [100, 250, 500] });

test('price and counts', async ({ page }) => {
  await agree(async () => {
    const picture = await carve.picture();
    const perHour = Object.values(picture.nodes).reduce((sum, node) => sum + node.dollarsPerHour, 0);
    const shown = async (id) => page.locator(id).textContent();
    expect(await shown('#per-hour')).toBe(dollars(perHour));
    expect(await shown('#per-month')).toBe(`${dollars(perHour * 720)} a month`);
    expect(await shown('#count-nodes')).toBe(String(Object.keys(picture.nodes).length));
    expect(await shown('#count-gpus')).toBe(String(gpusOf(picture).length));
    expect(await shown('#count-slices')).toBe(String(slicesOf(picture).length));
    expect(await shown('#count-waiting')).toBe(String(Object.keys(picture.waiting).length));
  });
});

test('the money line is the sum that the server tells', async ({ page }) => {
  await page.waitForFunction(() => window.carve.state.summary);
  const told = await followed(carve, 'summary');
  try {
    await agree(async () => {
      const shown = (await page.locator('.split-legend dd').allTextContents()).join(' | ');
      const possible = told.map(({ money }) => ['used', 'heldIdle', 'idle', 'withheld'].map((kind) => `${dollars(money[kind])}/h ${percent(money[kind] / money.perHour)}`).join(' | '));
      expect(possible).toContain(shown);
    });
  } finally {
    told.stop();
  }
});

test('the sums the page makes for the past are made as the server makes them', async ({ page }) => {
  await page.waitForFunction(() => window.carve.state.summary);
  const both = await page.evaluate(() => new Promise((resolve) => {
    const { state } = window.carve;
    state.on('numbers', () => resolve([state.summary, JSON.parse(JSON.stringify(state.fleet.total))]));
  }));
  const [{ money, slices, gpus, nodes }, total] = both;
  for (const kind of ['perHour', 'used', 'heldIdle', 'idle', 'withheld']) expect(total[kind], kind).toBeCloseTo(money[kind], 3);
  expect([total.slices, total.gpus, total.nodes]).toEqual([slices, gpus, nodes]);
});

test('who waits, for what, and why', async ({ page }) => {
  await agree(async () => {
    const { waiting } = await carve.picture();
    expect(Object.keys(waiting).length).toBeGreaterThan(0);
    expect(await page.locator('#waiting-list li').count()).toBe(Object.keys(waiting).length);
    for (const [pod, { asks, why }] of Object.entries(waiting)) {
      const item = page.locator('#waiting-list li', { hasText: pod });
      expect(await item.locator('.why').textContent()).toBe(`${asks}. ${why}`);
    }
  });
});

test('what is happening, newest first', async ({ page }) => {
  await agree(async () => {
    const { happenings } = await carve.picture();
    const wanted = [...happenings].sort((a, b) => b.number - a.number).slice(0, 120).map((one) => `${one.reason} ${one.words} ${one.about ?? ''}`.trim());
    expect(wanted.length).toBeGreaterThan(5);
    expect((await page.locator('#happening-list li .grow').allTextContents()).map((text) => text.trim())).toEqual(wanted);
    expect(await page.locator('#happening-list li.warning').count()).toBe(happenings.slice(-120).filter((one) => one.tone === 'warning').length);
  });
});

for (const by of ['namespace', 'workload', 'node', 'mechanism']) {
  test(`cost by ${by}`, async ({ page }) => {
    await tab(page, 'Cost');
    await page.getByRole('combobox', { name: 'over the last' }).selectOption('1h');
    const answered = page.waitForResponse((response) => response.url().includes(`since=24h&by=${by}`));
    if (by === 'namespace') await page.getByRole('combobox', { name: 'By', exact: true }).selectOption('node');
    await page.getByRole('combobox', { name: 'By', exact: true }).selectOption(by);
    await page.getByRole('combobox', { name: 'over the last' }).selectOption('24h');
    const { rows, total } = await (await answered).json();
    expect(rows.map((row) => row.name).sort()).toEqual((await carve.get(`cost?since=24h&by=${by}`)).rows.map((row) => row.name).sort());
    const columns = ['allocated', 'used', 'idleHeld', 'idle', 'overhead'];
    const wanted = rows.sort((a, b) => b.allocated - a.allocated).map((row) => [row.name ?? 'nobody', ...columns.map((name) => dollars(row[name]))]);
    const read = (part) => page.locator(`#cost-table ${part} tr`).evaluateAll((all) => all.map((row) => [...row.children].map((cell) => cell.textContent)));
    await expect.poll(() => read('tbody')).toEqual(wanted);
    expect(await read('thead')).toEqual([[by, 'Held', 'Used', 'Held idle', 'Idle', 'Withheld']]);
    expect(await read('tfoot')).toEqual([['All', ...columns.map((name) => dollars(total[name]))]]);
    await expect(page.locator('#cost-count')).toHaveText(dollars(total.total));
  });
}

test('advice with its saving, evidence, risk and files', async ({ page }) => {
  // The demo's jobs come and go; there is advice while there is room to save.
  await expect.poll(async () => (await carve.get('advice')).items.length, { timeout: 90_000, intervals: [2000] }).toBeGreaterThan(0);
  await page.goto('about:blank');
  const answered = page.waitForResponse((response) => response.url().endsWith('/advice')).then((response) => response.json());
  await page.goto(carve.url);
  const { items, at } = await answered;
  await expect(page.locator('#advice-list > li')).toHaveCount(items.length);
  await expect(page.locator('#advice-at')).toHaveText(`as of ${clock(at)}`);
  await expect(page.locator('#advice-count')).toHaveText(`saves ${dollars(items.reduce((sum, one) => sum + (one.saves ?? 0), 0))} a month`);
  for (const one of items) {
    const item = page.locator('#advice-list > li', { hasText: one.title });
    await item.locator('summary').click();
    await expect(item.locator('summary')).toContainText(dollars(one.saves));
    await expect(item.locator('.evidence li')).toHaveText(one.evidence);
    if (one.risk) await expect(item).toContainText(one.risk);
    for (const file of one.files) await expect(item.getByRole('group', { name: file.name, exact: true })).toHaveText(file.text);
  }
});

test('workloads with their numbers', async ({ page }) => {
  await tab(page, 'Change');
  await agree(async () => {
    const { items } = await carve.get('workloads');
    const wanted = items.map((one) => [`${one.namespace}/${one.name}`, one.replicas === null ? [] : [String(one.replicas)],
      `${one.kind}, ${one.running} running${one.waiting ? `, ${one.waiting} waiting` : ''}${one.asks ? `, each ${one.asks}` : ''}`]);
    const shown = await page.locator('#workloads > li').evaluateAll((all) => all.map((row) => [row.querySelector('.name').textContent, [...row.querySelectorAll('input')].map((one) => one.value), row.lastElementChild.textContent]));
    expect(shown).toEqual(wanted);
    expect(await page.locator('#change-count').textContent()).toBe(`${items.length} workloads`);
  });
});

test('what a node offers', async ({ page }) => {
  await tab(page, 'Change');
  const { resources, migConfigs, labels } = await carve.get('node?name=p4d-1');
  // A node without the label has no layout: it is whole, or cut on demand.
  const none = labels?.['nvidia.com/mig.config'] ? [] : ['no layout is set'];
  await expect(page.getByRole('combobox', { name: 'Node', exact: true })).toHaveValue('p4d-1');
  await expect(page.getByRole('combobox', { name: 'Layout' }).locator('option')).toHaveText([...none, ...migConfigs]);
  const lines = page.locator('#node-resources li');
  await expect(lines).toHaveCount(Object.keys(resources).length);
  for (const [name, { all }] of Object.entries(resources)) await expect(lines.filter({ hasText: name })).toContainText(`of ${all} used`);
  await expect(page.locator('#node-resources')).not.toContainText('undefined');
});

test('layouts are those of the node that is chosen, however late another answer comes', async ({ page }) => {
  const node = page.getByRole('combobox', { name: 'Node', exact: true });
  const layout = page.getByRole('combobox', { name: 'Layout' });
  const cut = page.getByRole('button', { name: 'Cut' });
  const { migConfigs } = await carve.get('node?name=p4d-1');
  let late;
  await page.route(/node\?name=g5-1$/, async (route) => {
    await new Promise((resolve) => { late = resolve; });
    await route.continue();
  });
  await tab(page, 'Change');
  await node.selectOption('g5-1');
  await expect.poll(() => late !== undefined).toBe(true);
  // Nobody knows yet what this one can be cut into, least of all what the other one can.
  await expect(layout).toBeDisabled();
  await expect(cut).toBeDisabled();
  await node.selectOption('p4d-1');
  await layout.selectOption(migConfigs.at(-1));
  const answered = page.waitForResponse(/node\?name=g5-1$/);
  late();
  await (await answered).finished();
  // Two looks at what the node offers later, the choice is still there.
  for (let looks = 0; looks < 2; looks++) await page.waitForResponse(/node\?name=p4d-1$/);
  await expect(layout).toHaveValue(migConfigs.at(-1));
  await expect(cut).toBeEnabled();
});

test('layouts are asked for until they are known', async ({ page }) => {
  const { migConfigs } = await carve.get('node?name=p4d-1');
  let asked = 0;
  await page.route(/node\?name=p4d-1$/, async (route) => {
    // The GPUs of a node that has just come may be seen after its name.
    if (++asked > 2) return route.continue();
    const response = await route.fetch();
    return route.fulfill({ response, json: { ...await response.json(), migConfigs: [] } });
  });
  await page.reload();
  await tab(page, 'Change');
  await expect(page.getByRole('combobox', { name: 'Layout' }).locator('option')).toContainText(migConfigs);
  await expect(page.getByRole('combobox', { name: 'Layout' })).toBeEnabled();
  expect(asked).toBeGreaterThan(2);
});

test('the table has a row for each slice and each free GPU', async ({ page }) => {
  await page.keyboard.press('t');
  await agree(async () => {
    const picture = await carve.picture();
    const wanted = Object.entries(picture.nodes).flatMap(([name, node]) => node.gpus.flatMap((gpu) =>
      (gpu.slices?.length ? gpu.slices : [{ pod: 'nobody', workload: '' }]).map((slice) => [name, String(gpu.index), slice.pod, slice.workload].join(' '))));
    expect(await page.locator('.fleet-table').getAttribute('aria-rowcount')).toBe(String(wanted.length + 1));
    const shown = new Set();
    for (let top = 0; top < wanted.length * 30; top += 300) {
      await page.locator('#table-holder').evaluate((holder, to) => { holder.scrollTop = to; }, top);
      for (const row of await page.locator('.fleet-table tbody tr:not(.spacer)').evaluateAll((all) => all.map((one) => [0, 1, 4, 5].map((i) => one.children[i].textContent).join(' ')))) shown.add(row);
    }
    expect([...shown].sort()).toEqual(wanted.sort());
  });
});

test('the picture says in words what it shows', async ({ page }) => {
  await agree(async () => {
    const picture = await carve.picture();
    const label = await page.getByRole('img', { name: /nodes,.*GPUs/ }).getAttribute('aria-label');
    expect(label).toContain(`${Object.keys(picture.nodes).length} nodes, ${gpusOf(picture).length} GPUs, ${slicesOf(picture).length} slices`);
    expect(label).toContain(`${Object.keys(picture.waiting).length} waiting`);
  });
});

/** The last things of a kind that the stream has told, as it tells them. */
async function followed(server, field) {
  const told = [];
  const stop = new AbortController();
  const { version } = await server.get('picture');
  const { body } = await server.fetch(`stream?since=${version}`, { signal: stop.signal });
  (async () => {
    let text = '';
    for await (const piece of body.pipeThrough(new TextDecoderStream())) {
      text += piece;
      const events = text.split('\n\n');
      text = events.pop();
      for (const event of events) {
        const data = event.split('\n').find((line) => line.startsWith('data: '));
        const said = data && JSON.parse(data.slice(6))[field];
        if (said) told.push(said);
      }
      told.splice(0, told.length - 20);
    }
  })().catch(() => {});
  told.stop = () => stop.abort();
  return told;
}
