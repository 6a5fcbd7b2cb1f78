// Turns numbers into the words people read: dollars, memory, parts, durations and times of day.

/** A month of 30 days, as in advice and what-if. */
export const hoursPerMonth = 720;

const whole = new Intl.NumberFormat('en-US', { maximumFractionDigits: 0 });
const cents = new Intl.NumberFormat('en-US', { minimumFractionDigits: 2, maximumFractionDigits: 2 });

export const count = (n) => whole.format(n ?? 0);

/** `1 GPU`, `2 GPUs`. */
export function plural(n, one, many = `${one}s`) {
  return `${count(n)} ${n === 1 ? one : many}`;
}

/** Cents below a thousand, whole dollars above: nobody reads the cents of a large bill. */
export function dollars(amount) {
  if (amount === null || amount === undefined || !Number.isFinite(amount)) return '–';
  const sign = amount < 0 ? '−' : '';
  const size = Math.abs(amount);
  return `${sign}$${size >= 1000 ? whole.format(size) : cents.format(size)}`;
}

/** An hourly rate as whole dollars a month. */
export function monthly(perHour) {
  if (!Number.isFinite(perHour)) return '–';
  return `$${whole.format(perHour * hoursPerMonth)}`;
}

/** MiB to words: `900 MiB`, `4.8 GiB`, `40 GiB`. */
export function memory(mib) {
  if (mib === null || mib === undefined || !Number.isFinite(mib)) return '–';
  if (mib < 1024) return `${Math.round(mib)} MiB`;
  const gib = mib / 1024;
  return `${gib < 10 && Math.abs(gib - Math.round(gib)) >= 0.05 ? gib.toFixed(1) : Math.round(gib)} GiB`;
}

/** A part of one as per cent; small ones keep a digit so that 0.4 % does not read as nothing. */
export function percent(part) {
  if (part === null || part === undefined || !Number.isFinite(part)) return '–';
  const value = part * 100;
  if (value > 0 && value < 0.95) return `${value.toFixed(1)}%`;
  return `${Math.round(value)}%`;
}

/** The two largest units of a duration: `8 s`, `3 min 12 s`, `2 h 5 min`, `4 d 1 h`. */
export function duration(seconds) {
  const s = Math.max(0, Math.floor(seconds));
  if (s < 60) return `${s} s`;
  if (s < 3600) return two(Math.floor(s / 60), 'min', s % 60, 's');
  if (s < 86400) return two(Math.floor(s / 3600), 'h', Math.floor((s % 3600) / 60), 'min');
  return two(Math.floor(s / 86400), 'd', Math.floor((s % 86400) / 3600), 'h');
}

function two(a, unitA, b, unitB) {
  return b === 0 ? `${a} ${unitA}` : `${a} ${unitA} ${b} ${unitB}`;
}

/** One unit only, for narrow columns. */
export function shortDuration(seconds) {
  return duration(seconds).split(' ').slice(0, 2).join(' ');
}

const pad = (n) => String(n).padStart(2, '0');

/** `14:32`, in the reader's own time zone. */
export function clock(at) {
  const date = new Date(at * 1000);
  return `${pad(date.getHours())}:${pad(date.getMinutes())}`;
}

/** `14:32:05`. */
export function clockSeconds(at) {
  return `${clock(at)}:${pad(new Date(at * 1000).getSeconds())}`;
}

/** `NVIDIA A100-SXM4-40GB` to `A100 40GB`: the maker and the socket are the same for all and only take room. */
export function shortProduct(product) {
  const words = String(product ?? '')
    .replace(/^NVIDIA\s+/i, '')
    .split(/[\s-]+/)
    .filter((word) => !/^(SXM\d?|PCIE|PCIe|HBM\w*|Tensor|Core|GPU|NVL|GeForce)$/i.test(word));
  return words.join(' ');
}

/** `team/web-7d9` to [`team`, `web-7d9`]. */
export function splitPod(pod) {
  const at = String(pod).indexOf('/');
  return at < 0 ? ['', String(pod)] : [pod.slice(0, at), pod.slice(at + 1)];
}

/** `Deployment/web` or `team/Deployment/web` to `web`. */
export function lastName(workload) {
  return String(workload ?? '').split('/').pop();
}

/** How a measurement is known, in words. */
export function knownBy(how) {
  return {
    measured: 'measured on the slice itself',
    limiter: 'counted by the limiter',
    quota: 'split by quota from the whole GPU',
    equal: 'the whole GPU split in equal parts',
  }[how] ?? 'not measured';
}
