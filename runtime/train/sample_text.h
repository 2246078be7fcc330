// Training samples for people: where a sample lies, and how its text begins.
#pragma once

#include <cstdint>
#include <string>

#include "data/shards.h"
#include "data/tokenizer.h"

namespace llmc {

/// The file of a sample, and the first of its tokens there.
struct SamplePlace {
  std::string file;
  std::int64_t token;
};
SamplePlace place_of(const Samples& samples, std::int64_t sample);

/// How the text of a sample begins. Without a tokenizer (null): its first token ids. Throws Failure(data).
std::string beginning_of(const Samples& samples, std::int64_t sample, const Tokenizer* tokenizer);

/// The same for a terminal: text is on one line, in quotes, and its control characters are escaped.
std::string shown_beginning_of(const Samples& samples, std::int64_t sample, const Tokenizer* tokenizer);

}  // namespace llmc
