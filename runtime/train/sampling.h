// Generates text during training, determined by weights, seed and step.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "data/tokenizer.h"
#include "spec/spec.h"
#include "step/session.h"

namespace llmc {

struct Sample {
  std::string prompt;
  std::string text;  // continuation; without a tokenizer, token ids separated by blanks
};

/// Draws from softmax(logits / temperature) by inverting the cumulative distribution at `draw` in [0, 1). Temperature
/// 0: the first of the largest logits. top_p below 1 restricts the draw to the nucleus, the fewest most likely tokens
/// (the first of equal ones) whose probabilities sum to at least top_p; Holtzman et al. 2020, arXiv:1904.09751.
/// Non-finite logits are never drawn unless all are.
std::int32_t choose_token(std::span<const float> logits, double temperature, double top_p, double draw);

class Sampling {
 public:
  /// `tokenizer` may be null and must outlive the object. If it is null or does not encode, prompts are token ids
  /// separated by blanks. `separator`: token that ends documents; -1: the tokenizer's. An empty prompt begins with it
  /// (0 if there is none). Throws Failure(spec) if a prompt is not such a list, Failure(data) if a token is not below
  /// the model's vocabulary size.
  Sampling(const spec::Sampling& values, const Tokenizer* tokenizer, std::int64_t separator, const ProgramInfo& info,
           std::uint64_t seed);

  /// Continues all prompts, in batches of a micro-batch's rows. The context is the last sequence_length tokens. A text
  /// ends early at the separator. Returns nothing if `interrupted`, called before each pass of the model, returned
  /// true.
  std::optional<std::vector<Sample>> run(Session& session, std::int64_t step,
                                         const std::function<bool()>& interrupted) const;

  /// Continues a single prompt, with the same result as run(). `written` receives the text in parts that end with
  /// complete characters.
  void stream(Session& session, std::int64_t step, std::size_t prompt,
              const std::function<void(const std::string&)>& written) const;

  /// Text of a prompt: its decoded token ids if the tokenizer only decodes.
  std::string prompt_text(std::size_t prompt) const;

  /// Prompt and continuation, escaped for a terminal.
  std::string shown(const Sample& sample) const;

 private:
  /// `drawn` is called for each token with the index, below texts.size(), of the text that it extends.
  bool go_on(Session& session, std::int64_t step, std::size_t first, std::span<std::vector<std::int32_t>> texts,
             const std::function<bool()>& interrupted,
             const std::function<void(std::size_t, std::int32_t)>& drawn) const;
  /// Skips tokens past the tokenizer's vocabulary, for which the model may have padded rows.
  std::string text_of(std::span<const std::int32_t> ids) const;

  spec::Sampling values_;
  const Tokenizer* tokenizer_;
  std::int64_t separator_;  // -1: none
  std::uint64_t seed_;
  std::vector<std::vector<std::int32_t>> prompts_;  // token ids, at least one each
};

}  // namespace llmc
