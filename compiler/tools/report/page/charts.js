"use strict";
// Draws the charts of a plan. plan_page.cpp writes `data`.

const BOUNDS = { compute: "--compute", memory: "--memory", launch: "--launch", link: "--link" };
const PARTS = { forward: "--run-0", loss: "--run-4", backward: "--run-5", optimizer: "--run-2", send: "--run-3", wait: "--alarm" };
const BANDS = ["--run-0", "--run-6", "--run-2", "--run-4", "--run-7"];  // of buffers that live all step

function milliseconds(seconds) {
  return seconds >= 1 ? `${parseFloat(seconds.toPrecision(4))} s` : seconds >= 1e-3 ? `${parseFloat((1e3 * seconds).toPrecision(4))} ms` : `${parseFloat((1e6 * seconds).toPrecision(3))} µs`;
}

/// Returns a colour with the given opacity.
function faded(name, share) { return `color-mix(in srgb, ${cssColour(name)} ${100 * share}%, transparent)`; }

/// Makes a plot in its box with a line of text below; redraws it if the width of the box or the colours change.
/// `read`: returns the text at an index of the data; -1 without a cursor.
function plotted(box, options, data, read, height = width => Math.round(Math.min(360, Math.max(240, width * 0.5)))) {
  const canvas = element("div", {}), readout = element("div", { className: "readout" });
  box.append(canvas, readout);
  const size = () => { const width = Math.max(200, canvas.clientWidth); return { width, height: height(width) }; };
  const say = plot => readout.replaceChildren(...[read(plot.cursor.left >= 0 ? plot.cursor.idx : -1, plot)].flat());
  const plot = new uPlot({ ms: 1, legend: { show: false }, ...options, ...size(), hooks: { setCursor: [say], ...options.hooks } }, data, canvas);
  say(plot);
  new ResizeObserver(() => plot.setSize(size())).observe(canvas);
  matchMedia("(prefers-color-scheme: dark)").addEventListener("change", () => plot.redraw(false));
  return plot;
}

/// Paints in the plot's area alone. `paint(ctx, x, y, ratio)`: x and y convert values to positions.
function painted(paint) {
  return plot => {
    const { ctx, bbox } = plot, ratio = window.devicePixelRatio || 1;
    ctx.save();
    ctx.beginPath();
    ctx.rect(bbox.left, bbox.top, bbox.width, bbox.height);
    ctx.clip();
    ctx.font = `${12 * ratio}px system-ui, sans-serif`;
    ctx.textBaseline = "bottom";
    paint(ctx, value => plot.valToPos(value, "x", true), value => plot.valToPos(value, "y", true), ratio, bbox);
    ctx.restore();
  };
}

function dashedLine(ctx, ratio, colour, ...ends) {
  ctx.strokeStyle = cssColour(colour);
  ctx.lineWidth = 1.5 * ratio;
  ctx.setLineDash([4 * ratio, 4 * ratio]);
  line(ctx, ...ends);
  ctx.setLineDash([]);
}

/// GiB, or MiB for small plans: its name and the bytes of one.
function unitOf(plan) {
  const size = plan.arena_bytes >= 2 ** 30 ? 2 ** 30 : 2 ** 20;
  return { name: size === 2 ** 30 ? "GiB" : "MiB", of: count => count / size };
}

/// Returns the launches of a pass in order, each with the live bytes.
function launchesInOrder(memory) {
  return memory.runs.flatMap(run => memory.transients[run.region].map(([op, transient]) =>
    ({ op, transient, kept: run.kept, place: run.region + (run.layer === null ? "" : ` of layer ${run.layer}`) })));
}

/// Returns [name, bytes] of buffers that live all step: the largest ones, and the sum of the others.
function stillBands(memory) {
  const sorted = [...memory.sections].sort((a, b) => b.bytes - a.bytes);
  const bands = sorted.slice(0, BANDS.length - 1).filter(band => band.bytes > memory.fixed_bytes / 50).map(band => [band.name, band.bytes]);
  const rest = memory.fixed_bytes - bands.reduce((sum, [, size]) => sum + size, 0);
  return rest > 0 ? [...bands, ["other, lying still", rest]] : bands;
}

function drawRate(box, points) {
  const [steps, rates] = [0, 1].map(side => points.map(point => point[side]));
  plotted(box, {
    series: [{}, { stroke: () => cssColour("--run-0"), width: 1.5, points: { show: false } }], cursor: { y: false },
    scales: { x: { time: false }, y: { range: (_, low, high) => [0, 1.08 * high || 1] } },
    axes: [ruler({ size: 46, label: "step", labelSize: 18, space: 60, values: (_, splits) => tickTexts(splits) }),
           ruler({ size: 62, values: (_, splits) => tickTexts(splits) })],
  }, [steps, rates], index => index < 0 ? [] : [element("div", {}, `step ${grouped(steps[index])} · ${rates[index].toExponential(2)}`)],
  () => 160);
}

function drawMemory(box, data) {
  const { memory, plan } = data, { name: unit, of: inUnit } = unitOf(plan), launches = launchesInOrder(memory), still = stillBands(memory);
  const bands = [...still.map(([name, size], i) => ({ name, colour: BANDS[i], of: () => size })),
    { name: "kept for backward", colour: "--run-1", of: launch => launch.kept },
    { name: "transients", colour: "--run-3", of: launch => launch.transient }];
  let sums = launches.map(() => 0);
  const tops = bands.map(band => (sums = sums.map((sum, i) => sum + band.of(launches[i]))).map(inUnit));
  const peak = launches.findIndex(launch => memory.fixed_bytes + launch.kept + launch.transient === memory.peak.bytes);
  const stepped = uPlot.paths.stepped({ align: 1 });
  const series = [...bands].reverse().map(band => ({
    stroke: () => cssColour(band.colour), fill: () => cssColour(band.colour), width: 0, paths: stepped, points: { show: false } }));
  const budget = plan.budget_bytes - plan.process_bytes, limit = plan.process_bytes ? "memory.budget less the process" : "memory.budget";
  const top = 1.1 * inUnit(Math.max(plan.arena_bytes, budget < 2 * plan.arena_bytes ? budget : 0));
  const marks = painted((ctx, x, y, ratio, bbox) => {
    for (const [size, name] of [[plan.arena_bytes, "allocated"], [budget, limit]]) {
      dashedLine(ctx, ratio, name === "allocated" ? "--ink" : "--alarm", bbox.left, y(inUnit(size)), bbox.left + bbox.width, y(inUnit(size)));
      ctx.fillStyle = cssColour(name === "allocated" ? "--ink" : "--alarm");
      ctx.textAlign = "right";
      ctx.fillText(`${name} ${bytes(size)}`, bbox.left + bbox.width - 6 * ratio, y(inUnit(size)) - 2 * ratio);
    }
    dashedLine(ctx, ratio, "--ink", x(peak), bbox.top, x(peak), bbox.top + bbox.height);
  });
  plotted(box, {
    series: [{}, ...series], cursor: { points: { show: false }, y: false },
    scales: { x: { time: false }, y: { range: [0, top] } }, hooks: { draw: [marks] },
    axes: [ruler({ size: 46, label: "launch of a micro-batch, then of the optimizer", labelSize: 18, values: (_, splits) => splits.map(grouped), space: 70 }),
           ruler({ size: 56, values: (_, splits) => tickTexts(splits), label: unit, labelSize: 18 })],
  }, [launches.map((_, i) => i), ...tops.reverse()], index => {
    const at = index >= 0 && index !== null && index !== undefined ? index : peak, launch = launches[at];
    return [element("div", {}, element("strong", {}, `${index >= 0 ? "" : "peak: "}${launch.place}: ${launch.op}`), ` · ${bytes(memory.fixed_bytes + launch.kept + launch.transient)}`),
      ...bands.map(band => element("div", {}, swatch(band), `${band.name} ${bytes(band.of(launch))}`))];
  });
}

function drawRoofline(box, data) {
  const { plan, ops } = data, list = ops.filter(op => op.flops > 0 && op.bytes > 0 && op.seconds > 0).sort((a, b) => a.flops / a.bytes - b.flops / b.bytes);
  const x = list.map(op => op.flops / op.bytes), rates = list.map(op => op.flops / op.seconds), bend = plan.peak_flops / plan.copy_bytes;
  const low = 10 ** Math.floor(Math.log10(Math.min(...x, bend))), high = 10 ** Math.ceil(Math.log10(Math.max(...x, 4 * bend)));
  const floor = 10 ** Math.floor(Math.log10(Math.min(...rates, plan.peak_flops / 100))), roof = at => Math.min(plan.peak_flops, plan.copy_bytes * at);
  const marks = painted((ctx, at, up, ratio, bbox) => {
    ctx.strokeStyle = ctx.fillStyle = cssColour("--ink");
    ctx.lineWidth = 1.5 * ratio;
    for (const [from, to] of [[low, bend], [bend, high]]) line(ctx, at(from), up(roof(from)), at(to), up(roof(to)));
    ctx.textAlign = "right";
    ctx.fillText(`peak ${shortNumber(plan.peak_flops)}FLOP/s`, at(bend) - 8 * ratio, up(plan.peak_flops) + 6 * ratio);
    const slope = bend / Math.sqrt(bend / low);
    ctx.fillText(`copy ${shortNumber(plan.copy_bytes)}B/s`, at(slope) - 6 * ratio, up(roof(slope)) - 2 * ratio);
    const most = Math.max(...list.map(op => op.seconds_a_step));
    list.forEach((op, i) => {
      ctx.fillStyle = faded(BOUNDS[op.bound], 0.6);
      ctx.strokeStyle = cssColour(BOUNDS[op.bound]);
      ctx.lineWidth = ratio;
      ctx.beginPath();
      ctx.arc(at(x[i]), up(rates[i]), (3 + 8 * Math.sqrt(op.seconds_a_step / most)) * ratio, 0, 2 * Math.PI);
      ctx.fill();
      ctx.stroke();
    });
  });
  plotted(box, {
    series: [{}, { paths: () => null, points: { show: false } }], cursor: { y: false, points: { show: false } },
    scales: { x: { time: false, distr: 3, range: [low, high] }, y: { distr: 3, range: [floor, 4 * plan.peak_flops] } }, hooks: { draw: [marks] },
    axes: [ruler({ size: 46, label: "FLOPs a byte", labelSize: 18, splits: (_, i, from, to) => logarithmicSplits(from, to), values: (_, splits) => tickTexts(splits) }),
           ruler({ size: 62, label: "FLOP/s", labelSize: 18, splits: (_, i, from, to) => logarithmicSplits(from, to), values: (_, splits) => tickTexts(splits) })],
  }, [x, rates], index => {
    const nearestTo = list[index >= 0 ? index : list.indexOf(list.reduce((a, b) => b.seconds_a_step > a.seconds_a_step ? b : a))];
    return [element("div", {}, swatch({ colour: BOUNDS[nearestTo.bound] }), `${nearestTo.runs} in ${nearestTo.region}: ${shortNumber(nearestTo.flops / nearestTo.bytes)} FLOPs a byte, ` +
      `${shortNumber(nearestTo.flops / nearestTo.seconds)}FLOP/s, bound by ${nearestTo.bound}`)];
  });
}

function choiceWords(choice) {
  return `micro_batch ${choice.micro_batch}, loss_chunk ${grouped(choice.loss_chunk)}, recompute ${choice.recompute}` + (choice.shard ? `, shard ${choice.shard}` : "");
}

function drawChoices(box, data) {
  const { plan } = data, { name: unit, of: inUnit } = unitOf(plan), list = [...data.choices].sort((a, b) => a.arena_bytes - b.arena_bytes), front = list.filter(choice => choice.front);
  const x = list.map(choice => inUnit(choice.arena_bytes)), y = list.map(choice => 1e3 * choice.step_seconds);
  const spread = values => { const low = Math.min(...values), high = Math.max(...values), more = 0.08 * (high - low || high); return [Math.max(0, low - more), high + more]; };
  const marks = painted((ctx, at, up, ratio, bbox) => {
    ctx.strokeStyle = cssColour("--muted");
    ctx.lineWidth = 1.5 * ratio;
    front.slice(1).forEach((choice, i) => line(ctx, at(inUnit(front[i].arena_bytes)), up(1e3 * front[i].step_seconds), at(inUnit(choice.arena_bytes)), up(1e3 * choice.step_seconds)));
    const budget = at(inUnit(plan.budget_bytes - plan.process_bytes));
    dashedLine(ctx, ratio, "--alarm", budget, bbox.top, budget, bbox.top + bbox.height);
    list.forEach((choice, i) => {
      ctx.fillStyle = ctx.strokeStyle = cssColour(choice.chosen ? "--run-1" : choice.front ? "--run-0" : "--run-7");
      ctx.lineWidth = 1.5 * ratio;
      ctx.beginPath();
      ctx.arc(at(x[i]), up(y[i]), (choice.chosen ? 7 : 4.5) * ratio, 0, 2 * Math.PI);
      if (choice.fits) ctx.fill(); else ctx.stroke();
    });
  });
  plotted(box, {
    series: [{}, { paths: () => null, points: { show: false } }], cursor: { y: false, points: { show: false } },
    scales: { x: { time: false, range: spread(x) }, y: { range: spread(y) } }, hooks: { draw: [marks] },
    axes: [ruler({ size: 46, label: `${unit} of the arena`, labelSize: 18, space: 60, values: (_, splits) => tickTexts(splits) }),
           ruler({ size: 62, label: "ms a step", labelSize: 18, values: (_, splits) => splits.map(grouped) })],
  }, [x, y], index => {
    const choice = index >= 0 ? list[index] : list.find(other => other.chosen);
    return [element("div", {}, `${choice.chosen ? "this plan: " : ""}${choiceWords(choice)} · ${milliseconds(choice.step_seconds)}, ${bytes(choice.arena_bytes)}${choice.fits ? "" : ", does not fit"}`)];
  });
}

/// Draws two lanes: computing and waiting of the device, and the sends of ranks that overlap it.
function drawStreams(box, pass) {
  box.replaceChildren();
  const { spans } = pass, begin = Math.min(...spans.map(span => span.begin)), end = Math.max(...spans.map(span => span.end));
  const lanes = spans.some(span => span.does === "send") ? ["passes", "ranks"] : ["passes"];
  const row = span => lanes.length - (span.does === "send" ? 1 : 0) - 1;
  const marks = painted((ctx, at, up, ratio) => {
    for (const span of spans) {
      const from = at(1e3 * (span.begin - begin)), to = at(1e3 * (span.end - begin)), top = up(row(span) + 0.86), height = up(row(span) + 0.14) - top;
      ctx.fillStyle = cssColour(PARTS[span.part]);
      ctx.fillRect(from, top, Math.max(to - from - (to - from > 4 * ratio ? ratio : 0), 0.5 * ratio), height);
    }
  });
  const parts = Object.keys(PARTS).filter(part => spans.some(span => span.part === part));
  const at = index => { const ms = times[index] / 1e3 + begin; return spans.filter(span => span.begin <= ms && ms < span.end); };
  const times = [];
  for (let i = 0; i <= 2000; ++i) times.push(1e3 * (end - begin) * i / 2000);
  plotted(box, {
    series: [{}, { paths: () => null, points: { show: false } }], cursor: { y: false, points: { show: false } },
    scales: { x: { time: false }, y: { range: [0, lanes.length] } }, hooks: { draw: [marks] },
    axes: [ruler({ size: 46, label: "ms", labelSize: 18, space: 60, values: (_, splits) => tickTexts(splits) }),
           ruler({ size: 62, grid: { show: false }, ticks: { show: false }, splits: () => lanes.map((_, i) => i + 0.5), values: () => [...lanes].reverse() })],
  }, [times, times.map(() => null)], index => [
    ...parts.map(part => element("div", {}, swatch({ colour: PARTS[part] }), part)),
    element("div", {}, index >= 0 ? at(index).map(span => `${span.what} ${milliseconds(span.end - span.begin)}`).join(" beside ") : `${milliseconds(end - begin)} in all`),
  ], () => 70 + 60 * lanes.length);
}
