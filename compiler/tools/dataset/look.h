// Shows one sample of token shards as text with the borders of its tokens: `llmc data look`.
#pragma once

#include <cstdint>
#include <filesystem>
#include <string>
#include <vector>

namespace llmc::data {

struct LookOptions {
  std::string file, format = "auto";   // as in TokenShards, or the folder of a data set
  bool validation = false;             // of a folder: its validation shards instead of those for training
  std::filesystem::path tokenizer;     // empty: the one next to the shards
  std::int64_t sample = 0;             // number in the order of the files
  std::int64_t sequence_length = 256;  // tokens of a sample; one more is shown, the last target
};

struct LookedToken {
  std::int32_t id;
  std::string bytes;  // decoded; of a control token its name; of an id that the tokenizer lacks "<id 5000>"
};

struct Look {
  std::string shard;                 // path
  std::int64_t sample, samples = 0;  // samples: in all shards
  std::int64_t first = 0;            // token in the shard
  std::vector<LookedToken> tokens;
};

/// Throws Failure(Exit::data) as TokenShards and Tokenizer do, and if there is no tokenizer or no such sample.
Look look(const LookOptions& options);

/// Prints one line about the sample, and its text with "│" between tokens. Line feeds are marked by "⏎"; control
/// characters and bytes that are not UTF-8 are printed as \xNN.
std::string look_text(const Look& look);
std::string look_json(const Look& look);

}  // namespace llmc::data
