#include "train/session.h"

#include <fmt/format.h>

#include <cstring>

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

}  // namespace

Session::Session(Device& device, Communicator& ranks, const Program& program)
    : device_(device),
      program_(program),
      arena_(device.allocate(program.info.arena_bytes)),
      micro_batches_{Replay(device), Replay(device), Replay(device), Replay(device)},
      optimizer_step_(device),
      evaluations_{Replay(device), Replay(device)},
      block_(input_block(program.info.buffers)),
      inputs_(device, arena_ + block_.offset, slots(arena_, info()), block_.bytes, slot_count(info())),
      results_(device, place(Use::results), sizeof(StepResults)) {
  if (const Buffer* norms = find_buffer(info().buffers, Use::parameter_norms))
    norms_.emplace(device, arena_ + norms->offset, norms->bytes());
  upload_constants(device_, arena_, program_.info);
  step_ = program_.create(device_, ranks, arena_);
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

void Session::send(const StepBatch& batch, const OptimizerScalars& optimizer, float clip_norm, std::int64_t step,
                   TraceWriter* trace) {
  const Range range("step");
  if (batch.target_count < 1) throw Failure(Exit::internal, "a batch without targets");
  const StepScalars scalars{clip_norm, static_cast<float>(1.0 / static_cast<double>(batch.target_count))};
  if (trace)
    trace->begin_step(step, [&](std::int64_t offset, std::int64_t count, float* out) {
      read_floats(Use::masters, offset, count, out);
    });
  for (std::size_t i = 0; i < batch.micro_batches.size(); ++i) {
    const Range range("micro-batch");
    const MicroBatch& micro = batch.micro_batches[i];
    if (trace) trace->add_micro_batch(micro.inputs, micro.targets);
    send_inputs(micro, scalars, optimizer);
    const bool first = i == 0, last = i + 1 == batch.micro_batches.size();
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
  if (trace)
    trace->finish_step(
        [&](std::int64_t offset, std::int64_t count, float* out) { read_floats(Use::gradients, offset, count, out); },
        {finished.results.loss, finished.results.grad_norm, lr});
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

double Session::evaluated_loss() {
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

Session::DeviceState::DeviceState(Session& session) : session_(session) {
  const auto add = [&](const Buffer& buffer, const std::string& prefix) {
    if (buffer.dtype != DType::f32)
      throw Failure(Exit::internal,
                    fmt::format("{} is {}, and checkpoints hold fp32", buffer.name, name_of(buffer.dtype)));
    buffers_.push_back(&buffer);
    prefixes_.push_back(prefix);
  };
  add(session.buffer(Use::masters), "");
  for (const Buffer& buffer : session.info().buffers)
    if (buffer.use == Use::state) add(buffer, std::string(buffer.name) + ".");
}

std::size_t Session::DeviceState::bytes_at(std::size_t buffer, std::int64_t offset, std::int64_t count) const {
  const Buffer& flat = *buffers_.at(buffer);
  if (offset < 0 || count < 0 || offset > flat.elements || count > flat.elements - offset)
    throw Failure(Exit::internal, "access outside of the training state");
  return flat.offset + static_cast<std::size_t>(offset) * sizeof(float);
}

void Session::DeviceState::read(std::size_t buffer, std::int64_t offset, std::int64_t count, float* out) {
  session_.copy_out(session_.arena_ + bytes_at(buffer, offset, count), std::span(out, static_cast<std::size_t>(count)));
}

void Session::DeviceState::write(std::size_t buffer, std::int64_t offset, std::int64_t count, const float* values) {
  session_.copy_in(session_.arena_ + bytes_at(buffer, offset, count),
                   std::span(values, static_cast<std::size_t>(count)));
}

}  // namespace llmc
