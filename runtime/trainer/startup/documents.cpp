#include "trainer/startup/documents.h"

#include <fmt/format.h>

#include <filesystem>
#include <string>

#include "data/dataset_record.h"
#include "data/shards.h"
#include "error.h"
#include "spec/training_sources.h"

namespace llmc {
namespace {

/// Separator that Megatron's index says, or that dataset.json records in the folder of the shards; -1: none.
std::int32_t recorded_separator(const spec::DataSource& source) {
  try {
    constexpr std::int64_t kAnyVocabulary = 0;
    const std::int32_t separator = TokenShards(source.path, source.format, kAnyVocabulary).indexed_separator();
    if (separator >= 0) return separator;
  } catch (const Failure&) {  // opening the data reports it
  }
  try {
    const auto record = read_dataset_record(std::filesystem::path(source.path).parent_path());
    return record ? record->separator_id : -1;
  } catch (const Failure&) {  // `llmc data info` and `verify` report it
    return -1;
  }
}

/// Separator that the training data record; -1: none.
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

}  // namespace

DocumentRule find_documents(const spec::Data& data, const Tokenizer* tokenizer) {
  const spec::Documents& wanted = data.documents;
  if (!wanted.mask && !wanted.mask_first) return {};
  DocumentRule rule{static_cast<std::int32_t>(wanted.separator), wanted.mask_first};
  if (!rule.divides()) rule.separator = recorded_separator(data);
  if (!rule.divides() && tokenizer) rule.separator = tokenizer->separator_id();
  return rule;
}

DocumentRule document_rule(const spec::Data& data, std::int64_t vocab_size, const Tokenizer* tokenizer) {
  DocumentRule rule = find_documents(data, tokenizer);
  if (!data.documents.mask && !data.documents.mask_first) return rule;
  if (!rule.divides() && !tokenizer && !data.tokenizer.empty()) {
    const Tokenizer named{std::filesystem::path(data.tokenizer)};
    rule = find_documents(data, &named);
  }
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
