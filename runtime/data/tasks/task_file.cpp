#include "data/tasks/task_file.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstring>
#include <functional>
#include <nlohmann/json.hpp>
#include <set>

#include "data/mapped_file.h"
#include "error.h"
#include "text/json_problem.h"
#include "text/utf8.h"

namespace llmc {
namespace {

constexpr std::int32_t kMagic = 20240522, kVersion = 1;
constexpr std::size_t kHeader = 256 * sizeof(std::int32_t);
constexpr std::uint16_t kStart = 65535;  // begins an example
constexpr std::size_t kMostEndings = 1000;

/// Where a file's problem is.
struct Place {
  const std::string& name;
  std::string what;  // "example 3"
  [[noreturn]] void refuse(const std::string& problem) const {
    throw Failure(Exit::data, fmt::format("'{}': {} {}", name, what, problem));
  }
};

/// Refuses too many tokens of `what` as soon as their number is known.
void check_length(std::size_t count, const std::string& what, const TaskLimits& limits, const Place& at) {
  if (static_cast<std::int64_t>(count) > limits.sequence_length + 1)
    at.refuse(
        fmt::format("has {} tokens {}, but batch.sequence_length {} allows {}. Leave the example out, or evaluate "
                    "longer sequences",
                    count, what, limits.sequence_length, limits.sequence_length + 1));
}

void check(const TaskExample& example, const TaskLimits& limits, const Place& at) {
  if (example.endings.size() < 2) at.refuse("has fewer than two endings");
  if (example.label < 0 || example.label >= static_cast<std::int64_t>(example.endings.size()))
    at.refuse(fmt::format("has the label {}, but {} endings, numbered from 0", example.label, example.endings.size()));
  for (std::size_t i = 0; i < example.endings.size(); ++i) {
    const TaskEnding& ending = example.endings[i];
    const auto count = static_cast<std::int64_t>(ending.tokens.size());
    if (ending.first < 1) at.refuse("has no token before its endings");
    if (ending.first >= count) at.refuse(fmt::format("has no token in ending {}", i));
    const std::int32_t largest = *std::ranges::max_element(ending.tokens);
    if (largest >= limits.vocab_size)
      at.refuse(
          fmt::format("has token {}, but the model's token ids are below {}. Use a file that was made with the "
                      "model's tokenizer",
                      largest, limits.vocab_size));
  }
}

/// Reads llm.c's stream of uint16.
class Stream {
 public:
  Stream(std::string_view bytes, const std::string& name) : bytes_(bytes), name_(name) {}
  std::uint16_t next(const char* what) {
    std::uint16_t value;
    if (bytes_.size() < sizeof value)
      throw Failure(Exit::data, fmt::format("'{}': ends within {}. The file is cut short", name_, what));
    std::memcpy(&value, bytes_.data(), sizeof value);
    bytes_.remove_prefix(sizeof value);
    return value;
  }
  void append(std::vector<std::int32_t>& tokens, std::uint16_t count) {
    for (; count > 0; --count) tokens.push_back(next("the tokens of an example"));
  }
  std::size_t left() const { return bytes_.size(); }

 private:
  std::string_view bytes_;
  const std::string& name_;
};

TaskExample parse_example(Stream& stream, std::int64_t number, const TaskLimits& limits, const Place& at) {
  constexpr const char* kWithin = "the numbers before an example";
  const std::size_t before = stream.left();
  if (stream.next(kWithin) != kStart) at.refuse("does not begin with 65535. The file is damaged");
  const std::uint16_t bytes = stream.next(kWithin);
  if (stream.next(kWithin) != number % 65536) at.refuse("has the number of another one. The file is damaged");
  TaskExample example;
  example.label = stream.next(kWithin);
  const std::uint16_t endings = stream.next(kWithin);
  if (endings > kMostEndings) at.refuse(fmt::format("has {} endings, more than {}", endings, kMostEndings));
  const auto check_bytes = [&](std::size_t next) {
    if (before - stream.left() + 2 * next > bytes)
      at.refuse(fmt::format("has more than the {} bytes that it records. The file is damaged", bytes));
  };
  std::vector<std::int32_t> context;
  const std::uint16_t of_context = stream.next(kWithin);
  check_length(of_context, "in its context", limits, at);
  check_bytes(of_context);
  stream.append(context, of_context);
  for (std::uint16_t i = 0; i < endings; ++i) {
    TaskEnding ending{context, static_cast<std::int64_t>(context.size()), 0};
    const std::uint16_t length = stream.next(kWithin);
    check_length(context.size() + length, fmt::format("with ending {}", i), limits, at);
    check_bytes(length);
    ending.length = length;
    stream.append(ending.tokens, length);
    example.endings.push_back(std::move(ending));
  }
  if (before - stream.left() != bytes)
    at.refuse(fmt::format("has {} bytes, but records {}. The file is damaged", before - stream.left(), bytes));
  check(example, limits, at);
  return example;
}

std::vector<TaskExample> parse_binary(std::string_view content, const std::string& name, const TaskLimits& limits,
                                      std::int64_t most) {
  std::int32_t header[4] = {};
  std::memcpy(header, content.data(), sizeof header);
  if (header[1] != kVersion)
    throw Failure(Exit::data, fmt::format("'{}': has version {} of llm.c's format of tasks, but llmc reads {}", name,
                                          header[1], kVersion));
  if (header[2] < 1) throw Failure(Exit::data, fmt::format("'{}': has no examples", name));
  Stream stream(content.substr(kHeader), name);
  std::vector<TaskExample> examples;
  for (std::int64_t number = 0; number < header[2] && (most == 0 || number < most); ++number)
    examples.push_back(parse_example(stream, number, limits, {name, fmt::format("example {}", number)}));
  if (most == 0 && stream.left() > 0)
    throw Failure(Exit::data, fmt::format("'{}': has {} bytes after its last example", name, stream.left()));
  return examples;
}

/// One line's object, without duplicate keys.
nlohmann::json parse_object(std::string_view line, const Place& at) {
  std::vector<std::set<std::string>> keys;
  bool twice = false;
  const nlohmann::json::parser_callback_t unique = [&](int, nlohmann::json::parse_event_t event,
                                                       nlohmann::json& value) {
    if (event == nlohmann::json::parse_event_t::object_start) keys.emplace_back();
    if (event == nlohmann::json::parse_event_t::object_end) keys.pop_back();
    if (event == nlohmann::json::parse_event_t::key) twice |= !keys.back().insert(value.get<std::string>()).second;
    return true;
  };
  nlohmann::json object = nlohmann::json::parse(line, unique, false);
  if (object.is_discarded() || !object.is_object()) at.refuse("is not a JSON object");
  if (twice) at.refuse("has a key twice");
  return object;
}

std::string text_of(const nlohmann::json& value, const char* what, const Place& at) {
  if (!value.is_string()) at.refuse(fmt::format("has no text as {}", what));
  return value.get<std::string>();
}

constexpr std::string_view kWhiteSpace = " \t\n\r\v\f";

/// Characters without leading white space.
std::int64_t characters(std::string_view text) {
  text.remove_prefix(std::min(text.find_first_not_of(kWhiteSpace), text.size()));
  return std::ranges::count_if(text, [](char byte) { return (static_cast<unsigned char>(byte) & 0xc0) != 0x80; });
}

TaskExample parse_line(std::string_view line, const Tokenizer& tokenizer, const TaskLimits& limits, const Place& at) {
  const nlohmann::json object = parse_object(line, at);
  for (const char* key : {"context", "endings", "label"})
    if (!object.contains(key))
      at.refuse(
          fmt::format("has no '{}'. Write {{\"context\": TEXT, \"endings\": [TEXT, ...], "
                      "\"label\": NUMBER}} in each line",
                      key));
  if (!object["endings"].is_array() || object["endings"].size() > kMostEndings)
    at.refuse(fmt::format("has no list of at most {} texts as 'endings'", kMostEndings));
  if (!object["label"].is_number_integer()) at.refuse("has no whole number as 'label'");
  TaskExample example;
  example.label = object["label"].is_number_unsigned() && object["label"].get<std::uint64_t>() > kMostEndings
                      ? static_cast<std::int64_t>(kMostEndings)
                      : object["label"].get<std::int64_t>();
  std::string context = text_of(object["context"], "'context'", at);
  const std::size_t end = context.find_last_not_of(kWhiteSpace) + 1;
  const std::string space = context.substr(end);
  context.resize(end);
  std::vector<std::int32_t> before = tokenizer.encode(context);
  check_length(before.size(), "in its context", limits, at);
  const bool empty = before.empty();
  if (empty && tokenizer.separator_id() < 0)
    at.refuse("has an empty context, and the tokenizer no token that ends a document");
  for (const nlohmann::json& value : object["endings"]) {
    const std::string text = text_of(value, "an ending", at);
    TaskEnding ending{tokenizer.encode(context + space + text), static_cast<std::int64_t>(before.size()),
                      std::max<std::int64_t>(characters(text), 1)};
    if (empty) {
      ending.tokens.insert(ending.tokens.begin(), tokenizer.separator_id());
      ending.first = 1;
    }
    check_length(ending.tokens.size(), fmt::format("with ending {}", example.endings.size()), limits, at);
    example.endings.push_back(std::move(ending));
  }
  check(example, limits, at);
  return example;
}

constexpr std::size_t kMostLine = 64 << 20;  // far above any example, and little to read before it is refused

std::vector<TaskExample> parse_lines(std::string_view content, const std::string& name, const Tokenizer* tokenizer,
                                     const TaskLimits& limits, std::int64_t most) {
  if (!tokenizer)
    throw Failure(Exit::data,
                  fmt::format("'{}' is text, but there is no tokenizer. Name the model's in data.tokenizer, "
                              "or use a file in llm.c's format",
                              name));
  if (!tokenizer->encodes())
    throw Failure(Exit::data, fmt::format("'{}' is text, but the tokenizer does not encode: {}. Use a file in llm.c's "
                                          "format",
                                          name, tokenizer->why_not_encodes()));
  std::vector<TaskExample> examples;
  for (std::int64_t number = 1; !content.empty() && (most == 0 || static_cast<std::int64_t>(examples.size()) < most);
       ++number) {
    const std::string_view start = content.substr(0, kMostLine + 1);
    const std::size_t end = std::min(start.find('\n'), start.size());
    if (end > kMostLine)
      throw Failure(Exit::data, fmt::format("'{}': line {} has more than {} bytes. Split it, or leave it out", name,
                                            number, kMostLine));
    const std::string_view line = content.substr(0, end);
    content.remove_prefix(std::min(end + 1, content.size()));
    if (line.find_first_not_of(kWhiteSpace) == std::string_view::npos) continue;
    examples.push_back(parse_line(line, *tokenizer, limits, {name, fmt::format("line {}", number)}));
  }
  if (examples.empty()) throw Failure(Exit::data, fmt::format("'{}': has no examples", name));
  return examples;
}

}  // namespace

std::vector<TaskExample> parse_task(std::string_view content, const std::string& name, const Tokenizer* tokenizer,
                                    const TaskLimits& limits, std::int64_t most) {
  if (name.ends_with(".jsonl")) return parse_lines(content, name, tokenizer, limits, most);
  std::int32_t magic = 0;
  if (content.size() >= kHeader) std::memcpy(&magic, content.data(), sizeof magic);
  if (magic != kMagic)
    throw Failure(Exit::data, fmt::format("'{}' is no task: it has neither the magic number {} of llm.c's format nor a "
                                          "name that ends in .jsonl",
                                          name, kMagic));
  return parse_binary(content, name, limits, most);
}

std::vector<TaskExample> read_task(const std::filesystem::path& path, const Tokenizer* tokenizer,
                                   const TaskLimits& limits, std::int64_t most) {
  const MappedFile file(path);
  const std::string_view content(reinterpret_cast<const char*>(file.bytes().data()), file.bytes().size());
  try {
    std::vector<TaskExample> examples = parse_task(content, path.string(), tokenizer, limits, most);
    file.check();
    return examples;
  } catch (const Failure&) {
    file.check();  // a truncated file must not be blamed on its content
    throw;
  }
}

}  // namespace llmc
