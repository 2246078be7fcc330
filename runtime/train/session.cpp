#include "train/session.h"

#include "checkpoint/trace.h"
#include "error.h"
#include "train/constants.h"

namespace llmc {

Session::Session(Device& device, const Program& program)
    : device_(device),
      program_(program),
      arena_(device.allocate(program.info.arena.bytes)),
      micro_batches_{Replay(device), Replay(device), Replay(device), Replay(device)},
      optimizer_step_(device),
      evaluations_{Replay(device), Replay(device)} {
  upload_constants(device_, arena_, program_.info);
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

StepResults Session::train(const StepBatch& batch, StepScalars scalars, std::int64_t step, TraceWriter* trace) {
  const ArenaLayout& at = info().arena;
  if (batch.target_count < 1) throw Failure(Exit::internal, "a batch without targets");
  scalars.loss_scale = static_cast<float>(1.0 / static_cast<double>(batch.target_count));
  copy_in(at.scalars, std::span<const StepScalars>(&scalars, 1));
  if (trace)
    trace->begin_step(step, [&](std::int64_t offset, std::int64_t count, float* out) {
      read_floats(at.masters, offset, count, out);
    });
  for (std::size_t i = 0; i < batch.micro_batches.size(); ++i) {
    const MicroBatch& micro = batch.micro_batches[i];
    copy_in(at.tokens, std::span(micro.inputs));
    copy_in(at.targets, std::span(micro.targets));
    copy_in(at.embedding_order, std::span(micro.order));
    copy_in(at.run_begin, std::span(micro.run_begin));
    copy_in(at.run_token, std::span(micro.run_token));
    copy_in(at.run_count, std::span<const std::int32_t>(&micro.run_count, 1));
    if (trace) trace->add_micro_batch(micro.inputs, micro.targets);
    const bool first = i == 0, last = i + 1 == batch.micro_batches.size();
    micro_batches_[first + 2 * last].run([&] { program_.micro_batch(*step_, first, last); });
  }
  optimizer_step_.run([&] { program_.optimizer_step(*step_); });
  StepResults results{};
  copy_out(at.results, std::span(&results, 1));
  // The optimizer reads gradients and scales them on the way: the buffer still holds them as they were before clipping.
  if (trace)
    trace->finish_step(
        [&](std::int64_t offset, std::int64_t count, float* out) { read_floats(at.gradients, offset, count, out); },
        {results.loss, results.grad_norm, scalars.lr});
  return results;
}

void Session::evaluate(const MicroBatch& batch, float loss_scale, bool first) {
  StepScalars scalars{};
  scalars.loss_scale = loss_scale;
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
  copy_in(info().arena.tokens, tokens);
  copy_in(info().arena.positions, positions);
  program_.next_logits(*step_);
  logits.resize(static_cast<std::size_t>(info().micro_batch * info().vocab_pitch));
  copy_out(info().arena.sample_logits, std::span(logits));
}

std::vector<float> Session::parameter_norms() {
  std::vector<float> norms(info().parameters.size() * 3);
  copy_out(info().arena.parameter_norms, std::span(norms));
  return norms;
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
