// Keeps what the reader chose in the address, so that a view can be sent to somebody else.

/** Reads the part after `#` into { query, sort, table, tab }. */
export function readAddress(hash) {
  const said = new URLSearchParams(hash.replace(/^#/, ''));
  const sort = said.get('sort');
  return { query: said.get('q') ?? '', sort: ['name', 'waste', 'price', 'use'].includes(sort) ? sort : 'name', table: said.has('table'), tab: said.get('tab') };
}

/** The same the other way round; what is as usual is left out. */
export function writeAddress({ query, sort, table, tab }) {
  const said = new URLSearchParams();
  if (query) said.set('q', query);
  if (sort !== 'name') said.set('sort', sort);
  if (table) said.set('table', '');
  if (tab && tab !== 'now') said.set('tab', tab);
  const text = said.toString();
  return text ? `#${text}` : '';
}
