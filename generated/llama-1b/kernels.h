// The kernels of run llama-1b (aaf5677d8652fd38f729fcaf140f8b13).
#pragma once

#include "device/group.h"

namespace llmc {

LLMC_KERNEL embedding_forward(const int* __restrict__ tokens, const float* __restrict__ table, float* __restrict__ out);
LLMC_KERNEL rms_norm_forward(const float* __restrict__ x, const float* __restrict__ weight, bf16* __restrict__ y, float* __restrict__ rstd);
LLMC_KERNEL rope(bf16* __restrict__ qkv, const float* __restrict__ table);
LLMC_KERNEL swiglu_forward(const bf16* __restrict__ gate_up, bf16* __restrict__ out);
LLMC_KERNEL cross_entropy_gradient(bf16* __restrict__ logits, const int* __restrict__ targets, float* __restrict__ losses, const StepScalars* __restrict__ scalars);
LLMC_KERNEL loss_sum(const float* __restrict__ losses, const StepScalars* __restrict__ scalars, StepResults* __restrict__ results, int accumulate);
LLMC_KERNEL rms_norm_backward(const bf16* dy, const float* x, const float* weight, const float* rstd, const bf16* dresidual, bf16* dx, float* dweight_partial, bf16* y);
LLMC_KERNEL column_reduce_to_32_2048(const float* __restrict__ partial, float* __restrict__ out, int accumulate);
LLMC_KERNEL column_reduce_2048(const float* __restrict__ partial, float* __restrict__ out, int accumulate);
LLMC_KERNEL swiglu_backward_recompute(const bf16* dout, const bf16* gate_up, bf16* dgate_up, bf16* out);
LLMC_KERNEL rms_norm_backward_residual_recompute(const bf16* dy, const float* x, const float* weight, const float* rstd, const bf16* dresidual, bf16* dx, float* dweight_partial, bf16* y);
LLMC_KERNEL attention_backward_queries(const bf16* __restrict__ dout, const bf16* __restrict__ out, const bf16* __restrict__ qkv, const float* __restrict__ lse, bf16* __restrict__ dqkv, float* __restrict__ delta);
LLMC_KERNEL attention_backward_keys(const bf16* __restrict__ dout, const bf16* __restrict__ qkv, const float* __restrict__ lse, const float* __restrict__ delta, bf16* __restrict__ dqkv);
LLMC_KERNEL rope_inverse(bf16* __restrict__ qkv, const float* __restrict__ table);
LLMC_KERNEL embedding_backward(const bf16* __restrict__ dx, const int* __restrict__ order, const int* __restrict__ run_begin, const int* __restrict__ run_token, const int* __restrict__ run_count, float* __restrict__ dtable);
LLMC_KERNEL gradient_norm(const float* __restrict__ gradients, const Chunk* __restrict__ chunks, float* __restrict__ partial, int begin, int end);
LLMC_KERNEL gradient_clip(const float* __restrict__ partial, int chunks, const StepScalars* __restrict__ scalars, StepResults* __restrict__ results);
LLMC_KERNEL adamw_copy_norms(float* __restrict__ master, const float* __restrict__ gradient, float* __restrict__ exp_avg, float* __restrict__ exp_avg_sq, bf16* __restrict__ copy, const Chunk* __restrict__ chunks, int begin, int end, const StepScalars* __restrict__ scalars, const StepResults* __restrict__ results, float* __restrict__ weight_partial, float* __restrict__ update_partial);
LLMC_KERNEL parameter_norms(const float* __restrict__ gradient_partial, const float* __restrict__ weight_partial, const float* __restrict__ update_partial, const int* __restrict__ first_chunk, float* __restrict__ norms);
LLMC_KERNEL cross_entropy(bf16* __restrict__ logits, const int* __restrict__ targets, float* __restrict__ losses, const StepScalars* __restrict__ scalars);
LLMC_KERNEL gather_rows(const bf16* __restrict__ x, const int* __restrict__ rows, bf16* __restrict__ out);
LLMC_KERNEL init_normal(float* __restrict__ master, const InitRule* __restrict__ rules, int begin, int end, unsigned long long seed);
LLMC_KERNEL cast_weights(const float* __restrict__ master, bf16* __restrict__ copy, const Chunk* __restrict__ chunks, int begin, int end);

}  // namespace llmc
