#include "spec/length/token_budget.h"

#include <algorithm>
#include <cmath>
#include <limits>

namespace llmc::spec {

std::int64_t parameter_count(const Model& m) {
  const std::int64_t h = m.hidden_size, ffn = m.intermediate_size;
  const std::int64_t q = m.num_attention_heads * m.head_dim, kv = m.num_key_value_heads * m.head_dim;
  if (std::min({h, ffn, q, kv, m.num_hidden_layers, m.vocab_size}) < 1) return 0;
  const std::int64_t widened = (m.mlp_gated ? 2 : 1) * ffn;  // columns of the MLP's first product
  std::int64_t layer = h * (q + 2 * kv) + q * h + h * widened + ffn * h, norms = 0;
  if (m.attention_bias) layer += q + 2 * kv;
  if (m.attention_out_bias) layer += h;
  if (m.mlp_bias) layer += widened + h;
  if (m.norm_weight != NormWeight::none) {
    norms = h;
    if (m.qk_norm) layer += m.qk_norm_over == QkNormOver::head ? 2 * m.head_dim : q + kv;
    layer += 2 * h * (static_cast<std::int64_t>(m.norms_before()) + static_cast<std::int64_t>(m.norms_after()));
  }
  return m.num_hidden_layers * layer + norms + m.vocab_size * h * (m.tie_word_embeddings ? 1 : 2);
}

std::int64_t tokens_of(const TokenBudget& budget, const Model& model) {
  if (budget.times == 0) return budget.tokens;
  const double tokens = std::ceil(budget.times * static_cast<double>(parameter_count(model)));
  constexpr auto kMost = std::numeric_limits<std::int64_t>::max();
  return tokens < static_cast<double>(kMost) ? static_cast<std::int64_t>(tokens) : kMost;
}

std::optional<std::int64_t> steps_of_budget(const Spec& spec) {
  const std::int64_t tokens = tokens_of(spec.schedule.tokens, spec.model);
  if (spec.batch.tokens < 1 || tokens < 1) return {};
  return (tokens - 1) / spec.batch.tokens + 1;
}

double tokens_of_run(const Spec& spec) {
  if (spec.phase.count > 1) return spec.phase.tokens;
  return static_cast<double>(spec.schedule.steps) * static_cast<double>(spec.batch.tokens);
}

double tokens_per_parameter(const Spec& spec) {
  return tokens_of_run(spec) / static_cast<double>(parameter_count(spec.model));
}

}  // namespace llmc::spec
