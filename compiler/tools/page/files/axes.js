// Axes and lines of charts.

function cssColour(name) {
  return getComputedStyle(document.documentElement).getPropertyValue(name).trim();
}

/// Returns the width and height of a chart that fills its element.
function chartSize(canvas) {
  const width = Math.max(200, canvas.clientWidth);
  return { width, height: Math.round(Math.min(360, Math.max(220, width * 0.55))) };
}

/// Returns the grid lines of a logarithmic axis: powers of ten and, if these are fewer than three, 2 and 5 times them.
function logarithmicSplits(low, high) {
  const decades = [];
  for (let power = Math.floor(Math.log10(low)); power <= Math.ceil(Math.log10(high)); ++power) decades.push(power);
  const all = decades.flatMap(power => (decades.length > 4 ? [1] : [1, 2, 5]).map(part => parseFloat(`${part}e${power}`)));
  return all.filter(value => value >= low * 0.999 && value <= high * 1.001);
}

/// Returns an axis in the style of all charts.
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
