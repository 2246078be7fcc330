// A valid spec, short enough to modify in a test.
#pragma once

#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "compiler/spec/load.h"
#include "spec/fingerprint.h"
#include "spec/schema/schema.h"

namespace llmc::spec {

inline const char* const kGood = R"(name: good
model:
  vocab_size: 4096
  hidden_size: 256
  num_hidden_layers: 6
  num_attention_heads: 8
batch:
  sequence_length: 256
  tokens: 8192
data:
  train:
    - path: train-*.bin
)";

/// Resolves a spec; fails the test with all messages if it has errors.
inline Resolved resolve(const std::string& text, const std::vector<std::string>& overrides = {},
                        const ReadFile& files = {}, const std::string& name = "good.yaml") {
  LoadResult result = load_text(text, name, overrides, files);
  EXPECT_TRUE(result.resolved) << render(result.diagnostics);
  return result.resolved ? std::move(*result.resolved) : Resolved{};
}

/// All keys as text: specs with equal text are equal.
inline std::string all_values(const Spec& spec) {
  std::string text;
  for (const Key& key : keys())
    if (applies(key, spec)) text += key.path + "=" + value_text(key, key.get(spec)) + "\n";
  return text;
}

/// Codes of all errors, such as "E0201 E0205".
inline std::string codes_of(const LoadResult& result) {
  std::string codes;
  for (const Diagnostic& d : result.diagnostics) codes += (codes.empty() ? "" : " ") + d.code;
  return codes;
}

}  // namespace llmc::spec
