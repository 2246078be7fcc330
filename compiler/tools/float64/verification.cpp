#include "compiler/tools/float64/verification.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <optional>

#include "compiler/emit/step_printer.h"
#include "compiler/ops/update.h"
#include "compiler/tools/float64/dump.h"
#include "compiler/tools/float64/exact.h"
#include "compiler/tools/float64/host_values.h"
#include "compiler/tools/float64/interpreter.h"
#include "compiler/tools/float64/rounding.h"
#include "compiler/tools/float64/shadow_memory.h"
#include "compiler/tools/float64/trainer_process.h"
#include "device/types.h"
#include "error.h"
#include "files/disk.h"
#include "math/fp8_sums.h"

namespace llmc::float64 {

using namespace graph;

namespace {

/// Largest shift of each element of vectors. They start as ones or zeros, which hide errors of multiplying or adding
/// them.
constexpr double kMoved = 0.25;

constexpr std::uint64_t kShownOfLog = 2000;  // bytes

class Verifier {
 public:
  Verifier(const plan::Plan& plan, const std::vector<std::string>& argv, const std::filesystem::path& log,
           const TensorDump& dump, std::optional<int> draw)
      : plan_(plan),
        g_(plan.graph),
        trainer_(argv, log),
        log_(log),
        exact_(plan),
        host_(plan),
        memory_(plan),
        dump_(plan, dump.folder),
        errors_(plan) {
    if (!draw) return;
    rounded_.emplace(plan);
    rounding_.emplace(*draw);
  }

  Verdict run(std::int64_t steps, const std::function<void(const std::string&)>& progress) {
    try {
      all(steps, progress);
    } catch (const Failure&) {
      if (!verdict_.mismatch) throw;  // otherwise the failure follows from the op beyond its bound
    }
    verdict_.classes = errors_.classes();
    return std::move(verdict_);
  }

 private:
  void all(std::int64_t steps, const std::function<void(const std::string&)>& progress) {
    std::int64_t step = 0;
    for (const ScheduledOp& launch : scheduled_ops(plan_, steps)) {
      if (launch.step != step) progress(fmt::format("step {} of {}", step = launch.step, steps));
      op(launch);
    }
    if (trainer_.next()) throw Failure(Exit::numerics, "the trainer runs more ops than the plan has");
    if (const int code = trainer_.wait(); code != 0) gone(code);
  }

  /// A run of an op with its own memory.
  struct Local {
    std::vector<Extent> inputs, outputs;
    std::vector<Owned> memory;
    OpRun run;
  };

  [[noreturn]] void gone(int code) {
    const bool known = code > 0 && code < 128;
    throw Failure(known ? static_cast<Exit>(code) : Exit::internal,
                  fmt::format("the trainer ended with {}:\n{}", code, disk::tail(log_, kShownOfLog)));
  }

  void expect(const ScheduledOp& launch, bool done) {
    const std::optional<ProbeEvent> event = trainer_.next();
    if (!event) gone(trainer_.wait());
    if (event->op == emit::op_number(g_, launch.region, launch.op) && event->layer == launch.layer &&
        event->chunk == launch.chunk && event->done == done)
      return;
    throw Failure(Exit::numerics,
                  fmt::format("the trainer does not run {} where the plan has it", text_of(plan_, launch)));
  }

  /// Of split masters the rest stands for the masters themselves, which the op's other operands complete.
  void fetch(const Op& op, std::size_t operand, const Extent& extent, OpValue& value) {
    bytes_.resize(static_cast<std::size_t>(extent.bytes()));
    trainer_.read(operand, 0, bytes_);
    if (extent.dtype == DType::rest)
      fetch_masters(op, operand, extent, value);
    else if (extent.records)
      std::memcpy(value.records.data(), bytes_.data(), bytes_.size());
    else
      widen(extent, bytes_, value.matrix);
  }

  void fetch_masters(const Op& op, std::size_t rest, const Extent& extent, OpValue& value) {
    const auto part = [&](DType type) {
      Extent of = extent;
      of.dtype = type;
      std::vector<std::byte> bytes(static_cast<std::size_t>(of.bytes()));
      trainer_.read(type == DType::rest ? rest : part_of_masters(op, type), 0, bytes);
      return bytes;
    };
    join(extent, part(DType::bf16), part(DType::rest), part(DType::tie), value.matrix);
    const Tensor& t = g_.at(rest < op.inputs.size() ? op.inputs[rest] : op.outputs[rest - op.inputs.size()]);
    if (t.role != Role::flat) return;
    const GroupSet others = g_.at(g_.host(Use::masters)).groups;
    for (const plan::Slice& slice : plan_.parameters.slices)
      if (holds(others, slice.group)) std::fill_n(value.matrix.data + slice.offset, slice.rows * slice.pitch, 0.0);
  }

  /// The operand with the copies of split masters, or their ties.
  std::size_t part_of_masters(const Op& op, DType type) const {
    for (std::size_t i = 0; i < op.inputs.size() + op.outputs.size(); ++i) {
      const Tensor& t = g_.at(i < op.inputs.size() ? op.inputs[i] : op.outputs[i - op.inputs.size()]);
      if (t.dtype == type && (t.role == Role::copy || t.use == copies_use(type))) return i;
    }
    throw Failure(Exit::internal, "op " + op.label() + " lacks a part of the masters");
  }

  Local local(const ScheduledOp& launch) {
    const Region& region = g_.regions[launch.region];
    Local local{{}, {}, {}, {g_, region, region.ops[launch.op], {}, {}, !launch.first, plan_.spec.seed}};
    if (const GemmShape* product = product_of(launch))
      local.run.left_out = left_out(*product), local.run.cut = cut_by_fast_accumulation(*product);
    const Op& op = local.run.op;
    local.run.layer = launch.layer;
    const bool some = updates_some(op);
    if (some) local.run.state_begin = plan_.parameters.buckets[first_bucket(op)].offset;
    local.memory.reserve(op.inputs.size() + op.outputs.size());
    const auto add = [&](TensorId id, std::vector<Extent>& extents, std::vector<OpValue>& values) {
      extents.push_back(extent_of(plan_, region, id));
      values.push_back(local.memory.emplace_back(extents.back()).value(extents.back()));
    };
    for (const TensorId id : op.inputs) add(id, local.inputs, local.run.inputs);
    for (const TensorId id : op.outputs) add(id, local.outputs, local.run.outputs);
    for (std::size_t i = 0; i < op.inputs.size(); ++i) {
      fetch(op, i, local.inputs[i], local.run.inputs[i]);
      check_before(launch, op.inputs[i], local.inputs[i], local.run.inputs[i]);
    }
    for (std::size_t i = 0; i < op.outputs.size(); ++i) {
      if (!some && !reads_before(g_.at(op.outputs[i]))) continue;
      fetch(op, op.inputs.size() + i, local.outputs[i], local.run.outputs[i]);
      if (!launch.first) check_before(launch, op.outputs[i], local.outputs[i], local.run.outputs[i]);
    }
    return local;
  }

  /// Checks what an op is about to read, which fetch() has read: that it is what the last op has left there, or what
  /// the host should have written.
  void check_before(const ScheduledOp& launch, TensorId id, const Extent& extent, const OpValue& found) {
    const Role role = g_.at(id).role;
    if ((role == Role::input || role == Role::constant) && !memory_.knows(launch, id, extent)) {
      take_fault(launch, id, host_.check(launch, id, found), Fault::host);
      memory_.note(launch, id, extent, bytes_);
    } else {
      take_fault(launch, id, memory_.changed(launch, id, extent, bytes_), Fault::overwritten);
    }
  }

  void take_fault(const ScheduledOp& launch, TensorId id, const std::optional<Worst>& worst, Fault fault) {
    if (worst && worst->of_bound > 1 && !verdict_.mismatch) verdict_.mismatch = Mismatch{launch, id, *worst, fault};
  }

  /// Whether it updates the weights of some groups alone, and leaves those of others as they are.
  static bool updates_some(const Op& op) {
    const auto* update = std::get_if<ops::UpdateAttributes>(&op.attributes);
    return update && update->groups != kAllGroups;
  }

  /// Of its optimizer's state, if it has any.
  std::size_t first_bucket(const Op& op) const {
    for (const TensorId id : op.inputs)
      if (g_.at(id).use == Use::state) return plan_.parameters.buckets_of(g_.at(id).groups).first;
    return 0;
  }

  /// The product that computes the op; null if none does.
  const GemmShape* product_of(const ScheduledOp& launch) const {
    for (const plan::Launch& l : plan_.launches)
      if (l.region_index == launch.region && l.op_index == launch.op && l.call == ops::Call::product)
        return &plan_.products[l.product].shape;
    return nullptr;
  }

  /// The part of each term that the product leaves out.
  static double left_out(const GemmShape& shape) {
    if (shape.bf16x3()) return kBf16x3;
    if (shape.tf32) return kTf32;
    return shape.scaling != Scaling::none ? kFp8Accumulation : 0;
  }

  /// Whether it is the first op of an optimizer's step.
  bool begins_optimizer(const ScheduledOp& launch) const {
    return launch.op == 0 && &*std::ranges::find_if(g_.regions, &Region::is_optimizer) == &g_.regions[launch.region];
  }

  void op(const ScheduledOp& launch) {
    expect(launch, false);
    if (std::pair(launch.step, launch.micro) != pass_) memory_.forget_inputs();
    pass_ = {launch.step, launch.micro};
    Local ours = local(launch);
    trainer_.go_on();
    const Op& op = ours.run.op;
    if (begins_optimizer(launch)) gradients(launch, ours.run);
    dump_.host(launch, ours.run);
    // The exact run comes first: it reads the trainer's inputs, and some ops overwrite these.
    const OpRun theirs = exact_.run(launch, ours.run, plan_.spec.seed);
    std::optional<OpRun> rounded;
    if (rounded_) rounding_->add(rounded.emplace(rounded_->run(launch, ours.run, plan_.spec.seed)));
    if (ops::row_of(op.kind).updates_weights) dump_.updated(launch, exact_);
    interpret(ours.run);
    expect(launch, true);
    ++verdict_.ops;
    const ops::InputSet changed = ops::row_of(op.kind).changes;
    for (std::size_t i = 0; i < op.inputs.size(); ++i)
      if (changed >> i & 1)
        result(launch, i, op.inputs[i], ours.inputs[i], ours.run.inputs[i], theirs.inputs[i],
               rounded ? &rounded->inputs[i] : nullptr);
    for (std::size_t i = 0; i < op.outputs.size(); ++i)
      result(launch, op.inputs.size() + i, op.outputs[i], ours.outputs[i], ours.run.outputs[i], theirs.outputs[i],
             rounded ? &rounded->outputs[i] : nullptr);
    if (verdict_.ops == 1) move_vectors(launch, op.outputs[0]);  // the first op draws the weights
    trainer_.go_on();
  }

  /// Compares what the trainer has made of an operand with the op alone, `ours`, and with the whole runs.
  void result(const ScheduledOp& launch, std::size_t operand, TensorId id, const Extent& extent, const OpValue& ours,
              const OpValue& theirs, const OpValue* rounded) {
    Owned memory(extent);
    OpValue found = memory.value(extent);
    fetch(g_.regions[launch.region].ops[launch.op], operand, extent, found);
    memory_.note(launch, id, extent, bytes_);
    const Tensor& t = g_.at(id);
    const Worst worst =
        extent.records ? compare_records(t.record, ours, found.records) : compare(ours, found.matrix, t.dtype);
    if (worst.of_bound > verdict_.worst_of_bound) verdict_.worst_of_bound = worst.of_bound, verdict_.worst = launch;
    take_fault(launch, id, worst, Fault::result);
    if (t.use == Use::loss_scale) return;
    if (extent.records)
      figures(launch, {theirs, found, rounded ? std::optional(*rounded) : std::nullopt});
    else
      whole_run(launch, operand, t, ours,
                {theirs.matrix, found.matrix, rounded ? std::optional(rounded->matrix) : std::nullopt});
  }

  void figures(const ScheduledOp& launch, const OfRuns<OpValue>& of) {
    if (!g_.regions[launch.region].is_optimizer()) return;
    const auto results = [](const OpValue& value) {
      StepResults results;
      std::memcpy(&results, value.records.data(), sizeof results);
      return results;
    };
    OfRuns<StepResults> said{results(of.exact), results(of.found), {}};
    if (of.rounded) said.rounded = results(*of.rounded);
    errors_.take_figures(launch, said);
  }

  /// Compares an operand with those of the whole runs, and gives these the trainer's where they would drift apart.
  void whole_run(const ScheduledOp& launch, std::size_t operand, const Tensor& t, const OpValue& ours,
                 const OfRuns<Matrix>& of) {
    const Region& region = g_.regions[launch.region];
    const auto copy_to_runs = [&] {
      std::copy_n(of.found.data, of.found.cols, of.exact.data);
      if (of.rounded) std::copy_n(of.found.data, of.found.cols, of.rounded->data);
    };
    if (t.use == Use::masters || t.use == Use::rest || t.use == Use::state) {
      // Codes of nearly equal numbers, and their scales, may be far apart.
      if (t.use != Use::state)
        errors_.take_weights(launch, t.use == Use::rest, of);
      else if (t.state_block == 1 && ours.least.empty())
        errors_.take_moments(launch, t, of);
      // All runs start the next step with the same weights: AdamW's first updates have the sign of the gradient, which
      // rounding decides near 0.
      return copy_to_runs();
    }
    // All orthogonalise the same matrix: noise of its small singular values becomes large.
    if (t.use == Use::gradients && region.is_optimizer()) return copy_to_runs();
    const auto where = [&] { return fmt::format("{}, %{}", text_of(plan_, launch), t.name); };
    if (t.use == Use::row_state) {
      errors_.take(TensorClass::moments, of, where);
      return copy_to_runs();
    }
    if (t.use == Use::copies) {
      std::ranges::copy(exact_.masters(), of.exact.data);
      if (of.rounded) std::ranges::copy(rounded_->masters(), of.rounded->data);
      return;
    }
    // Codes and scales of nearly equal rows may be far apart: of two runs their products are compared.
    if (ours.undefined || ours.sums_alone || ours.partial || ours.exact || !ours.least.empty() ||
        t.role == Role::gradient || t.role == Role::flat || t.use != Use::unseen)
      return;
    if (region.is_optimizer()) return;
    // Its figures of single tokens are in those of the step; which logit is the largest may be a matter of rounding.
    if (region.is_loss() && t.rows == 1) return;
    const bool slope = region.is_backward() ? !region.ops[launch.op].again
                                            : region.is_loss() && launch_makes_gradient(launch, operand);
    errors_.take(slope ? TensorClass::activation_gradients : TensorClass::activations, of, where);
  }

  /// Whether the op's result is a gradient in the loss chunks: that of the logits, which overwrites them, or one
  /// computed from it.
  bool launch_makes_gradient(const ScheduledOp& launch, std::size_t operand) const {
    const Op& op = g_.regions[launch.region].ops[launch.op];
    return operand < op.inputs.size() || op.of != kNone;
  }

  /// Compares all gradients of a step before they are used.
  void gradients(const ScheduledOp& launch, const OpRun& trainer) {
    dump_.gradients(launch, exact_);
    const TensorId id = trainer.op.inputs[0];
    const Matrix& found = trainer.in(0);
    const auto all = [&](Exact& run) { return Matrix{run.flat(id).data(), 1, found.cols, found.cols}; };
    errors_.take_gradients(launch, {all(exact_), found, rounded_ ? std::optional(all(*rounded_)) : std::nullopt},
                           exact_.masters());
  }

  /// Starts all runs with the trainer's weights, with vectors shifted.
  void move_vectors(const ScheduledOp& launch, TensorId masters) {
    const Extent extent = extent_of(plan_, g_.regions.front(), masters);
    std::vector<float> weights(static_cast<std::size_t>(extent.cols));
    const std::size_t operand = 2;  // of initialise: after the rules and the chunks
    trainer_.read(operand, 0, std::as_writable_bytes(std::span(weights)));
    for (const plan::Slice& slice : plan_.parameters.slices)
      for (std::int64_t i = 0; !slice.matrix && i < slice.cols; ++i)
        weights[static_cast<std::size_t>(slice.offset + i)] +=
            static_cast<float>(kMoved * scattered(static_cast<std::uint64_t>(slice.offset + i) + 1));
    trainer_.write(operand, 0, std::as_bytes(std::span(weights)));
    memory_.note(launch, masters, extent, std::as_bytes(std::span(weights)));
    exact_.flat(masters).assign(weights.begin(), weights.end());
    if (rounded_) rounded_->flat(masters).assign(weights.begin(), weights.end());
  }

  const plan::Plan& plan_;
  const Graph& g_;
  TrainerProcess trainer_;
  std::filesystem::path log_;
  Exact exact_;
  HostValues host_;
  ShadowMemory memory_;
  DumpWriter dump_;
  RunErrors errors_;
  std::optional<Exact> rounded_;
  std::optional<Rounding> rounding_;
  Verdict verdict_;
  std::pair<std::int64_t, std::int64_t> pass_ = {};  // step and micro-batch of the last op
  std::vector<std::byte> bytes_;                     // of the operand that was fetched last
};

}  // namespace

bool Verdict::good() const {
  return !mismatch && std::ranges::all_of(classes, [](const ClassError& of) { return of.worst <= of.bound; });
}

Verdict verify_trainer(const plan::Plan& plan, const std::vector<std::string>& argv, const std::filesystem::path& log,
                       std::int64_t steps, const TensorDump& dump, std::optional<int> draw,
                       const std::function<void(const std::string&)>& progress) {
  return Verifier(plan, argv, log, dump, draw).run(steps, progress);
}

}  // namespace llmc::float64
