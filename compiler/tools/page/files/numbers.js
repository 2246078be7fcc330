// Formats numbers for a page, and searches for one in a list.

function bytes(count) {
  if (typeof count !== "number") return null;
  for (const [size, unit] of [[2 ** 40, "TiB"], [2 ** 30, "GiB"], [2 ** 20, "MiB"], [2 ** 10, "KiB"]])
    if (count >= size) return `${(count / size).toFixed(2)} ${unit}`;
  return `${count} bytes`;
}

const grouped = count => typeof count === "number" ? count.toLocaleString("en") : null;

function percent(value) { return `${(100 * value).toFixed(2)} %`; }

function withDigits(value, digits) {
  for (const [size, unit] of [[1e15, "P"], [1e12, "T"], [1e9, "G"], [1e6, "M"], [1e3, "K"]])
    if (Math.abs(value) >= size) return parseFloat((value / size).toPrecision(digits)) + unit;
  return value !== 0 && Math.abs(value) < 1e-3 ? parseFloat(value.toPrecision(digits - 1)).toExponential() : String(parseFloat(value.toPrecision(digits)));
}

const shortNumber = value => withDigits(value, 4);

/// Returns the texts of an axis, with so many digits that they differ. null: a line without text.
function tickTexts(splits) {
  for (let digits = 4; ; ++digits) {
    const texts = splits.map(value => value === null ? "" : withDigits(value, digits)), shown = texts.filter(text => text !== "");
    if (digits === 12 || new Set(shown).size === shown.length) return texts;
  }
}

function duration(seconds) {
  if (seconds < 60) return `${parseFloat(seconds.toPrecision(3))}s`;
  const whole = Math.round(seconds);
  const parts = [[86400, "d"], [3600, "h"], [60, "m"], [1, "s"]].map(([size, unit], i, all) =>
    [Math.floor((i ? whole % all[i - 1][0] : whole) / size), unit]);
  const first = parts.findIndex(([count]) => count > 0);
  return parts.slice(first, first + 2).filter(([count]) => count > 0).map(([count, unit]) => count + unit).join(" ");
}

/// Returns the index of the entry of an ascending list that is nearest to `value`; -1 if it is empty.
function nearest(list, value) {
  let low = 0, high = list.length - 1;
  if (high < 0) return -1;
  while (low < high) {
    const middle = (low + high) >> 1;
    if (list[middle] < value) low = middle + 1; else high = middle;
  }
  return low > 0 && value - list[low - 1] <= list[low] - value ? low - 1 : low;
}
