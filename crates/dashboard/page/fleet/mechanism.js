// Names, letters and order of the mechanisms that slice a GPU: the letter stands beside the colour everywhere.

export const mechanisms = [
  { id: 'mig', letter: 'M', name: 'MIG', colour: 'mig' },
  { id: 'mps', letter: 'P', name: 'MPS', colour: 'mps' },
  { id: 'time-slicing', letter: 'T', name: 'Time-slicing', colour: 'time' },
  { id: 'limiter', letter: 'L', name: 'Limiter', colour: 'limiter' },
  { id: 'exclusive', letter: 'X', name: 'Exclusive', colour: 'exclusive' },
];

const known = new Map(mechanisms.map((one) => [one.id, one]));

/** A mechanism this page has not heard of is shown under its own name. */
export function mechanism(id) {
  return known.get(id) ?? { id, letter: String(id ?? '?').charAt(0).toUpperCase() || '?', name: String(id ?? 'unknown'), colour: 'exclusive' };
}

export const states = {
  ok: { name: 'ok', mark: '' },
  cutting: { name: 'cutting', mark: '✂' },
  sick: { name: 'sick', mark: '!' },
  lost: { name: 'lost', mark: '×' },
};
