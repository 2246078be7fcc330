// Makes a data set from text: tokenizer, token shards for training and validation, and a description.
#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>
#include <string>
#include <vector>

#include "compiler/tools/dataset/corpus.h"
#include "compiler/tools/dataset/shard_writer.h"

namespace llmc::data {

enum class BuildStage { reading, training_tokenizer, encoding };

struct BuildProgress {
  BuildStage stage;
  std::int64_t bytes = 0, total_bytes = 0;  // of text; total is 0 while it is not known
};

struct BuildOptions {
  std::vector<std::filesystem::path> from;  // files and directories, see find_corpus_files
  std::vector<std::string> globs;
  std::string text_field = "text";  // of a line of a .jsonl file
  std::int64_t vocab_size = 0;      // of a tokenizer to train, kMinVocabSize .. kMaxVocabSize (train_tokenizer.h)
  std::filesystem::path tokenizer;  // a model, or a folder that holds one, in place of one to train; else empty
  std::filesystem::path out;
  double validation = 0.05;                 // part of the documents, [0, 0.5]
  std::int64_t shard_tokens = 100'000'000;  // most tokens of one file
  std::int64_t sample_bytes = 0;  // text the tokenizer learns from; 0: 1 KiB a token, 4 MiB at least, 256 at most
  std::uint64_t seed = 1337;
  bool force = false;                                  // a data set that is there is replaced
  int threads = 0;                                     // 0: as many as there are CPUs; the output does not depend on it
  std::function<void(const BuildProgress&)> progress;  // may be empty; called from the calling thread
};

struct SideSummary {
  std::int64_t documents = 0, bytes = 0, tokens = 0;  // tokens include the separators
  std::vector<ShardSummary> shards;
};

struct BuildResult {
  std::int64_t vocab_size = 0;  // of the tokenizer; a small text may not give as many tokens as asked for
  std::int32_t separator_id = 0;
  bool byte_exact = true;              // the tokenizer gives back any bytes; a trained one always does
  std::int64_t changed_documents = 0;  // that come back otherwise, from a tokenizer which is not byte-exact
  std::string tokenizer_checksum;      // of the model that was given; empty for a trained one
  std::int64_t files = 0, skipped_files = 0, skipped_lines = 0;  // skipped: as in CorpusCounts
  std::vector<Skipped> skipped;                                  // the first of them
  ExtensionCounts passed_over;       // without globs: files whose extension is none of a text
  bool single_document_cut = false;  // one document only: its end is the validation set
  SideSummary train, validation;
  double bytes_per_token() const;
};

/// Writes `out`/tokenizer.model, train-*.bin, val-*.bin and dataset.json. The folder appears by one rename when all of
/// it is written and synced; a data set that was there is replaced with `force` only, any other non-empty folder is
/// refused. Every document is decoded again and compared. The same text and options give the same bytes. Throws
/// Failure(Exit::usage) for options out of range and Failure(Exit::data) for everything about the files, and for a
/// given tokenizer that the trainer could not read or that has no token to end a document with.
BuildResult build_dataset(const BuildOptions& options);

/// Text of dataset.json.
std::string dataset_json(const BuildResult& result, const BuildOptions& options);

}  // namespace llmc::data
