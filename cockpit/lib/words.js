// Text and numbers as the page shows them. All functions are pure.

// printable escapes characters that a browser hides or that change the direction of text. Names and
// errors may come from anyone on the network.
export function printable(text) {
  return String(text).replace(/[\p{Cc}\p{Cf}\p{Zl}\p{Zp}\p{Co}\p{Cn}]/gu, (c) => {
    const code = c.codePointAt(0);
    if (code === 0x0a) {
      return '\n';
    }
    return code < 0x100 ? `\\x${hex(code, 2)}` : `\\u${hex(code, 4)}`;
  });
}

function hex(code, digits) {
  return code.toString(16).padStart(digits, '0');
}

// unknown stands for a number or a date that is missing.
const unknown = '–';

// milliseconds takes nanoseconds. Below 10 ms it has two decimals, as on the command line.
export function milliseconds(nanoseconds) {
  const ms = nanoseconds / 1e6;
  if (!Number.isFinite(ms)) {
    return unknown;
  }
  return ms < 9.995 ? `${ms.toFixed(2)} ms` : `${ms.toFixed(0)} ms`;
}

// age returns the time between two dates. If the clock went backwards, it is 0s.
export function age(from, to) {
  return duration((new Date(to) - new Date(from)) / 1000);
}

// duration takes seconds, and returns them in the two largest units.
export function duration(given) {
  if (!Number.isFinite(given)) {
    return unknown;
  }
  const seconds = Math.max(0, Math.floor(given));
  const units = [['d', 86400], ['h', 3600], ['m', 60]];
  for (const [i, [name, size]] of units.entries()) {
    if (seconds >= size) {
      const [next, nextSize] = units[i + 1] ?? ['s', 1];
      return `${Math.floor(seconds / size)}${name} ${Math.floor((seconds % size) / nextSize)}${next}`;
    }
  }
  return `${seconds}s`;
}

export function plural(count, one, many = `${one}s`) {
  return `${number(count)} ${count === 1 ? one : many}`;
}

// number groups the digits of large numbers: 120 400.
export function number(value) {
  return typeof value !== 'number' ? unknown : String(value).replace(/\B(?=(\d{3})+(?!\d))/g, '\u202f');
}

export function percent(part, whole) {
  return whole > 0 ? `${(100 * part / whole).toFixed(1)} %` : unknown;
}

// time returns the time of day in the browser's time zone, with the date if that is not today.
export function time(date, now = new Date()) {
  const at = new Date(date);
  const clock = [at.getHours(), at.getMinutes(), at.getSeconds()].map((n) => String(n).padStart(2, '0')).join(':');
  if (at.toDateString() === now.toDateString()) {
    return clock;
  }
  return `${at.getFullYear()}-${String(at.getMonth() + 1).padStart(2, '0')}-${String(at.getDate()).padStart(2, '0')} ${clock}`;
}
