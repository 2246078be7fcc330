#include "data/vocabulary.h"

#include <fmt/format.h>

#include "data/mapped_file.h"
#include "data/tokenizer_json.h"
#include "data/tokenizer_model.h"
#include "error.h"
#include "text/plural.h"

namespace llmc {

namespace fs = std::filesystem;

std::string vocabulary_note(std::int64_t vocab_size, const fs::path& tokenizer, const fs::path& shards) {
  fs::path file = tokenizer.empty() ? shards.parent_path() / "tokenizer.model" : tokenizer;
  std::error_code error;
  if (tokenizer.empty() && !fs::exists(file, error)) file.replace_filename("tokenizer.json");
  std::int64_t tokens = 0, of_data = 0;
  try {
    const MappedFile mapped(file);
    const std::string_view model(reinterpret_cast<const char*>(mapped.bytes().data()), mapped.bytes().size());
    if (looks_like_json(model)) {
      const JsonVocabulary vocabulary = parse_tokenizer_json(model, file.string(), separator_next_to(file));
      tokens = static_cast<std::int64_t>(vocabulary.names.size());
      of_data = vocabulary.tokens_of_data();
    } else {
      tokens = of_data = check_tokenizer_model(model, file.string()).pieces;
    }
    mapped.check();
  } catch (const Failure&) {
    return "";  // users of the tokenizer report its error
  }
  if (vocab_size > tokens)
    return fmt::format(
        "model.vocab_size {} is above the {} tokens of '{}': no token uses {} row{} of the embedding and of the head",
        vocab_size, tokens, file.string(), vocab_size - tokens, plural(vocab_size - tokens));
  if (vocab_size < of_data)
    return fmt::format("model.vocab_size {} is below the {} tokens of '{}': data that uses the others is refused",
                       vocab_size, tokens, file.string());
  return "";
}

}  // namespace llmc
