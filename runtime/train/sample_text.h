// Describes training samples for people: their file, and the beginning of their text.
#pragma once

#include <cstdint>
#include <string>

#include "data/shards.h"
#include "data/tokenizer.h"

namespace llmc {

/// File of a sample, and the index of its first token in it.
struct SamplePlace {
  std::string file;
  std::int64_t token;
};
SamplePlace place_of(const Samples& samples, std::int64_t sample);

/// Beginning of a sample's text. Without a tokenizer (null): its first token ids. Throws Failure(data).
std::string beginning_of(const Samples& samples, std::int64_t sample, const Tokenizer* tokenizer);

/// Same for a terminal: on one line, in quotes, with control characters escaped.
std::string shown_beginning_of(const Samples& samples, std::int64_t sample, const Tokenizer* tokenizer);

}  // namespace llmc
