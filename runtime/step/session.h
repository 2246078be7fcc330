// Runs the steps of a run on its device: owns the arena and copies data into and out of it.
#pragma once

#include <array>
#include <cstdint>
#include <functional>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "checkpoint/parameter_stream.h"
#include "data/documents.h"
#include "data/micro_batch.h"
#include "device/pipeline.h"
#include "program/mesh.h"
#include "program/outputs.h"
#include "program/program.h"
#include "program/shards.h"
#include "step/arena_offsets.h"
#include "step/device_state.h"
#include "step/flat_buffers.h"
#include "step/numbered_replay.h"
#include "step/optimizer.h"

namespace llmc {

class TraceWriter;

class Session {
 public:
  /// Allocates the arena (ArenaOffsets::bytes(), the only allocation on the device), uploads the constants and creates
  /// the step. `data`: communicator of the ranks that `mesh` has along data. Throws Failure(does_not_fit).
  Session(Device& device, Communicator& data, const Program& program, const Mesh& mesh = {});
  ~Session();
  Session(const Session&) = delete;
  Session& operator=(const Session&) = delete;

  const ProgramInfo& info() const { return program_.info; }
  const Mesh& mesh() const { return mesh_; }
  std::size_t allocated_bytes() const { return offsets_.bytes(); }
  /// Returns whether `bytes` of host memory may be used in addition to the arena. On cpu `budget` covers both and the
  /// process.
  bool fits_beside(std::size_t bytes, std::size_t budget) const {
    return runs_ahead() || bytes + allocated_bytes() + info().process_bytes <= budget;
  }
  /// Same as Device::allocate_host().
  std::byte* allocate_host(std::size_t bytes) { return device_.allocate_host(bytes); }
  /// Draws the initial weights.
  void initialise(std::uint64_t seed);
  /// Call after writing masters through state().
  void refresh_copies();
  /// Weights and optimizer state; synchronised. Its gather() is collective, and may use the memory of the gradients.
  StateAccess& state() { return state_; }
  /// Returns whether all weights that this rank updates are finite.
  bool own_weights_finite();
  /// Copies bytes of the arena to host memory; complete on return.
  void read(std::size_t offset, std::span<std::byte> bytes);

  /// Sets the device's count of applied updates. Call before the first step and after a rollback.
  void set_updates(std::int64_t applied);
  /// Same of its loss scale, if gradients have one. Until then it is that of a new run.
  void set_loss_scale(const LossScale& scale);

  /// Puts one optimizer step over this rank's micro-batches on the device's stream. A second step may be sent before
  /// the first is finished only if the device runs ahead. The loss scale in `scalars` is filled in here; `requests` is
  /// returned in StepResults, summed over the ranks. With a trace, the step is written to it as number `step`, and must
  /// be finished before another is sent. `eager`: nothing runs from recordings; equal on all ranks.
  void send(const StepBatch& batch, const OptimizerScalars& optimizer, StepScalars scalars, std::int64_t step,
            TraceWriter* trace, bool eager);

  bool runs_ahead() const { return device_.runs_ahead(); }
  /// Turns a profiler's capture on or off; see Device::profile().
  void profile(bool on) { device_.profile(on); }
  /// Divides texts into documents as the samples of the run are: prompts, and batches that are not divided.
  void divide_texts(const DocumentRule& documents) { documents_ = documents; }
  /// Same as Device::listen().
  void listen(LaunchListener* listener) { device_.listen(listener); }

  struct Finished {
    StepResults results;
    std::vector<Figure> figures;          // other than the loss
    double own_loss;                      // this rank's part of the loss
    std::optional<LossScale> loss_scale;  // of the next step; nothing if gradients have none
    std::span<const float> norms;  // L2 norms of gradient, weight and update, [parameters, 3]; until the next finish();
                                   // empty without metrics.per_parameter
  };
  /// Waits for the oldest step sent. `trace` as in send(); `lr` is written to it.
  Finished finish(TraceWriter* trace, float lr);

  /// Gathers the weights that the last step of all ranks has written. Collective: every rank calls it, even one without
  /// passes to run. evaluate(), next_logits() and follow_logits() throw Failure(internal) without it.
  void gather_weights();
  /// Returns whether every rank must run each pass of every other rank, because passes gather weights.
  bool passes_together() const { return shares_.ranks() > 1 && info().shard == Shard::parameters; }

  /// Gathers the weights and sets the sums to 0, where they stay on ranks without a part. Collective.
  void begin_evaluation();
  /// Adds the sums over the targets, times `loss_scale`, of losses and of targets with the largest logit. `first`:
  /// overwrites earlier sums.
  void evaluate(const MicroBatch& batch, float loss_scale, bool first);
  /// Runs a part of a step on the arena's current content, for timing only.
  void run_piece(StepPiece piece, std::size_t layer);
  /// Copies the nats of each target of the last evaluate(), 0 without a target, to `losses` [micro_batch * T].
  void target_losses(std::span<float> losses);
  struct Evaluated {
    double loss, top1;  // as in StepResults
  };
  /// Returns the sums of two numbers of each rank. Collective; overwrites the results of an evaluation.
  std::array<double, 2> sum_over_ranks(std::array<double, 2> own);
  /// Results since begin_evaluation(), summed over all ranks. Collective.
  Evaluated evaluated();

  /// Sum of the losses of this rank's part of a batch, in nats, computed as audit.compute says (Program::audit, which
  /// must exist). `masters`: the passes read the master weights. Collective.
  double audit(const StepBatch& batch, bool masters);

  /// Logits after row `positions[i]` of `tokens` [micro_batch * sequence_length], i < micro_batch: rows of vocab_pitch
  /// floats in `logits` [micro_batch * vocab_pitch].
  void next_logits(std::span<const std::int32_t> tokens, std::span<const std::int32_t> positions,
                   std::vector<float>& logits);
  /// Takes part in another rank's next_logits().
  void follow_logits();

 private:
  const Buffer& buffer(Use use) const { return buffer_of(info().buffers, use); }
  std::byte* place(Use use) const { return arena_ + offsets_.of(buffer(use)); }
  FlatSource source(const Buffer& of, std::function<void()> before);
  /// Gradients of the micro-batches that were sent, without their loss scale.
  FlatSource unscaled_gradients();
  /// Makes split masters readable in host_masters(): until a step, or a write there, which refresh_copies() takes over.
  void join_masters();
  NumberedReplay replay() const;
  std::size_t passes_of_all(const StepBatch& batch) const;
  void record_alike(const StepBatch& batch);
  void need_whole_weights() const;
  template <typename T>
  void copy_in(std::byte* to, std::span<const T> values);
  template <typename T>
  void copy_out(const std::byte* from, std::span<T> values);
  void copy_in_tokens(const MicroBatch& micro);
  void copy_in_documents(const MicroBatch& micro);
  void send_inputs(const MicroBatch& micro, const StepScalars& scalars, const OptimizerScalars& optimizer);

  Device& device_;
  Communicator& ranks_;  // along data
  const Mesh mesh_;
  const Program& program_;
  const Shares shares_;
  const ArenaOffsets offsets_;
  std::byte* arena_;
  FlatBuffers flat_;
  bool gathered_ = false;  // the weights that this rank reads are gathered
  DocumentRule documents_;
  bool joined_ = false;        // split masters are where the host reads them
  std::size_t sequences_ = 0;  // of the last step, on all ranks
  Step* step_;
  std::array<NumberedReplay, 4> micro_batches_;  // [first + 2 * last]: middle, first, last, only
  NumberedReplay optimizer_step_;
  std::array<NumberedReplay, 2> evaluations_;  // [first]
  NumberedReplay audit_;
  DeviceState state_;
  const InputBlock block_;
  InputRing inputs_;
  ReadBack results_;
  std::optional<ReadBack> own_results_;  // with several ranks: before summation
  std::optional<ReadBack> loss_scale_;   // with compute: fp16
  std::optional<ReadBack> reports_;      // of a model with figures of its own
  std::optional<ReadBack> norms_;        // with metrics.per_parameter
};

}  // namespace llmc
