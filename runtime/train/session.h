// A run's step on its device: the arena, and everything that the host copies into it and out of it.
#pragma once

#include <array>
#include <cstdint>
#include <functional>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "checkpoint/state_access.h"
#include "data/micro_batch.h"
#include "device/pipeline.h"
#include "device/replay.h"
#include "shares.h"
#include "train/optimizer.h"
#include "train/program.h"

namespace llmc {

class TraceWriter;

/// Bytes of the arena of a rank that has this share.
std::size_t arena_bytes(const ProgramInfo& info, const Shares& shares);

class Session {
 public:
  /// Allocates the arena (arena_bytes(), the only allocation on the device), uploads the constants and builds the
  /// step. Throws Failure(does_not_fit).
  Session(Device& device, Communicator& ranks, const Program& program);
  ~Session();
  Session(const Session&) = delete;
  Session& operator=(const Session&) = delete;

  const ProgramInfo& info() const { return program_.info; }
  const Communicator& ranks() const { return ranks_; }
  std::size_t allocated_bytes() const { return arena_bytes(info(), shares_); }
  /// Draws the initial weights.
  void initialise(std::uint64_t seed);
  /// To be called when masters have been written through state().
  void refresh_copies();
  /// The weights and what the optimizer keeps of them; synchronised. Its gather() is collective, and uses the memory of
  /// the gradients.
  StateAccess& state() { return state_; }

  /// Puts one optimizer step over this rank's micro-batches on the device's stream. At most one step may be sent before
  /// the one before it is finished, and only where the device runs ahead. `requests` comes back in StepResults, summed
  /// over the ranks. With a trace, the step is written to it as number `step`, and is to be finished before another is
  /// sent.
  void send(const StepBatch& batch, const OptimizerScalars& optimizer, float clip_norm, float requests,
            std::int64_t step, TraceWriter* trace);

  bool runs_ahead() const { return device_.runs_ahead(); }
  /// Between profile(true) and profile(false) a profiler's capture is on; see Device::profile.
  void profile(bool on) { device_.profile(on); }

  struct Finished {
    StepResults results;
    std::span<const float> norms;  // L2 norms of gradient, weight and update, [parameters, 3]; until the next finish();
                                   // empty without metrics.per_parameter
  };
  /// Waits for the oldest step that was sent. `trace` as for send(); `lr` is written to it.
  Finished finish(TraceWriter* trace, float lr);

  /// Sum of the losses of the targets, times `loss_scale`, added to those before it unless `first`.
  void evaluate(const MicroBatch& batch, float loss_scale, bool first);
  /// In place of evaluate() where this rank has no part of it.
  void evaluate_nothing();
  /// The loss since the last `first`, of all ranks, each of which calls this.
  double evaluated_loss();

  /// Logits after row `positions[i]` of `tokens` [micro_batch * sequence_length], i < micro_batch: rows of vocab_pitch
  /// floats in `logits` [micro_batch * vocab_pitch].
  void next_logits(std::span<const std::int32_t> tokens, std::span<const std::int32_t> positions,
                   std::vector<float>& logits);

 private:
  class DeviceState final : public StateAccess {
   public:
    explicit DeviceState(Session& session);
    std::span<const std::string> prefixes() const override { return prefixes_; }
    void gather(std::size_t buffer, std::span<const ParameterInfo> parameters) override;
    void read(std::size_t buffer, std::int64_t offset, std::int64_t count, float* out) override;
    void write(std::size_t buffer, std::int64_t offset, std::int64_t count, const float* values) override;

   private:
    void check(std::int64_t offset, std::int64_t count) const;
    std::byte* begin_of(std::size_t buffer) const { return session_.arena_ + offsets_.at(buffer); }
    /// Whether every rank has a part of the buffer.
    bool shared_out(std::size_t buffer) const { return buffer != kWeights && session_.shares_.ranks() > 1; }
    Session& session_;
    std::vector<std::size_t> offsets_;  // of the buffers, bytes in the arena
    std::vector<std::string> prefixes_;
  };

  const Buffer& buffer(Use use) const { return buffer_of(info().buffers, use); }
  std::byte* place(Use use) const { return arena_ + buffer(use).offset; }
  template <typename T>
  void copy_in(std::byte* to, std::span<const T> values);
  template <typename T>
  void copy_out(const std::byte* from, std::span<T> values);
  void send_inputs(const MicroBatch& micro, const StepScalars& scalars, const OptimizerScalars& optimizer);
  void read_floats(Use use, std::int64_t offset, std::int64_t count, float* out);
  /// Completes those buckets of a flat fp32 buffer in which the parameters lie, of which each rank has its share.
  void gather_buckets(std::byte* flat, std::span<const ParameterInfo> parameters,
                      const std::function<void(Bucket)>& begin);

  Device& device_;
  Communicator& ranks_;
  const Program& program_;
  const Shares shares_;
  const std::size_t state_bytes_;  // of a buffer of the optimizer's state
  std::byte* arena_;
  Step* step_;
  std::array<Replay, 4> micro_batches_;  // [first + 2 * last]: middle, first, last, only
  Replay optimizer_step_;
  std::array<Replay, 2> evaluations_;  // [first]
  DeviceState state_{*this};
  const InputBlock block_;
  InputRing inputs_;
  ReadBack results_;
  std::optional<ReadBack> norms_;  // with metrics.per_parameter
};

}  // namespace llmc
