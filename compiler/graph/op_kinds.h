// Lists every kind of op once; the enum, names, table of rows and rules of `llmc verify` derive from it.
#pragma once

#include <cstddef>
#include <string_view>

/// OP(enumerator, row): the row is ops::k<row> in a file of compiler/ops, the rule is float64::<enumerator>().
#define LLMC_COMPUTED_OPS(OP)                                   \
  OP(embedding, Embedding)                                      \
  OP(rms_norm, RmsNorm)                                         \
  OP(round_stream, RoundStream)                                 \
  OP(linear, Linear)                                            \
  OP(rope, Rope)                                                \
  OP(qk_norm_rope, QkNormRope)                                  \
  OP(attention, Attention)                                      \
  OP(quantise, Quantise)                                        \
  OP(quantise_transposed, QuantiseTransposed)                   \
  OP(largest_scale, LargestScale)                               \
  OP(share_scale, ShareScale)                                   \
  OP(largest_magnitude, LargestMagnitude)                       \
  OP(quantise_by_tensor, QuantiseByTensor)                      \
  OP(quantise_by_tensor_transposed, QuantiseByTensorTransposed) \
  OP(quantise_blocks, QuantiseBlocks)                           \
  OP(swiglu, Swiglu)                                            \
  OP(add, Add)                                                  \
  OP(cross_entropy, CrossEntropy)                               \
  OP(loss_sum, LossSum)                                         \
  OP(z_loss, ZLoss)                                             \
  OP(gather_rows, GatherRows)                                   \
  OP(soft_cap, SoftCap)                                         \
  OP(audit_loss, AuditLoss)                                     \
  OP(embedding_backward, EmbeddingBackward)                     \
  OP(rms_norm_backward, RmsNormBackward)                        \
  OP(linear_dgrad, LinearDgrad)                                 \
  OP(linear_wgrad, LinearWgrad)                                 \
  OP(column_sum, ColumnSum)                                     \
  OP(column_reduce, ColumnReduce)                               \
  OP(rope_backward, RopeBackward)                               \
  OP(qk_norm_rope_backward, QkNormRopeBackward)                 \
  OP(attention_backward, AttentionBackward)                     \
  OP(swiglu_backward, SwigluBackward)                           \
  OP(cross_entropy_backward, CrossEntropyBackward)              \
  OP(zero, Zero)                                                \
  OP(gradient_norm, GradientNorm)                               \
  OP(gradient_clip, GradientClip)                               \
  OP(adamw, Adamw)                                              \
  OP(lion, Lion)                                                \
  OP(adamw_int8, AdamwInt8)                                     \
  OP(muon_momentum, MuonMomentum)                               \
  OP(row_norms, RowNorms)                                       \
  OP(muon_factors, MuonFactors)                                 \
  OP(neuron_factors, NeuronFactors)                             \
  OP(scale_rows, ScaleRows)                                     \
  OP(product, Product)                                          \
  OP(muon, Muon)                                                \
  OP(parameter_norms, ParameterNorms)                           \
  OP(initialise, Initialise)                                    \
  OP(cast, Cast)                                                \
  OP(split_masters, SplitMasters)                               \
  OP(join_masters, JoinMasters)

/// Ops between the ranks of a run. A run of one rank leaves them out, and no rule verifies them.
#define LLMC_RANK_OPS(OP)           \
  OP(all_reduce, AllReduce)         \
  OP(reduce_scatter, ReduceScatter) \
  OP(all_gather, AllGather)         \
  OP(broadcast, Broadcast)          \
  OP(sum_results, SumResults)       \
  OP(clear_others, ClearOthers)     \
  OP(to_wire, ToWire)               \
  OP(from_wire, FromWire)

#define LLMC_OPS(OP) LLMC_COMPUTED_OPS(OP) LLMC_RANK_OPS(OP)

namespace llmc::graph {

#define LLMC_ENUMERATOR(kind, row) kind,
enum class OpKind { LLMC_OPS(LLMC_ENUMERATOR) };
#undef LLMC_ENUMERATOR

#define LLMC_ONE(kind, row) +1
constexpr std::size_t kOpKinds = LLMC_OPS(LLMC_ONE);
constexpr std::size_t kComputedOpKinds = LLMC_COMPUTED_OPS(LLMC_ONE);
#undef LLMC_ONE

const char* name_of(OpKind kind);
/// Throws Failure(internal) if no kind has this name.
OpKind kind_of(std::string_view name);

/// Whether the op does nothing, or is left out, in a run of one rank.
constexpr bool is_between_ranks(OpKind kind) { return static_cast<std::size_t>(kind) >= kComputedOpKinds; }

}  // namespace llmc::graph
