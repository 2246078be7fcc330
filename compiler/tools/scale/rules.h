// Carries learning rates, initialisation, multipliers and batch from the spec of a small model to that of a large one.
#pragma once

#include <map>
#include <set>
#include <string>
#include <vector>

#include "spec/resolved.h"

namespace llmc::scale {

enum class Rule {
  mup,         // maximal update parametrisation
  width,       // the learning rate of everything over the width
  sqrt_batch,  // the learning rate of everything with the square root of the batch
  none         // unchanged
};

/// A value that the large spec gets.
struct Change {
  std::string path;
  std::string before, after;  // as YAML
  std::string formula;        // empty: the small spec's value
};

/// The large model with the values that a rule gives it.
struct Target {
  spec::Spec spec;
  std::map<std::string, std::string> formulas;  // by path, of the values that the rule changes
};

/// Returns the values that the new spec will have. m = hidden_size of `large` over that of `small`, b = batch.tokens of
/// `large` over that of `small`:
///   mup         matrices' rate / m (Muon with match_rms_adamw: / sqrt(m), with original: unchanged), their weight
///               decay by the inverse, numbers of init.linear and init.residual / sqrt(m), logits_scaling * m,
///               attention_multiplier / head_dim. Yang et al. 2022, arXiv:2203.03466, table 8; Muon: the spectral
///               condition of Yang et al. 2023, arXiv:2310.17813; decay: Wang and Aitchison 2024, arXiv:2405.13698
///   width       optimizer.lr / m. Everett et al. 2024, arXiv:2407.05872, standard parametrisation
///   sqrt_batch  optimizer.lr * sqrt(b), and the large spec keeps its batch. Malladi et al. 2022, arXiv:2205.10287
/// Otherwise values are those of `small`: all of optimizer, the standard deviations of init, the model's multipliers,
/// and batch.tokens.
Target target_of(const spec::Resolved& small, const spec::Resolved& large, Rule rule);

/// Returns the paths of carried keys whose value in `spec` is not the target's.
std::set<std::string> differing(const Target& target, const spec::Spec& spec);

/// Returns the target's values of `paths`, in the schema's order.
std::vector<Change> changes(const Target& target, const spec::Spec& large, const std::set<std::string>& paths);

/// Returns what the rule does not account for: sizes that grow by another factor, another depth.
std::vector<std::string> warnings(const spec::Spec& small, const spec::Spec& large, const Target& target, Rule rule);

/// "Yang et al. 2022, arXiv:2203.03466", ...; empty for `none`.
std::string source(Rule rule);

}  // namespace llmc::scale
