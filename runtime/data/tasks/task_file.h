// Reads multiple-choice tasks: examples of a context and several endings, one of which is right.
#pragma once

#include <cstdint>
#include <filesystem>
#include <string>
#include <string_view>
#include <vector>

#include "data/tokenizer.h"

namespace llmc {

struct TaskEnding {
  std::vector<std::int32_t> tokens;  // of context and ending
  std::int64_t first = 0;            // index of the ending's first token, at least 1
  std::int64_t length = 0;           // by which its log-likelihood is normalised
};

struct TaskExample {
  std::vector<TaskEnding> endings;  // at least 2
  std::int64_t label = 0;           // of the right one
};

/// Limits of a model that examples must keep.
struct TaskLimits {
  std::int64_t vocab_size, sequence_length;
};

/// Reads the first `most` examples (0: all) of a file: llm.c's evaluation file (magic 20240522, version 1; dev/data/
/// data_common.py there), or JSON lines of {"context", "endings", "label"}, which `tokenizer` encodes; it may be null.
///
/// An ending's length is its tokens in llm.c's format, which has no text, and its characters without leading white
/// space in JSON lines, as lm-evaluation-harness counts for acc_norm. As there, white space at the end of a context is
/// encoded with the endings, and context and ending are encoded together. An empty context is the token that ends a
/// document.
///
/// Throws Failure(data) naming the file and the example: damage, more than 1,000 endings, a field that is missing or of
/// another type, a label without an ending, an ending without a token, a token of vocab_size or more, more than
/// sequence_length + 1 tokens.
std::vector<TaskExample> read_task(const std::filesystem::path& path, const Tokenizer* tokenizer,
                                   const TaskLimits& limits, std::int64_t most);

/// Same for the content of a file with this name in errors. A name that ends in .jsonl holds JSON lines.
std::vector<TaskExample> parse_task(std::string_view content, const std::string& name, const Tokenizer* tokenizer,
                                    const TaskLimits& limits, std::int64_t most);

}  // namespace llmc
