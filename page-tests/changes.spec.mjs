// What is changed in the page is seen there within a second of the click, and what is refused is said and changes nothing.
import { expect, test } from '@playwright/test';
import { Carve, deployment } from './carve.mjs';
import { markOf, markWarning, open, refused, tab, tell, untilSeen } from './page.mjs';

let carve;
let complaints;
test.beforeAll(async () => { carve = await Carve.up('--fleet', 'p4d.24xlarge=1,g5.2xlarge=4', '--empty', '--allow-changes'); });
test.afterAll(() => carve.stop());
test.beforeEach(async ({ page }) => {
  complaints = await open(page, carve, [refused(400, 'Bad Request'), refused(422, 'Unprocessable Entity'), markWarning]);
  await tab(page, 'Change');
});
test.afterEach(() => expect(complaints).toEqual([]));

const within = (what, took) => {
  tell(what, took);
  expect(took, what).toBeLessThanOrEqual(1000);
};
const slices = (n) => document.getElementById('count-slices').textContent === String(n);
const workloads = async () => (await carve.get('workloads')).items.map((one) => `${one.kind}/${one.name} ${one.replicas}`);

test('apply, scale up, scale down, delete', async ({ page }) => {
  await page.getByLabel('YAML').fill(deployment('web', { replicas: 1, limits: { 'nvidia.com/gpu': 1 } }));
  within('apply, until its slice is counted', await untilSeen(page, page.getByRole('button', { name: 'Apply' }), slices, 1));
  await expect(page.locator('#change-note')).toHaveText('deployment.apps/web created');
  await expect(page.getByRole('spinbutton', { name: 'How many web' })).toHaveValue('1');

  // Free GPUs do not move by themselves; the one that gets the slice is drawn otherwise then.
  const free = await page.evaluate(`window.carve.fleet.arranged.tiles.map((tile, i) => tile.gpu.slices?.length ? null : (${markOf})(i))`);
  const drawn = `(free) => document.getElementById('count-slices').textContent === '2' && window.carve.fleet.arranged.tiles.some((tile, i) => tile.gpu.slices?.length && free[i] !== null && free[i] !== (${markOf})(i))`;
  within('scale up, until it is drawn and counted', await untilSeen(page, page.getByRole('button', { name: 'One web more' }), drawn, free));
  await expect(page.getByRole('spinbutton', { name: 'How many web' })).toHaveValue('2');
  expect(await workloads()).toEqual(['Deployment/web 2']);

  within('scale down, until it is counted', await untilSeen(page, page.getByRole('button', { name: 'One web less' }), slices, 1));
  await expect(page.getByRole('spinbutton', { name: 'How many web' })).toHaveValue('1');

  const number = page.getByRole('spinbutton', { name: 'How many web' });
  await number.fill('4');
  await number.press('Enter');
  await expect(page.locator('#count-slices')).toHaveText('4');
  await expect(number).toBeFocused();
  expect(await workloads()).toEqual(['Deployment/web 4']);

  await page.getByRole('button', { name: 'Delete web' }).click();
  await expect(page.getByRole('button', { name: 'Keep' })).toBeFocused();
  within('delete, until nothing is counted', await untilSeen(page, page.getByRole('button', { name: 'Yes, delete' }), slices, 0));
  await expect(page.locator('#workloads > li')).toHaveCount(0);
  expect(await workloads()).toEqual([]);
});

test('a number that is none is not sent', async ({ page }) => {
  await carve.apply(deployment('kept', { replicas: 1, limits: { 'nvidia.com/gpu': 1 } }));
  const number = page.getByRole('spinbutton', { name: 'How many kept' });
  await number.fill('');
  await number.press('Enter');
  await expect(number).toHaveValue('1');
  expect(await workloads()).toEqual(['Deployment/kept 1']);
  await carve.verb('delete', 'deployment', 'kept');
  await expect(number).toHaveCount(0);
});

test('another MIG layout: GPUs show that they are cut, then what they are cut into', async ({ page }) => {
  await page.getByRole('combobox', { name: 'Node', exact: true }).selectOption('p4d-1');
  await page.getByRole('combobox', { name: 'Layout' }).selectOption('all-1g.5gb');
  const place = await page.evaluate(() => window.carve.fleet.arranged.tiles.findIndex((tile) => tile.entry.name === 'p4d-1'));
  const before = await page.evaluate(`(${markOf})(${place})`);
  const cutting = `({ place, before }) => window.carve.fleet.arranged.tiles[place].gpu.state === 'cutting' && (${markOf})(place) !== before`;
  within('cut, until the GPU is drawn as being cut', await untilSeen(page, page.getByRole('button', { name: 'Cut' }), cutting, { place, before }));
  const from = performance.now();
  await expect.poll(() => page.evaluate(() => window.carve.state.fleet.nodes.get('p4d-1').tiles.map(({ gpu }) => `${gpu.state} ${gpu.instances?.length}`).join()), { timeout: 60_000 }).toBe(Array(8).fill('ok 7').join());
  tell('then, until all eight are cut (simulated work of the driver included)', performance.now() - from);
  const { picture } = await carve.get('picture');
  expect(picture.nodes['p4d-1'].gpus.flatMap((gpu) => gpu.instances.map((one) => one.profile))).toEqual(Array(56).fill('1g.5gb'));
  await expect(page.locator('#node-resources')).toContainText('nvidia.com/mig-1g.5gb');
  await expect(page.locator('#node-resources li', { hasText: 'nvidia.com/mig-1g.5gb' })).toContainText('56');
});

test('what if', async ({ page }) => {
  await tab(page, 'What if');
  await page.getByRole('textbox', { name: 'Fleet' }).fill('g5.2xlarge=1');
  within('what if, until now stands beside then', await untilSeen(page, page.getByRole('button', { name: 'Show' }), () => document.querySelectorAll('#whatif-result .side').length === 2));
  await expect(page.getByRole('region', { name: 'Then' })).toContainText('1 node, 1 GPU');
});

test('YAML that does not read is refused with a hint', async ({ page }) => {
  await refusedApply(page, 'hello', 'hello');
});

test('a label that can not be is refused with its field, and what came with it is not applied', async ({ page }) => {
  const good = deployment('good', { limits: { 'nvidia.com/gpu': 1 } });
  const said = await refusedApply(page, `${good}---\n${deployment('bad', { labels: { team: 'no good!' }, limits: { 'nvidia.com/gpu': 1 } })}`);
  expect(said.field).toBe('metadata.labels.team');
});

test('a field that is wrong is refused with its field, and what came with it is not applied', async ({ page }) => {
  const good = deployment('good', { limits: { 'nvidia.com/gpu': 1 } });
  const said = await refusedApply(page, `${good}---\n${deployment('bad').replace('replicas: 1', 'replicas: -1')}`);
  expect(said.field).toBe('spec.replicas');
});

test('a layout that can not be written is refused with its field', async ({ page }) => {
  await page.getByRole('combobox', { name: 'Node', exact: true }).selectOption('p4d-1');
  // Choosing a node takes the layouts away until that node's are known.
  await expect(page.getByRole('combobox', { name: 'Layout' })).toBeEnabled();
  // The page offers only what can be; a page that was changed, or an older one, may send anything.
  await page.locator('#mig-config').evaluate((select) => { select.add(new Option('no good!', 'no good!')); select.value = 'no good!'; });
  const before = (await carve.get('node?name=p4d-1')).labels;
  await page.getByRole('button', { name: 'Cut' }).click();
  await expect(page.locator('#change-note')).toContainText('In metadata.labels.nvidia.com/mig.config.');
  expect((await carve.get('node?name=p4d-1')).labels).toEqual(before);
});

test('a machine that nobody knows is refused with field and hint', async ({ page }) => {
  await tab(page, 'What if');
  await page.getByRole('textbox', { name: 'Fleet' }).fill('nonsense.9xlarge=1');
  await page.getByRole('button', { name: 'Show' }).click();
  const note = page.getByRole('alert');
  await expect(note).toContainText('nonsense.9xlarge: no such machine');
  await expect(note).toContainText('In fleet.');
  await expect(note).toContainText('as in p4d.24xlarge=1,g5.2xlarge=4');
  await expect(page.locator('#whatif-result .side')).toHaveCount(0);
});

/** Applies what is refused: everything the server says about it is shown, and nothing is there that was not before. */
async function refusedApply(page, yaml) {
  const before = await workloads();
  await page.getByLabel('YAML').fill(yaml);
  const answered = page.waitForResponse((response) => response.url().endsWith('/apply'));
  await page.getByRole('button', { name: 'Apply' }).click();
  const response = await answered;
  expect(response.status()).toBeGreaterThanOrEqual(400);
  const said = await response.json();
  const note = page.locator('#change-note');
  await expect(note).toHaveClass('refusal');
  await expect(note).toContainText(said.message);
  expect(said.field ?? said.hint).toBeTruthy();
  if (said.field) await expect(note).toContainText(`In ${said.field}.`);
  if (said.hint) await expect(note).toContainText(said.hint);
  expect(await workloads()).toEqual(before);
  await expect(page.getByLabel('YAML')).toHaveValue(yaml);
  return said;
}
