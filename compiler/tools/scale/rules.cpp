#include "compiler/tools/scale/rules.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <map>

#include "program/optimizers.h"
#include "program/parameters.h"
#include "spec/fingerprint.h"
#include "spec/schema/schema.h"

namespace llmc::scale {

namespace {

using spec::Spec;

constexpr std::array kCarried = {"init.embedding_std",
                                 "init.linear",
                                 "init.residual",
                                 "init.zero",
                                 "init.distribution",
                                 "model.attention_multiplier",
                                 "model.embedding_multiplier",
                                 "model.residual_multiplier",
                                 "model.logits_scaling",
                                 "batch.tokens"};

bool is_carried(const spec::Key& key, Rule rule) {
  if (key.path == "batch.tokens" && rule == Rule::sqrt_batch) return false;
  return key.path.starts_with("optimizer.") || std::ranges::count(kCarried, key.path);
}

double ratio(std::int64_t large, std::int64_t small) { return static_cast<double>(large) / static_cast<double>(small); }

/// Applies a rule to a large spec that has the small one's values; keeps the formula of each changed key.
class Scaler {
 public:
  Scaler(const Spec& small, Spec& large) : small_(small), large_(large) {}

  std::map<std::string, std::string> apply(Rule rule) {
    switch (rule) {
      case Rule::mup: mup(); break;
      case Rule::width: width(); break;
      case Rule::sqrt_batch: sqrt_batch(); break;
      case Rule::none: break;
    }
    return std::move(formulas_);
  }

 private:
  void mup() {
    const double rate = matrices_rate();
    large_.optimizer.rate_scale[kMatrices] *= rate;
    note("optimizer.rate_scale.matrices", "{:.6g} * {:.6g}, {}", small_.optimizer.rate_scale[kMatrices], rate,
         rate_rule());
    large_.optimizer.weight_decay_of[kMatrices] = small_.optimizer.weight_decay_of[kMatrices] / rate;
    note("optimizer.weight_decay_of.matrices", "{:.6g} / {:.6g}: the decay of a step stays",
         small_.optimizer.weight_decay_of[kMatrices], rate);
    deviation("init.linear", large_.init.linear);
    deviation("init.residual", large_.init.residual);
    large_.model.logits_scaling *= m_;
    note("model.logits_scaling", "{:.6g} * m", small_.model.logits_scaling);
    large_.model.attention_multiplier =
        small_.model.attention_multiplier * ratio(small_.model.head_dim, large_.model.head_dim);
    note("model.attention_multiplier", "{:.6g} * {} / {}, in proportion to 1 / head_dim",
         small_.model.attention_multiplier, small_.model.head_dim, large_.model.head_dim);
  }

  double matrices_rate() const {
    if (small_.optimizer.kind != OptimizerKind::muon) return 1 / m_;
    return is_original() ? 1 : 1 / std::sqrt(m_);
  }
  const char* rate_rule() const {
    if (small_.optimizer.kind != OptimizerKind::muon) return "1 / m";
    return is_original() ? "Muon's original scaling carries over" : "Muon with match_rms_adamw: 1 / sqrt(m)";
  }
  bool is_original() const { return small_.optimizer.muon.original_scaling; }

  void deviation(const char* path, spec::InitStd& std) {
    if (std.kind != spec::InitStd::Kind::value) return;  // the words follow the width by themselves
    note(path, "{:.6g} / sqrt(m)", std.value);
    std.value /= std::sqrt(m_);
  }

  void width() {
    large_.optimizer.lr /= m_;
    note("optimizer.lr", "{:.6g} / m", small_.optimizer.lr);
  }

  void sqrt_batch() {
    const double b = ratio(large_.batch.tokens, small_.batch.tokens);
    large_.optimizer.lr *= std::sqrt(b);
    note("optimizer.lr", "{:.6g} * sqrt({} / {})", small_.optimizer.lr, large_.batch.tokens, small_.batch.tokens);
  }

  template <class... T>
  void note(const char* path, fmt::format_string<T...> format, T&&... values) {
    formulas_[path] = fmt::format(format, std::forward<T>(values)...);
  }

  static constexpr auto kMatrices = static_cast<std::size_t>(ParameterRole::matrices);
  const Spec& small_;
  Spec& large_;
  const double m_ = ratio(large_.model.hidden_size, small_.model.hidden_size);
  std::map<std::string, std::string> formulas_;
};

}  // namespace

Target target_of(const spec::Resolved& small, const spec::Resolved& large, Rule rule) {
  Target target{large.spec, {}};
  const auto given = [](const spec::Resolved& resolved, const std::string& path) {
    return resolved.origin_of(path).kind != spec::Origin::Kind::fallback;
  };
  for (const spec::Key& key : spec::keys()) {
    // A value that follows from the model's shape, such as the softmax scale from head_dim, follows from the large
    // one's. Those of the optimizer follow from each other.
    const bool of_shape = !key.derivation.empty() && !key.path.starts_with("optimizer.");
    if (is_carried(key, rule) && (!of_shape || given(small, key.path) || given(large, key.path)))
      key.set(target.spec, key.get(small.spec));
  }
  target.formulas = Scaler(small.spec, target.spec).apply(rule);
  return target;
}

std::set<std::string> differing(const Target& target, const Spec& spec) {
  std::set<std::string> paths;
  for (const spec::Key& key : spec::keys())
    if (is_carried(key, Rule::none) && spec::applies(key, target.spec) &&
        spec::value_text(key, key.get(spec)) != spec::value_text(key, key.get(target.spec)))
      paths.insert(key.path);
  return paths;
}

std::vector<Change> changes(const Target& target, const Spec& large, const std::set<std::string>& paths) {
  std::vector<Change> changes;
  for (const spec::Key& key : spec::keys()) {
    if (!paths.contains(key.path)) continue;
    const auto formula = target.formulas.find(key.path);
    changes.push_back({key.path, spec::value_text(key, key.get(large)), spec::value_text(key, key.get(target.spec)),
                       formula == target.formulas.end() ? "" : formula->second});
  }
  return changes;
}

std::vector<std::string> warnings(const Spec& small, const Spec& large, const Target& target, Rule rule) {
  std::vector<std::string> all;
  const double m = ratio(large.model.hidden_size, small.model.hidden_size);
  const auto compare = [&](const char* name, std::int64_t of_small, std::int64_t of_large) {
    if (const double grows = ratio(of_large, of_small); std::abs(grows - m) > 1e-9 * m)
      all.push_back(
          fmt::format("{} grows by {:.4g} and hidden_size by {:.4g}: the rule scales by hidden_size", name, grows, m));
  };
  if (rule == Rule::mup) {
    compare("intermediate_size", small.model.intermediate_size, large.model.intermediate_size);
    compare("num_attention_heads * head_dim", small.model.num_attention_heads * small.model.head_dim,
            large.model.num_attention_heads * large.model.head_dim);
  }
  if (rule == Rule::width && m != 1 && small.optimizer.kind == OptimizerKind::muon)
    all.push_back(
        "optimizer.kind is muon: the rule is Adam's, and mup keeps or changes Muon's rate as its scaling needs");
  if (rule == Rule::sqrt_batch && m != 1)
    all.push_back(fmt::format("hidden_size is {} and {}: the rule does not account for width", small.model.hidden_size,
                              large.model.hidden_size));
  if (rule != Rule::none && small.model.num_hidden_layers != large.model.num_hidden_layers)
    all.push_back(fmt::format("num_hidden_layers is {} and {}: the rule does not account for depth",
                              small.model.num_hidden_layers, large.model.num_hidden_layers));
  if (rule != Rule::sqrt_batch && rule != Rule::none && small.batch.tokens != large.batch.tokens)
    all.push_back(target.spec.batch.tokens == small.batch.tokens
                      ? fmt::format("batch.tokens is {} as in the small spec, and not {}: the rate was found with it",
                                    small.batch.tokens, large.batch.tokens)
                      : fmt::format("batch.tokens is {}, and {} in the small spec: the rate was found with the latter",
                                    large.batch.tokens, small.batch.tokens));
  return all;
}

std::string source(Rule rule) {
  switch (rule) {
    case Rule::mup: return "Yang et al. 2022, arXiv:2203.03466";
    case Rule::width: return "Everett et al. 2024, arXiv:2407.05872";
    case Rule::sqrt_batch: return "Malladi et al. 2022, arXiv:2205.10287";
    case Rule::none: return "";
  }
  return "";
}

}  // namespace llmc::scale
