// The kernels of run quickstart (76adbe471871107efa6ddc51460bc417).
#pragma once

#include "device/group.h"

namespace llmc {

LLMC_KERNEL embedding_forward(const int* __restrict__ tokens, const float* __restrict__ table, float* __restrict__ out);
LLMC_KERNEL rms_norm_forward(const float* __restrict__ x, const float* __restrict__ weight, float* __restrict__ y, float* __restrict__ rstd);
LLMC_KERNEL rope(float* __restrict__ qkv, const float* __restrict__ table);
LLMC_KERNEL attention_forward(const float* __restrict__ qkv, float* __restrict__ out, float* __restrict__ lse);
LLMC_KERNEL swiglu_forward(const float* __restrict__ gate_up, float* __restrict__ out);
LLMC_KERNEL cross_entropy_gradient(float* __restrict__ logits, const int* __restrict__ targets, float* __restrict__ losses, const StepScalars* __restrict__ scalars);
LLMC_KERNEL loss_sum(const float* __restrict__ losses, const StepScalars* __restrict__ scalars, StepResults* __restrict__ results, int accumulate);
LLMC_KERNEL rms_norm_backward(const float* dy, const float* x, const float* weight, const float* rstd, const float* dresidual, float* dx, float* dweight_partial, float* y);
LLMC_KERNEL column_reduce_to_32_256(const float* __restrict__ partial, float* __restrict__ out, int accumulate);
LLMC_KERNEL column_reduce_256(const float* __restrict__ partial, float* __restrict__ out, int accumulate);
LLMC_KERNEL swiglu_backward(const float* dout, const float* gate_up, float* dgate_up, float* out);
LLMC_KERNEL rms_norm_backward_residual(const float* dy, const float* x, const float* weight, const float* rstd, const float* dresidual, float* dx, float* dweight_partial, float* y);
LLMC_KERNEL attention_backward(const float* __restrict__ dout, const float* __restrict__ out, const float* __restrict__ qkv, const float* __restrict__ lse, float* __restrict__ dqkv, float* __restrict__ workspace);
LLMC_KERNEL rope_inverse(float* __restrict__ qkv, const float* __restrict__ table);
LLMC_KERNEL embedding_backward(const float* __restrict__ dx, const int* __restrict__ order, const int* __restrict__ run_begin, const int* __restrict__ run_token, const int* __restrict__ run_count, float* __restrict__ dtable);
LLMC_KERNEL gradient_norm(const float* __restrict__ gradients, const Chunk* __restrict__ chunks, float* __restrict__ partial, int begin, int end);
LLMC_KERNEL gradient_clip(const float* __restrict__ partial, int chunks, const StepScalars* __restrict__ scalars, StepResults* __restrict__ results);
LLMC_KERNEL adamw_norms(float* __restrict__ master, const float* __restrict__ gradient, float* __restrict__ exp_avg, float* __restrict__ exp_avg_sq, float* __restrict__ copy, const Chunk* __restrict__ chunks, int begin, int end, const StepScalars* __restrict__ scalars, const StepResults* __restrict__ results, float* __restrict__ weight_partial, float* __restrict__ update_partial);
LLMC_KERNEL parameter_norms(const float* __restrict__ gradient_partial, const float* __restrict__ weight_partial, const float* __restrict__ update_partial, const int* __restrict__ first_chunk, float* __restrict__ norms);
LLMC_KERNEL cross_entropy(float* __restrict__ logits, const int* __restrict__ targets, float* __restrict__ losses, const StepScalars* __restrict__ scalars);
LLMC_KERNEL gather_rows(const float* __restrict__ x, const int* __restrict__ rows, float* __restrict__ out);
LLMC_KERNEL init_normal(float* __restrict__ master, const InitRule* __restrict__ rules, int begin, int end, unsigned long long seed);

}  // namespace llmc
