#include "data/bpe/tokenizer_file.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cstddef>
#include <set>

#include "error.h"

namespace llmc {
namespace {

using Json = nlohmann::json;

constexpr std::int64_t kMaxTokens = 1 << 20;
constexpr std::size_t kMaxTokenBytes = 4096, kMaxLevels = 32, kMaxPartValues = 1000, kMaxValues = 1 << 23;
/// Members of the model that decide how text is encoded.
constexpr std::array kModelKeys = {
    "type", "byte_fallback", "ignore_merges", "continuing_subword_prefix", "end_of_word_suffix", "dropout"};

/// Tracks nlohmann's SAX events by the path of keys. Its DOM silently accepts duplicate keys and takes 26 times the
/// file's size.
class Events : public nlohmann::json_sax<Json> {
 public:
  TokenizerFile contents;
  std::string problem;

  bool null() override { return value(nullptr); }
  bool boolean(bool flag) override { return value(flag); }
  bool number_integer(number_integer_t number) override { return value(number); }
  bool number_unsigned(number_unsigned_t number) override { return value(number); }
  bool number_float(number_float_t number, const string_t&) override { return value(number); }
  bool binary(binary_t&) override { return fail("it contains binary data"); }
  bool string(string_t& text) override { return value(std::move(text)); }
  bool start_object(std::size_t) override { return open(Json::object()); }
  bool start_array(std::size_t) override { return open(Json::array()); }
  bool end_object() override { return close(); }
  bool end_array() override { return close(); }
  bool key(string_t& name) override {
    if (name.size() > kMaxTokenBytes) return fail("a key or a token is too long");
    Level& level = levels_.back();
    // Tokens are checked for duplicates once all are known.
    if (!in_vocabulary_map() && values_ < kMaxValues && !level.seen.insert(name).second)
      return fail(fmt::format("a key appears twice in one object at level {}", levels_.size()));
    level.key = std::move(name);
    return true;
  }
  bool parse_error(std::size_t position, const std::string&, const nlohmann::detail::exception&) override {
    return fail(fmt::format("it is not valid JSON at byte {}", position));
  }

  /// Returns the problem of a file with more values than are read; empty if it has none.
  std::string excess() const {
    if (values_ > kMaxValues) return fmt::format("it has {} values, but llmc reads at most {}", values_, kMaxValues);
    for (const Part& part : parts_)
      if (part.values > kMaxPartValues)
        return fmt::format("its {} has {} values, but llmc reads at most {}", part.name, part.values, kMaxPartValues);
    return "";
  }

 private:
  struct Level {
    bool object;
    std::string key;             // of an object: the last one
    std::set<std::string> seen;  // of an object: all
    Json* part = nullptr;        // object or list to which values of the level belong, in a part that is kept
  };
  /// A member of the file that is kept whole.
  struct Part {
    const char* name;
    Json TokenizerFile::* place;
    std::size_t values = 0;
  };

  const std::string& top() const { return levels_[0].key; }
  bool in_model(const char* key, std::size_t levels) const {
    return levels_.size() == levels && top() == "model" && levels_[1].object && levels_[1].key == key;
  }
  bool in_vocabulary_map() const { return in_model("vocab", 3) && levels_[2].object; }
  bool in_added_token() const {
    return levels_.size() == 3 && levels_[2].object && !levels_[1].object && top() == "added_tokens";
  }

  /// Keeps a value of a part. Returns its place; null for a value that is not kept.
  Json* keep(Json&& value) {
    if (levels_.empty() || !levels_[0].object) return nullptr;
    const auto part = std::ranges::find_if(parts_, [&](const Part& each) { return top() == each.name; });
    if (part == parts_.end() || ++part->values > kMaxPartValues) return nullptr;
    if (levels_.size() == 1) return &(contents.*part->place = std::move(value));
    Level& level = levels_.back();
    if (!level.part) return nullptr;
    if (level.object) return &((*level.part)[level.key] = std::move(value));
    level.part->push_back(std::move(value));
    return &level.part->back();
  }

  bool value(Json&& given) {
    if (levels_.empty()) return fail("it is not an object");
    if (++values_ > kMaxValues) return true;  // only counted
    if (in_vocabulary_map()) return token(given);
    if (in_added_token()) return added(given);
    if (in_model("merges", 3) || in_model("merges", 4)) return merge(given);
    if (in_model("merges", 2)) contents.odd_merges = true;
    if (levels_.size() == 2 && top() == "model" && levels_[1].object &&
        std::ranges::find(kModelKeys, levels_[1].key) != kModelKeys.end())
      contents.model[levels_[1].key] = std::move(given);
    else
      keep(std::move(given));
    return true;
  }

  bool token(const Json& given) {
    if (!given.is_number_unsigned()) return fail("the id of a token of model.vocab is not a whole number");
    if (given.get<std::uint64_t>() >= static_cast<std::uint64_t>(kMaxTokens))
      return fail("a token of model.vocab has an id of 2^20 or more");
    contents.vocabulary.emplace_back(levels_[2].key, given.get<std::int64_t>());
    if (contents.vocabulary.size() > static_cast<std::size_t>(kMaxTokens)) return fail("it has more than 2^20 tokens");
    return true;
  }

  /// Accepts "a b", as files of older versions have it, and each token of ["a", "b"].
  bool merge(const Json& given) {
    const bool pair = levels_.size() == 4;
    if (levels_[2].object || (pair && levels_[3].object) || !given.is_string()) {
      contents.odd_merges = true;
      return true;
    }
    const std::string& text = given.get_ref<const std::string&>();
    if (text.size() > 2 * kMaxTokenBytes) return fail("a merge is too long");
    if (!pair) {
      const std::size_t blank = text.find(' ');
      contents.odd_merges |= blank == std::string::npos || text.find(' ', blank + 1) != std::string::npos;
      if (!contents.odd_merges) contents.merges.emplace_back(text.substr(0, blank), text.substr(blank + 1));
    } else if (++merge_tokens_ <= 2 && !contents.merges.empty()) {
      (merge_tokens_ == 1 ? contents.merges.back().first : contents.merges.back().second) = text;
    }
    return true;
  }

  bool added(const Json& given) {
    const std::string& name = levels_[2].key;
    AddedToken& token = contents.added.back();
    const std::array<std::pair<const char*, bool*>, 5> flags = {{{"special", &token.special},
                                                                 {"single_word", &token.single_word},
                                                                 {"lstrip", &token.lstrip},
                                                                 {"rstrip", &token.rstrip},
                                                                 {"normalized", &token.normalized}}};
    if (name == "id") {
      if (!given.is_number_unsigned() || given.get<std::uint64_t>() >= static_cast<std::uint64_t>(kMaxTokens))
        return fail("an added token has no id below 2^20");
      token.id = given.get<std::int64_t>();
    } else if (name == "content") {
      if (!given.is_string() || given.get_ref<const std::string&>().size() > kMaxTokenBytes)
        return fail("the content of an added token is missing or too long");
      token.content = given.get<std::string>();
    }
    for (const auto& [flag, place] : flags) {
      if (name != flag) continue;
      if (!given.is_boolean()) return fail(fmt::format("an added token's {} is neither true nor false", flag));
      *place = given.get<bool>();
    }
    return true;
  }

  bool open(Json&& empty) {
    const bool object = empty.is_object();
    if (levels_.empty() && !object) return fail("it is not an object");
    if (levels_.size() >= kMaxLevels) return fail("it is nested too deeply");
    if (++values_ > kMaxValues) {  // only counted
      levels_.push_back({object, "", {}, nullptr});
      return true;
    }
    if (in_vocabulary_map()) return fail("the id of a token of model.vocab is not a whole number");
    if (!levels_.empty() && in_model("vocab", 2) && !object)
      return fail("model.vocab is not a map of tokens, as BPE needs");
    if (in_added_token()) return fail("a field of an added token is a list or an object");
    Json* part = nullptr;
    if (!levels_.empty() && in_model("merges", 3) && !levels_[2].object && !object) {
      contents.merges.emplace_back();
      merge_tokens_ = 0;
    } else if (!levels_.empty() &&
               (in_model("merges", 3) || in_model("merges", 4) || (in_model("merges", 2) && object))) {
      contents.odd_merges = true;
    } else {
      part = keep(std::move(empty));
    }
    levels_.push_back({object, "", {}, part});
    if (in_added_token()) {
      if (contents.added.size() >= static_cast<std::size_t>(kMaxTokens)) return fail("it has more than 2^20 tokens");
      contents.added.emplace_back();
    }
    return true;
  }
  bool close() {
    if (in_model("merges", 4) && !levels_[3].object) contents.odd_merges |= merge_tokens_ != 2;
    levels_.pop_back();
    return true;
  }
  bool fail(std::string what) {
    problem = std::move(what);
    return false;
  }

  std::vector<Level> levels_;
  std::size_t values_ = 0, merge_tokens_ = 0;
  std::array<Part, 3> parts_ = {{{"decoder", &TokenizerFile::decoder},
                                 {"normalizer", &TokenizerFile::normalizer},
                                 {"pre_tokenizer", &TokenizerFile::pre_tokenizer}}};
};

}  // namespace

TokenizerFile read_tokenizer_file(std::string_view json, const std::string& name) {
  const auto refuse = [&](const std::string& what) {
    throw Failure(Exit::data, fmt::format("'{}' cannot be used as a tokenizer: {}", name, what));
  };
  Events events;
  events.contents.model = Json::object();
  if (!Json::sax_parse(json, &events)) refuse(events.problem);
  if (const std::string problem = events.excess(); !problem.empty()) refuse(problem);
  return std::move(events.contents);
}

}  // namespace llmc
