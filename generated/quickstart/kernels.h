// The kernels of run quickstart (274398525d62afeedc289c02dc9a8bde).
#pragma once

#include "device/group.h"

namespace llmc {

LLMC_KERNEL embedding_forward(const int* __restrict tokens, const float* __restrict table, float* __restrict out);
LLMC_KERNEL rms_norm_forward(const float* __restrict x, const float* __restrict weight, float* __restrict y,
                             float* __restrict rstd);
LLMC_KERNEL rope(float* __restrict qkv, const float* __restrict table);
LLMC_KERNEL attention_forward(const float* __restrict qkv, float* __restrict out, float* __restrict lse);
LLMC_KERNEL swiglu_forward(const float* __restrict gate_up, float* __restrict out);
LLMC_KERNEL cross_entropy_gradient(float* __restrict logits, const int* __restrict targets, float* __restrict losses,
                                   float* __restrict lse, float* __restrict entropies, float* __restrict correct,
                                   const StepScalars* __restrict scalars);
LLMC_KERNEL loss_sum(const float* __restrict losses, const float* __restrict lse, const float* __restrict entropies,
                     const float* __restrict correct, const StepScalars* __restrict scalars,
                     StepResults* __restrict results, int accumulate);
LLMC_KERNEL rms_norm_backward(const float* dy, const float* x, const float* weight, const float* rstd,
                              const float* dresidual, float* dx, float* dweight_partial, float* y);
LLMC_KERNEL column_reduce_to_32_256(const float* __restrict partial, float* __restrict out, int accumulate);
LLMC_KERNEL column_reduce_256(const float* __restrict partial, float* __restrict out, int accumulate);
LLMC_KERNEL swiglu_backward(const float* dout, const float* gate_up, float* dgate_up, float* out);
LLMC_KERNEL rms_norm_backward_residual(const float* dy, const float* x, const float* weight, const float* rstd,
                                       const float* dresidual, float* dx, float* dweight_partial, float* y);
LLMC_KERNEL attention_backward(const float* __restrict dout, const float* __restrict out, const float* __restrict qkv,
                               const float* __restrict lse, float* __restrict dqkv, float* __restrict workspace);
LLMC_KERNEL rope_inverse(float* __restrict qkv, const float* __restrict table);
LLMC_KERNEL embedding_backward(const float* __restrict dx, const int* __restrict order, const int* __restrict run_begin,
                               const int* __restrict run_token, const int* __restrict run_count,
                               float* __restrict dtable);
LLMC_KERNEL gradient_norm(const float* __restrict gradients, const Chunk* __restrict chunks, float* __restrict partial,
                          int begin, int end);
LLMC_KERNEL gradient_clip(const float* __restrict partial, int chunks, const StepScalars* __restrict scalars,
                          StepResults* __restrict results);
LLMC_KERNEL adamw_norms(float* __restrict master, const float* __restrict gradient, float* __restrict exp_avg,
                        float* __restrict exp_avg_sq, float* __restrict copy, const Chunk* __restrict chunks, int begin,
                        int end, const AdamwScalars* __restrict scalars, const GroupScalars* __restrict groups,
                        const StepResults* __restrict results, float* __restrict weight_partial,
                        float* __restrict update_partial);
LLMC_KERNEL parameter_norms(const float* __restrict gradient_partial, const float* __restrict weight_partial,
                            const float* __restrict update_partial, const int* __restrict first_chunk,
                            float* __restrict norms);
LLMC_KERNEL cross_entropy(float* __restrict logits, const int* __restrict targets, float* __restrict losses,
                          float* __restrict lse, float* __restrict entropies, float* __restrict correct,
                          const StepScalars* __restrict scalars);
LLMC_KERNEL gather_rows(const float* __restrict x, const int* __restrict rows, float* __restrict out);
LLMC_KERNEL init_normal(float* __restrict master, const InitRule* __restrict rules, const Chunk* __restrict chunks,
                        int begin, int end, unsigned long long seed);

}  // namespace llmc
