// The matrix products, the attention and the functions of the step of run llama-1b (67f153b1f9efd53ce0b214734deeb5f9).
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include "device/device.h"
#include "math/attention.h"
#include "math/gemm.h"
#include "program/program.h"

namespace llmc {

// Row-major matrix products of the step; pitches are elements from row to row.
inline constexpr GemmShape kQkvForward = {.name = "qkv_forward", .m = 32768, .n = 3072, .k = 2048, .transpose_b = true, .pitch_a = 2048, .pitch_b = 2048, .pitch_d = 3072, .operand = DType::bf16, .result = DType::bf16};
inline constexpr GemmShape kOForward = {.name = "o_forward", .m = 32768, .n = 2048, .k = 2048, .transpose_b = true, .pitch_a = 2048, .pitch_b = 2048, .pitch_d = 2048, .operand = DType::bf16, .residual = true};
inline constexpr GemmShape kGateUpForward = {.name = "gate_up_forward", .m = 32768, .n = 16384, .k = 2048, .transpose_b = true, .pitch_a = 2048, .pitch_b = 2048, .pitch_d = 16384, .operand = DType::bf16, .result = DType::bf16};
inline constexpr GemmShape kDownForward = {.name = "down_forward", .m = 32768, .n = 2048, .k = 8192, .transpose_b = true, .pitch_a = 8192, .pitch_b = 8192, .pitch_d = 2048, .operand = DType::bf16, .residual = true};
inline constexpr GemmShape kLmHeadForward = {.name = "lm_head_forward", .m = 8192, .n = 131072, .k = 2048, .transpose_b = true, .pitch_a = 2048, .pitch_b = 2048, .pitch_d = 131072, .operand = DType::bf16, .result = DType::bf16};
inline constexpr GemmShape kLmHeadDgrad = {.name = "lm_head_dgrad", .m = 8192, .n = 2048, .k = 131072, .pitch_a = 131072, .pitch_b = 2048, .pitch_d = 2048, .operand = DType::bf16, .result = DType::bf16};
inline constexpr GemmShape kLmHeadWgrad = {.name = "lm_head_wgrad", .m = 131072, .n = 2048, .k = 8192, .transpose_a = true, .pitch_a = 131072, .pitch_b = 2048, .pitch_d = 2048, .operand = DType::bf16, .accumulates = true};
inline constexpr GemmShape kDownDgrad = {.name = "down_dgrad", .m = 32768, .n = 8192, .k = 2048, .pitch_a = 2048, .pitch_b = 8192, .pitch_d = 8192, .operand = DType::bf16, .result = DType::bf16};
inline constexpr GemmShape kDownWgrad = {.name = "down_wgrad", .m = 2048, .n = 8192, .k = 32768, .transpose_a = true, .pitch_a = 2048, .pitch_b = 8192, .pitch_d = 8192, .operand = DType::bf16, .accumulates = true};
inline constexpr GemmShape kGateUpDgrad = {.name = "gate_up_dgrad", .m = 32768, .n = 2048, .k = 16384, .pitch_a = 16384, .pitch_b = 2048, .pitch_d = 2048, .operand = DType::bf16, .result = DType::bf16};
inline constexpr GemmShape kGateUpWgrad = {.name = "gate_up_wgrad", .m = 16384, .n = 2048, .k = 32768, .transpose_a = true, .pitch_a = 16384, .pitch_b = 2048, .pitch_d = 2048, .operand = DType::bf16, .accumulates = true};
inline constexpr GemmShape kOWgrad = {.name = "o_wgrad", .m = 2048, .n = 2048, .k = 32768, .transpose_a = true, .pitch_a = 2048, .pitch_b = 2048, .pitch_d = 2048, .operand = DType::bf16, .accumulates = true};
inline constexpr GemmShape kODgrad = {.name = "o_dgrad", .m = 32768, .n = 2048, .k = 2048, .pitch_a = 2048, .pitch_b = 2048, .pitch_d = 2048, .operand = DType::bf16, .result = DType::bf16};
inline constexpr GemmShape kQkvDgrad = {.name = "qkv_dgrad", .m = 32768, .n = 2048, .k = 3072, .pitch_a = 3072, .pitch_b = 2048, .pitch_d = 2048, .operand = DType::bf16, .result = DType::bf16};
inline constexpr GemmShape kQkvWgrad = {.name = "qkv_wgrad", .m = 3072, .n = 2048, .k = 32768, .transpose_a = true, .pitch_a = 3072, .pitch_b = 2048, .pitch_d = 2048, .operand = DType::bf16, .accumulates = true};
inline constexpr GemmShape kSampleLogitsForward = {.name = "sample_logits_forward", .m = 16, .n = 131072, .k = 2048, .transpose_b = true, .pitch_a = 2048, .pitch_b = 2048, .pitch_d = 131072, .operand = DType::bf16};
inline constexpr GemmShape kProducts[] = {kQkvForward, kOForward, kGateUpForward, kDownForward, kLmHeadForward, kLmHeadDgrad, kLmHeadWgrad, kDownDgrad, kDownWgrad, kGateUpDgrad, kGateUpWgrad, kOWgrad, kODgrad, kQkvDgrad, kQkvWgrad, kSampleLogitsForward};

/// llmc's own kernels of attention's backward pass. `delta`: fp32, one per query and head.
/// They rotate dq and dk back, which cuDNN leaves to a kernel of its own.
void own_attention_backward(Stream& stream, const bf16* dout, const bf16* out, const bf16* qkv,
                            const float* lse, bf16* dqkv, float* delta, const float* rope_table);
void rotate_gradients_back(Stream& stream, bf16* dqkv, const float* rope_table);

// cuDNN's attention. Variants of its backward pass: implementation, predicted ms per layer (0: unknown), workspace.
inline constexpr BackwardWay kBackwardWays[] = {
    {AttentionBy::portable, 2.436, 4194304},
    {AttentionBy::cudnn, 3.421, 1142947840},
};
inline constexpr AttentionPlan kAttention = {
    .shape = {.batch = 16, .sequence = 2048, .heads = 32, .kv_heads = 8, .head_dim = 64, .qkv_pitch = 3072, .out_pitch = 2048, .deterministic = true},
    .ways = kBackwardWays,
    .own = own_attention_backward,
    .rotate_back = rotate_gradients_back,
};

Step* create_step(Device& device, Communicator& ranks, const Shares& shares, std::byte* arena,
                  std::span<const std::size_t> places);
void destroy_step(Step* step);
void initialise(Step& step, std::uint64_t seed);
void refresh_copies(Step& step);
void gather_weights(Step& step);
void micro_batch(Step& step, bool first, bool last);
void optimizer_step(Step& step);
void evaluate(Step& step, bool first);
void next_logits(Step& step);
void run_piece(Step& step, StepPiece piece, std::size_t layer);

}  // namespace llmc
