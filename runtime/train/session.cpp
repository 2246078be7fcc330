#include "train/session.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstddef>
#include <cstring>

#include "comm/collectives.h"
#include "device/range.h"
#include "error.h"
#include "run/trace.h"
#include "train/constants.h"

namespace llmc {

namespace {

/// Where the inputs of a micro-batch come from, one a Use.
std::span<const std::byte> input_bytes(Use use, const MicroBatch& micro, const StepScalars& scalars,
                                       const OptimizerScalars& optimizer) {
  switch (use) {
    case Use::scalars: return std::as_bytes(std::span(&scalars, 1));
    case Use::optimizer_scalars: return std::as_bytes(std::span(&optimizer.adamw, 1));
    case Use::group_scalars: return std::as_bytes(std::span(optimizer.groups));
    case Use::tokens: return std::as_bytes(std::span(micro.inputs));
    case Use::targets: return std::as_bytes(std::span(micro.targets));
    case Use::embedding_order: return std::as_bytes(std::span(micro.order));
    case Use::run_begin: return std::as_bytes(std::span(micro.run_begin));
    case Use::run_token: return std::as_bytes(std::span(micro.run_token));
    case Use::run_count: return std::as_bytes(std::span(&micro.run_count, 1));
    default: return {};
  }
}

/// The blocks of inputs on their way; none on cpu.
std::byte* slots(std::byte* arena, const ProgramInfo& info) {
  const Buffer* buffer = find_buffer(info.buffers, Use::input_slots);
  return buffer ? arena + buffer->offset : nullptr;
}

std::size_t slot_count(const ProgramInfo& info) {
  const Buffer* buffer = find_buffer(info.buffers, Use::input_slots);
  return buffer ? buffer->bytes() / input_block(info.buffers).bytes : 0;
}

/// What ranks may share out lies behind all else.
std::size_t begin_of_state(const ProgramInfo& info) { return buffer_of(info.buffers, Use::state).offset; }

}  // namespace

std::size_t arena_bytes(const ProgramInfo& info, const Shares& shares) {
  const std::size_t states = saved_buffers(info.buffers) - 1;
  return begin_of_state(info) + states * buffer_space(DType::f32, shares.state_elements());
}

Session::Session(Device& device, Communicator& ranks, const Program& program)
    : device_(device),
      ranks_(ranks),
      program_(program),
      shares_(program.info.sharded ? Shares(program.info.buckets, ranks.rank(), ranks.world_size())
                                   : Shares(program.info.buckets)),
      state_bytes_(buffer_space(DType::f32, shares_.state_elements())),
      arena_(device.allocate(arena_bytes(program.info, shares_))),
      micro_batches_{Replay(device), Replay(device), Replay(device), Replay(device)},
      optimizer_step_(device),
      evaluations_{Replay(device), Replay(device)},
      block_(input_block(program.info.buffers)),
      inputs_(device, arena_ + block_.offset, slots(arena_, info()), block_.bytes, slot_count(info())),
      results_(device, place(Use::results), sizeof(StepResults)) {
  if (const Buffer* norms = find_buffer(info().buffers, Use::parameter_norms))
    norms_.emplace(device, arena_ + norms->offset, norms->bytes());
  upload_constants(device_, arena_, program_.info, shares_);
  step_ = program_.create(device_, ranks, arena_, state_bytes_);
}

Session::~Session() { program_.destroy(step_); }

template <typename T>
void Session::copy_in(std::byte* to, std::span<const T> values) {
  device_.copy_in(to, values.data(), values.size_bytes());
}

template <typename T>
void Session::copy_out(const std::byte* from, std::span<T> values) {
  device_.copy_out(values.data(), from, values.size_bytes());
  device_.synchronize();
}

void Session::read_floats(Use use, std::int64_t offset, std::int64_t count, float* out) {
  copy_out(place(use) + static_cast<std::size_t>(offset) * sizeof(float),
           std::span(out, static_cast<std::size_t>(count)));
}

void Session::initialise(std::uint64_t seed) {
  program_.initialise(*step_, seed);
  program_.refresh_copies(*step_);
}

void Session::refresh_copies() { program_.refresh_copies(*step_); }

void Session::send_inputs(const MicroBatch& micro, const StepScalars& scalars, const OptimizerScalars& optimizer) {
  std::byte* block = inputs_.next();
  for (const Buffer& buffer : info().buffers) {
    if (!is_input(buffer.use)) continue;
    const std::span<const std::byte> from = input_bytes(buffer.use, micro, scalars, optimizer);
    if (from.size() != buffer.bytes())
      throw Failure(Exit::internal,
                    fmt::format("{} bytes of {}, for which the plan has {}", from.size(), buffer.name, buffer.bytes()));
    std::memcpy(block + (buffer.offset - block_.offset), from.data(), from.size());
  }
  inputs_.send();
}

void Session::send(const StepBatch& batch, const OptimizerScalars& optimizer, float clip_norm, float requests,
                   std::int64_t step, TraceWriter* trace) {
  const Range range("step");
  if (batch.target_count < 1 || batch.begin >= batch.past)
    throw Failure(Exit::internal, "a batch without targets, or without a part for this rank");
  const StepScalars scalars{clip_norm, static_cast<float>(1.0 / static_cast<double>(batch.target_count)), requests};
  if (trace) {
    state_.gather(kWeights, info().parameters);
    trace->begin_step(step, [&](std::int64_t offset, std::int64_t count, float* out) {
      read_floats(Use::masters, offset, count, out);
    });
    for (const MicroBatch& micro : batch.micro_batches) trace->add_micro_batch(micro.inputs, micro.targets);
  }
  for (std::size_t i = batch.begin; i < batch.past; ++i) {
    const Range range("micro-batch");
    send_inputs(batch.micro_batches[i], scalars, optimizer);
    const bool first = i == batch.begin, last = i + 1 == batch.past;
    micro_batches_[first + 2 * last].run([&] { program_.micro_batch(*step_, first, last); });
  }
  {
    const Range range("optimizer step");
    optimizer_step_.run([&] { program_.optimizer_step(*step_); });
  }
  results_.ask();
  if (norms_) norms_->ask();
}

Session::Finished Session::finish(TraceWriter* trace, float lr) {
  Finished finished{};
  std::memcpy(&finished.results, results_.receive().data(), sizeof finished.results);
  if (norms_) {
    const std::span<const std::byte> norms = norms_->receive();
    finished.norms = {reinterpret_cast<const float*>(norms.data()), norms.size() / sizeof(float)};
  }
  // The optimizer reads gradients and scales them on the way: the buffer still holds them as they were before clipping.
  if (trace) {
    gather_buckets(place(Use::gradients), info().parameters, {});
    trace->finish_step(
        [&](std::int64_t offset, std::int64_t count, float* out) { read_floats(Use::gradients, offset, count, out); },
        {finished.results.loss, finished.results.grad_norm, lr});
  }
  return finished;
}

void Session::evaluate(const MicroBatch& batch, float loss_scale, bool first) {
  StepScalars scalars{};
  scalars.loss_scale = loss_scale;
  const Range range("evaluation");
  copy_in(place(Use::scalars), std::span<const StepScalars>(&scalars, 1));
  copy_in(place(Use::tokens), std::span(batch.inputs));
  copy_in(place(Use::targets), std::span(batch.targets));
  evaluations_[first].run([&] { program_.evaluate(*step_, first); });
}

void Session::evaluate_nothing() { device_.zero(place(Use::results), sizeof(StepResults)); }

double Session::evaluated_loss() {
  ranks_.all_reduce_sum(reinterpret_cast<double*>(place(Use::results) + offsetof(StepResults, loss)), 1,
                        device_.stream());
  StepResults results{};
  copy_out(place(Use::results), std::span(&results, 1));
  return results.loss;
}

void Session::next_logits(std::span<const std::int32_t> tokens, std::span<const std::int32_t> positions,
                          std::vector<float>& logits) {
  const Range range("sampling");
  copy_in(place(Use::tokens), tokens);
  copy_in(place(Use::positions), positions);
  program_.next_logits(*step_);
  logits.resize(static_cast<std::size_t>(info().micro_batch * info().vocab_pitch));
  copy_out(place(Use::sample_logits), std::span(logits));
}

void Session::gather_buckets(std::byte* flat, std::span<const ParameterInfo> parameters,
                             const std::function<void(Bucket)>& begin) {
  if (shares_.ranks() == 1) return;
  for (const Bucket& bucket : info().buckets) {
    const bool wanted = std::ranges::any_of(parameters, [&](const ParameterInfo& p) {
      return p.offset >= bucket.offset && p.offset < bucket.offset + bucket.elements;
    });
    if (!wanted) continue;
    if (begin) begin(bucket);
    ranks_.all_gather(flat + static_cast<std::size_t>(bucket.offset) * sizeof(float),
                      static_cast<std::size_t>(share_of(bucket.elements, shares_.ranks())) * sizeof(float),
                      device_.stream());
  }
}

Session::DeviceState::DeviceState(Session& session) : session_(session) {
  const ProgramInfo& info = session.info();
  const auto add = [&](const Buffer& buffer, std::size_t offset, const std::string& prefix) {
    if (buffer.dtype != DType::f32)
      throw Failure(Exit::internal,
                    fmt::format("{} is {}, and checkpoints hold fp32", buffer.name, name_of(buffer.dtype)));
    offsets_.push_back(offset);
    prefixes_.push_back(prefix);
  };
  const Buffer& masters = session.buffer(Use::masters);
  add(masters, masters.offset, "");
  for (const Buffer& buffer : info.buffers)
    if (buffer.use == Use::state)
      add(buffer, begin_of_state(info) + (offsets_.size() - 1) * session.state_bytes_, std::string(buffer.name) + ".");
}

void Session::DeviceState::check(std::int64_t offset, std::int64_t count) const {
  const std::int64_t elements = session_.info().parameter_elements;
  if (offset < 0 || count < 0 || offset > elements || count > elements - offset)
    throw Failure(Exit::internal, "access outside of the training state");
}

void Session::DeviceState::gather(std::size_t buffer, std::span<const ParameterInfo> parameters) {
  if (!shared_out(buffer)) return session_.gather_buckets(begin_of(buffer), parameters, {});
  // Between steps nobody needs the gradients.
  std::byte* const whole = session_.place(Use::gradients);
  session_.gather_buckets(whole, parameters, [&](const Bucket& bucket) {
    session_.shares_.own(bucket.offset, bucket.elements,
                         [&](std::int64_t flat, std::int64_t state, std::int64_t count) {
                           session_.device_.copy(whole + static_cast<std::size_t>(flat) * sizeof(float),
                                                 begin_of(buffer) + static_cast<std::size_t>(state) * sizeof(float),
                                                 static_cast<std::size_t>(count) * sizeof(float));
                         });
  });
}

void Session::DeviceState::read(std::size_t buffer, std::int64_t offset, std::int64_t count, float* out) {
  check(offset, count);
  const std::byte* const flat = shared_out(buffer) ? session_.place(Use::gradients) : begin_of(buffer);
  session_.copy_out(flat + static_cast<std::size_t>(offset) * sizeof(float),
                    std::span(out, static_cast<std::size_t>(count)));
}

void Session::DeviceState::write(std::size_t buffer, std::int64_t offset, std::int64_t count, const float* values) {
  check(offset, count);
  const auto copy = [&](std::int64_t flat, std::int64_t place, std::int64_t part) {
    session_.copy_in(begin_of(buffer) + static_cast<std::size_t>(place) * sizeof(float),
                     std::span(values + (flat - offset), static_cast<std::size_t>(part)));
  };
  if (shared_out(buffer))
    session_.shares_.own(offset, count, copy);
  else
    copy(offset, offset, count);
}

}  // namespace llmc
