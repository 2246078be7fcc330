// Inverse frequencies of rotary position embeddings, plain and with Llama 3.1's scaling.
#pragma once

#include <cmath>
#include <numbers>
#include <vector>

#include "spec/spec.h"

namespace llmc::plan {

/// Returns theta^(-2i / head_dim) for i < head_dim / 2 (Su et al. 2021). llama3 scaling follows transformers'
/// _compute_llama3_parameters: wavelengths above original / low_freq_factor are divided by `factor`, those below
/// original / high_freq_factor stay, and frequencies in between are interpolated linearly.
inline std::vector<double> inverse_frequencies(const spec::Model& model) {
  const spec::RopeScaling& scaling = model.rope_scaling;
  const double original = static_cast<double>(scaling.original_max_position_embeddings);
  std::vector<double> result;
  for (std::int64_t i = 0; i < model.head_dim / 2; ++i) {
    double f = std::pow(model.rope_theta, -2.0 * static_cast<double>(i) / static_cast<double>(model.head_dim));
    if (scaling.llama3) {
      const double wavelength = 2 * std::numbers::pi / f;
      if (wavelength > original / scaling.low_freq_factor) {
        f /= scaling.factor;
      } else if (wavelength >= original / scaling.high_freq_factor) {
        const double smooth =
            (original / wavelength - scaling.low_freq_factor) / (scaling.high_freq_factor - scaling.low_freq_factor);
        f = (1 - smooth) * f / scaling.factor + smooth * f;
      }
    }
    result.push_back(f);
  }
  return result;
}

}  // namespace llmc::plan
