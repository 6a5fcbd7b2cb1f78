// Everybody can use the page: by keyboard alone, by axe's rules, without the right to change, and with a token.
import AxeBuilder from '@axe-core/playwright';
import { expect, test } from '@playwright/test';
import { Carve } from './carve.mjs';
import { open, refused, tab, visit } from './page.mjs';

test.describe('with changes allowed', () => {
  let carve;
  test.beforeAll(async () => {
    carve = await Carve.up('--allow-changes');
    await expect.poll(async () => Object.values((await carve.picture()).nodes).flatMap((node) => node.gpus).flatMap((gpu) => gpu.slices ?? []).length, { timeout: 60_000 }).toBeGreaterThan(15);
    await expect.poll(async () => (await carve.get('history')).looks.length, { timeout: 60_000 }).toBeGreaterThan(2);
  });
  test.afterAll(() => carve.stop());

  test('keys alone: fleet, card, search, table, tabs, time, help', async ({ page }) => {
    const complaints = await open(page, carve);
    const press = (...keys) => keys.reduce((before, key) => before.then(() => page.keyboard.press(key)), Promise.resolve());
    await expect(page.getByRole('slider')).toBeEnabled();
    await press('Tab');
    await expect(page.getByRole('link', { name: 'Skip to the fleet' })).toBeFocused();
    await press('Enter', 'Tab');
    await page.locator('#stage').focus();
    await press('ArrowRight', 'Home');
    await expect(page.locator('#detail')).toContainText('g5-1 · GPU 0');
    await press('End');
    await expect(page.locator('#detail')).toContainText('p4d-1 · GPU 7');
    await press('Shift+ArrowRight');
    await expect(page.locator('#detail .pointed')).toHaveCount(1);
    await press('Enter');
    await expect(page.getByRole('button', { name: 'Close' })).toBeFocused();
    await press('Escape');
    await expect(page.locator('#stage')).toBeFocused();
    await press('/');
    await expect(page.getByRole('searchbox')).toBeFocused();
    await page.keyboard.type('mechanism:mig');
    await expect(page.locator('#found')).toHaveText(/^[1-8] of 12 GPUs$/);
    await press('Escape');
    await expect(page.locator('#found')).toHaveText('');
    await press('t');
    await expect(page.getByRole('region', { name: 'Fleet as a table' })).toBeFocused();
    await press('t');
    await expect(page.locator('#stage')).toBeFocused();
    await press('?');
    await expect(page.getByRole('dialog', { name: 'Keys' })).toBeVisible();
    await press('Escape');
    await page.getByRole('tab', { name: 'Now' }).focus();
    for (const name of ['Cost', 'What if', 'Change', 'Now']) {
      await press('ArrowRight');
      await expect(page.getByRole('tab', { name })).toBeFocused();
      await expect(page.getByRole('tabpanel', { name })).toBeVisible();
    }
    await page.getByRole('slider').focus();
    await press('Home');
    await expect(page.locator('#past')).toBeVisible();
    await press('End');
    await expect(page.locator('#past')).toBeHidden();
    expect(complaints).toEqual([]);
  });

  test('keys alone: a workload is scaled, and a fleet compared', async ({ page }) => {
    const complaints = await open(page, carve);
    await page.getByRole('tab', { name: 'Now' }).focus();
    await page.keyboard.press('End');
    await expect(page.getByRole('tabpanel', { name: 'Change' })).toBeVisible();
    const more = page.getByRole('button', { name: 'One notebook more' });
    await expect(more).toBeVisible();
    for (let i = 0; i < 60 && !(await more.evaluate((one) => one === document.activeElement)); i++) await page.keyboard.press('Tab');
    await page.keyboard.press('Enter');
    await expect(page.getByRole('spinbutton', { name: 'How many notebook' })).toHaveValue('4');
    await expect(more).toBeFocused();
    await page.keyboard.press('Shift+Tab');
    await page.keyboard.press('Shift+Tab');
    await page.keyboard.press('Space');
    await expect(page.getByRole('spinbutton', { name: 'How many notebook' })).toHaveValue('3');
    await page.getByRole('tab', { name: 'Change' }).focus();
    await page.keyboard.press('ArrowLeft');
    const fleet = page.getByRole('textbox', { name: 'Fleet' });
    for (let i = 0; i < 10 && !(await fleet.evaluate((one) => one === document.activeElement)); i++) await page.keyboard.press('Tab');
    await page.keyboard.press('Control+a');
    await page.keyboard.type('p4d.24xlarge=1');
    await page.keyboard.press('Enter');
    await expect(page.getByRole('region', { name: 'Then' })).toContainText('1 node, 8 GPUs');
    expect(complaints).toEqual([]);
  });

  test('Tab goes through everything and is never trapped', async ({ page }) => {
    const complaints = await open(page, carve);
    for (const name of ['Now', 'Cost', 'What if', 'Change']) {
      await tab(page, name);
      await page.locator('.skip').focus();
      const seen = [];
      for (let i = 0; i < 200; i++) {
        await page.keyboard.press('Tab');
        const at = await page.evaluate(() => (document.activeElement === document.body ? 'body' : document.activeElement.id || document.activeElement.className));
        if (at === 'body' || at === 'skip') break;
        seen.push(at);
      }
      expect(seen.length, name).toBeLessThan(200);
      for (const id of ['keys', 'theme', 'search', 'sort', 'zoom-fit', 'view-toggle', 'stage', 'when']) expect(seen, name).toContain(id);
    }
    expect(complaints).toEqual([]);
  });

  const states = {
    // The demo's jobs come and go, and advice with them: it is opened where there is some.
    now: (page) => page.locator('#advice-list summary').first().click({ timeout: 2000 }).catch(() => {}),
    cost: async (page) => { await tab(page, 'Cost'); await page.locator('#cost-table tbody tr').first().waitFor(); },
    'what if': async (page) => { await tab(page, 'What if'); await page.getByRole('button', { name: 'Show' }).click(); await page.locator('.side').first().waitFor(); },
    change: async (page) => { await tab(page, 'Change'); await page.locator('#workloads li').first().waitFor(); await page.locator('#example').selectOption('1'); },
    table: async (page) => { await page.keyboard.press('t'); await page.locator('.fleet-table tbody tr').first().waitFor(); },
    card: async (page) => { await page.locator('#stage').focus(); await page.keyboard.press('End'); await page.keyboard.press('Enter'); await page.locator('#detail .close').waitFor(); },
    past: async (page) => { await page.getByRole('slider').focus(); await page.keyboard.press('Home'); await page.locator('#past').waitFor(); },
  };
  for (const colorScheme of ['dark', 'light']) {
    for (const [name, act] of Object.entries(states)) {
      test(`axe: ${name}, ${colorScheme}`, async ({ page }) => {
        await page.emulateMedia({ colorScheme });
        const complaints = await open(page, carve);
        await expect(page.locator('html')).toHaveAttribute('data-theme', colorScheme);
        await expect(page.locator('#advice-at')).toHaveText(/^as of/);
        await expect(page.getByRole('slider')).toBeEnabled();
        await act(page);
        const { violations } = await new AxeBuilder({ page }).analyze();
        for (const one of violations) console.log(`      ${one.impact} ${one.id}: ${one.nodes.map((node) => node.target.join(' ')).slice(0, 4).join(', ')}`);
        expect(violations.filter((one) => ['serious', 'critical'].includes(one.impact)).map((one) => one.id)).toEqual([]);
        expect(complaints).toEqual([]);
      });
    }
  }
});

test('without --allow-changes it only shows, and the server refuses', async ({ page }) => {
  const carve = await Carve.up('--fleet', 'g5.2xlarge=1', '--empty');
  try {
    const complaints = await open(page, carve);
    await expect(page.locator('#who')).toContainText('read-only');
    await expect(page.getByRole('tab', { name: 'Change' })).toBeHidden();
    await page.goto(`${carve.url}#tab=change`);
    await page.reload();
    await expect(page.locator('#who')).toContainText('read-only');
    await expect(page.getByRole('tabpanel', { name: 'Now' })).toBeVisible();
    const refusal = await carve.fetch('scale', { method: 'POST', headers: { 'content-type': 'application/json' }, body: '{"kind":"Deployment","namespace":"default","name":"x","replicas":1}' });
    expect(refusal.status).toBe(403);
    expect((await refusal.json()).hint).toContain('--allow-changes');
    await tab(page, 'What if');
    await page.getByRole('button', { name: 'Show' }).click();
    await expect(page.getByRole('region', { name: 'Then' })).toBeVisible();
    expect(complaints).toEqual([]);
  } finally {
    await carve.stop();
  }
});

test('with a token: asked for, refused when wrong, kept for the tab', async ({ page }) => {
  const carve = new Carve();
  await carve.prepare('--fleet', 'g5.2xlarge=2', '--empty');
  const token = 'a-token-of-many-letters';
  carve.flags.push('--token-file', await carve.write('token', `${token}\n`));
  await carve.start('0.0.0.0:0');
  try {
    const address = new URL(carve.url);
    address.hostname = '127.0.0.1';
    carve.url = address.href;
    expect((await carve.fetch('picture')).status).toBe(401);
    const complaints = await visit(page, carve, [refused(401, 'Unauthorized')]);
    const dialog = page.getByRole('dialog', { name: 'This page wants a token' });
    await expect(dialog).toBeVisible();
    await page.keyboard.press('Escape');
    await expect(dialog).toBeVisible();
    await dialog.getByLabel('Token').fill('wrong');
    await page.keyboard.press('Enter');
    await expect(dialog).toContainText('That token was not accepted.');
    await dialog.getByLabel('Token').fill(token);
    await dialog.getByRole('button', { name: 'Continue' }).click();
    await expect(dialog).toBeHidden();
    await expect(page.locator('#link-words')).toHaveText('live');
    await expect(page.locator('#count-gpus')).toHaveText('2');
    await page.reload();
    await expect(page.locator('#link-words')).toHaveText('live');
    expect(page.url()).not.toContain(token);
    expect(await page.evaluate(() => JSON.stringify(localStorage))).not.toContain(token);
    expect(complaints).toEqual([]);
  } finally {
    await carve.stop();
  }
});

test('an address that others reach needs a token', async () => {
  const carve = new Carve();
  await carve.prepare('--fleet', 'g5.2xlarge=1', '--empty');
  await expect(carve.start('0.0.0.0:0')).rejects.toThrow(/token/);
  await carve.stop();
});
