// The matrix products and the functions of the step of run quickstart (274398525d62afeedc289c02dc9a8bde).
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include "device/device.h"
#include "math/gemm.h"
#include "program/program.h"

namespace llmc {

// Row-major matrix products of the step; pitches are elements from row to row.
inline constexpr GemmShape kQkvForward = {.name = "qkv_forward", .m = 2048, .n = 512, .k = 256, .transpose_b = true, .pitch_a = 256, .pitch_b = 256, .pitch_d = 512};
inline constexpr GemmShape kOForward = {.name = "o_forward", .m = 2048, .n = 256, .k = 256, .transpose_b = true, .pitch_a = 256, .pitch_b = 256, .pitch_d = 256, .residual = true};
inline constexpr GemmShape kGateUpForward = {.name = "gate_up_forward", .m = 2048, .n = 1536, .k = 256, .transpose_b = true, .pitch_a = 256, .pitch_b = 256, .pitch_d = 1536};
inline constexpr GemmShape kDownForward = {.name = "down_forward", .m = 2048, .n = 256, .k = 768, .transpose_b = true, .pitch_a = 768, .pitch_b = 768, .pitch_d = 256, .residual = true};
inline constexpr GemmShape kLmHeadForward = {.name = "lm_head_forward", .m = 2048, .n = 4096, .k = 256, .transpose_b = true, .pitch_a = 256, .pitch_b = 256, .pitch_d = 4096};
inline constexpr GemmShape kLmHeadDgrad = {.name = "lm_head_dgrad", .m = 2048, .n = 256, .k = 4096, .pitch_a = 4096, .pitch_b = 256, .pitch_d = 256};
inline constexpr GemmShape kLmHeadWgrad = {.name = "lm_head_wgrad", .m = 4096, .n = 256, .k = 2048, .transpose_a = true, .pitch_a = 4096, .pitch_b = 256, .pitch_d = 256, .accumulates = true};
inline constexpr GemmShape kDownWgrad = {.name = "down_wgrad", .m = 256, .n = 768, .k = 2048, .transpose_a = true, .pitch_a = 256, .pitch_b = 768, .pitch_d = 768, .accumulates = true};
inline constexpr GemmShape kDownDgrad = {.name = "down_dgrad", .m = 2048, .n = 768, .k = 256, .pitch_a = 256, .pitch_b = 768, .pitch_d = 768};
inline constexpr GemmShape kGateUpWgrad = {.name = "gate_up_wgrad", .m = 1536, .n = 256, .k = 2048, .transpose_a = true, .pitch_a = 1536, .pitch_b = 256, .pitch_d = 256, .accumulates = true};
inline constexpr GemmShape kGateUpDgrad = {.name = "gate_up_dgrad", .m = 2048, .n = 256, .k = 1536, .pitch_a = 1536, .pitch_b = 256, .pitch_d = 256};
inline constexpr GemmShape kOWgrad = {.name = "o_wgrad", .m = 256, .n = 256, .k = 2048, .transpose_a = true, .pitch_a = 256, .pitch_b = 256, .pitch_d = 256, .accumulates = true};
inline constexpr GemmShape kODgrad = {.name = "o_dgrad", .m = 2048, .n = 256, .k = 256, .pitch_a = 256, .pitch_b = 256, .pitch_d = 256};
inline constexpr GemmShape kQkvWgrad = {.name = "qkv_wgrad", .m = 512, .n = 256, .k = 2048, .transpose_a = true, .pitch_a = 512, .pitch_b = 256, .pitch_d = 256, .accumulates = true};
inline constexpr GemmShape kQkvDgrad = {.name = "qkv_dgrad", .m = 2048, .n = 256, .k = 512, .pitch_a = 512, .pitch_b = 256, .pitch_d = 256};
inline constexpr GemmShape kSampleLogitsForward = {.name = "sample_logits_forward", .m = 8, .n = 4096, .k = 256, .transpose_b = true, .pitch_a = 256, .pitch_b = 256, .pitch_d = 4096};
inline constexpr GemmShape kProducts[] = {kQkvForward, kOForward, kGateUpForward, kDownForward, kLmHeadForward, kLmHeadDgrad, kLmHeadWgrad, kDownWgrad, kDownDgrad, kGateUpWgrad, kGateUpDgrad, kOWgrad, kODgrad, kQkvWgrad, kQkvDgrad, kSampleLogitsForward};

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

extern const std::uint64_t kInstructions;  // instruction sets of the step and its kernels

}  // namespace llmc
