// Tabs of the right column, by the usual keys: arrows choose, the panel follows.

export class Tabs {
  #onShow = new Map();
  #onAny = [];

  constructor(list) {
    this.tabs = [...list.querySelectorAll('[role=tab]')];
    for (const tab of this.tabs) tab.addEventListener('click', () => this.show(tab.dataset.tab));
    list.addEventListener('keydown', (event) => {
      const shown = this.tabs.filter((tab) => !tab.hidden);
      const at = shown.indexOf(document.activeElement);
      const to = { ArrowRight: at + 1, ArrowLeft: at - 1 + shown.length, Home: 0, End: shown.length - 1 }[event.key];
      if (at < 0 || to === undefined) return;
      event.preventDefault();
      this.show(shown[to % shown.length].dataset.tab);
      shown[to % shown.length].focus();
    });
  }

  show(name) {
    for (const tab of this.tabs) {
      const chosen = tab.dataset.tab === name;
      tab.setAttribute('aria-selected', String(chosen));
      tab.tabIndex = chosen ? 0 : -1;
      document.getElementById(tab.getAttribute('aria-controls')).hidden = !chosen;
    }
    this.shown = name;
    for (const listener of [...(this.#onShow.get(name) ?? []), ...this.#onAny]) listener();
  }

  /** Whether there is such a tab, and it may be shown. */
  has(name) {
    return this.tabs.some((tab) => tab.dataset.tab === name && !tab.hidden);
  }

  isShown(name) {
    return this.shown === name;
  }

  onShow(name, listener) {
    this.#onShow.set(name, [...(this.#onShow.get(name) ?? []), listener]);
  }

  onAny(listener) {
    this.#onAny.push(listener);
  }

  /** Takes a tab away or gives it back. */
  allow(name, allowed) {
    const tab = this.tabs.find((one) => one.dataset.tab === name);
    tab.hidden = !allowed;
    if (!allowed && this.shown === name) this.show(this.tabs[0].dataset.tab);
  }
}
