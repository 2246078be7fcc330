// Text that the model writes while it is trained, the same for the same weights, seed and step.
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
  std::string text;  // what the model goes on with; without a tokenizer, token ids with blanks between them
};

/// Draws from softmax(logits / temperature) by inverting the cumulative distribution at `draw` in [0, 1);
/// temperature 0: the first of the largest logits. top_p below 1: from the nucleus alone, the fewest of the likeliest
/// tokens (of equal ones the first) that have together at least that probability; Holtzman et al. 2020,
/// arXiv:1904.09751. Logits that are not finite are never drawn unless all are.
std::int32_t choose_token(std::span<const float> logits, double temperature, double top_p, double draw);

class Sampling {
 public:
  /// `tokenizer` may be null; then prompts are token ids with blanks between them, and so they are where it does not
  /// encode. It must outlive the object. A prompt
  /// without tokens begins with the separator (0 without a tokenizer).
  /// Throws Failure(spec) when a prompt is no such list, Failure(data) when a token is not below the model's
  /// vocabulary.
  Sampling(const spec::Sampling& values, const Tokenizer* tokenizer, const ProgramInfo& info, std::uint64_t seed);

  /// Goes on with all prompts together, as many as a micro-batch has rows at a time; the context is the last
  /// sequence_length tokens. A text ends early with the separator. Nothing when `interrupted`,
  /// which is asked before each pass of the model, said so.
  std::optional<std::vector<Sample>> run(Session& session, std::int64_t step,
                                         const std::function<bool()>& interrupted) const;

  /// Goes on with one prompt alone, to what run() gives for it. `written` gets the text piece by piece, each as soon as
  /// it ends with a whole character.
  void stream(Session& session, std::int64_t step, std::size_t prompt,
              const std::function<void(const std::string&)>& written) const;

  /// A prompt as text: its token ids decoded, where there is a tokenizer that only decodes.
  std::string prompt_text(std::size_t prompt) const;

  /// Prompt and continuation as one text, safe on a terminal.
  std::string shown(const Sample& sample) const;

 private:
  /// `drawn`: gets each token of the text that it is added to, a number below texts.size().
  bool go_on(Session& session, std::int64_t step, std::size_t first, std::span<std::vector<std::int32_t>> texts,
             const std::function<bool()>& interrupted,
             const std::function<void(std::size_t, std::int32_t)>& drawn) const;
  /// Tokens past the tokenizer's vocabulary, which the model may have rows for, give nothing.
  std::string text_of(std::span<const std::int32_t> ids) const;

  spec::Sampling values_;
  const Tokenizer* tokenizer_;
  std::uint64_t seed_;
  std::vector<std::vector<std::int32_t>> prompts_;  // token ids, at least one each
};

}  // namespace llmc
