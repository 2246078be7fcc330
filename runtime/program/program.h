// What an emitted project hands to the runtime: constants of one run, and the functions of one step.
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

/// Parts of a step that `trainer calibrate` times: of a layer attention's two passes and all other kernels that
/// multiply no matrices; the optimizer's step; forward and backward of a micro-batch.
enum class StepPiece { attention_forward, attention_backward, kernels, optimizer, pass };
constexpr std::size_t kPieces = static_cast<std::size_t>(StepPiece::pass);  // whose work is known

/// What running a piece once takes.
struct PieceWork {
  double flops;  // of attention: the products that its definition needs, of the scores under the mask
  double bytes;  // that its kernels read and write; 0: the piece is not one that bytes say the time of
  int launches;
};

struct ProgramInfo {
  const char* name;
  const char* fingerprint;  // hex; of what is compiled in
  const char* plan_text;    // what --plan prints
  const char* plan_json;
  const char* spec_yaml;              // resolved, as spec::to_yaml(Values) prints it
  const char* config_json;            // Hugging Face config.json
  const char* arch;                   // "x86-64-v4", "znver4", "90a": what the kernels were compiled for
  const std::uint64_t* instructions;  // cpu: those that they may use, as device/cpu/instructions.h has them; null: any
  std::int64_t vocab_size, vocab_pitch, hidden_size, layers, head_dim;
  std::int64_t sequence_length, micro_batch;
  std::int64_t sequences_per_step;  // global batch in sequences
  std::int64_t parameter_count;     // logical elements
  std::int64_t parameter_elements;  // with padding: length of each flat buffer
  double flops_per_token;           // model FLOPs, of the scores under the masks: causal attention as half
  std::span<const ParameterInfo> parameters;
  std::span<const double> inverse_frequencies;  // RoPE, head_dim / 2
  std::span<const ParameterGroup> groups;
  std::int64_t chunk_elements;          // see program/chunks.h, which fills chunks and first_chunk at start
  std::span<const GemmShape> products;  // every matrix product of the step, by name
  const AttentionPlan* attention;       // the first of a list; null where cuDNN has no part in it
  std::size_t arena_bytes;              // of one rank
  std::size_t process_bytes;            // on cpu: what its process takes beside the arena, at most; else 0
  std::span<const Buffer> buffers;      // of the arena of one rank; all but the unseen, and last those that ranks share
  std::span<const Bucket> buckets;      // of the flat buffers
  std::int64_t share_unit = kShareUnit;  // see program/shards.h
  std::span<const Gathered> gathered;    // of the weights that every rank has whole, before a step
  Shard shard;                           // what several ranks share out
  std::size_t window_bytes;              // of several ranks, behind the shares: see step/arena_places.h
  std::size_t gradient_window_bytes;     // of these the first, in which gradients are reduced
  std::array<PieceWork, kPieces> pieces;

  std::size_t math_workspace_bytes() const {
    const Buffer* workspace = find_buffer(buffers, Use::math_workspace);
    return workspace ? workspace->bytes() : 0;
  }
};

/// Device-side state of a step: the emitted project defines it (GEMMs, attention, arena pointer).
struct Step;

/// The functions of one run. All work is ordered on the device's stream.
struct Program {
  const ProgramInfo& info;
  /// Builds every GEMM and attention descriptor, once. `shares`: this rank's; `places`: ArenaPlaces::shared(). Both
  /// outlive the step.
  Step* (*create)(Device&, Communicator& ranks, const Shares& shares, std::byte* arena,
                  std::span<const std::size_t> places);
  void (*destroy)(Step*);
  /// Draws the initial weights into the masters, of which each rank may draw its share alone; the same for every target
  /// layout and number of ranks.
  void (*initialise)(Step&, std::uint64_t seed);
  /// Writes the compute copies from the masters (after initialise or load), each rank those of its share.
  void (*refresh_copies)(Step&);
  /// Makes the weights that this rank reads whole, for what is no micro-batch: a step's first micro-batch gathers for
  /// itself what the optimizer's steps of all ranks have written. Nothing where every pass gathers them.
  void (*gather_weights)(Step&);
  /// Forward and backward of one micro-batch. `first`: gradients and loss are written, later ones add. `last`: the
  /// gradients, complete, are summed over the ranks, unless each micro-batch's are.
  void (*micro_batch)(Step&, bool first, bool last);
  /// Gradient norm, clipping, update, compute copies, per-parameter norms.
  void (*optimizer_step)(Step&);
  /// Forward only; adds loss_scale * (sum of the losses) to StepResults::loss (`first`: writes).
  void (*evaluate)(Step&, bool first);
  /// Forward only; writes sample_logits for `positions`.
  void (*next_logits)(Step&);
  /// The launches of a piece of one layer, on whatever lies in the arena; of optimizer and pass nothing. Null: none.
  void (*run_piece)(Step&, StepPiece piece, std::size_t layer) = nullptr;
  /// Forward only; writes audit_losses, of logits in fp32 or of a whole pass in fp32 (audit.compute). Null: none.
  void (*audit)(Step&) = nullptr;
};

/// Defined by the emitted project.
const Program& program();

/// Everything that a trainer's main does; returns the exit code.
int train_main(int argc, char** argv, const Program& program);

}  // namespace llmc
