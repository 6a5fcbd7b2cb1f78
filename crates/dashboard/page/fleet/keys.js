// Keys over the fleet: arrows move from GPU to GPU, Shift with left and right from slice to slice, Enter opens, Escape closes.

import { neighbour } from './layout.js';

const moves = new Set(['ArrowLeft', 'ArrowRight', 'ArrowUp', 'ArrowDown', 'Home', 'End', 'PageUp', 'PageDown']);

/** Listens on the stage. `view` has { canvas, cursor, point(place, part), open(), close() }. */
export function fleetKeys(stage, view) {
  stage.addEventListener('keydown', (event) => {
    if (event.ctrlKey || event.metaKey || event.altKey || event.target !== stage) return;
    const { plan } = view.canvas;
    const { place, part } = view.cursor;
    if (event.shiftKey && place >= 0 && (event.key === 'ArrowLeft' || event.key === 'ArrowRight')) {
      const parts = view.canvas.arranged.tiles[place].parts.length;
      if (parts) view.point(place, (part + (event.key === 'ArrowRight' ? 1 : parts - 1) + (part < 0 && event.key === 'ArrowLeft' ? 1 : 0)) % parts);
    } else if (moves.has(event.key) && !event.shiftKey) {
      view.point(neighbour(plan, place, event.key, stage.clientHeight), -1);
    } else if ((event.key === 'Enter' || event.key === ' ') && place >= 0) {
      view.open();
    } else if (event.key === 'Escape') {
      view.close();
    } else if (event.key === '+' || event.key === '=') {
      view.canvas.zoomBy(1);
    } else if (event.key === '-') {
      view.canvas.zoomBy(-1);
    } else if (event.key === '0') {
      view.canvas.zoomBy(null);
    } else {
      return;
    }
    event.preventDefault();
  });
}

/** Keys that work everywhere but where text is written. */
export function pageKeys(actions) {
  document.addEventListener('keydown', (event) => {
    if (event.ctrlKey || event.metaKey || event.altKey || event.defaultPrevented) return;
    if (event.target.closest?.('input:not([type=range]):not([type=checkbox]), textarea, select, dialog')) return;
    const action = actions[event.key];
    if (!action) return;
    event.preventDefault();
    action();
  });
}
