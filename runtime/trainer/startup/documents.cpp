#include "trainer/startup/documents.h"

#include <fmt/format.h>

#include <filesystem>
#include <optional>
#include <string>

#include "data/dataset_record.h"
#include "data/shards.h"
#include "error.h"
#include "spec/training_sources.h"

namespace llmc {
namespace {

std::int32_t dataset_separator(const spec::DataSource& source) {
  try {
    const auto record = read_dataset_record(std::filesystem::path(source.path).parent_path());
    return record ? record->separator_id : -1;
  } catch (const Failure&) {  // `llmc data info` and `verify` report it
    return -1;
  }
}

std::int32_t indexed_separator(const spec::DataSource& source) {
  try {
    constexpr std::int64_t kAnyVocabulary = 0;
    return TokenShards(source.path, source.format, kAnyVocabulary).indexed_separator();
  } catch (const Failure&) {  // opening the data reports it
    return -1;
  }
}

/// Separator that the dataset.json in the folder of the shards records, else the one by Megatron's index; -1: none.
std::int32_t recorded_separator(const spec::DataSource& source) {
  const std::int32_t recorded = dataset_separator(source);
  return recorded >= 0 ? recorded : indexed_separator(source);
}

}  // namespace

std::int32_t recorded_separator(const spec::Data& data) {
  std::int32_t separator = -1;
  std::string recorded_by;
  for (const spec::MixedSource& of : spec::training_sources(data)) {
    const std::int32_t own = recorded_separator(of.source);
    if (own < 0) continue;
    if (separator >= 0 && own != separator)
      throw Failure(Exit::data, fmt::format("documents of {} end with token {}, but those of {} with {}. Make the data "
                                            "with one tokenizer, or write data.documents.separator",
                                            recorded_by, separator, spec::training_key(of.name), own));
    separator = own;
    recorded_by = spec::training_key(of.name);
  }
  return separator;
}

DocumentRule find_documents(const spec::Data& data, const Tokenizer* tokenizer) {
  const spec::Documents& wanted = data.documents;
  if (!wanted.mask && !wanted.mask_first) return {};
  DocumentRule rule{static_cast<std::int32_t>(wanted.separator), wanted.mask_first};
  if (!rule.divides()) rule.separator = recorded_separator(data);
  if (!rule.divides() && tokenizer) rule.separator = tokenizer->separator_id();
  return rule;
}

DocumentRule document_rule(const spec::Data& data, std::int64_t vocab_size, const Tokenizer* tokenizer) {
  if (!data.documents.mask && !data.documents.mask_first) return {};
  std::optional<Tokenizer> named;
  if (!tokenizer && !data.tokenizer.empty()) tokenizer = &named.emplace(std::filesystem::path(data.tokenizer));
  const DocumentRule rule = find_documents(data, tokenizer);
  const std::int32_t end_of_text = tokenizer ? tokenizer->separator_id() : -1;
  if (data.documents.separator < 0 && end_of_text >= 0 && rule.separator != end_of_text)
    throw Failure(Exit::data,
                  fmt::format("documents of the training data end with token {}, but the end of text of the "
                              "tokenizer is {}. Write data.documents.separator: the one that ends documents",
                              rule.separator, end_of_text));
  const char* key = data.documents.mask ? "data.documents.mask" : "data.documents.mask_first";
  if (!rule.divides())
    throw Failure(Exit::data, fmt::format("{} needs the token that ends documents, but neither the training data (an "
                                          ".idx file or dataset.json) nor data.tokenizer name one. Write "
                                          "data.documents.separator: ID",
                                          key));
  if (rule.separator >= vocab_size)
    throw Failure(Exit::data, fmt::format("documents end with token {}, but the model's token ids are below {}. Write "
                                          "data.documents.separator, or {}: false",
                                          rule.separator, vocab_size, key));
  return rule;
}

}  // namespace llmc
