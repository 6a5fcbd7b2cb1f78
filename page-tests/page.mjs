// Opens the page, watches that it never complains nor asks anybody else, and measures inside it.
import { expect } from '@playwright/test';
import { join } from 'node:path';

/** Collects console errors and warnings, exceptions, and requests to elsewhere. `allowed` holds exact texts, or patterns of whole texts. */
export function watch(page, url, allowed = []) {
  const complaints = [];
  const may = (text) => allowed.some((one) => (one instanceof RegExp ? one.test(text) : one === text));
  const note = (text) => may(text) || complaints.push(text);
  page.on('console', (message) => ['error', 'warning'].includes(message.type()) && note(message.text()));
  page.on('pageerror', (error) => note(error.stack));
  page.on('request', (request) => {
    if (new URL(request.url()).origin !== new URL(url).origin && !/^(blob|data):/.test(request.url())) note(`went to ${request.url()}`);
  });
  return complaints;
}

/** What Chromium itself writes when the server refuses something. */
export const refused = (status, name) => `Failed to load resource: the server responded with a status of ${status} (${name})`;

/** Files of the page that are being worked on: PAGE names their folder, and the program's own are not asked then. */
async function ownFiles(page, url) {
  if (!process.env.PAGE) return;
  await page.route((asked) => asked.origin === new URL(url).origin && !asked.pathname.startsWith('/api/'), async (route) => {
    const { pathname } = new URL(route.request().url());
    // Under the policy that the program sends.
    const { 'content-type': type, 'content-security-policy': policy } = (await route.fetch()).headers();
    return route.fulfill({ headers: { 'content-type': type, 'content-security-policy': policy }, path: join(process.env.PAGE, pathname === '/' ? 'index.html' : pathname) });
  });
}

export async function visit(page, carve, allowed) {
  const complaints = watch(page, carve.url, allowed);
  await ownFiles(page, carve.url);
  await page.goto(carve.url);
  return complaints;
}

/** Opens the page and waits until it is live. */
export async function open(page, carve, allowed) {
  const complaints = await visit(page, carve, allowed);
  await expect(page.locator('#link-words')).toHaveText('live');
  return complaints;
}

export async function tab(page, name) {
  await page.getByRole('tab', { name, exact: true }).click();
}

/**
 * Clicks a button inside the page and gives the milliseconds until `seen(argument)`, which runs there, is true.
 * Both are taken from the page's own clock, so that the way between this program and the browser does not count.
 */
export async function untilSeen(page, button, seen, argument, patience = 20_000) {
  const element = await button.elementHandle();
  // Made here, because the page's own policy forbids to make functions there.
  const work = new Function('given', `return (async ({ element, argument, patience }) => {
    const seen = ${seen};
    const from = performance.now();
    element.click();
    while (performance.now() - from < patience) {
      if (seen(argument)) return performance.now() - from;
      await new Promise((resolve) => setTimeout(resolve, 4));
    }
    return -1;
  })(given)`);
  const took = await page.evaluate(work, { element, argument, patience });
  expect(took, `seen within ${patience} ms`).toBeGreaterThanOrEqual(0);
  return took;
}

/** A mark of what the canvas shows of one GPU: another mark is another picture. To be called in the page. */
export const markOf = `(place) => {
  const canvas = document.getElementById('fleet-canvas');
  const spot = window.carve.fleet.canvas.where(place);
  const scale = canvas.width / canvas.clientWidth;
  const { data } = canvas.getContext('2d').getImageData(spot.x * scale, spot.y * scale, spot.w * scale, spot.h * scale);
  let mark = 0;
  for (const value of data) mark = (mark * 31 + value) | 0;
  return mark;
}`;

/** What Chromium writes because these tests read the canvas. */
export const markWarning = 'Canvas2D: Multiple readback operations using getImageData are faster with the willReadFrequently attribute set to true. See: https://html.spec.whatwg.org/multipage/canvas.html#concept-canvas-will-read-frequently';

export function tell(words, milliseconds) {
  console.log(`      ${words}: ${Math.round(milliseconds)} ms`);
}
