// How the tests run: CARVE names the program, CHROMIUM the browser, PAGE a folder whose page is tried instead of the built-in one, SHOTS a folder for pictures.
const timed = ['changes.spec.mjs', 'large.spec.mjs', 'walkthroughs.spec.mjs'];

export default {
  testDir: '.',
  projects: [
    // They hold times, so nothing may run beside them.
    { name: 'timed', testMatch: timed },
    // Every file has a program of its own, so files may run beside each other.
    { name: 'untimed', testMatch: '*.spec.mjs', testIgnore: timed },
  ],
  workers: 1,
  fullyParallel: false,
  retries: 0,
  timeout: 120_000,
  expect: { timeout: 20_000 },
  reporter: 'list',
  outputDir: process.env.RESULTS ?? 'test-results',
  use: {
    browserName: 'chromium',
    viewport: { width: 1440, height: 900 },
    colorScheme: 'dark',
    actionTimeout: 20_000,
    launchOptions: { executablePath: process.env.CHROMIUM || undefined, args: ['--no-sandbox'] },
  },
};
