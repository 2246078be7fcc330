"use strict";
// What every page of llmc is made with. Text of data becomes text nodes only.

/// Children are nodes or text.
function element(name, properties, ...children) {
  const made = Object.assign(document.createElement(name), properties);
  made.append(...children);
  return made;
}

/// A patch of `of.colour`, a custom property.
function swatch(of) {
  const made = element("span", { className: "swatch" });
  made.style.setProperty("--colour", `var(${of.colour})`);
  return made;
}

/// `rows`: lists of texts and nodes. `kinds`: a class for each column.
function table(heads, rows, kinds = []) {
  const cells = (name, row) => row.map((cell, i) => element(name, { className: kinds[i] || "" }, cell === null || cell === undefined ? "–" : cell));
  return element("div", { className: "scroll" },
    element("table", {}, element("thead", {}, element("tr", {}, ...cells("th", heads))),
      element("tbody", {}, ...rows.map(row => element("tr", {}, ...cells("td", row))))));
}

function bytes(count) {
  if (typeof count !== "number") return null;
  for (const [size, unit] of [[2 ** 30, "GiB"], [2 ** 20, "MiB"], [2 ** 10, "KiB"]])
    if (count >= size) return `${(count / size).toFixed(2)} ${unit}`;
  return `${count} bytes`;
}

const grouped = count => typeof count === "number" ? count.toLocaleString("en") : null;
const byId = name => document.getElementById(name);

function percent(value) { return `${(100 * value).toFixed(2)} %`; }

function shortNumber(value) {
  for (const [size, unit] of [[1e15, "P"], [1e12, "T"], [1e9, "G"], [1e6, "M"], [1e3, "K"]])
    if (Math.abs(value) >= size) return parseFloat((value / size).toPrecision(4)) + unit;
  return value !== 0 && Math.abs(value) < 1e-3 ? value.toExponential().replace(/(\.\d\d)\d+/, "$1") : String(parseFloat(value.toPrecision(4)));
}

function duration(seconds) {
  if (seconds < 60) return `${parseFloat(seconds.toPrecision(3))}s`;
  const whole = Math.round(seconds);
  const parts = [[86400, "d"], [3600, "h"], [60, "m"], [1, "s"]].map(([size, unit], i, all) =>
    [Math.floor((i ? whole % all[i - 1][0] : whole) / size), unit]);
  const first = parts.findIndex(([count]) => count > 0);
  return parts.slice(first, first + 2).filter(([count]) => count > 0).map(([count, unit]) => count + unit).join(" ");
}

/// Index of the entry of an ascending list that is nearest to `value`; -1 in an empty one.
function nearest(list, value) {
  let low = 0, high = list.length - 1;
  if (high < 0) return -1;
  while (low < high) {
    const middle = (low + high) >> 1;
    if (list[middle] < value) low = middle + 1; else high = middle;
  }
  return low > 0 && value - list[low - 1] <= list[low] - value ? low - 1 : low;
}

function cssColour(name) {
  return getComputedStyle(document.documentElement).getPropertyValue(name).trim();
}

/// Lines of a logarithmic axis: powers of ten or, where these are fewer than three, 2 and 5 times them as well.
function logarithmicSplits(low, high) {
  const decades = [];
  for (let power = Math.floor(Math.log10(low)); power <= Math.ceil(Math.log10(high)); ++power) decades.push(power);
  const all = decades.flatMap(power => (decades.length > 4 ? [1] : [1, 2, 5]).map(part => parseFloat(`${part}e${power}`)));
  return all.filter(value => value >= low * 0.999 && value <= high * 1.001);
}

/// An axis as all charts have it.
function ruler(options) {
  const line = { stroke: () => cssColour("--line"), width: 1 };
  const font = "12px system-ui, sans-serif";
  return { stroke: () => cssColour("--muted"), grid: line, ticks: { ...line, size: 4 }, font, labelFont: font, ...options };
}

function line(ctx, x0, y0, x1, y1) {
  ctx.beginPath();
  ctx.moveTo(x0, y0);
  ctx.lineTo(x1, y1);
  ctx.stroke();
}
