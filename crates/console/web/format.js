// Numbers with units, times relative with the absolute on hover.
import { h } from "/elements.js";

export function cores(milli) {
  if (milli === null || milli === undefined) return "–";
  const value = milli / 1000;
  const digits = Math.abs(value) >= 100 ? 0 : Math.abs(value) >= 10 ? 1 : 2;
  return `${value.toLocaleString("en", { maximumFractionDigits: digits })}`;
}

// With the same digits always: numbers below each other.
export function fixed(milli, digits = 2) {
  if (milli === null || milli === undefined) return "–";
  return (milli / 1000).toLocaleString("en", { minimumFractionDigits: digits, maximumFractionDigits: digits });
}

// The same, where nothing is not worth a number.
export const some = (milli) => (milli > 0 ? fixed(milli) : "–");

export function cpus(milli) {
  return milli === null || milli === undefined ? "–" : `${cores(milli)} ${milli === 1000 ? "CPU" : "CPUs"}`;
}

export function bytes(count) {
  if (count === null || count === undefined) return "–";
  const units = ["B", "KiB", "MiB", "GiB", "TiB", "PiB"];
  let value = count;
  let unit = 0;
  while (Math.abs(value) >= 1024 && unit < units.length - 1) {
    value /= 1024;
    unit += 1;
  }
  return `${value.toLocaleString("en", { maximumFractionDigits: value >= 100 || unit === 0 ? 0 : 1 })} ${units[unit]}`;
}

// With one digit always: amounts below each other.
export function bytesFixed(count) {
  if (count === null || count === undefined) return "–";
  const unit = Math.abs(count) >= 2 ** 30 ? ["GiB", 30] : ["MiB", 20];
  return `${(count / 2 ** unit[1]).toLocaleString("en", { minimumFractionDigits: 1, maximumFractionDigits: 1 })} ${unit[0]}`;
}

export function percent(part, whole) {
  return whole > 0 && part !== null && part !== undefined ? `${Math.round((100 * part) / whole)}%` : "–";
}

export function perMille(value) {
  return value === null || value === undefined ? "–" : `${(value / 10).toFixed(1)}%`;
}

export function coreHours(milliCoreSeconds) {
  const hours = milliCoreSeconds / 1000 / 3600;
  const digits = hours >= 100 ? 0 : hours >= 1 ? 1 : 3;
  return hours.toLocaleString("en", { maximumFractionDigits: digits });
}

export function span(seconds) {
  const whole = Math.max(0, Math.round(seconds));
  if (whole < 90) return `${whole} s`;
  if (whole < 5400) return `${Math.round(whole / 60)} min`;
  if (whole < 48 * 3600) return `${Math.round(whole / 3600)} h`;
  return `${Math.round(whole / 86400)} d`;
}

// How old something is, with its birth on hover.
export function age(time) {
  if (!time) return "–";
  return h("time", { datetime: time, title: new Date(time).toLocaleString() }, span((Date.now() - Date.parse(time)) / 1000));
}

export function ago(time) {
  if (!time) return "never";
  const seconds = (Date.now() - Date.parse(time)) / 1000;
  const text = seconds < 2 ? "just now" : `${span(seconds)} ago`;
  return h("time", { datetime: time, title: new Date(time).toLocaleString() }, text);
}

// Seconds are for charts of a few minutes.
export function clock(time, length = 0) {
  const options = length >= 600000 ? { hour: "2-digit", minute: "2-digit" } : {};
  return new Date(time).toLocaleTimeString("en-GB", options);
}

// A term of a sum.
export function amount(value, unit, digits) {
  const size = unit === "milliCores" ? fixed(Math.abs(value), digits)
    : unit === "bytes" ? bytesFixed(Math.abs(value)) : Math.abs(value).toLocaleString("en");
  return value < 0 ? `−${size}` : size;
}

export function plural(count, word) {
  return `${count.toLocaleString("en")} ${word}${count === 1 ? "" : "s"}`;
}
