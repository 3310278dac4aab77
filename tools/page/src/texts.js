// How texts and numbers are shown. Whatever a reader cannot see, or what turns the direction of a line, becomes an escape.

export const INVISIBLE = /(?![\t\n])[\p{Cc}\p{Cf}\p{Cs}\p{Co}\p{Zl}\p{Zp}\u115f\u1160\u3164\uffa0]/gu;
const INVISIBLE_OR_BREAK = new RegExp(`[\\t\\n]|${INVISIBLE.source}`, "gu");

/** A code point as Python's repr writes it: \x1b, \u202e, \U000e0041. */
export function escaped(code) {
  const digits = code.toString(16);
  if (code < 0x100) return "\\x" + digits.padStart(2, "0");
  return code < 0x10000 ? "\\u" + digits.padStart(4, "0") : "\\U" + digits.padStart(8, "0");
}

/** A name in one line, with nothing invisible in it. */
export function shown(text) {
  return String(text ?? "").replace(INVISIBLE_OR_BREAK, (letter) => escaped(letter.codePointAt(0)));
}

/** A text of several lines, with nothing else invisible in it. */
export function shownText(text) {
  return String(text ?? "").replace(INVISIBLE, (letter) => escaped(letter.codePointAt(0)));
}

const whole = new Intl.NumberFormat("en");
export const count = (number) => whole.format(number);

/** "1 range", "2 ranges". */
export const counted = (number, one, many = one + "s") => `${count(number)} ${number === 1 ? one : many}`;

const UNITS = ["KiB", "MiB", "GiB", "TiB"];
export function bytes(number) {
  let value = Math.abs(number),
    unit = -1;
  while (value >= 1024 && unit < UNITS.length - 1) [value, unit] = [value / 1024, unit + 1];
  const sign = number < 0 ? "\u2212" : "";
  return sign + (unit < 0 ? `${whole.format(value)} B` : `${value.toFixed(1)} ${UNITS[unit]}`);
}

/** How a value is shown, by the `as` of its column; null and "" as nothing. */
const WORDS = {text: shown, number: count, bytes};
export const worded = (value, as) => (value === null || value === "" ? "" : WORDS[as](value));

export function percent(part, all) {
  if (!all) return "";
  const value = (100 * part) / all;
  return (value > 0 && value < 0.1 ? "< 0.1" : value.toFixed(1)) + " %";
}

/** "+1.2 KiB", "−3 B", "same size". */
export const growth = (number) => (number ? (number > 0 ? "+" : "") + bytes(number) : "same size");
