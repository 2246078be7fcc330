// Interface of an emitted project: the constants of one run and the functions of one step.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>

#include "device/device.h"
#include "device/types.h"
#include "math/gemm.h"
#include "program/buffers.h"
#include "program/parameters.h"
#include "program/shards.h"

namespace llmc {

struct AttentionPlan;  // math/attention.h
class Communicator;    // comm/collectives.h

/// Parts of a step that `trainer calibrate` times. For a layer: forward and backward of attention, and all kernels
/// except GEMMs. Also the optimizer step, and forward plus backward of a micro-batch.
enum class StepPiece { attention_forward, attention_backward, kernels, optimizer, pass };
constexpr std::size_t kPieces = static_cast<std::size_t>(StepPiece::pass);  // pieces whose work is known

inline constexpr char kCalibrationFormat[] = "llmc-calibration-1";  // of the file that `trainer calibrate` writes

/// Work of running a piece once.
struct PieceWork {
  double flops;  // of attention: the GEMMs of its definition, counting only unmasked scores
  double bytes;  // read and written by its kernels; 0: the piece's time does not follow from bytes
  int launches;
};

/// Phase of a run, one of the specs' `phases`. A trainer has the steps of all phases that were compiled alike; a run
/// without phases has one.
struct PhaseInfo {
  int number = 1, count = 1;
  std::span<const std::int64_t> ends = {};    // last steps of all phases; empty in a run without phases
  std::span<const int> trainers = {};         // of each phase: the first phase that has the same trainer
  std::span<const char* const> changed = {};  // keys whose value differs from the phase before

  std::span<const std::int64_t> borders() const { return ends.first(ends.empty() ? 0 : ends.size() - 1); }
  /// Steps of phase `of` are [first_of(of), end_of(of)); only of a run with phases.
  std::int64_t first_of(int of) const { return of == 1 ? 0 : end_of(of - 1); }
  std::int64_t end_of(int of) const { return ends[static_cast<std::size_t>(of) - 1]; }
  std::int64_t first() const { return first_of(number); }
  std::int64_t last() const { return end_of(number); }
  int trainer_of(int of) const { return trainers[static_cast<std::size_t>(of) - 1]; }
  /// Whether its trainer has other phases too. A loop, because <algorithm> takes g++ as long as half of a step.
  bool shares_trainer() const {
    int phases = 0;
    for (const int trainer : trainers) phases += trainer == trainer_of(number);
    return phases > 1;
  }
  /// First and last of the phases around this one between which the trainer does not change.
  int first_here() const {
    int phase = number;
    while (phase > 1 && trainer_of(phase - 1) == trainer_of(number)) --phase;
    return phase;
  }
  int last_here() const {
    int phase = number;
    while (phase < count && trainer_of(phase + 1) == trainer_of(number)) ++phase;
    return phase;
  }
};

struct ProgramInfo {
  const char* name;
  const char* fingerprint;  // hex; of the compiled-in values
  const char* plan_text;    // output of --plan
  const char* plan_json;
  const char* spec_yaml;              // resolved, as spec::to_yaml(Values) prints it
  const char* config_json;            // Hugging Face config.json
  const char* arch;                   // "x86-64-v4", "znver4", "90a": what the kernels were compiled for
  const std::uint64_t* instructions;  // cpu: instruction sets they may use, as in device/cpu/instructions.h; null: any
  std::int64_t vocab_size, vocab_pitch, hidden_size, layers, head_dim;
  std::int64_t sequence_length, micro_batch;
  std::int64_t parameter_count;     // without padding
  std::int64_t parameter_elements;  // with padding: length of each flat buffer
  double flops_per_token;           // model FLOPs; only unmasked scores count, so causal attention counts half
  std::span<const ParameterInfo> parameters;
  std::span<const double> inverse_frequencies;             // RoPE, one of each pair
  std::span<const double> local_inverse_frequencies = {};  // of sliding layers with angles of their own, unscaled
  double rope_scale = 1;                                   // of its cosines and sines
  bool rope_interleaved = false;                           // a cosine and a sine alternate in its tables
  std::span<const ParameterGroup> groups;
  /// Names of the elements of Use::reports.
  std::span<const char* const> reports = {};
  std::int64_t chunk_elements;           // see program/chunks.h, which fills chunks and first_chunk at start
  std::span<const GemmShape> products;   // every GEMM of the step, by name
  const AttentionPlan* attention;        // first element of a list; null if cuDNN is not used
  std::size_t arena_bytes;               // per rank
  std::size_t process_bytes;             // on cpu: at most what the process uses in addition to the arena; else 0
  std::span<const Buffer> buffers;       // of one rank's arena; without the unseen, sharded buffers last
  std::span<const Bucket> buckets;       // of the flat buffers
  std::int64_t share_unit = kShareUnit;  // see program/shards.h
  std::span<const Gathered> gathered;    // of the weights that every rank has whole, before a step
  Shard shard;                           // what several ranks share out
  std::size_t window_bytes;              // of several ranks, behind the shares: see step/arena_offsets.h
  std::size_t gradient_window_bytes;     // of these the first, in which gradients are reduced
  std::array<PieceWork, kPieces> pieces;
  PhaseInfo phase = {};               // whose texts are above
  const char* phases_json = nullptr;  // texts of each phase of a run with phases: trainer/startup/phase.h

  std::size_t math_workspace_bytes() const {
    const Buffer* workspace = find_buffer(buffers, Use::math_workspace);
    return workspace ? workspace->bytes() : 0;
  }
};

/// Device-side state of a step (GEMMs, attention, arena pointer). Defined by the emitted project.
struct Step;

/// Functions of one run. All work is ordered on the device's stream.
struct Program {
  const ProgramInfo& info;
  /// Creates every GEMM and attention descriptor, once. `shares`: this rank's; `places`: offsets from
  /// ArenaOffsets::shared(). Both must outlive the step.
  Step* (*create)(Device&, Communicator& ranks, const Shares& shares, std::byte* arena,
                  std::span<const std::size_t> places);
  void (*destroy)(Step*);
  /// Draws the initial weights into the masters; a rank may draw only its shard. The result does not depend on the
  /// target layout or the number of ranks.
  void (*initialise)(Step&, std::uint64_t seed);
  /// Writes the compute copies from the masters, each rank its shard. Call it after initialise or a load.
  void (*refresh_copies)(Step&);
  /// Gathers the weights that this rank reads, before an evaluation or sampling. A step's first micro-batch gathers
  /// what the optimizer steps of all ranks have written by itself. Does nothing if every pass gathers.
  void (*gather_weights)(Step&);
  /// Runs forward and backward of one micro-batch. `first`: gradients and loss are written instead of added, and
  /// weights may have changed since the last pass. `last`: the complete gradients are summed over the ranks, unless
  /// every micro-batch does that.
  void (*micro_batch)(Step&, bool first, bool last);
  /// Gradient norm, clipping, update, compute copies, per-parameter norms.
  void (*optimizer_step)(Step&);
  /// Forward only. Adds loss_scale * (sum of the losses) to StepResults::loss. `first`: writes it; weights may have
  /// changed since the last pass.
  void (*evaluate)(Step&, bool first);
  /// Forward only. Writes sample_logits for `positions`.
  void (*next_logits)(Step&);
  /// Runs the launches of a piece of one layer on the arena's current content. Does nothing for optimizer and pass.
  /// Null: not available.
  void (*run_piece)(Step&, StepPiece piece, std::size_t layer) = nullptr;
  /// Forward only. Writes audit_losses, from logits in fp32 or a whole pass in fp32 (audit.compute). Null: not
  /// available.
  void (*audit)(Step&) = nullptr;
  /// Of split masters: writes this rank's shard of all masters in fp32 to the gradients' buffer, at the offsets of a
  /// gradient. Null: masters are fp32. refresh_copies then reads the masters there, and initialise writes them there.
  void (*join_masters)(Step&) = nullptr;
};

/// The flat buffer of all masters in fp32, as the host reads and writes them.
inline const Buffer& host_masters(const Program& program) {
  return buffer_of(program.info.buffers, program.join_masters ? Use::gradients : Use::masters);
}

/// Defined by the emitted project.
const Program& program();

/// Runs a whole trainer and returns the exit code.
int train_main(int argc, char** argv, const Program& program);

}  // namespace llmc
