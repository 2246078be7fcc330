#include "train/session.h"

#include <cstring>

#include "device/range.h"
#include "error.h"
#include "run/trace.h"
#include "train/constants.h"

namespace llmc {

Session::Session(Device& device, const Program& program, bool decay_all)
    : device_(device),
      program_(program),
      arena_(device.allocate(program.info.arena.bytes)),
      micro_batches_{Replay(device), Replay(device), Replay(device), Replay(device)},
      optimizer_step_(device),
      evaluations_{Replay(device), Replay(device)},
      inputs_(device, arena_ + info().arena.inputs, arena_ + info().arena.input_slots, info().arena.input_bytes,
              info().arena.input_slot_count),
      results_(device, arena_ + info().arena.results, sizeof(StepResults)),
      norms_(device, arena_ + info().arena.parameter_norms, info().parameters.size() * 3 * sizeof(float)) {
  upload_constants(device_, arena_, program_.info, decay_all);
  step_ = program_.create(device_, arena_);
}

Session::~Session() { program_.destroy(step_); }

template <typename T>
void Session::copy_in(std::size_t offset, std::span<const T> values) {
  device_.copy_in(arena_ + offset, values.data(), values.size_bytes());
}

template <typename T>
void Session::copy_out(std::size_t offset, std::span<T> values) {
  device_.copy_out(values.data(), arena_ + offset, values.size_bytes());
  device_.synchronize();
}

void Session::read_floats(std::size_t buffer, std::int64_t offset, std::int64_t count, float* out) {
  copy_out(buffer + static_cast<std::size_t>(offset) * sizeof(float), std::span(out, static_cast<std::size_t>(count)));
}

void Session::initialise(std::uint64_t seed) {
  program_.initialise(*step_, seed);
  program_.refresh_copies(*step_);
}

void Session::refresh_copies() { program_.refresh_copies(*step_); }

void Session::send_inputs(const MicroBatch& micro, const StepScalars& scalars) {
  const ArenaLayout& at = info().arena;
  std::byte* block = inputs_.next();
  const auto put = [&](std::size_t offset, const auto& values) {
    std::memcpy(block + (offset - at.inputs), values.data(), values.size() * sizeof(values[0]));
  };
  put(at.scalars, std::span(&scalars, 1));
  put(at.tokens, micro.inputs);
  put(at.targets, micro.targets);
  put(at.embedding_order, micro.order);
  put(at.run_begin, micro.run_begin);
  put(at.run_token, micro.run_token);
  put(at.run_count, std::span(&micro.run_count, 1));
  inputs_.send();
}

void Session::send(const StepBatch& batch, StepScalars scalars, std::int64_t step, TraceWriter* trace) {
  const Range range("step");
  if (batch.target_count < 1) throw Failure(Exit::internal, "a batch without targets");
  scalars.loss_scale = static_cast<float>(1.0 / static_cast<double>(batch.target_count));
  if (trace)
    trace->begin_step(step, [&](std::int64_t offset, std::int64_t count, float* out) {
      read_floats(info().arena.masters, offset, count, out);
    });
  for (std::size_t i = 0; i < batch.micro_batches.size(); ++i) {
    const Range range("micro-batch");
    const MicroBatch& micro = batch.micro_batches[i];
    if (trace) trace->add_micro_batch(micro.inputs, micro.targets);
    send_inputs(micro, scalars);
    const bool first = i == 0, last = i + 1 == batch.micro_batches.size();
    micro_batches_[first + 2 * last].run([&] { program_.micro_batch(*step_, first, last); });
  }
  {
    const Range range("optimizer step");
    optimizer_step_.run([&] { program_.optimizer_step(*step_); });
  }
  results_.ask();
  norms_.ask();
}

Session::Finished Session::finish(TraceWriter* trace, float lr) {
  Finished finished{};
  std::memcpy(&finished.results, results_.receive().data(), sizeof finished.results);
  const std::span<const std::byte> norms = norms_.receive();
  finished.norms = {reinterpret_cast<const float*>(norms.data()), norms.size() / sizeof(float)};
  // The optimizer reads gradients and scales them on the way: the buffer still holds them as they were before clipping.
  if (trace)
    trace->finish_step([&](std::int64_t offset, std::int64_t count,
                           float* out) { read_floats(info().arena.gradients, offset, count, out); },
                       {finished.results.loss, finished.results.grad_norm, lr});
  return finished;
}

void Session::evaluate(const MicroBatch& batch, float loss_scale, bool first) {
  StepScalars scalars{};
  scalars.loss_scale = loss_scale;
  const Range range("evaluation");
  copy_in(info().arena.scalars, std::span<const StepScalars>(&scalars, 1));
  copy_in(info().arena.tokens, std::span(batch.inputs));
  copy_in(info().arena.targets, std::span(batch.targets));
  evaluations_[first].run([&] { program_.evaluate(*step_, first); });
}

double Session::evaluated_loss() {
  StepResults results{};
  copy_out(info().arena.results, std::span(&results, 1));
  return results.loss;
}

void Session::next_logits(std::span<const std::int32_t> tokens, std::span<const std::int32_t> positions,
                          std::vector<float>& logits) {
  const Range range("sampling");
  copy_in(info().arena.tokens, tokens);
  copy_in(info().arena.positions, positions);
  program_.next_logits(*step_);
  logits.resize(static_cast<std::size_t>(info().micro_batch * info().vocab_pitch));
  copy_out(info().arena.sample_logits, std::span(logits));
}

std::size_t Session::DeviceState::bytes_at(StateKind kind, std::int64_t offset, std::int64_t count) const {
  const ProgramInfo& info = session_.info();
  if (offset < 0 || count < 0 || offset > info.parameter_elements || count > info.parameter_elements - offset)
    throw Failure(Exit::internal, "access outside of the training state");
  const std::size_t buffers[] = {info.arena.masters, info.arena.exp_avg, info.arena.exp_avg_sq};
  return buffers[static_cast<int>(kind)] + static_cast<std::size_t>(offset) * sizeof(float);
}

void Session::DeviceState::read(StateKind kind, std::int64_t offset, std::int64_t count, float* out) {
  session_.copy_out(bytes_at(kind, offset, count), std::span(out, static_cast<std::size_t>(count)));
}

void Session::DeviceState::write(StateKind kind, std::int64_t offset, std::int64_t count, const float* values) {
  session_.copy_in(bytes_at(kind, offset, count), std::span(values, static_cast<std::size_t>(count)));
}

}  // namespace llmc
