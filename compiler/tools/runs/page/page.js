"use strict";
// Shows the texts and tables next to the curves of runs.

const named = run => element("span", { className: "name" }, swatch(run), run.name);

function showRuns(runs, view, redraw) {
  const head = ["run", "state", "step", "loss", "validation", "tokens/s", "last start"];
  const kinds = ["", "", "number", "number", "number", "number", ""];
  const rows = runs.map(run => {
    const box = element("input", { type: "checkbox", checked: true });
    box.addEventListener("change", () => {
      if (box.checked) view.shown.add(run); else view.shown.delete(run);
      redraw();
    });
    return [element("label", {}, box, named(run)), run.state, `${grouped(run.step)} / ${grouped(run.steps) || "?"}`,
      run.loss === null ? null : lossText(run.loss), run.val_loss === null ? null : lossText(run.val_loss),
      run.tokens_per_second === null ? null : grouped(Math.round(run.tokens_per_second)), run.started || "never"];
  });
  byId("runs").replaceWith(table(head, rows, kinds));
  for (const run of runs)
    if (run.problem) byId("problems").append(element("p", { className: "problem" }, `${run.name}: ${run.problem}`));
  const thinned = runs.filter(run => run.lines_of_run > run.lines.step.length);
  if (thinned.length)
    byId("thinned").textContent = "Of long runs some steps are shown: " +
      thinned.map(run => `${run.name} ${grouped(run.lines.step.length)} of ${grouped(run.lines_of_run)}`).join(", ") + ".";
}

function showControls(view, redraw, charts) {
  const buttons = Object.entries(AXES).map(([name, axis]) => {
    const button = element("button", { type: "button" }, axis.label);
    button.addEventListener("click", () => { view.axis = name; press(); redraw(); });
    return [name, button];
  });
  const press = () => buttons.forEach(([name, button]) => button.setAttribute("aria-pressed", String(name === view.axis)));
  byId("axis").append(...buttons.map(([, button]) => button));
  press();
  byId("smoothing").addEventListener("input", event => { view.smoothing = Number(event.target.value); redraw(); });
  byId("log").addEventListener("change", event => { view.log = event.target.checked; redraw(); });
  byId("clip").addEventListener("change", event => { view.clip = event.target.checked; redraw(); });
  byId("reset").addEventListener("click", redraw);
  matchMedia("(prefers-color-scheme: dark)").addEventListener("change", () => charts.forEach(chart => chart.plot && chart.plot.redraw(false)));
}

/// Shows the samples of one step: for each run those of that step or, if it has none, of the step before.
function showSamples(runs) {
  const section = byId("samples");
  const steps = [...new Set(runs.flatMap(run => run.samples.map(sample => sample.step)))].sort((a, b) => a - b);
  if (!steps.length) return section.remove();
  const slider = element("input", { type: "range", min: 0, max: steps.length - 1, value: steps.length - 1, ariaLabel: "step of the samples" });
  const label = element("label", {}), cards = element("div", {});
  const show = () => {
    const step = steps[slider.value];
    label.textContent = `after step ${grouped(step)} (move to see how they changed)`;
    const prompts = new Map();
    for (const run of runs) {
      const at = run.samples.reduce((last, sample) => sample.step <= step ? Math.max(last, sample.step) : last, -1);
      for (const sample of run.samples)
        if (sample.step === at) prompts.set(sample.prompt, [...(prompts.get(sample.prompt) || []), [run, sample]]);
    }
    cards.replaceChildren(...[...prompts].flatMap(([prompt, of]) => [
      element("h3", {}, prompt === "" ? "without a prompt" : prompt),
      element("div", { className: "cards" }, ...of.map(([run, sample]) =>
        element("div", { className: "card" }, named(run), element("span", { className: "muted" }, ` step ${grouped(sample.step)}`),
          element("pre", {}, element("span", { className: "prompt" }, sample.prompt + run.after_prompt), sample.text)))),
    ]));
  };
  slider.addEventListener("input", show);
  section.append(label, slider, cards);
  show();
}

function showKeys(runs, keys) {
  const section = byId("keys");
  if (runs.length < 2) return section.remove();
  if (!keys.length) return section.append(element("p", {}, "none: the specs of these runs say the same"));
  section.append(table(["key", ...runs.map(named)], keys.map(row => [row.key, ...row.values])));
}

function showMemory(runs) {
  const planned = runs.filter(run => run.plan);
  if (!planned.length) return byId("memory").remove();
  const of = run => run.plan.memory || {};
  const measured = run => run.starts.length ? bytes(run.starts[run.starts.length - 1].memory) : null;
  byId("memory").append(
    table(["run", "parameters", "planned", "allocated at the last start", "budget", "compiled for", "compute", "micro-batch", "recompute"],
      planned.map(run => [named(run), grouped(run.plan.parameters), bytes(of(run).arena_bytes), measured(run), bytes(of(run).budget_bytes),
        run.plan.target ? `${run.plan.target.kind} ${[].concat(run.plan.target.arch).join(", ")}` : null, run.plan.compute,
        run.plan.batch ? `${grouped(run.plan.batch.micro_batches)} × ${grouped(run.plan.batch.micro_batch)} × ${grouped(run.plan.batch.sequence_length)}` : null,
        typeof run.plan.recompute === "object" ? JSON.stringify(run.plan.recompute) : run.plan.recompute]),
      ["", "number", "number", "number", "number"]));
  const names = [...new Set(planned.flatMap(run => (of(run).sections || []).map(section => section.name)))];
  byId("memory").append(element("h3", {}, "Sections of the plan"),
    table(["section", ...planned.map(named)],
      names.map(name => [name, ...planned.map(run => bytes(((of(run).sections || []).find(section => section.name === name) || {}).bytes))]),
      ["", ...planned.map(() => "number")]));
}

function showStarts(runs) {
  const text = value => typeof value === "string" ? value : JSON.stringify(value);
  for (const run of runs) {
    const rows = run.starts.map(start => [start.time, grouped(start.step), start.llmc, start.device, grouped(start.ranks), grouped(start.threads),
      bytes(start.memory), [start.libraries || []].flat().join(", "),
      [...Object.entries(start.changed || {}).map(([key, pair]) => [key, [pair].flat()]).map(([key, [before, after]]) => `${key} ${text(before)} → ${text(after)}`),
        ...(start.overrides || [])].join("; ")]);
    byId("starts").append(element("h3", {}, named(run)),
      rows.length ? table(["time", "from step", "llmc", "device", "ranks", "threads", "memory", "libraries", "changed keys, words of the command line"], rows,
        ["", "number", "", "", "number", "number", "number", "", "wrap"]) : element("p", { className: "muted" }, "never started"));
  }
}

function showMarks(runs) {
  const rows = runs.flatMap(run => [
    ...run.starts.filter(start => start.rollback).map(start =>
      [start.step, named(run), `rollback from step ${grouped(start.rollback.from_step)}`, start.rollback.why]),
    ...run.starts.filter(start => Number.isInteger(start.phase) && start.step > 0).map(start =>
      [start.step, named(run), `phase ${start.phase} begins`, Object.keys(start.changed || {}).join(", ")]),
    ...run.skipped.map(({ step, samples, reason }) => [step, named(run), reason ? `update skipped: ${reason}` : "update skipped", `samples ${samples.join(", ")}`]),
    ...run.outliers.map(({ step, of }) => [step, named(run), `${of} is an outlier`, String(run.lines[of][run.lines.step.indexOf(step)])])]);
  if (!rows.length) return byId("marks").remove();
  const most = 200, list = element("details", { open: rows.length <= 20 }, element("summary", {}, `${grouped(rows.length)} steps`));
  list.append(table(["step", "run", "what", ""], rows.slice(0, most).map(([step, ...rest]) => [grouped(step), ...rest]), ["number", "", "", "wrap"]));
  if (rows.length > most) list.append(element("p", { className: "muted" }, `and ${grouped(rows.length - most)} more`));
  byId("marks").append(list);
}

{
  const { runs, keys, sweeps } = JSON.parse(byId("data").textContent);
  runs.forEach((run, i) => Object.assign(run, { colour: `--run-${i % 8}`, dash: i < 8 ? [] : [6, 2 + Math.floor(i / 8)] }));
  document.title = `llmc report: ${runs.map(run => run.name).join(", ")}`;
  const view = { axis: "step", smoothing: 0, log: false, clip: false, shown: new Set(runs) };
  const places = { "": byId("charts"), model: byId("model").querySelector(".charts"), machine: byId("machine").querySelector(".charts") };
  const charts = CHARTS.filter(kind => runs.some(run => has(run, kind))).map(kind => new Chart(places[kind.group], kind, runs, view));
  for (const group of ["model", "machine"])
    if (!places[group].children.length) places[group].parentElement.remove();
  const redraw = () => charts.forEach(chart => chart.draw());
  showRuns(runs, view, redraw);
  showControls(view, redraw, charts);
  redraw();
  showSweeps(sweeps);
  showSamples(runs);
  showKeys(runs, keys);
  showMemory(runs);
  showStarts(runs);
  showMarks(runs);
}
