// How smoothly the page of a running carve up moves: frames.mjs URL SECONDS. Half of the time it is left alone, half of it it is scrolled.
import { chromium } from '@playwright/test';

const [url, seconds] = [process.argv[2], Number(process.argv[3] ?? 20)];
const browser = await chromium.launch({ executablePath: process.env.CHROMIUM ?? '/usr/bin/chromium', args: ['--no-sandbox'] });
const page = await browser.newPage({ viewport: { width: 1600, height: 1000 } });
const opened = performance.now();
await page.goto(url);
await page.waitForFunction(() => document.querySelector('#count-gpus')?.textContent?.length > 0 && document.querySelector('#count-gpus').textContent !== '0', undefined, { timeout: 60_000 });
const first = performance.now() - opened;
const frames = (scroll, ms) => page.evaluate(([scroll, ms]) => new Promise((resolve) => {
  const stage = document.getElementById('stage');
  const gaps = [];
  let last = performance.now();
  const from = last;
  const tick = () => {
    const now = performance.now();
    gaps.push(now - last);
    last = now;
    if (scroll) stage.scrollTop = ((Math.sin(now / 900) + 1) / 2) * (stage.scrollHeight - stage.clientHeight);
    if (now - from < ms) return requestAnimationFrame(tick);
    gaps.sort((one, other) => one - other);
    resolve({ perSecond: (gaps.length / (now - from)) * 1000, slowest: gaps.at(-1), late: gaps.filter((gap) => gap > 100).length });
  };
  requestAnimationFrame(tick);
}), [scroll, ms]);
const still = await frames(false, (seconds * 1000) / 2);
const moved = await frames(true, (seconds * 1000) / 2);
const heap = await page.evaluate(() => performance.memory?.usedJSHeapSize ?? 0);
const words = (one) => `${one.perSecond.toFixed(1)} frames a second (slowest ${Math.round(one.slowest)} ms, ${one.late} over 100 ms)`;
console.log(`drawn ${Math.round(first)} ms after it was asked for; left alone ${words(still)}, scrolled ${words(moved)}; ${Math.round(heap / 2 ** 20)} MiB of objects`);
await browser.close();
