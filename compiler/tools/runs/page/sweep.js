"use strict";
// Draws the losses of sweeps over their rate, see compiler/tools/sweep/chart.h.

/// One chart: a line for each value of a key.
class SweepChart {
  constructor(parent, sweep, { by, lines }) {
    Object.assign(this, { sweep, lines, plot: null });
    lines.forEach((line, i) => { line.colour = `--run-${i % 8}`; });
    this.canvas = element("div", {});
    const title = `${sweep.of === "val_loss" ? "Validation loss" : "Loss"} over ${sweep.x}${by === null ? "" : `, by ${by}`}`;
    parent.append(element("div", { className: "chart" }, element("h3", {}, title), this.canvas,
      element("div", { className: "readout" }, ...lines.filter(line => line.name).map(line => element("div", {}, swatch(line), line.name)))));
    new ResizeObserver(() => this.plot && this.plot.setSize(chartSize(this.canvas))).observe(this.canvas);
  }

  draw() {
    if (this.plot) this.plot.destroy();
    this.canvas.replaceChildren();
    if (!this.lines.length) return this.canvas.append(element("p", { className: "muted" }, "no run has finished"));
    const log = this.lines.every(line => line.x.every(x => x > 0));
    const stroke = line => () => cssColour(line.colour);
    const series = this.lines.map(line => ({ stroke: stroke(line), width: 1.5, points: { show: true, size: 6, stroke: stroke(line), fill: stroke(line) } }));
    this.plot = new uPlot({
      ...chartSize(this.canvas), series: [{}, ...series], ms: 1,
      scales: { x: { time: false, distr: log ? 3 : 1 } },
      axes: [ruler({ size: 30, ...(log ? { splits: (_, i, low, high) => logarithmicSplits(low, high) } : {}), values: (_, splits) => tickTexts(splits), label: this.sweep.x, labelSize: 18, labelGap: 0 }),
             ruler({ size: 56, values: (_, splits) => tickTexts(splits) })],
      cursor: { y: false }, legend: { show: false },
    }, uPlot.join(this.lines.map(line => [line.x, line.y])), this.canvas);
  }
}

function showSweeps(sweeps) {
  const section = byId("sweeps");
  if (!sweeps.length) return section.remove();
  for (const sweep of sweeps) {
    const charts = element("div", { className: "charts" });
    section.append(element("h3", {}, sweep.folder), element("pre", {}, sweep.table), charts);
    for (const each of sweep.charts) new SweepChart(charts, sweep, each).draw();
  }
}
