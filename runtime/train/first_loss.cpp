#include "train/first_loss.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

namespace llmc {

FirstLoss expected_first_loss(const spec::Spec& spec, std::int64_t targets) {
  constexpr double kAway = 0.1, kDeviations = 4;
  const auto hidden = static_cast<double>(spec.model.hidden_size),
             vocabulary = static_cast<double>(spec.model.vocab_size),
             std = spec.init.embedding_std / spec.model.logits_scaling;
  const double variance = hidden * std * std;
  const double uniform = std::log(vocabulary);
  double most = uniform + variance / 2;
  if (spec.model.tie_word_embeddings) {
    const double own = hidden * std;  // ln(e^most + e^own) without powers that overflow
    most = std::max(most, own) + std::log1p(std::exp(-std::abs(most - own)));
  }
  const double noise = kDeviations * std::sqrt(variance / static_cast<double>(targets));
  return {uniform, (1 - kAway) * uniform - noise, (1 + kAway) * most + noise};
}

std::string first_loss_warning(const FirstLoss& expected, double loss) {
  if (!std::isfinite(loss) || (loss >= expected.least && loss <= expected.most)) return {};
  const bool low = loss < expected.least;
  return fmt::format(
      "the first loss is {:.4f}, but untrained weights give about ln(vocab_size) = {:.4f}, at {} {:.4f}. Likely "
      "causes: {}",
      loss, expected.uniform, low ? "least" : "most", low ? expected.least : expected.most,
      low ? "data with long runs of one token, targets that equal the inputs, or a model.vocab_size that is not the "
            "tokenizer's"
          : "data of another tokenizer than the one of model.vocab_size, or an init.embedding_std that is too large");
}

}  // namespace llmc
