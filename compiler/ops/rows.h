// The rows of all kinds of ops, by the file that has them.
#pragma once

#include "compiler/ops/op.h"

namespace llmc::ops {

extern const Row kEmbedding, kEmbeddingBackward;                                   // embedding.cpp
extern const Row kRmsNorm, kRmsNormBackward;                                       // rms_norm.cpp
extern const Row kLinear, kLinearDgrad, kLinearWgrad;                              // linear.cpp
extern const Row kColumnSum, kColumnReduce;                                        // column_sum.cpp
extern const Row kRope, kRopeBackward;                                             // rope.cpp
extern const Row kQkNormRope, kQkNormRopeBackward;                                 // qk_norm_rope.cpp
extern const Row kAttention, kAttentionBackward;                                   // attention.cpp
extern const Row kSwiglu, kSwigluBackward;                                         // swiglu.cpp
extern const Row kAdd, kZero, kGatherRows;                                         // add.cpp, zero.cpp, gather_rows.cpp
extern const Row kCrossEntropy, kCrossEntropyBackward, kLossSum;                   // cross_entropy.cpp, loss_sum.cpp
extern const Row kAuditLoss;                                                       // audit_loss.cpp
extern const Row kGradientNorm, kGradientClip, kAdamw, kParameterNorms;            // optimizer.cpp
extern const Row kInitialise, kCast;                                               // weights.cpp
extern const Row kToWire, kFromWire;                                               // wire.cpp
extern const Row kAllReduce, kReduceScatter, kAllGather, kBroadcast, kSumResults;  // collectives.cpp

}  // namespace llmc::ops
