// The fleet as it was, back to now, and a page that stays open while carve up is killed and started again.
import { expect, test } from '@playwright/test';
import { Carve, deployment } from './carve.mjs';
import { open, tab } from './page.mjs';

let carve;
test.beforeAll(async () => { carve = await Carve.up('--fleet', 'g5.2xlarge=4', '--empty', '--allow-changes'); });
test.afterAll(() => carve.stop());

const looks = async () => (await carve.get('history')).looks;
const slicesIn = (picture) => Object.values(picture.nodes).flatMap((node) => node.gpus).flatMap((gpu) => gpu.slices ?? []).length;

test('the past is shown and named, and left again', async ({ page }) => {
  await expect.poll(async () => (await looks()).length, { timeout: 60_000 }).toBeGreaterThan(0);
  const empty = (await looks()).at(-1);
  expect(empty.slices).toBe(0);
  await carve.apply(deployment('web', { replicas: 3, limits: { 'nvidia.com/gpu': 1 } }));
  await expect.poll(async () => (await looks()).at(-1).slices, { timeout: 60_000 }).toBe(3);
  await expect.poll(async () => (await looks()).at(-1).at - empty.at, { timeout: 60_000 }).toBeGreaterThan(29);
  const complaints = await open(page, carve);
  await expect(page.locator('#count-slices')).toHaveText('3');
  const slider = page.getByRole('slider', { name: 'Time shown' });
  await expect(slider).toBeEnabled();
  await expect(slider).toHaveAttribute('aria-valuetext', /^now, /);

  await slider.focus();
  await page.keyboard.press('Home');
  await expect(page.locator('#past-words')).toHaveText(/^as it was at \d\d:\d\d(:\d\d)?$/);
  const at = Number(await slider.inputValue());
  const { picture } = await carve.get(`picture?at=${at}`);
  expect(slicesIn(picture)).toBe(0);
  await expect(page.locator('#count-slices')).toHaveText('0');
  await expect(page.locator('#past')).toBeVisible();
  await expect(page.locator('#when-words')).toContainText('$0.00 of $4.85 an hour used');
  await expect(slider).toHaveAttribute('aria-valuetext', / ago, /);
  await page.getByRole('button', { name: 'Table' }).click();
  await expect(page.locator('.fleet-table tbody tr')).toHaveCount(4);
  await expect(page.locator('.fleet-table tbody')).not.toContainText('web');
  await page.getByRole('button', { name: 'Table' }).click();

  // What happens now is not mixed into what was.
  await carve.verb('scale', 'deployment/web', '--replicas', '4');
  await expect.poll(async () => slicesIn(await carve.picture())).toBe(4);
  await expect(page.locator('#count-slices')).toHaveText('0');
  await page.getByRole('button', { name: 'Back to now' }).click();
  await expect(page.locator('#past')).toBeHidden();
  await expect(page.locator('#count-slices')).toHaveText('4');

  // The whole line leads to something that was.
  const box = await slider.boundingBox();
  for (const part of [0.02, 0.3, 0.6]) {
    await page.mouse.click(box.x + box.width * part, box.y + box.height / 2);
    await expect(page.locator('#past')).toBeVisible();
    await expect.poll(() => page.evaluate(() => window.carve.state.past?.at)).toBe(Number(await slider.inputValue()));
  }
  await page.keyboard.press('n');
  await expect(page.locator('#past')).toBeHidden();
  expect(complaints).toEqual([]);
});

test('kill -9 and a new start: the page comes back by itself, and nothing acknowledged is lost', async ({ page }) => {
  // What Chromium itself writes when a server is gone.
  const gone = ['net::ERR_CONNECTION_REFUSED', 'net::ERR_INCOMPLETE_CHUNKED_ENCODING', 'net::ERR_CONNECTION_RESET', 'net::ERR_EMPTY_RESPONSE'].map((why) => `Failed to load resource: ${why}`);
  const complaints = await open(page, carve, gone);
  await page.evaluate(() => { window.notReloaded = true; });
  await tab(page, 'Change');
  await page.getByLabel('YAML').fill(deployment('told', { replicas: 2, annotations: { 'gpu-fraction': '0.25' } }));
  await page.getByRole('button', { name: 'Apply' }).click();
  await expect(page.locator('#change-note')).toHaveText('deployment.apps/told created');
  const acknowledged = [];
  for (let i = 0; i < 20; i++) {
    await carve.post('scale', { kind: 'Deployment', namespace: 'default', name: 'web', replicas: i % 3 + 1 });
    const response = await carve.fetch('apply', { method: 'POST', headers: { 'content-type': 'application/yaml' }, body: deployment(`burst-${i}`, { replicas: 0 }) });
    if (response.ok) acknowledged.push(`burst-${i}`);
  }
  await carve.kill();
  await expect(page.locator('#link-words')).toHaveText('reconnecting…', { timeout: 30_000 });
  await carve.start();
  await expect(page.locator('#link-words')).toHaveText('live', { timeout: 60_000 });
  const { items } = await carve.get('workloads');
  expect(acknowledged).toHaveLength(20);
  expect(items.map((one) => one.name).sort()).toEqual([...acknowledged, 'told', 'web'].sort());
  expect(items.find((one) => one.name === 'web').replicas).toBe(19 % 3 + 1);
  expect(items.find((one) => one.name === 'told').replicas).toBe(2);
  await expect(page.locator('#workloads > li')).toHaveCount(22);
  await expect.poll(async () => [await page.locator('#count-slices').textContent(), String(slicesIn(await carve.picture()))]).toEqual(['4', '4']);

  // It is live indeed: what is changed now is seen, and the line leads only to what the new server knows.
  await carve.verb('scale', 'deployment/web', '--replicas', '1');
  await expect(page.locator('#count-slices')).toHaveText('3');
  await expect.poll(() => page.locator('#when').isEnabled(), { timeout: 60_000 }).toBe(true);
  await page.waitForTimeout(11_000);
  await page.getByRole('slider', { name: 'Time shown' }).focus();
  await page.keyboard.press('Home');
  await expect(page.locator('#past')).toBeVisible();
  await page.keyboard.press('n');
  await expect(page.locator('#past')).toBeHidden();
  expect(await page.evaluate(() => window.notReloaded)).toBe(true);
  expect(complaints).toEqual([]);
});
