#include "step/session.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstring>
#include <numeric>
#include <utility>

#include "comm/collective_log.h"
#include "comm/collectives.h"
#include "device/range.h"
#include "error.h"
#include "run/trace.h"
#include "step/constants.h"
#include "step/fits.h"

namespace llmc {

namespace {

/// Where the inputs of a micro-batch come from, one a Use, of optimizers' scalars `index` in their order.
std::span<const std::byte> input_bytes(Use use, std::size_t index, const MicroBatch& micro, const StepScalars& scalars,
                                       const OptimizerScalars& optimizer) {
  switch (use) {
    case Use::scalars: return std::as_bytes(std::span(&scalars, 1));
    case Use::optimizer_scalars: return optimizer.records.at(index);
    case Use::group_scalars: return std::as_bytes(std::span(optimizer.groups));
    case Use::tokens: return std::as_bytes(std::span(micro.inputs));
    case Use::targets: return std::as_bytes(std::span(micro.targets));
    case Use::embedding_order: return std::as_bytes(std::span(micro.order));
    case Use::run_begin: return std::as_bytes(std::span(micro.run_begin));
    case Use::run_token: return std::as_bytes(std::span(micro.run_token));
    case Use::run_count: return std::as_bytes(std::span(&micro.run_count, 1));
    case Use::document_begin: return std::as_bytes(std::span(micro.document_begin));
    case Use::document_end: return std::as_bytes(std::span(micro.document_end));
    default: return {};
  }
}

/// Staging slots of input blocks in flight; none on cpu.
std::byte* slots(std::byte* arena, const ProgramInfo& info) {
  const Buffer* buffer = find_buffer(info.buffers, Use::input_slots);
  return buffer ? arena + buffer->offset : nullptr;
}

std::size_t slot_count(const ProgramInfo& info) {
  const Buffer* buffer = find_buffer(info.buffers, Use::input_slots);
  return buffer ? buffer->bytes() / input_block(info.buffers).bytes : 0;
}

std::byte* allocate_arena(Device& device, Communicator& ranks, const ProgramInfo& info, std::size_t bytes) {
  check_fits(info, bytes);
  return ranks.allocate(device, bytes);
}

}  // namespace

Session::Session(Device& device, Communicator& data, const Program& program, const Mesh& mesh)
    : device_(device),
      ranks_(data),
      mesh_(mesh),
      program_(program),
      shares_(program.info.shard == Shard::none ? Shares(program.info.buckets)
                                                : Shares(program.info.buckets, mesh.data, program.info.share_unit)),
      offsets_(program.info, shares_, mesh.data.size),
      arena_(allocate_arena(device, data, program.info, offsets_.bytes())),
      flat_(device, data, arena_, program.info, shares_, offsets_),
      micro_batches_{replay(), replay(), replay(), replay()},
      optimizer_step_(replay()),
      evaluations_{replay(), replay()},
      audit_(replay()),
      state_(program.info, flat_, host_masters(program), [this] { join_masters(); }),
      block_(input_block(program.info.buffers)),
      inputs_(device, arena_ + block_.offset, slots(arena_, info()), block_.bytes, slot_count(info())),
      results_(device, place(Use::results), sizeof(StepResults)) {
  if (mesh_.data.size > 1) own_results_.emplace(device, place(Use::results), sizeof(StepResults));
  const auto read_back = [&](std::optional<ReadBack>& to, Use use) {
    if (const Buffer* from = find_buffer(info().buffers, use)) to.emplace(device, arena_ + from->offset, from->bytes());
  };
  read_back(loss_scale_, Use::loss_scale);
  read_back(reports_, Use::reports);
  read_back(norms_, Use::parameter_norms);
  upload_constants(device_, arena_, program_.info, shares_);
  set_loss_scale({});
  MicroBatch nothing;  // rows of documents are a partition from the start, also for kernels that are only timed
  nothing.inputs.assign(static_cast<std::size_t>(info().micro_batch * info().sequence_length), 0);
  copy_in_documents(nothing);
  step_ = program_.create(device_, ranks_, shares_, arena_, offsets_.shared());
}

NumberedReplay Session::replay() const { return {device_, ranks_.collectives()}; }

Session::~Session() { program_.destroy(step_); }

template <typename T>
void Session::copy_in(std::byte* to, std::span<const T> values) {
  device_.copy_in(to, values.data(), values.size_bytes());
}

template <typename T>
void Session::copy_out(const std::byte* from, std::span<T> values) {
  device_.copy_out(values.data(), from, values.size_bytes());
  const WaitForRanks waits(ranks_.collectives());
  device_.synchronize();
}

void Session::read(std::size_t offset, std::span<std::byte> bytes) { copy_out(arena_ + offset, bytes); }

FlatSource Session::source(const Buffer& of, std::function<void()> before) {
  return {[this, &of, before = std::move(before)](const ParameterInfo& parameter) {
            before();
            flat_.gather(of, parameter);
          },
          [this, &of](std::int64_t offset, std::int64_t count, std::byte* out) { flat_.read(of, offset, count, out); }};
}

FlatSource Session::unscaled_gradients() {
  FlatSource source = this->source(buffer(Use::gradients), [] {});
  const Buffer* scale = find_buffer(info().buffers, Use::loss_scale);
  if (!scale) return source;
  LossScale now;
  read(scale->offset, std::as_writable_bytes(std::span(&now, 1)));
  source.read = [read = std::move(source.read), now](std::int64_t offset, std::int64_t count, std::byte* out) {
    read(offset, count, out);
    for (float& gradient : std::span(reinterpret_cast<float*>(out), static_cast<std::size_t>(count)))
      gradient /= now.factor;
  };
  return source;
}

void Session::join_masters() {
  if (!program_.join_masters || joined_) return;
  flat_.forget();
  program_.join_masters(*step_);
  joined_ = true;
}

bool Session::own_weights_finite() {
  constexpr std::int64_t kBlock = 4 << 20;  // elements on the host at once
  join_masters();
  const Buffer& masters = host_masters(program_);
  const bool shared = is_sharded(masters.use, info().shard);
  bool finite = true;
  std::vector<float> block;
  shares_.own(0, shares_.buckets().back().offset + shares_.buckets().back().elements,
              [&](std::int64_t flat, std::int64_t state, std::int64_t count) {
                const auto* const own =
                    reinterpret_cast<const float*>(arena_ + offsets_.of(masters)) + (shared ? state : flat);
                for (std::int64_t done = 0; done < count; done += kBlock) {
                  block.resize(static_cast<std::size_t>(std::min(kBlock, count - done)));
                  copy_out(reinterpret_cast<const std::byte*>(own + done), std::span(block));
                  for (const float weight : block) finite &= std::isfinite(weight);
                }
              });
  return finite;
}

void Session::initialise(std::uint64_t seed) {
  program_.initialise(*step_, seed);
  refresh_copies();
}

void Session::refresh_copies() {
  gathered_ = joined_ = false;
  program_.refresh_copies(*step_);
}

void Session::gather_weights() {
  if (!gathered_) program_.gather_weights(*step_);
  gathered_ = true;
}

/// A pass does not gather by itself: a rank without a pass would skip the collective, and the others would wait for it.
void Session::need_whole_weights() const {
  if (!gathered_) throw Failure(Exit::internal, "a pass without an update reads weights that were not gathered");
}

void Session::send_inputs(const MicroBatch& micro, const StepScalars& scalars, const OptimizerScalars& optimizer) {
  std::byte* block = inputs_.next();
  std::size_t optimizers = 0;
  for (const Buffer& buffer : info().buffers) {
    if (!is_input(buffer.use)) continue;
    const std::size_t index = buffer.use == Use::optimizer_scalars ? optimizers++ : 0;
    const std::span<const std::byte> from = input_bytes(buffer.use, index, micro, scalars, optimizer);
    if (from.size() != buffer.bytes())
      throw Failure(Exit::internal, fmt::format("{} bytes were given for {}, for which the plan has {}", from.size(),
                                                buffer.name, buffer.bytes()));
    std::memcpy(block + (buffer.offset - block_.offset), from.data(), from.size());
  }
  inputs_.send();
}

/// Copies what a pass without an update reads of a micro-batch.
void Session::copy_in_tokens(const MicroBatch& micro) {
  copy_in(place(Use::tokens), std::span(micro.inputs));
  copy_in(place(Use::targets), std::span(micro.targets));
  copy_in_documents(micro);
}

void Session::copy_in_documents(const MicroBatch& micro) {
  if (!find_buffer(info().buffers, Use::document_begin)) return;
  if (micro.document_begin.empty()) {
    MicroBatch divided;
    divided.inputs = micro.inputs;
    index_documents(divided, info().sequence_length, documents_);
    return copy_in_documents(divided);
  }
  copy_in(place(Use::document_begin), std::span(micro.document_begin));
  copy_in(place(Use::document_end), std::span(micro.document_end));
}

/// If every micro-batch has collectives, all ranks must run equally many.
std::size_t Session::passes_of_all(const StepBatch& batch) const {
  if (shares_.ranks() == 1 || !is_sharded(Use::gradients, info().shard)) return 0;
  const auto ranks = static_cast<std::int64_t>(shares_.ranks());
  const auto sequences = static_cast<std::int64_t>(batch.sample_ids.size());
  return static_cast<std::size_t>((sequences / info().micro_batch + ranks - 1) / ranks);
}

/// Forgets recorded micro-batches if the previous step had another number of sequences. Some ranks may then run a pass
/// for the first time that others have recorded, and ranks must record their collectives together.
void Session::record_alike(const StepBatch& batch) {
  const std::size_t sequences = batch.sample_ids.size();
  if (std::exchange(sequences_, sequences) == sequences || mesh_.data.size == 1) return;
  for (NumberedReplay& micro_batch : micro_batches_) micro_batch.forget();
}

void Session::send(const StepBatch& batch, const OptimizerScalars& optimizer, StepScalars scalars, std::int64_t step,
                   TraceWriter* trace, bool eager) {
  const Range range(device_.stream(), "step");
  if (batch.target_count < 1 || batch.begin >= batch.past)
    throw Failure(Exit::internal, "a batch without targets, or without a part for this rank");
  scalars.loss_scale = static_cast<float>(1.0 / static_cast<double>(batch.target_count));
  if (trace) {
    trace->begin_step(step, source(host_masters(program_), [this] { join_masters(); }));
    for (const MicroBatch& micro : batch.micro_batches) trace->add_micro_batch(micro.inputs, micro.targets);
  }
  flat_.begin_step();
  joined_ = false;
  record_alike(batch);
  const std::size_t own = batch.past - batch.begin, of_all = passes_of_all(batch), passes = std::max(own, of_all);
  for (std::size_t i = 0; i < passes; ++i) {
    const Range range(device_.stream(), "micro-batch");
    const MicroBatch& micro = batch.micro_batches[batch.begin + std::min(i, own - 1)];
    send_inputs(i < own ? micro : without_targets(micro), scalars, optimizer);
    const bool first = i == 0, last = i + 1 == passes || of_all > 0;  // every one is reduced
    micro_batches_[first + 2 * last].run([&] { program_.micro_batch(*step_, first, last); }, eager);
  }
  if (trace) trace->add_gradients(unscaled_gradients());
  if (own_results_) own_results_->ask();
  {
    const Range range(device_.stream(), "optimizer step");
    optimizer_step_.run([&] { program_.optimizer_step(*step_); }, eager);
  }
  gathered_ = false;
  results_.ask();
  if (loss_scale_) loss_scale_->ask();
  if (reports_) reports_->ask();
  if (norms_) norms_->ask();
}

Session::Finished Session::finish(TraceWriter* trace, float lr) {
  Finished finished{};
  std::optional<WaitForRanks> waits(ranks_.collectives());
  const auto receive = [](ReadBack& from) {
    StepResults results;
    std::memcpy(&results, from.receive().data(), sizeof results);
    return results;
  };
  finished.results = receive(results_);
  finished.own_loss = own_results_ ? receive(*own_results_).loss : finished.results.loss;
  if (loss_scale_) std::memcpy(&finished.loss_scale.emplace(), loss_scale_->receive().data(), sizeof(LossScale));
  const auto receive_all = [](std::optional<ReadBack>& from, auto& values) {
    using Value = typename std::remove_reference_t<decltype(values)>::element_type;
    if (!from) return;
    const std::span<const std::byte> bytes = from->receive();
    values = {reinterpret_cast<Value*>(bytes.data()), bytes.size() / sizeof(Value)};
  };
  std::span<const double> reports;
  receive_all(reports_, reports);
  receive_all(norms_, finished.norms);
  finished.figures = figures_of(finished.results, info().reports, reports);
  waits.reset();
  if (trace) trace->finish_step(finished.results, finished.figures, lr);
  return finished;
}

void Session::evaluate(const MicroBatch& batch, float loss_scale, bool first) {
  StepScalars scalars{};
  scalars.loss_scale = loss_scale;
  const Range range(device_.stream(), "evaluation");
  need_whole_weights();
  copy_in(place(Use::scalars), std::span<const StepScalars>(&scalars, 1));
  copy_in_tokens(batch);
  evaluations_[first].run([&] { program_.evaluate(*step_, first); });
}

void Session::run_piece(StepPiece piece, std::size_t layer) {
  switch (piece) {
    case StepPiece::pass: return program_.micro_batch(*step_, true, true);
    case StepPiece::optimizer: return program_.optimizer_step(*step_);
    default: return program_.run_piece(*step_, piece, layer);
  }
}

void Session::begin_evaluation() {
  gather_weights();
  device_.zero(place(Use::results), offsetof(StepResults, updates));
}

void Session::set_updates(std::int64_t applied) {
  const auto updates = static_cast<unsigned>(applied);
  copy_in(place(Use::results) + offsetof(StepResults, updates), std::span(&updates, 1));
}

void Session::set_loss_scale(const LossScale& scale) {
  if (const Buffer* to = find_buffer(info().buffers, Use::loss_scale))
    copy_in(arena_ + to->offset, std::span(&scale, 1));
}

Session::Evaluated Session::evaluated() {
  static_assert(offsetof(StepResults, top1) == offsetof(StepResults, loss) + sizeof(double), "summed in one");
  ranks_.all_reduce_sum(reinterpret_cast<double*>(place(Use::results) + offsetof(StepResults, loss)), 2,
                        device_.stream());
  StepResults results{};
  copy_out(place(Use::results), std::span(&results, 1));
  return {results.loss, results.top1};
}

void Session::target_losses(std::span<float> losses) { copy_out(place(Use::losses), losses); }

std::array<double, 2> Session::sum_over_ranks(std::array<double, 2> own) {
  std::byte* sums = place(Use::results) + offsetof(StepResults, loss);
  copy_in(sums, std::span<const double>(own));
  ranks_.all_reduce_sum(reinterpret_cast<double*>(sums), own.size(), device_.stream());
  copy_out(sums, std::span<double>(own));
  return own;
}

double Session::audit(const StepBatch& batch, bool masters) {
  const Range range(device_.stream(), "audit");
  if (masters)
    for (const ParameterInfo& parameter : info().parameters) state_.gather(kWeights, parameter);
  else
    gather_weights();
  const Buffer& losses = buffer(Use::audit_losses);
  std::vector<float> of_pass(static_cast<std::size_t>(losses.elements));
  const std::size_t own = batch.past - batch.begin, passes = passes_together() ? passes_of_all(batch) : own;
  double sum = 0;
  for (std::size_t i = 0; i < passes; ++i) {
    const MicroBatch& micro = batch.micro_batches[batch.begin + std::min(i, own - 1)];
    copy_in_tokens(micro);
    audit_.run([&] { program_.audit(*step_); });
    copy_out(place(Use::audit_losses), std::span(of_pass));
    if (i < own) sum = std::accumulate(of_pass.begin(), of_pass.end(), sum);
  }
  return sum;
}

void Session::next_logits(std::span<const std::int32_t> tokens, std::span<const std::int32_t> positions,
                          std::vector<float>& logits) {
  const Range range(device_.stream(), "sampling");
  need_whole_weights();
  copy_in(place(Use::tokens), tokens);
  copy_in(place(Use::positions), positions);
  MicroBatch texts;
  texts.inputs.assign(tokens.begin(), tokens.end());
  copy_in_documents(texts);
  follow_logits();
  logits.resize(static_cast<std::size_t>(info().micro_batch * info().vocab_pitch));
  copy_out(place(Use::sample_logits), std::span(logits));
}

void Session::follow_logits() {
  need_whole_weights();
  program_.next_logits(*step_);
}

}  // namespace llmc
