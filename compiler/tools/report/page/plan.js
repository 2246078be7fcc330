"use strict";
// Shows the texts and tables next to the charts of a plan.

function showHead(data) {
  const { plan } = data, choice = data.choices.find(other => other.chosen);
  document.title = `llmc plan: ${plan.name}`;
  byId("title").textContent = `Plan of ${plan.name}`;
  byId("about").textContent = `${grouped(plan.parameters)} parameters in ${plan.compute} on ${plan.world_size === 1 ? "one" : plan.world_size} ${plan.device.name}; a step is ` +
    `${grouped(plan.batch.micro_batches)} × ${grouped(plan.batch.micro_batch)} sequences of ${grouped(plan.batch.sequence_length)} = ${grouped(plan.batch.tokens)} tokens; ${choiceWords(choice)}. ` +
    "Memory is what the trainer allocates, to the byte; times are predicted.";
  const figure = (value, what) => element("div", { className: "figure" }, element("strong", {}, value), element("span", { className: "muted" }, what));
  byId("figures").append(
    figure(bytes(plan.arena_bytes), `of memory; ${(100 * (plan.arena_bytes + plan.process_bytes) / plan.budget_bytes).toFixed(0)} % of the budget`),
    figure(milliseconds(plan.step_seconds), "a step"),
    figure(grouped(Math.round(plan.tokens_per_second)), "tokens a second"),
    figure(`${(100 * plan.mfu).toFixed(1)} %`, "of the device's peak (MFU)"),
    figure(duration(plan.run_seconds), `for all ${grouped(plan.length.steps)} steps`));
  byId("summary").append(...data.summary.map(({ asks, says }) => element("div", { className: "card" }, element("h3", {}, asks), says)));
}

function showPeak({ memory }) {
  const { peak } = memory, most = 12;
  byId("peak").append(
    element("p", {}, `${bytes(peak.bytes)} in ${peak.place}, at ${peak.op}: ${bytes(memory.fixed_bytes)} lie still, ${bytes(peak.kept_bytes)} are kept by layers, ${bytes(peak.transient_bytes)} are transients.`),
    table(["tensor", "bytes", "", "what"], peak.tensors.slice(0, most).map(tensor =>
      [tensor.name, bytes(tensor.bytes), bar("--run-7", tensor.bytes / peak.tensors[0].bytes), tensor.what]), ["", "number", "bars", "wrap"]));
}

function bar(colour, share) {
  const inner = element("span", {});
  inner.style.setProperty("--colour", `var(${colour})`);
  inner.style.width = `${100 * share}%`;
  return element("div", { className: "bar" }, inner);
}

function showOps({ ops }) {
  const all = ops.reduce((sum, op) => sum + op.seconds_a_step, 0), most = 16;
  for (const [bound, colour] of Object.entries(BOUNDS)) {
    const part = ops.filter(op => op.bound === bound).reduce((sum, op) => sum + op.seconds_a_step, 0);
    if (part > 0) byId("bounds").append(element("div", {}, swatch({ colour }), `${bound} ${(100 * part / all).toFixed(1)} %`));
  }
  const row = op => [op.runs, bar(BOUNDS[op.bound], op.seconds_a_step / ops[0].seconds_a_step), milliseconds(op.seconds_a_step), `${(100 * op.seconds_a_step / all).toFixed(1)} %`, op.bound,
    op.region, grouped(op.times_a_step), milliseconds(op.seconds)];
  const heads = ["runs", "", "a step", "share", "bound by", "region", "times", "each"], kinds = ["", "bars", "number", "number", "", "", "number", "number"];
  byId("ops").append(table(heads, ops.slice(0, most).map(row), kinds));
  if (ops.length > most)
    byId("ops").append(element("details", {}, element("summary", {}, `${ops.length - most} more`), table(heads, ops.slice(most).map(row), kinds)));
}

/// Formats a difference with its sign.
function signed(value, text) { return (value > 0 ? "+" : value < 0 ? "−" : "±") + text(Math.abs(value)); }

function showFront({ choices }) {
  const front = choices.filter(choice => choice.front || choice.chosen).sort((a, b) => a.arena_bytes - b.arena_bytes), mine = choices.find(choice => choice.chosen);
  byId("fronts").append(element("h3", {}, "Those on the line, beside this plan"), table(["micro_batch", "loss_chunk", "recompute", "shard", "a step", "", "memory", ""], front.map(choice => [
    grouped(choice.micro_batch), grouped(choice.loss_chunk), choice.recompute, choice.shard, milliseconds(choice.step_seconds),
    choice.chosen ? "this plan" : signed(100 * (choice.step_seconds / mine.step_seconds - 1), value => `${value.toFixed(1)} %`), bytes(choice.arena_bytes),
    choice.chosen ? "" : signed(choice.arena_bytes - mine.arena_bytes, bytes) + (choice.fits ? "" : ", does not fit")]), ["number", "number", "wrap", "", "number", "number", "number", "number"]));
}

function showAdvice({ advice, plan }) {
  const { limits, hints } = advice;
  const from = (most, toWithin) => grouped(most) + (toWithin === 0 ? " or more" : "");
  const most = limit => from(limit.as_chosen, limit.to_within) +
    (limit.recompute_full > limit.as_chosen ? `, with memory.recompute: full ${from(limit.recompute_full, limit.recompute_full_to_within)}` : "");
  byId("advice").append(element("h3", {}, "Changes that would take time off a step"),
    element("p", { className: "muted" }, `The most that fits: micro_batch ${most(limits.micro_batch)}; sequence_length ${most(limits.sequence_length)}, one sequence a pass.`),
    hints.length ? table(["change", "a step", "", "memory", "parameters"], hints.map(hint => [
      hint.changes.map(({ key, before, after }) => `${key}: ${after} instead of ${before}`).join(", "), signed(-hint.step_seconds_less, milliseconds),
      signed(-100 * hint.step_seconds_less / plan.step_seconds, value => `${value.toFixed(1)} %`), signed(hint.arena_bytes_more, bytes), signed(hint.parameters_more, shortNumber)]),
    ["wrap", "number", "number", "number", "number"]) : element("p", {}, "None of those that were planned takes half a percent off."));
}

function showStreams({ streams }) {
  const { passes } = streams, buttons = passes.map(pass => element("button", { type: "button" }, pass.name));
  const show = shown => {
    buttons.forEach((button, i) => button.setAttribute("aria-pressed", String(i === shown)));
    drawStreams(byId("streams"), passes[shown]);
  };
  buttons.forEach((button, i) => button.addEventListener("click", () => show(i)));
  if (passes.length > 1) byId("passes").append(...buttons);
  show(passes.length - 1);
}

{
  const data = JSON.parse(byId("data").textContent);
  showHead(data);
  byId("length").textContent = `${grouped(data.plan.length.tokens)} tokens, ${parseFloat(data.plan.length.tokens_per_parameter.toPrecision(3))} for each parameter.`;
  drawRate(byId("rate"), data.rate);
  drawMemory(byId("memory"), data);
  showPeak(data);
  showOps(data);
  drawRoofline(byId("roofline"), data);
  drawChoices(byId("choices"), data);
  showFront(data);
  showAdvice(data);
  showStreams(data);
}
