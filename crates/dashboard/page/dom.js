// Builds DOM nodes from data as text only, so that a name chosen by a user can never become markup.

/** Makes an element. Props: `class`, `on*` listeners, `text`, DOM properties by `.name`, else attributes; null and false are left out. */
export function h(tag, props, ...children) {
  const element = document.createElement(tag);
  for (const [key, value] of Object.entries(props ?? {})) {
    if (value === null || value === undefined || value === false) continue;
    if (key === 'class') element.className = value;
    else if (key === 'text') element.textContent = value;
    else if (key.startsWith('on')) element.addEventListener(key.slice(2), value);
    else if (key.startsWith('.')) element[key.slice(1)] = value;
    else element.setAttribute(key, value === true ? '' : value);
  }
  append(element, children);
  return element;
}

/** The same for SVG, which needs its namespace. */
export function svg(tag, attributes, ...children) {
  const element = document.createElementNS('http://www.w3.org/2000/svg', tag);
  for (const [key, value] of Object.entries(attributes ?? {})) element.setAttribute(key, value);
  append(element, children);
  return element;
}

/** Replaces what an element holds. */
export function fill(element, ...children) {
  element.replaceChildren();
  append(element, children);
}

/** Shows `items` in `list`, keeping the elements of those already there: focus and selection survive, and little is laid out. */
export function keyed(list, items, keyOf, make) {
  const known = new Map([...list.children].map((child) => [child.dataset.key, child]));
  const wanted = new Set();
  let at = list.firstElementChild;
  for (const item of items) {
    const key = keyOf(item);
    wanted.add(key);
    let element = known.get(key);
    if (!element) {
      element = make(item);
      element.dataset.key = key;
    }
    if (element === at) at = at.nextElementSibling;
    else list.insertBefore(element, at);
  }
  for (const [key, child] of known) if (!wanted.has(key)) child.remove();
}

/** Sets text only where it differs, so that selections survive and nothing is laid out in vain. */
export function setText(element, text) {
  if (element.textContent !== text) element.textContent = text;
}

export const byId = (id) => document.getElementById(id);

/** Calls `work` at most once per `pause` milliseconds, and always once after the last request. */
export function calmly(work, pause) {
  let timer = null;
  let last = -Infinity;
  return () => {
    if (timer !== null) return;
    const wait = Math.max(0, last + pause - performance.now());
    timer = setTimeout(() => {
      timer = null;
      last = performance.now();
      work();
    }, wait);
  };
}

function append(element, children) {
  for (const child of children.flat(Infinity)) {
    if (child === null || child === undefined || child === false) continue;
    element.append(child instanceof Node ? child : String(child));
  }
}
