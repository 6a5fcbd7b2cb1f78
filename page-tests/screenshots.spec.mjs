// Pictures of the demo in both themes, on a desk and on a phone, for people to look at: written to the folder in SHOTS.
import { expect, test } from '@playwright/test';
import { join } from 'node:path';
import { Carve } from './carve.mjs';
import { open, tab } from './page.mjs';

let carve;
test.beforeAll(async () => {
  carve = await Carve.up('--allow-changes');
  // Long enough for books, advice and a time line.
  if (process.env.SHOTS) await new Promise((resolve) => setTimeout(resolve, 40_000));
  await expect.poll(async () => (await carve.get('history')).looks.length, { timeout: 60_000 }).toBeGreaterThan(1);
});
test.afterAll(() => carve.stop());
test.describe.configure({ timeout: 180_000 });

const states = {
  'now': async () => {},
  'cost': async (page) => { await tab(page, 'Cost'); await page.locator('#cost-table tbody tr').first().waitFor(); },
  'change': async (page) => { await tab(page, 'Change'); await page.locator('#workloads li').first().waitFor(); },
  'what-if': async (page) => {
    await tab(page, 'What if');
    await page.getByRole('textbox', { name: 'Fleet' }).fill('p4d.24xlarge=1,g5.2xlarge=2');
    await page.getByRole('button', { name: 'Show' }).click();
    await page.getByRole('region', { name: 'Then' }).waitFor();
  },
  'card': async (page) => { await page.locator('#stage').focus(); await page.keyboard.press('End'); await page.keyboard.press('Enter'); await page.locator('#detail .close').waitFor(); },
};

for (const colorScheme of ['light', 'dark']) {
  for (const [width, height] of [[1440, 900], [390, 844]]) {
    test(`${colorScheme}, ${width} × ${height}`, async ({ page }) => {
      await page.emulateMedia({ colorScheme });
      await page.setViewportSize({ width, height });
      const complaints = await open(page, carve);
      await expect(page.locator('#advice-at')).toHaveText(/^as of/);
      for (const [name, act] of Object.entries(states)) {
        await act(page);
        await page.waitForTimeout(500);
        const beyond = await page.evaluate(() => [document.documentElement.scrollWidth - innerWidth, document.documentElement.scrollHeight - innerHeight]);
        expect(beyond[0], `${name} is not wider than the window`).toBeLessThanOrEqual(0);
        if (width > 1000) expect(beyond[1], `${name} fits into the window`).toBeLessThanOrEqual(0);
        if (process.env.SHOTS) await page.screenshot({ path: join(process.env.SHOTS, `${name}-${colorScheme}-${width}.png`), fullPage: width < 1000 });
      }
      expect(complaints).toEqual([]);
    });
  }
}
