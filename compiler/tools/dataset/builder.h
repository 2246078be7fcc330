// Builds a data set from text: tokenizer, token shards for training and validation, and a description.
#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>
#include <string>
#include <vector>

#include "compiler/tools/dataset/corpus.h"
#include "compiler/tools/dataset/shard_writer.h"
#include "data/shards.h"

namespace llmc::data {

enum class BuildStage { reading, training_tokenizer, encoding };

struct BuildProgress {
  BuildStage stage;
  std::int64_t bytes = 0, total_bytes = 0;  // of text; the total is 0 until it is known
};

struct DatasetOptions {
  std::vector<std::filesystem::path> from;  // files and directories, see find_corpus_files(); "-": standard input
  std::vector<std::string> globs;
  std::string text_field = "text";  // of a line of a .jsonl file
  std::int64_t vocab_size = 0;      // of a tokenizer to train, kMinVocabSize .. kMaxVocabSize (train_tokenizer.h)
  bool tokenizer_json = false;      // also write the trained tokenizer as a tokenizer.json
  std::filesystem::path tokenizer;  // a file, or its folder, to use instead of training one; else empty
  std::filesystem::path out;
  double validation = 0.05;                 // fraction of the documents, [0, 0.5]
  std::int64_t shard_tokens = 100'000'000;  // most tokens of one file
  std::int64_t sample_bytes = 0;  // text the tokenizer learns from; 0: 1 KiB per token, between 4 MiB and 256 MiB
  std::uint64_t seed = 1337;
  bool deduplicate = false;                            // keeps only the first of equal documents
  bool force = false;                                  // replaces an existing data set
  int standard_input = 0;                              // descriptor of "-"
  int threads = 0;                                     // 0: one per CPU; the output does not depend on it
  std::function<void(const BuildProgress&)> progress;  // may be empty; called from the calling thread
};

struct SideSummary {
  std::int64_t documents = 0, bytes = 0, tokens = 0;  // tokens include the separators
  std::vector<ShardSummary> shards;
  TokenShards::Identity identity;  // of these; empty without shards
};

struct BuildResult {
  std::int64_t vocab_size = 0;  // of the tokenizer; a small text may give fewer tokens than requested
  std::int32_t separator_id = 0;
  bool byte_exact = true;              // the tokenizer returns any bytes unchanged; a trained one always does
  std::int64_t changed_documents = 0;  // that a tokenizer which is not byte-exact decodes differently
  std::string tokenizer_file = "tokenizer.model";  // or tokenizer.json
  std::string tokenizer_checksum;
  std::string tokenizer_json_checksum;                           // of DatasetOptions::tokenizer_json; empty: none
  bool tokenizer_trained = true;                                 // else it was given
  std::int64_t files = 0, skipped_files = 0, skipped_lines = 0;  // skipped: as in CorpusCounts
  std::vector<Skipped> skipped;                                  // the first ones
  std::int64_t duplicates = 0;                                   // documents that --deduplicate left out
  std::int64_t continued_shards = 0;                             // that a killed build had finished
  ExtensionCounts passed_over;  // without globs: files whose extension is not one of text files
  std::vector<std::filesystem::path> linked_directories;  // as in CorpusFiles
  bool single_document_cut = false;                       // there is only one document: its end is the validation set
  SideSummary train, validation;
  double bytes_per_token() const;
};

/// Writes `out`/tokenizer.model or tokenizer.json, or both (tokenizer_to_json.h), train-*.bin, val-*.bin and
/// dataset.json. The folder appears by one rename when everything is written and synced. Replaces an existing data set
/// with `force` only, and refuses any other folder that is not empty. Decodes every document and compares the result
/// with the text. The same text and options give the same bytes. A build that was killed leaves its finished shards,
/// and the next one with the same text and options continues after them. Standard input holds JSON lines and comes
/// last; a copy of it is kept in `out` while it is read twice. Throws Failure(Exit::usage) for options out of range.
/// Throws Failure(Exit::data) for errors of files, and for a given tokenizer that the trainer cannot read or that has
/// no token to end a document.
BuildResult build_dataset(const DatasetOptions& options);

/// Returns the text of dataset.json.
std::string dataset_json(const BuildResult& result, const DatasetOptions& options);

}  // namespace llmc::data
