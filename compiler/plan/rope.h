// Angles of rotary position embeddings: inverse frequencies, and the factor of sines and cosines.
#pragma once

#include <vector>

#include "spec/spec.h"

namespace llmc::plan {

/// Returns theta^(-2i / n) for i < n / 2 (Su et al. 2021), where n = model.rotary_dim(), scaled by model.rope_scaling
/// as in transformers' modeling_rope_utils.py:
/// * linear: all are divided by `factor`.
/// * llama3: wavelengths above original / low_freq_factor are divided by `factor`, those below original /
///   high_freq_factor stay, and frequencies in between are interpolated linearly.
/// * yarn (Peng et al. 2023): pairs that rotate more than beta_fast times within the original context stay, those that
///   rotate less than beta_slow times are divided by `factor`, with a linear ramp over the pairs in between.
std::vector<double> inverse_frequencies(const spec::Model& model);

/// Same of sliding layers with angles of their own: rope_local_theta^(-2i / n).
std::vector<double> local_inverse_frequencies(const spec::Model& model);

/// Factor of sines and cosines: yarn's attention_factor, else 1.
double rope_table_scale(const spec::Model& model);

}  // namespace llmc::plan
