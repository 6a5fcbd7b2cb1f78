// Chooses dark or light: as the system says, until the reader says otherwise, which is remembered.

const place = 'carve.theme';
const dark = matchMedia('(prefers-color-scheme: dark)');
const listeners = [];

function chosen() {
  try {
    return localStorage.getItem(place);
  } catch {
    return null;
  }
}

export const isDark = () => (chosen() ?? (dark.matches ? 'dark' : 'light')) === 'dark';

function show() {
  document.documentElement.dataset.theme = isDark() ? 'dark' : 'light';
  for (const listener of listeners) listener();
}

export const onTheme = (listener) => listeners.push(listener);

export function toggleTheme() {
  try {
    localStorage.setItem(place, isDark() ? 'light' : 'dark');
  } catch {
    // A browser that keeps nothing still follows the system.
  }
  show();
}

dark.addEventListener('change', show);
show();
