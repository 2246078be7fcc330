// Buffers of the arena that the host reads or writes, or that a checkpoint contains. The plan lists them; the trainer
// looks them up by use.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>

#include "program/dtype.h"
#include "program/parameters.h"
#include "program/shards.h"

namespace llmc {

/// Use of a buffer by the host.
enum class Use : std::uint8_t {
  unseen,  // only the step uses it

  // [parameter elements], at the offsets of ParameterInfo; of state, elements that stand for some of these
  masters,    // fp32 weights; with rest and ties only of those that are not split
  gradients,  // fp32, accumulated over micro-batches; between steps memory for the host's view of split masters
  copies,     // weights in the dtype that GEMMs read; one buffer per dtype
  rest,       // of split masters, what their bf16 copies lack (device/split.h)
  ties,       // a bit for each of them
  state,      // optimizer state, in checkpoint order; its name prefixes each parameter's in a checkpoint
  row_state,  // same, with an element for each row of layers' matrices: ParameterInfo::first_row. Whole on every rank

  // written before a micro-batch, contiguous, in one copy
  scalars,            // StepScalars
  optimizer_scalars,  // record of the optimizer kind: OptimizerRow::record
  group_scalars,      // GroupScalars [groups]
  tokens,             // i32 [micro_batch * sequence_length]
  targets,            // same shape; -1: ignored position
  embedding_order,    // i32 [tokens]: positions sorted by token, stable
  run_begin,          // i32 [tokens + 1]: start of each distinct token's run in that order
  run_token,          // i32 [tokens]: the distinct tokens, ascending
  run_count,          // i32 [1]
  document_begin,     // i32 [tokens]: place in its sequence of the first token of each token's document; with
  document_end,       // data.documents.mask, and of the last one

  positions,  // before sampling: i32 [micro_batch], row whose logits are read: sequence * sequence_length + position

  // written once, at start
  rope_table,        // fp32 [sequence_length, rotated elements of a head]: step/constants.h
  local_rope_table,  // same of sliding layers with angles of their own
  ones,              // fp32 [columns of the widest norm]: what norms without weights multiply by
  chunks,            // Chunk [chunks]
  first_chunk,       // i32 [parameters + 1]: parameter p owns chunks [first_chunk[p], first_chunk[p + 1])
  init_rules,        // InitRule [parameters]

  // read by the host
  results,          // StepResults
  loss_scale,       // LossScale, which the device keeps from step to step; with compute: fp16
  losses,           // fp32 [micro_batch * sequence_length]: nats of each target of the last pass, 0 without one
  reports,          // double [Graph::reports]: further sums of a step over micro-batches and ranks; absent if none
  sample_logits,    // fp32 [micro_batch, vocab_pitch]
  parameter_norms,  // fp32 [parameters, 3]: L2 norms of gradient, weight, update; with metrics.per_parameter
  audit_losses,     // fp32 [micro_batch * sequence_length]: nats of each target, 0 without one; with audit.compute

  // cuda
  math_workspace,  // of GEMMs
  input_slots,     // staging slots for input blocks in flight, each of input_block() bytes
};

/// In the order of Use.
inline constexpr auto kUseNames = std::to_array<const char*>({"unseen",        "masters",
                                                              "gradients",     "copies",
                                                              "rest",          "ties",
                                                              "state",         "row_state",
                                                              "scalars",       "optimizer_scalars",
                                                              "group_scalars", "tokens",
                                                              "targets",       "embedding_order",
                                                              "run_begin",     "run_token",
                                                              "run_count",     "document_begin",
                                                              "document_end",  "positions",
                                                              "rope_table",    "local_rope_table",
                                                              "ones",          "chunks",
                                                              "first_chunk",   "init_rules",
                                                              "results",       "loss_scale",
                                                              "losses",        "reports",
                                                              "sample_logits", "parameter_norms",
                                                              "audit_losses",  "math_workspace",
                                                              "input_slots"});
static_assert(kUseNames.size() == static_cast<std::size_t>(Use::input_slots) + 1, "a name for each Use");
constexpr const char* name_of(Use use) { return kUseNames[static_cast<std::size_t>(use)]; }

/// Returns whether the optimizer keeps the buffer from step to step.
constexpr bool is_state(Use use) { return use == Use::state || use == Use::row_state; }

/// Returns whether the buffer is part of the block that the host sends before a micro-batch.
constexpr bool is_input(Use use) { return use >= Use::scalars && use <= Use::document_end; }

/// Returns whether each rank holds only its own shard of the buffer (shards.h). Such buffers lie at the end of the
/// arena, so that their size, which depends on the number of ranks, moves no other buffer. A shard's elements are
/// contiguous.
constexpr bool is_sharded(Use use, Shard shard) {
  switch (use) {
    case Use::state: return shard >= Shard::optimizer;
    case Use::gradients: return shard >= Shard::gradients;
    case Use::masters:
    case Use::copies:
    case Use::rest:
    case Use::ties: return shard >= Shard::parameters;
    default: return false;
  }
}

/// Alignment of every buffer, in bytes.
inline constexpr std::size_t kArenaAlignment = 256;

/// Bytes of the arena that a buffer occupies.
constexpr std::size_t buffer_space(DType dtype, std::int64_t elements) {
  return (static_cast<std::size_t>(bytes_of(dtype, elements)) + kArenaAlignment - 1) / kArenaAlignment *
         kArenaAlignment;
}

/// Bytes of the arena that `elements` of a bucket take in a gather buffer, next to the shards.
constexpr std::size_t window_space(DType dtype, std::int64_t elements, std::int64_t share_unit) {
  return buffer_space(dtype, elements + share_gap(share_unit));
}

/// Number of elements of a buffer that has one element for each `block` elements of parameters.
constexpr std::int64_t in_blocks(std::int64_t elements, std::int64_t block) { return (elements + block - 1) / block; }

struct Buffer {
  const char* name;
  DType dtype;
  std::int64_t elements;
  Use use;
  std::size_t offset;  // bytes from the arena's start
  // Of state: elements of parameters that one of its own stands for, and the groups whose parameters it has. It begins
  // with the first bucket that has some (buckets_of).
  std::int64_t block = 1;
  GroupSet groups = kAllGroups;
  const char* saved_as = nullptr;  // before a parameter's name in a checkpoint; null: its own name

  constexpr std::size_t bytes() const { return static_cast<std::size_t>(bytes_of(dtype, elements)); }
};

/// Range of a flat buffer that is gathered before each step, so that it is equal on every rank.
struct Gathered {
  const char* buffer;
  std::int64_t offset, elements;
};

/// First buffer with this use, or null.
inline const Buffer* find_buffer(std::span<const Buffer> buffers, Use use) {
  for (const Buffer& b : buffers)
    if (b.use == use) return &b;
  return nullptr;
}

/// Same as find_buffer(), but throws Failure(internal) if there is none.
const Buffer& buffer_of(std::span<const Buffer> buffers, Use use);

// `Buffers` is a list of Buffer or the plan's own list.

/// The block of inputs: from the first to the end of the last, a multiple of kArenaAlignment.
struct InputBlock {
  std::size_t offset = 0, bytes = 0;
};

template <class Buffers>
InputBlock input_block(const Buffers& buffers) {
  std::size_t begin = SIZE_MAX, end = 0;
  for (const auto& b : buffers)
    if (is_input(b.use)) {
      if (b.offset < begin) begin = b.offset;
      if (b.offset + b.bytes() > end) end = b.offset + b.bytes();
    }
  if (end == 0) return {};
  return {begin, (end - begin + kArenaAlignment - 1) / kArenaAlignment * kArenaAlignment};
}

}  // namespace llmc
