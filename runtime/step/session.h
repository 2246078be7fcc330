// A run's step on its device: the arena, and everything that the host copies into it and out of it.
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "checkpoint/parameter_stream.h"
#include "data/micro_batch.h"
#include "device/pipeline.h"
#include "program/mesh.h"
#include "program/program.h"
#include "program/shards.h"
#include "step/arena_places.h"
#include "step/device_state.h"
#include "step/flat_buffers.h"
#include "step/numbered_replay.h"
#include "step/optimizer.h"

namespace llmc {

class TraceWriter;

class Session {
 public:
  /// Allocates the arena (ArenaPlaces::bytes(), the only allocation on the device), uploads the constants and builds
  /// the step. `data`: the communicator of the ranks that `mesh` has along data. Throws Failure(does_not_fit).
  Session(Device& device, Communicator& data, const Program& program, const Mesh& mesh = {});
  ~Session();
  Session(const Session&) = delete;
  Session& operator=(const Session&) = delete;

  const ProgramInfo& info() const { return program_.info; }
  const Mesh& mesh() const { return mesh_; }
  std::size_t allocated_bytes() const { return places_.bytes(); }
  /// Whether so much memory of the host may be used beside the arena: on cpu `budget` counts both, and the process.
  bool fits_beside(std::size_t bytes, std::size_t budget) const {
    return runs_ahead() || bytes + allocated_bytes() + info().process_bytes <= budget;
  }
  /// As Device::allocate_host().
  std::byte* allocate_host(std::size_t bytes) { return device_.allocate_host(bytes); }
  /// Draws the initial weights.
  void initialise(std::uint64_t seed);
  /// To be called when masters have been written through state().
  void refresh_copies();
  /// The weights and what the optimizer keeps of them; synchronised. Its gather() is collective, and may use the memory
  /// of the gradients.
  StateAccess& state() { return state_; }
  /// Whether the weights that this rank updates, all or its share, are numbers.
  bool own_weights_finite();
  /// Copies bytes of the arena to host memory; complete on return.
  void read(std::size_t offset, std::span<std::byte> bytes);

  /// Has the device count updates on from so many: to be called before the first step, and when one goes back.
  void set_updates(std::int64_t applied);

  /// Puts one optimizer step over this rank's micro-batches on the device's stream. At most one step may be sent before
  /// the one before it is finished, and only where the device runs ahead. Of `scalars`, the loss's scale is filled in
  /// here; `requests` comes back in StepResults, summed over the ranks. With a trace, the step is written to it as
  /// number `step`, and is to be finished before another is sent.
  void send(const StepBatch& batch, const OptimizerScalars& optimizer, StepScalars scalars, std::int64_t step,
            TraceWriter* trace);

  bool runs_ahead() const { return device_.runs_ahead(); }
  /// Between profile(true) and profile(false) a profiler's capture is on; see Device::profile.
  void profile(bool on) { device_.profile(on); }
  /// As Device::listen().
  void listen(LaunchListener* listener) { device_.listen(listener); }

  struct Finished {
    StepResults results;
    double own_loss;               // this rank's part of the loss
    std::span<const float> norms;  // L2 norms of gradient, weight and update, [parameters, 3]; until the next finish();
                                   // empty without metrics.per_parameter
  };
  /// Waits for the oldest step that was sent. `trace` as for send(); `lr` is written to it.
  Finished finish(TraceWriter* trace, float lr);

  /// Makes the weights whole that the last step of all ranks has written. Collective: every rank calls it, whatever
  /// part of the passes it has. evaluate(), next_logits() and follow_logits() throw Failure(internal) without it.
  void gather_weights();
  /// Whether every rank has a part in each pass of each other: they gather weights for it.
  bool passes_together() const { return shares_.ranks() > 1 && info().shard == Shard::parameters; }

  /// Makes the weights whole and sets the sums to 0, which stay so where this rank has no part. Collective.
  void begin_evaluation();
  /// Sums over the targets, of losses and of those that are the first choice, times `loss_scale`, added to those before
  /// unless `first`.
  void evaluate(const MicroBatch& batch, float loss_scale, bool first);
  /// A part of a step alone, on what lies in the arena: for times, not for results.
  void run_piece(StepPiece piece, std::size_t layer);
  struct Evaluated {
    double loss, top1;  // as in StepResults
  };
  /// What was evaluated since begin_evaluation(), by all ranks, each of which calls this.
  Evaluated evaluated();

  /// Sum of the losses of this rank's part of a batch, in nats, as audit.compute has them (Program::audit, which is
  /// there). `masters`: of passes that read the master weights. Collective.
  double audit(const StepBatch& batch, bool masters);

  /// Logits after row `positions[i]` of `tokens` [micro_batch * sequence_length], i < micro_batch: rows of vocab_pitch
  /// floats in `logits` [micro_batch * vocab_pitch].
  void next_logits(std::span<const std::int32_t> tokens, std::span<const std::int32_t> positions,
                   std::vector<float>& logits);
  /// This rank's part in another's next_logits().
  void follow_logits();

 private:
  const Buffer& buffer(Use use) const { return buffer_of(info().buffers, use); }
  std::byte* place(Use use) const { return arena_ + places_.of(buffer(use)); }
  FlatSource source(Use use);
  NumberedReplay replay() const;
  std::size_t passes_of_all() const;
  void need_whole_weights() const;
  template <typename T>
  void copy_in(std::byte* to, std::span<const T> values);
  template <typename T>
  void copy_out(const std::byte* from, std::span<T> values);
  void send_inputs(const MicroBatch& micro, const StepScalars& scalars, const OptimizerScalars& optimizer);

  Device& device_;
  Communicator& ranks_;  // along data
  const Mesh mesh_;
  const Program& program_;
  const Shares shares_;
  const ArenaPlaces places_;
  std::byte* arena_;
  FlatBuffers flat_;
  bool gathered_ = false;  // the weights that this rank reads are whole
  Step* step_;
  std::array<NumberedReplay, 4> micro_batches_;  // [first + 2 * last]: middle, first, last, only
  NumberedReplay optimizer_step_;
  std::array<NumberedReplay, 2> evaluations_;  // [first]
  NumberedReplay audit_;
  DeviceState state_;
  const InputBlock block_;
  InputRing inputs_;
  ReadBack results_;
  std::optional<ReadBack> own_results_;  // of several ranks: before they are summed
  std::optional<ReadBack> norms_;        // with metrics.per_parameter
};

}  // namespace llmc
