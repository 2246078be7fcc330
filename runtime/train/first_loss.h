// What the first loss of a run should be, from weights that nobody has trained.
#pragma once

#include <cstdint>
#include <string>

#include "spec/spec.h"

namespace llmc {

/// Nats a target. Logits of fresh weights have a variance of about hidden_size * embedding_std^2, since what the head
/// reads is normalised: the mean loss of such logits is ln V + variance / 2. Where the head is the embedding, the
/// logit of the input token may be as high as hidden_size * embedding_std, as far as the layers add little to the
/// embedding: `most` allows for that.
struct FirstLoss {
  double uniform;      // ln V: every token is as likely as any other
  double least, most;  // beyond which something is likely to be wrong: 10 %, and 4 standard deviations of the mean
};

/// `targets`: of one step.
FirstLoss expected_first_loss(const spec::Spec& spec, std::int64_t targets);

/// What to say of the first loss, with likely causes; empty where it is as expected, or not finite, which the guard of
/// skipped updates tells.
std::string first_loss_warning(const FirstLoss& expected, double loss);

}  // namespace llmc
