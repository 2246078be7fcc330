#include "train/sample_text.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <span>
#include <vector>

#include "text/printable.h"

namespace llmc {

namespace {

constexpr std::int64_t kTokens = 24;  // about one line of text

/// `text` in quotes on one line.
std::string quoted(const std::string& text) {
  std::string out = "\"";
  for (const char c : text) {
    if (c == '\n')
      out += "\\n";
    else if (c == '\t')
      out += "\\t";
    else if (c == '"')
      out += "\\\"";
    else
      out += c;
  }
  return out + "\"";
}

}  // namespace

SamplePlace place_of(const Samples& samples, std::int64_t sample) {
  const std::size_t shard = samples.shard_of(sample);
  return {samples.shards().shards()[shard].file.path().string(),
          (sample - samples.first_of(shard)) * samples.sequence_length()};
}

std::string beginning_of(const Samples& samples, std::int64_t sample, const Tokenizer* tokenizer) {
  std::vector<std::int32_t> tokens(static_cast<std::size_t>(samples.sequence_length()) + 1);
  samples.read(sample, tokens);
  tokens.resize(static_cast<std::size_t>(std::min(kTokens, samples.sequence_length())));
  return tokenizer ? tokenizer->decode(tokens) : fmt::format("{}", fmt::join(tokens, " "));
}

std::string shown_beginning_of(const Samples& samples, std::int64_t sample, const Tokenizer* tokenizer) {
  const std::string text = beginning_of(samples, sample, tokenizer);
  return tokenizer ? quoted(printable_text(text)) : text;
}

}  // namespace llmc
