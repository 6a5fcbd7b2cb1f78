// Numbers as the page writes them, written here once more so that a mistake of the page is seen.

/** Cents below a thousand dollars, whole dollars above. */
export function dollars(amount) {
  const digits = Math.abs(amount) >= 1000 ? 0 : 2;
  return `$${amount.toLocaleString('en-US', { minimumFractionDigits: digits, maximumFractionDigits: digits })}`;
}

export function percent(part) {
  const value = part * 100;
  return value > 0 && value < 0.95 ? `${value.toFixed(1)}%` : `${Math.round(value)}%`;
}

export function clock(at) {
  return new Date(at * 1000).toLocaleTimeString('en-GB', { hour: '2-digit', minute: '2-digit' });
}
