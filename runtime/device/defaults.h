// Defaults of the params and operands that an instance may leave out. They are outside of namespace llmc: an instance
// that has one declares it in that namespace, where kernels find it first.
#pragma once

#include "device/types.h"

constexpr bool kBounded = false;  // queries of attention see all keys up to their own
constexpr bool kResets = false;   // positions do not begin anew in each document
constexpr const int *document_begin = nullptr, *document_end = nullptr;

constexpr int kMulticast = 1;  // each block of attention copies keys and values for itself

// Gradients of rotated queries and keys are not rotated back.
constexpr bool kRotates = false;
constexpr const float* rope_table = nullptr;

constexpr float kSoftcap = 0.0f;               // scores and logits have no cap
constexpr bool kGelu = false, kRelu2 = false;  // the MLP's activation is silu
constexpr bool kOnePlus = false;               // a norm's weight w stands for the factor 1 + w
constexpr bool kUnweighted = false;            // a norm's weights are ones that have no gradient

// Codes are written as they are computed, row by row; otherwise transposed, after so many rows.
constexpr int kCollected = 1;
constexpr int kPiece = 4;  // consecutive codes of a row that are written at once
constexpr const float* shared_scale = nullptr;
constexpr float* transposed_scales = nullptr;

// Gradients have no scale.
constexpr bool kLossScaled = false;
constexpr const llmc::LossScale* dynamic_scale = nullptr;
