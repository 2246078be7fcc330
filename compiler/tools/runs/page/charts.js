"use strict";
// Draws curves of several runs over one x axis. A run's numbers are columns of equal length in `lines`; those of some steps only are
// in `sometimes`, see page.cpp. null is a number that was not finite.

const AXES = {
  step: { label: "step", of: run => run.lines.step, texts: splits => splits.map(value => value.toLocaleString("en")) },
  tokens: { label: "tokens", of: run => run.lines.tokens, texts: tickTexts },
  time: { label: "time", of: run => run.lines.time, texts: splits => splits.map(duration) },
};

// `keys`: numbers drawn for each run, labelled if there are several. `validation`: the metric whose sets are drawn with them.
// `group`: its section, "" for the main charts. A chart without numbers of any run is left out.
const CHARTS = [
  { group: "", keys: [["loss", ""]], title: "Loss (nats a token)", validation: "val_loss", spiky: true, text: lossText },
  { group: "", keys: [["grad_norm", ""]], title: "Gradient norm, before clipping", spiky: true, text: value => value.toPrecision(4) },
  { group: "", keys: [["lr", ""]], title: "Learning rate", exact: true, text: value => value.toExponential(2) },
  { group: "", keys: [["tokens_per_second", ""]], title: "Tokens a second", text: value => Math.round(value).toLocaleString("en") },
  { group: "model", keys: [["top1", ""]], title: "Targets that are the model's first choice", validation: "val_top1", text: percent },
  { group: "model", keys: [], title: "Validation, bits a byte", validation: "val_bits_per_byte", text: lossText },
  { group: "model", keys: [], title: "Tasks, accuracy", validation: "task", text: percent },
  { group: "model", keys: [["lse_mean", "mean"], ["lse_max", "largest"]], title: "Log-sum-exp of the logits", text: value => value.toFixed(3) },
  { group: "model", keys: [["z_loss", ""]], title: "z-loss (nats a token)", text: lossText },
  { group: "model", keys: [["audit_difference", ""]], title: "Loss minus its audit in fp32 (nats)", text: value => value.toExponential(2) },
  { group: "model", keys: [["entropy", ""]], title: "Entropy of the predictions (nats)", text: lossText },
  { group: "model", keys: [["ratio_median", "median"], ["ratio_largest", "largest"]], title: "Update over weight, of all parameters", text: value => value.toExponential(2) },
  { group: "model", keys: [["ignored", ""]], title: "Tokens without a target", unlessZero: true, text: percent },
  { group: "machine", keys: [["mfu", "of the peak (MFU)"], ["product_share", "of measured products"]], title: "Utilisation", text: percent },
  { group: "machine", keys: [["data_wait", "data"], ["evaluation_seconds", "evaluation"], ["saving_seconds", "saving"], ["audit_seconds", "audit"]], title: "Seconds beside the step", text: value => `${shortNumber(value)} s` },
  { group: "machine", keys: [["memory", "device"], ["resident", "process"]], title: "Memory (bytes)", exact: true, text: value => bytes(value) },
];

/// Dashes of a run's second curve, its third and so on.
const DASHES = [[], [7, 3], [2, 3], [10, 3, 2, 3]];

/// Returns {step, value}: the numbers of a run under a key, or nothing.
function column(run, key) {
  return run.lines[key] ? { step: run.lines.step, value: run.lines[key] } : run.sometimes[key];
}

/// Returns [name, column] of each validation set that has the metric; "" is the unnamed one.
function validations(run, metric) {
  return Object.entries(run.sometimes).filter(([key]) => key === metric || key.startsWith(`${metric}/`))
    .map(([key, column]) => [key.slice(metric.length + 1), column]);
}

/// Whether a run has numbers for the chart.
function has(run, kind) {
  return kind.keys.some(([key]) => column(run, key) && column(run, key).value.some(value => value !== null && (value !== 0 || !kind.unlessZero))) ||
    (kind.validation && validations(run, kind.validation).length > 0);
}

/// Returns the step at which a start began another schedule; nothing if it did not.
function scheduleStep(start) {
  const changed = (start.changed || {})["schedule.from_step"];
  return changed ? Number([changed].flat().pop()) : null;
}

function lossText(value) {
  return value === 0 || value >= 0.001 ? value.toFixed(4) : value.toExponential(2);
}

/// Returns the exponential moving average, without bias of the first values to zero.
function smoothed(values, weight) {
  let sum = 0, total = 0;
  return values.map(value => {
    if (value === null) return null;
    sum = sum * weight + value;
    total = total * weight + 1;
    return sum / total;
  });
}

/// Returns [lowest, highest] of a curve with `cut spikes off`; nothing if it is empty.
function withoutSpikes(values) {
  const sorted = values.filter(value => value !== null).sort((a, b) => a - b);
  return sorted.length ? [[sorted[0], sorted[Math.min(sorted.length - 1, Math.floor(0.99 * sorted.length))]]] : [];
}

class Chart {
  /// `view`: {axis, smoothing, log, clip, shown: Set of runs}; the page changes it before calling draw().
  constructor(parent, kind, runs, view) {
    Object.assign(this, { kind, runs, view, plot: null });
    this.box = element("div", { className: "chart" }, element("h3", {}, kind.title));
    this.canvas = element("div", {});
    this.readout = element("div", { className: "readout" });
    this.box.append(this.canvas, this.readout);
    parent.append(this.box);
    new ResizeObserver(() => this.plot && this.plot.setSize(chartSize(this.canvas))).observe(this.canvas);
  }

  shownRuns() { return this.runs.filter(run => this.view.shown.has(run)); }

  axis() { return AXES[this.view.axis]; }

  /// The curve on which outliers and skipped updates are marked.
  values(run) { return run.lines[this.kind.keys[0][0]]; }

  log() { return this.view.log && this.kind.spiky; }

  /// A logarithmic axis cannot show values that are not above zero.
  placed(values) { return this.log() ? values.map(value => value !== null && value <= 0 ? null : value) : values; }

  /// Returns [x values, y values] of each curve, and its style.
  curves() {
    const tables = [], series = [{}];
    const add = (x, y, options) => {
      tables.push([x, this.placed(y)]);
      series.push({ points: { show: y.length === 1 }, spanGaps: false, ...options });
    };
    for (const run of this.shownRuns()) {
      const smooth = this.view.smoothing > 0 && !this.kind.exact;
      const stroke = () => cssColour(run.colour);
      this.kind.keys.forEach(([key], i) => {
        const numbers = column(run, key);
        if (!numbers) return;
        const x = this.places(run, numbers.step), dash = i ? DASHES[i % DASHES.length] : run.dash, few = numbers.step.length < 60;
        const points = numbers.step === run.lines.step ? { show: numbers.step.length === 1 } : { show: few, size: 5, stroke, fill: stroke };
        add(x, numbers.value, { stroke, width: 1.25, dash, alpha: smooth ? 0.25 : 1, points });
        if (smooth) add(x, smoothed(numbers.value, this.view.smoothing), { stroke, width: 1.75, dash });
      });
      if (!this.kind.validation) continue;
      validations(run, this.kind.validation).forEach(([, numbers], i) =>
        add(this.places(run, numbers.step), numbers.value,
          { stroke, width: 3, dash: DASHES[i % DASHES.length], points: { show: numbers.step.length < 60, size: 6, stroke, fill: stroke } }));
    }
    return { tables, series };
  }

  places(run, steps) { return steps === run.lines.step ? this.axis().of(run) : steps.map(step => this.xOf(run, step)); }

  xOf(run, step) { return this.axis().of(run)[nearest(run.lines.step, step)]; }

  draw() {
    if (this.plot) this.plot.destroy();
    this.plot = null;
    const { tables, series } = this.curves();
    this.canvas.replaceChildren();
    if (!tables.length) {
      this.canvas.append(element("p", { className: "muted" }, "no run is shown"));
      this.readout.replaceChildren();
      return;
    }
    const data = uPlot.join(tables);
    const log = this.log();
    const options = {
      ...chartSize(this.canvas), series, ms: 1,
      scales: { x: { time: false }, y: { distr: log ? 3 : 1, range: this.range(tables, log) } },
      axes: [ruler({ size: 30, values: (_, splits) => this.axis().texts(splits), space: 70, label: this.axis().label, labelSize: 18, labelGap: 0 }),
             ruler({ size: 56, ...(log ? { splits: (_, i, low, high) => logarithmicSplits(low, high) } : {}), values: (_, splits) => tickTexts(splits) })],
      cursor: { sync: { key: "runs" }, points: { show: false }, y: false },
      legend: { show: false },
      hooks: { draw: [plot => this.drawMarks(plot)], setCursor: [plot => this.read(plot)] },
    };
    this.plot = new uPlot(options, data, this.canvas);
    this.read(this.plot);
  }

  range(tables, log) {
    if (log || !this.view.clip || !this.kind.spiky) return undefined;
    const ranges = tables.flatMap(table => withoutSpikes(table[1]));
    if (!ranges.length) return undefined;
    return uPlot.rangeNum(Math.min(...ranges.map(range => range[0])), Math.max(...ranges.map(range => range[1])), 0.05, false);
  }

  drawMarks(plot) {
    const { ctx, bbox } = plot, ratio = window.devicePixelRatio || 1;
    ctx.save();
    ctx.beginPath();
    ctx.rect(bbox.left, bbox.top, bbox.width, bbox.height);
    ctx.clip();
    for (const run of this.shownRuns()) {
      const colour = cssColour(run.colour), at = step => plot.valToPos(this.xOf(run, step), "x", true);
      ctx.strokeStyle = colour;
      ctx.lineWidth = ratio;
      ctx.globalAlpha = 0.5;
      ctx.setLineDash([3 * ratio, 4 * ratio]);
      for (const start of run.starts) {
        if (start.step === 0 || !run.lines.step.length) continue;
        const x = at(start.step);
        ctx.strokeStyle = start.rollback ? cssColour("--alarm") : colour;
        line(ctx, x, bbox.top, x, bbox.top + bbox.height);
        if (!Number.isInteger(start.phase)) continue;
        ctx.fillStyle = colour;
        ctx.fillText(`phase ${start.phase}`, x + 3 * ratio, bbox.top + bbox.height - 4 * ratio);
      }
      ctx.strokeStyle = ctx.fillStyle = colour;
      ctx.globalAlpha = 1;
      ctx.setLineDash([]);
      for (const step of run.starts.map(scheduleStep).filter(step => step > 0)) {
        const x = at(step), size = 5 * ratio;
        line(ctx, x, bbox.top, x, bbox.top + bbox.height);
        ctx.beginPath();
        ctx.moveTo(x, bbox.top);
        ctx.lineTo(x + size, bbox.top + size);
        ctx.lineTo(x, bbox.top + 2 * size);
        ctx.fill();
      }
      if (!this.kind.spiky) continue;
      const y = step => {
        const value = this.values(run)[nearest(run.lines.step, step)];
        const place = value === null ? bbox.top : plot.valToPos(value, "y", true);
        return Math.min(Math.max(place, bbox.top + 7 * ratio), bbox.top + bbox.height - 7 * ratio);
      };
      ctx.lineWidth = 1.5 * ratio;
      for (const { step, of } of run.outliers) {
        if (of !== this.kind.keys[0][0]) continue;
        ctx.beginPath();
        ctx.arc(at(step), y(step), 4.5 * ratio, 0, 2 * Math.PI);
        ctx.stroke();
      }
      ctx.strokeStyle = cssColour("--alarm");
      ctx.lineWidth = 2 * ratio;
      for (const { step } of run.skipped) {
        const x = at(step), middle = y(step), arm = 4.5 * ratio;
        line(ctx, x - arm, middle - arm, x + arm, middle + arm);
        line(ctx, x - arm, middle + arm, x + arm, middle - arm);
      }
    }
    ctx.restore();
  }

  /// Shows the numbers of each run at the cursor; without a cursor, the last ones.
  read(plot) {
    const { left } = plot.cursor;
    const value = left >= 0 ? plot.posToVal(left, "x") : Infinity;
    this.readout.replaceChildren(...this.shownRuns().filter(run => run.lines.step.length).map(run => {
      const step = run.lines.step[nearest(this.axis().of(run), value)], parts = [];
      const add = (label, numbers, everyStep) => {
        const at = numbers ? nearest(numbers.step, step) : -1;
        if (at < 0) return;
        const y = numbers.value[at], shown = y === null ? "not finite" : this.kind.text(y);
        parts.push(`${label ? `${label} ` : ""}${shown}${everyStep ? "" : ` at ${numbers.step[at].toLocaleString("en")}`}`);
      };
      for (const [key, label] of this.kind.keys) add(label, column(run, key), Boolean(run.lines[key]));
      if (this.kind.validation)
        for (const [name, numbers] of validations(run, this.kind.validation)) add(name || "validation", numbers, false);
      return element("div", {}, swatch(run), `${run.name}: ${[...parts, `step ${step.toLocaleString("en")}`].join(" · ")}`);
    }));
  }
}
