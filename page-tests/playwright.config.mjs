// How the tests run: CARVE names the program, CHROMIUM the browser, PAGE a folder whose page is tried instead of the built-in one, SHOTS a folder for pictures.
export default {
  testDir: '.',
  testMatch: '*.spec.mjs',
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
