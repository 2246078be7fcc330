#include "compiler/tools/dataset/builder.h"

#include <fmt/format.h>

#include <algorithm>
#include <atomic>
#include <exception>
#include <map>
#include <nlohmann/json.hpp>
#include <optional>
#include <set>
#include <thread>

#include "compiler/tools/dataset/build_record.h"
#include "compiler/tools/dataset/corpus.h"
#include "compiler/tools/dataset/deduplicate.h"
#include "compiler/tools/dataset/pending_folder.h"
#include "compiler/tools/dataset/read_tokenizer.h"
#include "compiler/tools/dataset/split.h"
#include "compiler/tools/dataset/standard_input.h"
#include "compiler/tools/dataset/tokenizer_to_json.h"
#include "compiler/tools/dataset/train_tokenizer.h"
#include "data/glob.h"
#include "data/tokenizer.h"
#include "data/tokenizer_json.h"
#include "error.h"
#include "files/disk.h"
#include "host/limits.h"
#include "text/plural.h"
#include "version.h"

namespace llmc::data {
namespace fs = std::filesystem;

namespace {

constexpr std::size_t kBatchBytes = 4 << 20;  // text that is encoded at once

void check_options(const DatasetOptions& options) {
  const auto fail = [](const std::string& what) { throw Failure(Exit::usage, what); };
  if (options.from.empty()) fail("there is nothing to read. Give files or directories with --from");
  if (std::ranges::count(options.from, fs::path("-")) > 1)
    fail("--from - is given twice, but standard input is read once");
  const bool train = options.tokenizer.empty();
  if (train && options.vocab_size == 0)
    fail(
        "the vocabulary is not given. Write --vocab-size N to train a tokenizer, or --tokenizer to use an existing "
        "one");
  if (!train && (options.vocab_size != 0 || options.sample_bytes != 0 || options.tokenizer_json))
    fail("--tokenizer is used without changes. Leave --vocab-size, --sample-bytes and --train-tokenizer out");
  if (train && (options.vocab_size < kMinVocabSize || options.vocab_size > kMaxVocabSize))
    fail(fmt::format("--vocab-size {} is out of range. Write {} to {}", options.vocab_size, kMinVocabSize,
                     kMaxVocabSize));
  if (!(options.validation >= 0 && options.validation <= 0.5))
    fail(fmt::format("--validation {} is out of range. Write 0 to 0.5", options.validation));
  if (options.shard_tokens < 1 || options.shard_tokens > 0x7fffffff)
    fail(fmt::format("--shard-tokens {} is out of range. Write 1 to {}", options.shard_tokens, 0x7fffffff));
  if (options.sample_bytes < 0) fail("--sample-bytes is negative. Write a number of bytes, or 0 for the default");
  if (options.text_field.empty()) fail("--text-field is empty. Name the field of a .jsonl line that has its text");
  if (options.out.empty()) fail("there is no output folder. Write -o DIR");
}

struct Document {
  std::string text;
  bool validation = false, changed = false;  // changed: decodes to other text
  std::vector<std::int32_t> tokens;
};

/// Encodes a batch on several threads and checks every document by decoding it. The batch keeps the order.
void encode(std::vector<Document>& batch, const Tokenizer& tokenizer, int threads) {
  std::atomic<std::size_t> next = 0;
  std::vector<std::exception_ptr> errors(static_cast<std::size_t>(threads));
  const auto work = [&](std::exception_ptr& error) {
    try {
      for (std::size_t i; (i = next++) < batch.size();) {
        Document& document = batch[i];
        document.tokens = tokenizer.encode(document.text);
        document.changed = tokenizer.decode(document.tokens) != document.text;
        if (document.changed && tokenizer.exact())
          throw Failure(Exit::internal, "a document changes when it is encoded and decoded");
        document.tokens.push_back(tokenizer.separator_id());
      }
    } catch (...) {
      error = std::current_exception();
    }
  };
  {
    std::vector<std::jthread> helpers;
    for (std::size_t i = 1; i < std::min(errors.size(), batch.size()); ++i)
      helpers.emplace_back([&, i] { work(errors[i]); });
    work(errors[0]);
  }
  for (const std::exception_ptr& error : errors)
    if (error) std::rethrow_exception(error);
}

void check_round_trip(const Tokenizer& tokenizer) {
  std::string all_bytes;
  for (int byte = 0; byte < 256; ++byte) all_bytes += static_cast<char>(byte);
  if (tokenizer.decode(tokenizer.encode(all_bytes)) != all_bytes)
    throw Failure(Exit::internal, "the tokenizer is not byte-exact");
}

void write_file(const fs::path& path, std::string_view text) {
  DurableFile file(path, kDataWriter);
  file.write(text);
  file.finish();
}

nlohmann::ordered_json side_json(const SideSummary& side) {
  std::map<std::string, std::string> sampled;
  for (const ShardRecord& shard : side.identity.shards) sampled[shard.file] = shard.xxh3;
  nlohmann::ordered_json shards = nlohmann::ordered_json::array();
  for (const ShardSummary& shard : side.shards)
    shards.push_back({{"file", shard.file},
                      {"tokens", shard.tokens},
                      {"documents", shard.documents},
                      {"max_id", shard.max_id},
                      {"xxh3", shard.xxh3},
                      {"sampled_xxh3", sampled.at(shard.file)}});
  nlohmann::ordered_json json = {{"documents", side.documents}, {"bytes", side.bytes}, {"tokens", side.tokens}};
  if (!shards.empty()) json["fingerprint"] = side.identity.fingerprint;
  json["shards"] = std::move(shards);
  return json;
}

TokenShards::Identity identify(const fs::path& folder, const std::string& prefix, const SideSummary& side) {
  if (side.shards.empty()) return {};
  return TokenShards((folder / (prefix + "-*.bin")).string(), "llmc", 0, {}).identify();
}

/// Encodes every document into the shards of its split, in the second pass.
class Encoder {
 public:
  /// `record`: where to continue, of 0 documents in a new folder; it is written anew when shards are finished.
  Encoder(const DatasetOptions& options, const Tokenizer& tokenizer, const Split& split, const fs::path& folder,
          std::int64_t total_bytes, BuildRecord record, BuildResult& result)
      : options_(options),
        tokenizer_(tokenizer),
        split_(split),
        total_bytes_(total_bytes),
        result_(result),
        folder_(folder),
        train_(folder, "train", tokenizer.vocab_size() > 65536, options.shard_tokens),
        validation_(folder, "val", tokenizer.vocab_size() > 65536, options.shard_tokens),
        threads_(options.threads > 0 ? options.threads : HostLimits().processors()),
        skipped_(record.documents),
        record_(std::move(record)) {
    record_.bytes_per_token = tokenizer.vocab_size() > 65536 ? 4 : 2;
    done_bytes_ = record_.bytes;
    result_.changed_documents = record_.changed_documents;
    restore(record_.train, train_, result_.train);
    restore(record_.validation, validation_, result_.validation);
  }

  void add(std::string text) {
    if (++documents_ <= skipped_) return;
    if (split_.cuts()) {
      const std::size_t cut = split_.cut(text);
      push(text.substr(cut), true);
      text.resize(cut);
      push(std::move(text), false);
    } else {
      const bool validation = split_.is_validation(text);
      push(std::move(text), validation);
    }
    if (pending_bytes_ >= kBatchBytes) flush();
  }

  void finish() {
    flush();
    result_.train.shards = train_.finish();
    result_.validation.shards = validation_.finish();
    result_.train.identity = identify(folder_, "train", result_.train);
    result_.validation.identity = identify(folder_, "val", result_.validation);
  }

 private:
  void push(std::string text, bool validation) {
    if (text.empty()) return;
    pending_bytes_ += text.size();
    batch_.push_back({std::move(text), validation, false, {}});
  }

  void flush() {
    encode(batch_, tokenizer_, threads_);
    for (const Document& document : batch_) {
      SideSummary& side = document.validation ? result_.validation : result_.train;
      ++side.documents;
      result_.changed_documents += document.changed;
      side.bytes += static_cast<std::int64_t>(document.text.size());
      side.tokens += static_cast<std::int64_t>(document.tokens.size());
      (document.validation ? validation_ : train_).append(document.tokens);
    }
    done_bytes_ += static_cast<std::int64_t>(pending_bytes_);
    batch_.clear();
    pending_bytes_ = 0;
    if (const std::int64_t finished = train_.finished() + validation_.finished(); finished > recorded_) {
      recorded_ = finished;
      write_record();
    }
    if (options_.progress) options_.progress({BuildStage::encoding, done_bytes_, total_bytes_});
  }

  void restore(const SideRecord& from, ShardWriter& writer, SideSummary& side) {
    side.documents = from.documents;
    side.bytes = from.bytes;
    side.tokens = from.tokens;
    writer.restore(from.shards);
    recorded_ += writer.finished();
  }

  void write_record() {
    const auto side = [](ShardWriter& writer, const SideSummary& of) {
      return SideRecord{of.documents, of.bytes, of.tokens, writer.save()};
    };
    record_.train = side(train_, result_.train);
    record_.validation = side(validation_, result_.validation);
    record_.documents = documents_;
    record_.bytes = done_bytes_;
    record_.changed_documents = result_.changed_documents;
    write_build_record(folder_, record_);
  }

  const DatasetOptions& options_;
  const Tokenizer& tokenizer_;
  const Split& split_;
  std::int64_t total_bytes_, done_bytes_ = 0;
  BuildResult& result_;
  const fs::path& folder_;
  ShardWriter train_, validation_;
  int threads_;
  std::int64_t documents_ = 0, skipped_, recorded_ = 0;  // recorded_: shards that were finished at the last record
  BuildRecord record_;
  std::vector<Document> batch_;
  std::size_t pending_bytes_ = 0;
};

}  // namespace

double BuildResult::bytes_per_token() const {
  const std::int64_t tokens = train.tokens + validation.tokens;
  return tokens == 0 ? 0 : static_cast<double>(train.bytes + validation.bytes) / static_cast<double>(tokens);
}

namespace {

/// Throws if a folder to become a data set holds anything else, or a data set that may not be replaced.
void check_replaced(const std::filesystem::path& entry, bool replace) {
  const std::string name = entry.filename().string(), folder = entry.parent_path().string();
  const bool ours = name == "tokenizer.model" || name == "tokenizer.json" || name == "dataset.json" ||
                    name == kBuildRecord || name == kWriterLock ||  // of a build that was killed when it had published
                    matches_pattern("train-?????.bin", name) || matches_pattern("val-?????.bin", name);
  if (!ours || !disk::is_file(entry, Exit::data))
    throw Failure(Exit::data,
                  fmt::format("'{}' has '{}', which is not part of a data set. Choose another -o", folder, name));
  if (!replace)
    throw Failure(Exit::data,
                  fmt::format("'{}' has a data set. Write --force to replace it, or choose another -o", folder));
}

/// Finds the files to read, and copies standard input into `folder`, if it is among them, as the last file.
CorpusFiles find_input(const DatasetOptions& options, const fs::path& folder,
                       const std::function<void(BuildStage, std::int64_t, std::int64_t)>& report) {
  std::vector<fs::path> named = options.from;
  const bool standard_input = std::erase(named, fs::path("-")) > 0;
  CorpusFiles found = named.empty() ? CorpusFiles() : find_corpus_files(named, options.globs);
  if (standard_input) disk::remove(folder / kStandardInputCopy, Exit::data);  // of a killed build
  if (standard_input)
    found.files.push_back(copy_standard_input(options.standard_input, folder,
                                              [&](std::int64_t bytes) { report(BuildStage::reading, bytes, 0); }));
  return found;
}

/// Options that the result depends on. made_with() of the result has those of the tokenizer.
std::string identity_of(const DatasetOptions& options) {
  const nlohmann::ordered_json json = {options.globs,        options.text_field,  options.vocab_size,
                                       options.sample_bytes, options.deduplicate, options.validation,
                                       options.shard_tokens, options.seed,        kVersion};
  return json.dump(-1, ' ', false, nlohmann::ordered_json::error_handler_t::replace);
}

void remove_except(const fs::path& folder, const std::set<std::string>& kept) {
  for (const fs::path& entry : disk::entries(folder, Exit::data))
    if (!kept.contains(entry.filename().string())) disk::remove(entry, Exit::data);
}

/// Files that a build continues with: not the shards that were begun after the record.
std::set<std::string> files_of(const BuildRecord& record, const char* tokenizer) {
  std::set<std::string> files = {tokenizer, kBuildRecord, kWriterLock, kStandardInputCopy};
  for (const SideRecord* side : {&record.train, &record.validation})
    for (const ShardSummary& shard : side->shards.shards) files.insert(shard.file);
  return files;
}

/// Record of a folder that was taken over, if the same build wrote it. Removes everything of another build. `given`:
/// the tokenizer that is used unchanged, null to train one. `model`: its file; receives that of the record, which need
/// not be trained again.
BuildRecord continued(const PendingFolder& folder, const DatasetOptions& options, const Split& split,
                      const Tokenizer* given, std::string& model) {
  BuildRecord fresh;
  fresh.options = identity_of(options);
  fresh.text = fmt::format("{:016x}", split.digest());
  if (!folder.taken_over()) return fresh;
  const std::optional<BuildRecord> record = read_build_record(folder.path());
  if (record && record->options == fresh.options && record->text == fresh.text &&
      (!given || (checksum_of(model) == record->tokenizer_xxh3 && given->separator_id() == record->separator_id)))
    for (const char* name : {"tokenizer.model", "tokenizer.json"})
      if (file_checksum(folder.path() / name) == record->tokenizer_xxh3) {
        model = read_tokenizer(folder.path() / name);
        remove_except(folder.path(), files_of(*record, name));
        return *record;
      }
  remove_except(folder.path(), {kWriterLock, kStandardInputCopy});
  return fresh;
}

/// Reads the tokenizer that is used unchanged; `model` receives its file. Throws Failure(data) if it does not encode,
/// or has no token to end a document.
Tokenizer given_tokenizer(const fs::path& named, std::string& model) {
  const fs::path file = tokenizer_file(named);
  model = read_tokenizer(file);
  Tokenizer tokenizer(model, file.string(), file);
  if (!tokenizer.encodes())
    throw Failure(Exit::data,
                  fmt::format("'{}' decodes but does not encode: {}. Make shards with tokens/hf_to_shards.py "
                              "(docs/how-to/data-from-hugging-face.md), or give another tokenizer",
                              file.string(), tokenizer.why_not_encodes()));
  if (tokenizer.separator_id() < 0)
    throw Failure(Exit::data,
                  fmt::format("'{}' has no token to end a document with: {}", file.string(),
                              tokenizer.is_json() ? why_no_separator(file) : "it has neither an eos nor a bos token"));
  return tokenizer;
}

/// Same as for_each_document(), without the documents that --deduplicate leaves out; these are only counted.
CorpusCounts for_each_kept(const std::vector<fs::path>& files, const DatasetOptions& options,
                           const std::function<void(std::string text)>& visit) {
  SeenDocuments seen;
  std::int64_t duplicates = 0, bytes = 0;
  CorpusCounts counts = for_each_document(files, options.text_field, [&](std::string text) {
    if (!options.deduplicate || seen.add(text)) return visit(std::move(text));
    ++duplicates;
    bytes += static_cast<std::int64_t>(text.size());
  });
  counts.documents -= duplicates;
  counts.bytes -= bytes;
  counts.duplicates = duplicates;
  return counts;
}

}  // namespace

BuildResult build_dataset(const DatasetOptions& options) {
  check_options(options);
  // First, so that an invalid -o fails before the long work.
  PendingFolder folder(
      options.out, kDataWriter, [&](const std::filesystem::path& entry) { check_replaced(entry, options.force); },
      kBuildRecord);
  const auto report = [&](BuildStage stage, std::int64_t bytes, std::int64_t total) {
    if (options.progress) options.progress({stage, bytes, total});
  };
  const auto [files, passed_over, linked_directories] = find_input(options, folder.path(), report);

  std::string model;
  std::optional<Tokenizer> tokenizer;
  if (!options.tokenizer.empty()) tokenizer.emplace(given_tokenizer(options.tokenizer, model));

  const std::int64_t sample_bytes = options.sample_bytes > 0
                                        ? options.sample_bytes
                                        : std::clamp<std::int64_t>(options.vocab_size << 10, 4 << 20, 256 << 20);
  Split split(options.validation, options.seed);
  TextSample sample(static_cast<std::size_t>(sample_bytes), options.seed);
  std::int64_t seen = 0;
  const CorpusCounts counts = for_each_kept(files, options, [&](std::string text) {
    if (!split.add(text) && !tokenizer) sample.add(text);
    seen += static_cast<std::int64_t>(text.size());
    report(BuildStage::reading, seen, 0);
  });
  split.finish();
  if (counts.documents == 0 && counts.skipped.empty())
    throw Failure(Exit::data, fmt::format("no text in {} file{}: all are empty", counts.files, plural(counts.files)));
  if (counts.documents == 0)
    throw Failure(
        Exit::data,
        fmt::format("no text in {} file{} ({} file{} and {} line{} of .jsonl skipped; {}: {})", counts.files,
                    plural(counts.files), counts.skipped_files, plural(counts.skipped_files), counts.skipped_lines,
                    plural(counts.skipped_lines), counts.skipped[0].where, counts.skipped[0].why));

  BuildRecord record = continued(folder, options, split, tokenizer ? &*tokenizer : nullptr, model);
  if (!tokenizer && !model.empty()) tokenizer.emplace(model, "the trained tokenizer");
  if (!tokenizer) {
    report(BuildStage::training_tokenizer, 0, sample_bytes);
    std::vector<std::string> passages = sample.take();
    if (passages.empty()) {  // the hash put every document into validation, and one of them is moved to training
      for_each_kept(files, options, [&](std::string text) {
        if (!split.is_validation(text)) sample.add(text);
      });
      passages = sample.take();
    }
    model = train_tokenizer(std::move(passages), options.vocab_size);
    tokenizer.emplace(model, "the trained tokenizer");
    if (!tokenizer->exact()) throw Failure(Exit::internal, "the trained tokenizer is not byte-exact");
  }
  if (tokenizer->exact()) check_round_trip(*tokenizer);
  BuildResult result;
  if (tokenizer->is_json()) result.tokenizer_file = "tokenizer.json";
  record.tokenizer_xxh3 = checksum_of(model);
  record.separator_id = tokenizer->separator_id();
  if (record.documents == 0) write_file(folder.path() / result.tokenizer_file, model);
  result.vocab_size = tokenizer->vocab_size();
  result.separator_id = tokenizer->separator_id();
  result.byte_exact = tokenizer->exact();
  result.tokenizer_checksum = checksum_of(model);
  result.tokenizer_trained = options.tokenizer.empty();
  result.files = counts.files;
  result.skipped_files = counts.skipped_files;
  result.skipped_lines = counts.skipped_lines;
  result.skipped = counts.skipped;
  result.duplicates = counts.duplicates;
  result.continued_shards =
      static_cast<std::int64_t>(record.train.shards.shards.size() - record.train.shards.open +
                                record.validation.shards.shards.size() - record.validation.shards.open);
  if (options.globs.empty()) result.passed_over = passed_over;
  result.linked_directories = linked_directories;
  result.single_document_cut = split.cuts();
  Encoder encoder(options, *tokenizer, split, folder.path(), counts.bytes, record, result);
  Split again(options.validation, options.seed);
  for_each_kept(files, options, [&](std::string text) {
    again.add(text);
    encoder.add(std::move(text));
  });
  encoder.finish();
  if (again.digest() != split.digest()) {
    disk::remove(folder.path() / kBuildRecord, Exit::data);  // its digest is not that of the shards
    throw Failure(Exit::data, "the text changed while it was read. Retry when nothing writes to it");
  }
  if (options.tokenizer_json) {
    const std::string json = tokenizer_to_json(model);
    write_file(folder.path() / kTokenizerJson, json);
    result.tokenizer_json_checksum = checksum_of(json);
  }
  write_file(folder.path() / "dataset.json", dataset_json(result, options));
  disk::remove(folder.path() / kStandardInputCopy, Exit::data);
  folder.publish();
  return result;
}

std::string dataset_json(const BuildResult& result, const DatasetOptions& options) {
  // No paths and times: equal text and options must give equal bytes.
  nlohmann::ordered_json made_with = {{"globs", options.globs}, {"text_field", options.text_field}};
  if (result.tokenizer_trained) {
    made_with["vocab_size"] = options.vocab_size;
    made_with["sample_bytes"] = options.sample_bytes;
  } else {
    made_with["tokenizer_xxh3"] = result.tokenizer_checksum;
  }
  made_with["deduplicate"] = options.deduplicate;
  made_with["validation"] = options.validation;
  made_with["shard_tokens"] = options.shard_tokens;
  made_with["seed"] = options.seed;
  nlohmann::ordered_json json = {{"format", "llmc-dataset"},
                                 {"version", 1},
                                 {"tokenizer", result.tokenizer_file},
                                 {"tokenizer_xxh3", result.tokenizer_checksum},
                                 {"vocab_size", result.vocab_size},
                                 {"separator_id", result.separator_id},
                                 {"byte_exact", result.byte_exact},
                                 {"changed_documents", result.changed_documents},
                                 {"token_type", result.vocab_size > 65536 ? "uint32" : "uint16"},
                                 {"bytes_per_token", result.bytes_per_token()},
                                 {"files", result.files},
                                 {"skipped_files", result.skipped_files},
                                 {"skipped_lines", result.skipped_lines},
                                 {"duplicates", result.duplicates},
                                 {"passed_over", result.passed_over},
                                 {"single_document_cut", result.single_document_cut},
                                 {"train", side_json(result.train)},
                                 {"validation", side_json(result.validation)},
                                 {"options", made_with}};
  if (!result.tokenizer_json_checksum.empty()) json["tokenizer_json_xxh3"] = result.tokenizer_json_checksum;
  return json.dump(2, ' ', false, nlohmann::ordered_json::error_handler_t::replace) + "\n";
}

}  // namespace llmc::data
