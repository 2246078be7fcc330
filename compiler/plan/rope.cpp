#include "compiler/plan/rope.h"

#include <algorithm>
#include <cmath>
#include <numbers>

namespace llmc::plan {

using spec::RopeType;

namespace {

double llama3(const spec::RopeScaling& scaling, double f) {
  const double original = static_cast<double>(scaling.original_max_position_embeddings);
  const double wavelength = 2 * std::numbers::pi / f;
  if (wavelength > original / scaling.low_freq_factor) return f / scaling.factor;
  if (wavelength < original / scaling.high_freq_factor) return f;
  const double smooth =
      (original / wavelength - scaling.low_freq_factor) / (scaling.high_freq_factor - scaling.low_freq_factor);
  return (1 - smooth) * f / scaling.factor + smooth * f;
}

/// Share of the unscaled frequency in that of each pair is 1 below `low`, 0 above `high`.
struct Ramp {
  double low = 0, high = 0;

  double share(std::int64_t pair) const {
    return 1 - std::clamp((static_cast<double>(pair) - low) / (high - low), 0.0, 1.0);
  }
};

Ramp yarn_ramp(const spec::Model& model) {
  const spec::RopeScaling& scaling = model.rope_scaling;
  const double dim = static_cast<double>(model.rotary_dim()),
               original = static_cast<double>(scaling.original_max_position_embeddings);
  const auto pair_of = [&](double rotations) {
    return dim * std::log(original / (rotations * 2 * std::numbers::pi)) / (2 * std::log(model.rope_theta));
  };
  Ramp ramp{pair_of(scaling.beta_fast), pair_of(scaling.beta_slow)};
  if (scaling.truncate) ramp = {std::floor(ramp.low), std::ceil(ramp.high)};
  ramp = {std::max(ramp.low, 0.0), std::min(ramp.high, dim - 1)};
  if (ramp.low == ramp.high) ramp.high += 0.001;  // as in transformers
  return ramp;
}

}  // namespace

std::vector<double> inverse_frequencies(const spec::Model& model) {
  const spec::RopeScaling& scaling = model.rope_scaling;
  const Ramp ramp = scaling.type == RopeType::yarn ? yarn_ramp(model) : Ramp{};
  std::vector<double> result;
  const std::int64_t dim = model.rotary_dim();
  for (std::int64_t i = 0; i < dim / 2; ++i) {
    const double f = std::pow(model.rope_theta, -2.0 * static_cast<double>(i) / static_cast<double>(dim));
    switch (scaling.type) {
      case RopeType::none: result.push_back(f); break;
      case RopeType::llama3: result.push_back(llama3(scaling, f)); break;
      case RopeType::linear: result.push_back(f / scaling.factor); break;
      case RopeType::yarn: {
        const double share = ramp.share(i);
        result.push_back(f / scaling.factor * (1 - share) + f * share);
        break;
      }
    }
  }
  return result;
}

std::vector<double> local_inverse_frequencies(const spec::Model& model) {
  spec::Model local = model;
  local.rope_theta = model.rope_local_theta;
  local.rope_scaling = {};
  return inverse_frequencies(local);
}

double rope_table_scale(const spec::Model& model) {
  return model.rope_scaling.type == RopeType::yarn ? model.rope_scaling.attention_factor : 1;
}

}  // namespace llmc::plan
