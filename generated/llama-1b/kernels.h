// The kernels of run llama-1b (67f153b1f9efd53ce0b214734deeb5f9).
#pragma once

#include "device/group.h"

namespace llmc {

LLMC_KERNEL embedding_forward(const int* __restrict tokens, const float* __restrict table, float* __restrict out);
LLMC_KERNEL rms_norm_forward(const float* __restrict x, const float* __restrict weight, bf16* __restrict y,
                             float* __restrict rstd);
LLMC_KERNEL rope(bf16* __restrict qkv, const float* __restrict table);
LLMC_KERNEL swiglu_forward(const bf16* __restrict gate_up, bf16* __restrict out);
LLMC_KERNEL cross_entropy_gradient(bf16* __restrict logits, const int* __restrict targets, float* __restrict losses,
                                   float* __restrict lse, float* __restrict entropies, float* __restrict correct,
                                   const StepScalars* __restrict scalars);
LLMC_KERNEL loss_sum(const float* __restrict losses, const float* __restrict lse, const float* __restrict entropies,
                     const float* __restrict correct, const StepScalars* __restrict scalars,
                     StepResults* __restrict results, int accumulate);
LLMC_KERNEL rms_norm_backward(const bf16* dy, const float* x, const float* weight, const float* rstd,
                              const bf16* dresidual, bf16* dx, float* dweight_partial, bf16* y);
LLMC_KERNEL column_reduce_to_32_2048(const float* __restrict partial, float* __restrict out, int accumulate);
LLMC_KERNEL column_reduce_2048(const float* __restrict partial, float* __restrict out, int accumulate);
LLMC_KERNEL swiglu_backward_recompute(const bf16* dout, const bf16* gate_up, bf16* dgate_up, bf16* out);
LLMC_KERNEL rms_norm_backward_residual_recompute(const bf16* dy, const float* x, const float* weight, const float* rstd,
                                                 const bf16* dresidual, bf16* dx, float* dweight_partial, bf16* y);
LLMC_KERNEL attention_backward_queries_warpgroups_rotated(const bf16* __restrict dout, const bf16* __restrict out,
                                                          const bf16* __restrict qkv, const float* __restrict lse,
                                                          bf16* __restrict dqkv, float* __restrict delta,
                                                          const float* __restrict rope_table);
LLMC_KERNEL attention_backward_keys_warpgroups_rotated(const bf16* __restrict dout, const bf16* __restrict qkv,
                                                       const float* __restrict lse, const float* __restrict delta,
                                                       bf16* __restrict dqkv, const float* __restrict rope_table);
LLMC_KERNEL rope_inverse(bf16* __restrict qkv, const float* __restrict table);
LLMC_KERNEL embedding_backward(const bf16* __restrict dx, const int* __restrict order, const int* __restrict run_begin,
                               const int* __restrict run_token, const int* __restrict run_count,
                               float* __restrict dtable);
LLMC_KERNEL gradient_norm(const float* __restrict gradients, const Chunk* __restrict chunks, float* __restrict partial,
                          int begin, int end);
LLMC_KERNEL gradient_clip(const float* __restrict partial, int chunks, const StepScalars* __restrict scalars,
                          StepResults* __restrict results);
LLMC_KERNEL adamw_copy_norms(float* __restrict master, const float* __restrict gradient, float* __restrict exp_avg,
                             float* __restrict exp_avg_sq, bf16* __restrict copy, const Chunk* __restrict chunks,
                             int begin, int end, const AdamwScalars* __restrict scalars,
                             const GroupScalars* __restrict groups, const StepResults* __restrict results,
                             float* __restrict weight_partial, float* __restrict update_partial);
LLMC_KERNEL parameter_norms(const float* __restrict gradient_partial, const float* __restrict weight_partial,
                            const float* __restrict update_partial, const int* __restrict first_chunk,
                            float* __restrict norms);
LLMC_KERNEL cross_entropy(bf16* __restrict logits, const int* __restrict targets, float* __restrict losses,
                          float* __restrict lse, float* __restrict entropies, float* __restrict correct,
                          const StepScalars* __restrict scalars);
LLMC_KERNEL gather_rows(const bf16* __restrict x, const int* __restrict rows, bf16* __restrict out);
LLMC_KERNEL init_normal(float* __restrict master, const InitRule* __restrict rules, const Chunk* __restrict chunks,
                        int begin, int end, unsigned long long seed);
LLMC_KERNEL cast_weights(const float* __restrict master, bf16* __restrict copy, const Chunk* __restrict chunks,
                         int begin, int end);

}  // namespace llmc
