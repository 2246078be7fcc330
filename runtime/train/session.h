// A run's step on its device: the arena, and everything that the host copies into it and out of it.
#pragma once

#include <array>
#include <cstdint>
#include <span>
#include <vector>

#include "checkpoint/state_access.h"
#include "data/micro_batch.h"
#include "device/pipeline.h"
#include "device/replay.h"
#include "train/program.h"

namespace llmc {

class TraceWriter;

class Session {
 public:
  /// Allocates the arena (info.arena.bytes, the only allocation on the device), uploads the constants and builds the
  /// step. `decay_all`: weight decay applies to every parameter. Throws Failure(does_not_fit).
  Session(Device& device, const Program& program, bool decay_all);
  ~Session();
  Session(const Session&) = delete;
  Session& operator=(const Session&) = delete;

  const ProgramInfo& info() const { return program_.info; }
  /// Draws the initial weights.
  void initialise(std::uint64_t seed);
  /// To be called when masters have been written through state().
  void refresh_copies();
  /// Masters and moments; synchronised.
  StateAccess& state() { return state_; }

  /// Puts one optimizer step over all micro-batches on the device's stream. `scalars.loss_scale` is set here. At most
  /// one step may be sent before the one before it is finished, and only where the device runs ahead. With a trace, the
  /// step is written to it as number `step`, and is to be finished before another is sent.
  void send(const StepBatch& batch, StepScalars scalars, std::int64_t step, TraceWriter* trace);

  bool runs_ahead() const { return device_.runs_ahead(); }
  /// Between profile(true) and profile(false) a profiler's capture is on; see Device::profile.
  void profile(bool on) { device_.profile(on); }

  struct Finished {
    StepResults results;
    std::span<const float> norms;  // L2 norms of gradient, weight and update, [parameters, 3]; until the next finish()
  };
  /// Waits for the oldest step that was sent. `trace` as for send(); `lr` is written to it.
  Finished finish(TraceWriter* trace, float lr);

  /// Sum of the losses of the targets, times `loss_scale`, added to those before it unless `first`.
  void evaluate(const MicroBatch& batch, float loss_scale, bool first);
  /// The loss since the last `first`.
  double evaluated_loss();

  /// Logits after row `positions[i]` of `tokens` [micro_batch * sequence_length], i < micro_batch: rows of vocab_pitch
  /// floats in `logits` [micro_batch * vocab_pitch].
  void next_logits(std::span<const std::int32_t> tokens, std::span<const std::int32_t> positions,
                   std::vector<float>& logits);

 private:
  class DeviceState final : public StateAccess {
   public:
    explicit DeviceState(Session& session) : session_(session) {}
    void read(StateKind kind, std::int64_t offset, std::int64_t count, float* out) override;
    void write(StateKind kind, std::int64_t offset, std::int64_t count, const float* values) override;

   private:
    std::size_t bytes_at(StateKind kind, std::int64_t offset, std::int64_t count) const;
    Session& session_;
  };

  template <typename T>
  void copy_in(std::size_t offset, std::span<const T> values);
  template <typename T>
  void copy_out(std::size_t offset, std::span<T> values);
  void send_inputs(const MicroBatch& micro, const StepScalars& scalars);
  void read_floats(std::size_t buffer, std::int64_t offset, std::int64_t count, float* out);

  Device& device_;
  const Program& program_;
  std::byte* arena_;
  Step* step_;
  std::array<Replay, 4> micro_batches_;  // [first + 2 * last]: middle, first, last, only
  Replay optimizer_step_;
  std::array<Replay, 2> evaluations_;  // [first]
  DeviceState state_{*this};
  InputRing inputs_;
  ReadBack results_, norms_;
};

}  // namespace llmc
