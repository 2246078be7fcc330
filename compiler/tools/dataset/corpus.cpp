#include "compiler/tools/dataset/corpus.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cctype>
#include <nlohmann/json.hpp>
#include <optional>
#include <span>
#include <unordered_set>

#include "compiler/tools/dataset/text_reader.h"
#include "data/foreign_format.h"
#include "data/glob.h"
#include "error.h"
#include "files/disk.h"
#include "files/git_lfs.h"
#include "text/plural.h"
#include "text/utf8.h"

namespace llmc::data {
namespace fs = std::filesystem;

namespace {

constexpr std::array kExtensions = std::to_array<std::string_view>(
    {".txt", ".md",  ".rst",  ".tex",  ".jsonl", ".ndjson", ".jsonlines", ".py",  ".pyi", ".c",   ".h",
     ".cc",  ".cpp", ".cxx",  ".hpp",  ".hh",    ".cu",     ".cuh",       ".rs",  ".go",  ".js",  ".ts",
     ".jsx", ".tsx", ".java", ".kt",   ".scala", ".swift",  ".cs",        ".rb",  ".pl",  ".pm",  ".php",
     ".lua", ".r",   ".jl",   ".hs",   ".ml",    ".mli",    ".clj",       ".ex",  ".exs", ".erl", ".lisp",
     ".scm", ".el",  ".sh",   ".bash", ".cmake", ".sql",    ".zig",       ".f90", ".asm", ".s"});

std::string extension_of(const fs::path& name) {
  std::string extension = name.extension().string();
  for (char& c : extension) c = static_cast<char>(std::tolower(static_cast<unsigned char>(c)));
  return extension;
}

/// Extension without that of a compression: ".jsonl" of A.JSONL.GZ.
std::string text_extension(const fs::path& name) {
  return extension_of(compression_of(name) == Compression::none ? name : name.stem());
}

bool wanted(const std::string& name, const std::vector<std::string>& globs) {
  if (globs.empty()) return std::ranges::find(kExtensions, text_extension(name)) != kExtensions.end();
  return std::ranges::any_of(globs, [&](const std::string& glob) { return matches_pattern(glob, name); });
}

/// Returns the same path for every notation of one: "web/", "./web" and "/data/web".
fs::path same_place(const fs::path& path) { return (disk::absolute(path, Exit::data) / "").lexically_normal(); }

/// Sorts by the bytes of paths and removes duplicates in any notation. The first in order stays.
void sort_and_unite(std::vector<fs::path>& files) {
  for (fs::path& file : files) file = file.lexically_normal();
  std::ranges::sort(files, {}, [](const fs::path& path) -> const std::string& { return path.native(); });
  std::unordered_set<std::string> seen;
  std::erase_if(files, [&](const fs::path& file) { return !seen.insert(same_place(file).native()).second; });
}

void find_in_directory(const fs::path& folder, const std::vector<std::string>& globs, std::vector<fs::path>& others,
                       CorpusFiles& found) {
  std::error_code error;
  fs::path listed = folder;  // in case of an error
  for (fs::recursive_directory_iterator entry(folder, error), end; !error && entry != end; entry.increment(error)) {
    const std::string name = entry->path().filename().string();
    listed = entry->path();
    if (name.front() == '.') {
      entry.disable_recursion_pending();
    } else if (std::error_code ignored; !entry->is_regular_file(ignored)) {
      if (entry->is_symlink(ignored) && entry->is_directory(ignored)) found.linked_directories.push_back(entry->path());
    } else if (wanted(name, globs)) {
      found.files.push_back(entry->path());
    } else {
      others.push_back(entry->path());
    }
  }
  std::error_code ignored;
  const bool listed_is_folder = fs::is_directory(listed, ignored);
  if (error)
    throw Failure(Exit::data,
                  fmt::format("cannot list '{}': {}. Allow reading it, or name with --from only what is to "
                              "be read",
                              (listed_is_folder ? listed : listed.parent_path()).string(), error.message()));
}

/// Keeps the string under one key of the outermost object and refuses everything that makes it ambiguous.
class TextField : public nlohmann::json_sax<nlohmann::json> {
 public:
  explicit TextField(const std::string& name) : name_(name) {}

  std::optional<std::string> text;
  std::string problem;

  /// Returns the error message of an object without that text.
  std::string missing() const {
    return fmt::format("has no '{}' field{}", name_,
                       first_.empty() ? "" : fmt::format(" (but '{}'; --text-field names another)", first_));
  }

  bool null() override { return scalar(); }
  bool boolean(bool) override { return scalar(); }
  bool number_integer(number_integer_t) override { return scalar(); }
  bool number_unsigned(number_unsigned_t) override { return scalar(); }
  bool number_float(number_float_t, const string_t&) override { return scalar(); }
  bool binary(binary_t&) override { return scalar(); }
  bool string(string_t& value) override {
    if (!at_text_) return scalar();
    if (text) return fail(fmt::format("has two '{}' fields", name_));
    at_text_ = false;
    text = std::move(value);
    return true;
  }
  bool start_object(std::size_t) override { return open(); }
  bool end_object() override { return --depth_, true; }
  bool start_array(std::size_t) override { return depth_ == 0 ? fail("is an array instead of an object") : open(); }
  bool end_array() override { return --depth_, true; }
  bool key(string_t& name) override {
    if (depth_ == 1 && first_.empty()) first_ = name;
    at_text_ = depth_ == 1 && name == name_;
    return true;
  }
  bool parse_error(std::size_t position, const std::string&, const nlohmann::detail::exception&) override {
    return fail(fmt::format("is not JSON at byte {}", position));
  }

 private:
  bool fail(std::string what) {
    problem = std::move(what);
    return false;
  }
  bool scalar() {
    if (depth_ == 0) return fail("is a single value instead of an object");
    return at_text_ ? no_string() : true;
  }
  bool open() {
    if (at_text_) return no_string();
    ++depth_;
    return true;
  }
  bool no_string() { return fail(fmt::format("has a '{}' that is not a string", name_)); }

  std::string name_;
  std::string first_;  // key of the outermost object
  std::int64_t depth_ = 0;
  bool at_text_ = false;
};

/// Replaces NaN, Infinity and -Infinity by null: Python's json writes them, and JSON does not have them.
std::string without_pythons_numbers(std::string_view line) {
  std::string result;
  bool quoted = false;
  while (!line.empty()) {
    std::size_t taken = 1;
    if (quoted && line.front() == '\\')
      taken = std::min<std::size_t>(line.size(), 2);
    else if (line.front() == '"')
      quoted = !quoted;
    else if (!quoted)
      for (const std::string_view word : {"NaN", "Infinity", "-Infinity"})
        if (line.starts_with(word)) taken = word.size();
    result += taken > 2 ? "null" : line.substr(0, taken);
    line.remove_prefix(taken);
  }
  return result;
}

constexpr const char* kBlank = " \t\r\n";

bool is_lfs_file(const fs::path& path) {
  std::error_code ignored;
  return fs::file_size(path, ignored) < kMaxLfsPointerBytes && is_lfs_pointer(disk::text(path).value_or(""));
}

/// Throws for data of another format, which would be lost: a name that does not tell the compression, or Parquet.
/// `start`: of the file's text. Of ZIP archives and HDF5 files only those read as `lines` are refused, because --glob
/// may find others.
void check_format(const fs::path& path, std::string_view start, bool lines) {
  struct Format {
    Foreign kind;
    std::string_view name, extension, unpack;
  };
  static constexpr Format kFormats[] = {
      {Foreign::gzip, "a gzip file", ".gz", "zcat FILE"},
      {Foreign::zstd, "a Zstandard file", ".zst", "zstdcat FILE"},
      {Foreign::xz, "an xz file", "", "xzcat FILE"},
      {Foreign::zip, "a ZIP archive", "", "unzip -p FILE"},
      {Foreign::parquet, "a Parquet file", "", "tokens/parquet_lines.py FILE"},
      {Foreign::arrow, "an Arrow file", "", ""},
      {Foreign::hdf5, "an HDF5 file", "", ""},
  };
  const auto* format = std::ranges::find(kFormats, foreign_kind(std::as_bytes(std::span(start))), &Format::kind);
  if (format == std::end(kFormats)) return;
  if (!lines && (format->kind == Foreign::zip || format->kind == Foreign::hdf5)) return;
  const std::string_view head = start.substr(0, 16);  // "PAR1" and "ARROW1" begin texts too
  const auto control = [](char c) {
    return static_cast<unsigned char>(c) < ' ' && c != '\t' && c != '\n' && c != '\r';
  };
  if (is_utf8(head.substr(0, head.size() - utf8_unfinished(head))) && std::ranges::none_of(head, control)) return;
  const bool input = path.filename() == kStandardInputCopy;
  const std::string name = input ? "standard input" : fmt::format("'{}'", path.string());
  std::string unpack = "unpack it";
  if (format->unpack.empty())
    unpack = "write its texts as JSON lines";
  else if (lines || format->kind == Foreign::parquet)
    unpack = fmt::format("use `{} | llmc data build --from -`", format->unpack);
  if (!input && !format->extension.empty() && compression_of(path) == Compression::none)
    unpack = fmt::format("rename it to end in {}, or {}", format->extension, unpack);
  throw Failure(Exit::data, fmt::format("{} is {} instead of text: {}", name, format->name, unpack));
}

/// Returns why this is not text, and at which byte; empty if it is text.
std::string no_text(std::string_view text) {
  if (is_lfs_pointer(text)) return kIsLfsPointer;
  if (text.starts_with("\xff\xfe") || text.starts_with("\xfe\xff")) return "UTF-16: save it as UTF-8";
  if (const std::size_t at = text.find('\0'); at != std::string_view::npos)
    return fmt::format("binary: byte {} is 0", at);
  if (is_utf8(text)) return "";
  std::size_t good = 0;
  while (const std::size_t length = utf8_length(text.substr(good))) good += length;
  return fmt::format("not UTF-8: byte {} is {:#04x}", good, static_cast<unsigned char>(text[good]));
}

/// Returns the first line that is not blank, and what follows it.
std::pair<std::string_view, std::string_view> first_line(std::string_view text) {
  text.remove_prefix(std::min(text.size(), text.find_first_not_of(kBlank)));
  const std::size_t end = std::min(text.size(), text.find('\n'));
  return {text.substr(0, end), text.substr(end)};
}

bool has_text(std::string_view line, const std::string& field) {
  if (!line.starts_with('{')) return false;
  try {
    text_of_json(line, field);
    return true;
  } catch (const Failure&) {
    return false;
  }
}

/// Returns why a file is not one document of text: its records are, as .jsonl. Empty if it has none. Other text than
/// .json may start as JSON does, so `json` decides how much is taken for evidence.
std::string records_of_json(std::string_view text, const std::string& field, bool json) {
  const std::size_t first = text.find_first_not_of(kBlank);
  if (first == std::string_view::npos) return "";
  if (text[first] == '[') {
    const std::size_t second = text.find_first_not_of(kBlank, first + 1);
    return second != std::string_view::npos && text[second] == '{' && (json || nlohmann::json::accept(text))
               ? "a JSON array of objects: write one object a line, as .jsonl"
               : "";
  }
  const auto [line, rest] = first_line(text);
  const std::string_view second = first_line(rest).first;
  if (!has_text(line, field) || (!json && !second.empty() && !has_text(second, field))) return "";
  return fmt::format("JSON objects with '{}': name the file .jsonl, with one object a line", field);
}

/// Whether each line of the file is a document. Files of Julia and JSON lines have the extension .jl in common.
bool has_json_lines(const fs::path& path, const std::string& extension) {
  if (extension == ".jsonl" || extension == ".ndjson" || extension == ".jsonlines") return true;
  if (path.filename() == kStandardInputCopy) return true;
  if (extension != ".jl" || is_lfs_file(path)) return false;
  std::string line;
  for (TextReader reader = open_text(path); reader.line(line) && line.find_first_not_of(kBlank) == std::string::npos;) {
  }
  const std::string_view first = first_line(line).first;
  return first.starts_with('{') && nlohmann::json::accept(first);
}

}  // namespace

std::string passed_over_text(const ExtensionCounts& passed_over) {
  constexpr std::size_t kShown = 8;
  std::vector<std::pair<std::int64_t, std::string>> kinds;
  std::int64_t files = 0;
  for (const auto& [extension, count] : passed_over) {
    kinds.emplace_back(-count, extension.empty() ? "no extension" : extension);
    files += count;
  }
  std::ranges::sort(kinds);
  std::string list;
  for (std::size_t i = 0; i < std::min(kShown, kinds.size()); ++i)
    list += fmt::format("{}{} {}", i ? ", " : "", kinds[i].second, -kinds[i].first);
  if (kinds.size() > kShown) list += fmt::format(" and {} more", kinds.size() - kShown);
  return fmt::format("{} file{} excluded by {} ({})", files, plural(files), files == 1 ? "its name" : "their names",
                     list);
}

std::string linked_text(const std::vector<fs::path>& directories) {
  return fmt::format("{} not entered, as links may be loops or copies ('{}'{}). Name with --from what is to be read",
                     directories.size() == 1 ? "a linked directory was"
                                             : fmt::format("{} linked directories were", directories.size()),
                     directories.front().string(), directories.size() == 1 ? "" : ", ...");
}

CorpusFiles find_corpus_files(const std::vector<fs::path>& from, const std::vector<std::string>& globs) {
  CorpusFiles found;
  std::vector<fs::path>& files = found.files;
  std::vector<fs::path> others;
  for (const fs::path& path : from) {
    std::error_code error;
    const fs::file_status status = fs::status(path, error);
    if (fs::is_directory(status)) {
      find_in_directory(path, globs, others, found);
    } else if (fs::is_regular_file(status)) {
      files.push_back(path);
    } else {
      throw Failure(Exit::data,
                    disk::exists(path, Exit::data)
                        ? fmt::format("'{}' is neither a file nor a directory", path.string())
                        : fmt::format("'{}' does not exist. Give files or directories of text", path.string()));
    }
  }
  sort_and_unite(files);
  sort_and_unite(others);
  sort_and_unite(found.linked_directories);
  std::unordered_set<std::string> places;
  for (const fs::path& path : from) places.insert(same_place(path).native());
  const auto named = [&](const fs::path& path) { return places.contains(same_place(path).native()); };
  std::erase_if(found.linked_directories, named);
  for (const fs::path& other : others)  // a file that is also named itself is read
    if (!named(other)) ++found.passed_over[extension_of(other)];
  if (files.empty() && found.passed_over.empty() && !found.linked_directories.empty())
    throw Failure(Exit::data, fmt::format("there is no file to read: {}", linked_text(found.linked_directories)));
  if (files.empty())
    throw Failure(Exit::data,
                  found.passed_over.empty()
                      ? "there is no file to read, or only hidden ones"
                      : fmt::format("there is no file to read: {}. If they are text, include them with --glob, such as "
                                    "'*.log' or 'README*'; otherwise unpack or convert them",
                                    passed_over_text(found.passed_over)));
  return found;
}

std::string corpus_name(const fs::path& path) {
  return path.filename() == kStandardInputCopy ? "standard input" : path.string();
}

std::string text_of_json(std::string_view line, const std::string& field) {
  TextField found(field);
  bool parsed = nlohmann::json::sax_parse(line.begin(), line.end(), &found);
  if (!parsed && line.find_first_of("NI") != std::string_view::npos)
    if (const std::string other = without_pythons_numbers(line); other != line) {
      found = TextField(field);
      parsed = nlohmann::json::sax_parse(other, &found);
    }
  if (!parsed || !found.text) throw Failure(Exit::data, parsed ? found.missing() : found.problem);
  return std::move(*found.text);
}

CorpusCounts for_each_document(const std::vector<fs::path>& files, const std::string& field,
                               const std::function<void(std::string text)>& visit) {
  CorpusCounts counts;
  const auto skip = [&](std::int64_t& count, std::string where, std::string why) {
    ++count;
    if (counts.skipped.size() < kMostSkipped) counts.skipped.push_back({std::move(where), std::move(why)});
  };
  const auto hand_out = [&](std::string text) {
    if (text.empty()) return;
    ++counts.documents;
    counts.bytes += static_cast<std::int64_t>(text.size());
    visit(std::move(text));
  };
  for (const fs::path& path : files) {
    ++counts.files;
    const std::string extension = text_extension(path), name = corpus_name(path);
    const bool lines = has_json_lines(path, extension);
    if ((lines || compression_of(path) != Compression::none) && is_lfs_file(path)) {
      skip(counts.skipped_files, name, kIsLfsPointer);
      continue;
    }
    TextReader reader = open_text(path);
    check_format(path, reader.peek(), lines);
    if (lines) {
      std::int64_t number = 0;
      for (std::string line; reader.line(line);) {
        ++number;
        if (line.find_first_not_of(" \t\r") == std::string::npos) continue;
        std::string text;
        try {
          text = text_of_json(line, field);
        } catch (const Failure& failure) {
          skip(counts.skipped_lines, fmt::format("{}:{}", name, number), failure.what());
        }
        hand_out(std::move(text));
      }
    } else {
      std::string text = reader.rest();
      std::string why = no_text(text);
      if (why.empty()) why = records_of_json(text, field, extension == ".json");
      if (!why.empty())
        skip(counts.skipped_files, name, why);
      else
        hand_out(std::move(text));
    }
  }
  return counts;
}

}  // namespace llmc::data
