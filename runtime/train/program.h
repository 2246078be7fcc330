// What an emitted project hands to the runtime: constants of one run, and the functions of one step.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include "device/device.h"
#include "device/types.h"
#include "math/gemm.h"

namespace llmc {

struct AttentionPlan;  // math/attention.h

/// One tensor under its Hugging Face name. Fused weights (q, k, v; gate, up) are several of these, at different
/// offsets.
struct ParameterInfo {
  const char* name;         // "model.layers.3.self_attn.q_proj.weight"
  std::int64_t offset;      // elements from the start of each flat parameter buffer
  std::int64_t rows, cols;  // logical shape [rows, cols]; vectors have rows == 1 and rank 1 in files
  std::int64_t pitch;       // elements from row to row; the padding is always zero (vectors: their length)
  bool matrix;              // rank 2 in files
  bool decay;               // weight decay applies, whatever optimizer.decay is
  float init_std;           // > 0: normal draws
  float init_value;         // otherwise every element is this
  std::uint64_t key;        // xxh64 of the name: the stream of its random draws
};

/// Byte offsets into the arena, from the plan. Five flat parameter buffers share the element offsets of ParameterInfo.
struct ArenaLayout {
  std::size_t bytes;
  std::size_t masters, gradients, exp_avg, exp_avg_sq;  // fp32 [parameter_elements]
  std::size_t copies;                                   // compute dtype [parameter_elements]; equals masters in fp32
  std::size_t results;                                  // StepResults
  std::size_t inputs, input_bytes;                      // what a micro-batch reads: from scalars to run_count
  std::size_t input_slots, input_slot_count;            // such blocks on their way to `inputs`; none on cpu
  std::size_t scalars;                                  // StepScalars
  std::size_t tokens, targets;                          // i32 [micro_batch * sequence_length]
  std::size_t embedding_order;                          // i32 [tokens]: positions sorted by token, stable
  std::size_t run_begin;        // i32 [tokens + 1]: where in `order` each distinct token's positions begin
  std::size_t run_token;        // i32 [tokens]: the distinct tokens, ascending
  std::size_t run_count;        // i32 [1]
  std::size_t positions;        // i32 [micro_batch]: row whose logits are wanted, sequence * sequence_length + position
  std::size_t sample_logits;    // fp32 [micro_batch, vocab_pitch]
  std::size_t rope_table;       // fp32 [sequence_length, head_dim]: cos of head_dim/2 angles, then sin
  std::size_t chunks;           // Chunk [chunk_count]
  std::size_t first_chunk;      // i32 [parameters + 1]: parameter p owns chunks [first_chunk[p], first_chunk[p + 1])
  std::size_t init_rules;       // InitRule [parameters]
  std::size_t parameter_norms;  // fp32 [parameters, 3]: L2 norms of gradient, weight, update
  std::size_t math_workspace, math_workspace_bytes;
};

struct ProgramInfo {
  const char* name;
  const char* fingerprint;  // hex; of what is compiled in
  const char* plan_text;    // what --plan prints
  const char* plan_json;
  const char* spec_yaml;    // resolved, as spec::to_yaml(Values) prints it
  const char* config_json;  // Hugging Face config.json
  const char* arch;         // "x86-64-v4", "znver4", "90a": what the kernels were compiled for
  std::int64_t vocab_size, vocab_pitch, hidden_size, layers, head_dim;
  std::int64_t sequence_length, micro_batch;
  std::int64_t sequences_per_step;  // global batch in sequences
  std::int64_t parameter_count;     // logical elements
  std::int64_t parameter_elements;  // with padding: length of each flat buffer
  double flops_per_token;           // model FLOPs, causal attention counted as half
  std::span<const ParameterInfo> parameters;
  std::span<const double> inverse_frequencies;  // RoPE, head_dim / 2
  std::int64_t chunk_elements, chunk_count;     // see train/chunks.h, which fills chunks and first_chunk at start
  std::span<const GemmShape> products;          // every matrix product of the step, by name
  const AttentionPlan* attention;               // null where cuDNN has no part in it
  ArenaLayout arena;
};

/// Device-side state of a step: the emitted project defines it (GEMMs, attention, arena pointer).
struct Step;

/// The functions of one run. All work is ordered on the device's stream.
struct Program {
  const ProgramInfo& info;
  /// Builds every GEMM and attention descriptor, once.
  Step* (*create)(Device&, std::byte* arena);
  void (*destroy)(Step*);
  /// Draws the initial weights into the masters; the same for every target layout and number of ranks.
  void (*initialise)(Step&, std::uint64_t seed);
  /// Writes the compute copies from the masters (after initialise or load).
  void (*refresh_copies)(Step&);
  /// Forward and backward of one micro-batch. `first`: gradients and loss are written, later ones add.
  void (*micro_batch)(Step&, bool first, bool last);
  /// Gradient norm, clipping, AdamW, compute copies, per-parameter norms.
  void (*optimizer_step)(Step&);
  /// Forward only; adds loss_scale * (sum of the losses) to StepResults::loss (`first`: writes).
  void (*evaluate)(Step&, bool first);
  /// Forward only; writes sample_logits for `positions`.
  void (*next_logits)(Step&);
};

/// Defined by the emitted project.
const Program& program();

/// Everything that a trainer's main does; returns the exit code.
int train_main(int argc, char** argv, const Program& program);

}  // namespace llmc
