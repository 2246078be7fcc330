// Averages the weights of several checkpoints of one model.
#pragma once

#include <functional>
#include <span>
#include <vector>

#include "compiler/tools/checkpoints/contents.h"

namespace llmc::checkpoints {

/// Returns the tensors of the weights, without moments, in the order of the forward pass.
std::vector<CheckpointTensor> weights_of(const Contents& contents);

/// Throws Failure(checkpoint) unless all checkpoints have the model of the first and, as far as they record it, its
/// tokenizer. The message names both checkpoints and the keys that differ.
void check_averaged(std::span<const Contents> checkpoints);

/// Averages one tensor of several checkpoints in blocks: the numbers are added in float64 in the order of `tensors`,
/// divided by their count, and rounded once to fp32. `tensors` have equal shapes. Throws Failure(checkpoint) naming the
/// first tensor with a value that is not finite.
void for_each_mean(std::span<const CheckpointTensor> tensors, const std::function<void(std::span<const float>)>& block);

}  // namespace llmc::checkpoints
