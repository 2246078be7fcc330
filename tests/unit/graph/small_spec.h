// A spec with a graph small enough to read, containing every kind of op.
#pragma once

#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "compiler/spec/load.h"

namespace llmc {

inline const char* const kSmallSpec = R"(name: small
model:
  vocab_size: 61
  hidden_size: 36
  num_hidden_layers: 3
  num_attention_heads: 6
  num_key_value_heads: 2
  head_dim: 10
  intermediate_size: 50
  tie_word_embeddings: false
  attention_bias: true
  mlp_bias: true
precision: {compute: bf16}
batch: {sequence_length: 24, micro_batch: 2, tokens: 96}
memory: {budget: 1GiB, loss_chunk: 16}
data: {train: [{path: train.bin}]}
target: {kind: cpu, arch: native}
)";

/// Resolves the small spec; fails the test with all messages if an override is wrong.
inline spec::Resolved small_spec(const std::vector<std::string>& overrides = {}) {
  spec::LoadResult result = spec::load_text(kSmallSpec, "small.yaml", overrides);
  EXPECT_TRUE(result.resolved) << spec::render(result.diagnostics);
  return result.resolved ? *result.resolved : spec::Resolved{};
}

}  // namespace llmc
