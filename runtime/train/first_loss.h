// Predicts the first loss of a run with randomly initialised weights.
#pragma once

#include <cstdint>
#include <string>

#include "spec/spec.h"

namespace llmc {

/// Nats per target. The head reads normalised values, so logits of fresh weights have a variance of about hidden_size *
/// std^2, std = embedding_std / logits_scaling, and a mean loss of ln V + variance / 2. With tied embeddings the input
/// token's logit may reach hidden_size * std if the layers add little to the embedding; `most` allows for that.
struct FirstLoss {
  double uniform;      // ln V: all tokens equally likely
  double least, most;  // outside these an error is likely: 10 %, and 4 standard deviations of the mean
};

/// `targets`: number of targets in one step.
FirstLoss expected_first_loss(const spec::Spec& spec, std::int64_t targets);

/// Returns a warning with likely causes. Empty if the first loss is as expected, or not finite, which the guard of
/// skipped updates reports.
std::string first_loss_warning(const FirstLoss& expected, double loss);

}  // namespace llmc
