// Two stories, told only with what is seen: cutting A100s into 56 instances, and a saving of three machines out of four. With SHOTS each step is kept
// as a picture in that folder; docs/operations/up.md shows them.
import { join } from 'node:path';
import { expect, test } from '@playwright/test';
import { Carve, deployment } from './carve.mjs';
import { open } from './page.mjs';

/** The time that a reader would have needed, without starting carve and the browser. */
async function story(page, name, steps) {
  const from = performance.now();
  await steps();
  const seconds = (performance.now() - from) / 1000;
  console.log(`      ${name}: ${seconds.toFixed(1)} s`);
  expect(seconds).toBeLessThan(60);
}

/** Keeps what is seen after a step. */
const kept = async (page, name) => {
  if (process.env.SHOTS) await page.screenshot({ path: join(process.env.SHOTS, `walkthrough-${name}.jpg`), type: 'jpeg', quality: 55 });
};

const apply = async (page, yaml) => {
  await page.getByLabel('YAML').fill(yaml);
  await page.getByRole('button', { name: 'Apply' }).click();
};
const counted = (page, word) => page.getByLabel('How many', { exact: true }).getByText(word, { exact: true }).locator('xpath=..').getByRole('definition');

test('MIG: 56 instances, 100 pods, another layout', async ({ page }) => {
  const carve = await Carve.up('--fleet', 'p4d.24xlarge=1', '--empty', '--allow-changes');
  try {
    const complaints = await open(page, carve);
    await story(page, 'MIG walk-through', async () => {
      await page.getByRole('tab', { name: 'Change' }).click();
      const panel = page.getByRole('tabpanel', { name: 'Change' });
      const layout = async (config) => {
        await page.getByRole('combobox', { name: 'Node', exact: true }).selectOption('p4d-1');
        await page.getByRole('combobox', { name: 'Layout' }).selectOption(config);
        await page.getByRole('button', { name: 'Cut' }).click();
        await expect(panel.getByText('node/p4d-1 labelled')).toBeVisible();
      };
      await layout('all-1g.5gb');
      const offered = (resource) => panel.getByRole('listitem').filter({ hasText: resource });
      await expect(offered('nvidia.com/mig-1g.5gb')).toHaveText(/mig-1g\.5gb.*\b56\b/);
      await kept(page, 'mig-1-cut');

      await apply(page, deployment('mig1.5', { replicas: 1, limits: { 'nvidia.com/mig-1g.5gb': 1 }, container: 'vectoradd' }));
      await expect(panel.getByText('deployment.apps/mig1.5 created')).toBeVisible();
      await expect(panel.getByText('Deployment, 1 running, each 1 × mig-1g.5gb')).toBeVisible();
      await expect(counted(page, 'slices')).toHaveText('1');

      const many = page.getByRole('spinbutton', { name: 'How many mig1.5' });
      await many.fill('100');
      await many.press('Enter');
      await expect(panel.getByText('Deployment, 56 running, 44 waiting, each 1 × mig-1g.5gb')).toBeVisible();
      await expect(counted(page, 'slices')).toHaveText('56');
      await expect(counted(page, 'waiting')).toHaveText('44');
      await page.getByRole('tab', { name: 'Now' }).click();
      const waiting = page.getByRole('region', { name: 'Waiting' });
      await expect(waiting.getByText('Insufficient nvidia.com/mig-1g.5gb').first()).toBeVisible();
      await expect(waiting.getByRole('listitem').filter({ hasText: 'Insufficient nvidia.com/mig-1g.5gb' })).toHaveCount(44);
      await kept(page, 'mig-2-waiting');

      await page.getByRole('tab', { name: 'Change' }).click();
      await many.fill('0');
      await many.press('Enter');
      await expect(panel.getByText('Deployment, 0 running, each 1 × mig-1g.5gb')).toBeVisible();
      await layout('all-balanced');
      await expect(offered('nvidia.com/mig-1g.5gb')).toHaveText(/\b16\b/);
      await expect(offered('nvidia.com/mig-2g.10gb')).toHaveText(/mig-2g\.10gb.*\b8\b/);
      await expect(offered('nvidia.com/mig-3g.20gb')).toHaveText(/mig-3g\.20gb.*\b8\b/);
      await kept(page, 'mig-3-other-layout');
    });
    expect(complaints).toEqual([]);
  } finally {
    await carve.stop();
  }
});

test('a saving: four quarters share one GPU, and one machine is enough', async ({ page }) => {
  const carve = await Carve.up('--fleet', 'g4dn.2xlarge=4', '--empty', '--allow-changes');
  try {
    const complaints = await open(page, carve);
    await story(page, 'a saving', async () => {
      await page.getByRole('tab', { name: 'Change' }).click();
      const panel = page.getByRole('tabpanel', { name: 'Change' });
      await apply(page, deployment('inference', { replicas: 4, annotations: { 'gpu-fraction': '0.25' } }));
      await expect(panel.getByText(/^Deployment, 4 running/)).toBeVisible();
      await expect(counted(page, 'slices')).toHaveText('4');
      await page.getByRole('button', { name: 'Table' }).click();
      const table = page.getByRole('region', { name: 'Fleet as a table' });
      const taken = table.getByRole('row').filter({ hasText: 'Deployment/inference' });
      await expect(taken).toHaveCount(4);
      await expect(table.getByRole('row').filter({ hasText: 'nobody' })).toHaveCount(3);
      const nodes = new Set(await taken.getByRole('rowheader').allTextContents());
      expect(nodes.size).toBe(1);
      await kept(page, 'saving-1-one-gpu');

      await page.getByRole('tab', { name: 'What if' }).click();
      await page.getByRole('textbox', { name: 'Fleet' }).fill('g4dn.2xlarge=1');
      await page.getByRole('button', { name: 'Show' }).click();
      const now = page.getByRole('region', { name: 'Now', exact: true });
      const then = page.getByRole('region', { name: 'Then', exact: true });
      // 4 × $0.752 × 720 h = $2,165.76, which the page writes without cents; 1 × $0.752 × 720 h = $541.44.
      await expect(now.getByText('$2,166 a month')).toBeVisible();
      await expect(then.getByText('$541.44 a month')).toBeVisible();
      await expect(page.getByText('Saves $1,624 a month.')).toBeVisible();
      await expect(then.getByText('nobody waits')).toBeVisible();
      await expect(then.getByRole('img', { name: '1 node, 1 GPU, 4 slices' })).toBeVisible();
      await expect(page.getByRole('region', { name: 'Price of the fleet' }).getByText('$2,166 a month')).toBeVisible();
      await kept(page, 'saving-2-what-if');
    });
    expect(complaints).toEqual([]);
  } finally {
    await carve.stop();
  }
});
