// Finds and reads the documents of a corpus: text files, source code, and .jsonl files with a text field; each may be
// compressed as .gz or .zst.
#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>
#include <map>
#include <string>
#include <string_view>
#include <vector>

namespace llmc::data {

/// Number of files by extension; "" stands for none.
using ExtensionCounts = std::map<std::string, std::int64_t>;

/// Prints "12 files passed over for their names (.parquet 10, .gz 2)": the most frequent extensions first, at most
/// eight.
std::string passed_over_text(const ExtensionCounts& passed_over);

/// Returns a sentence on links to directories, of which there is at least one.
std::string linked_text(const std::vector<std::filesystem::path>& directories);

struct CorpusFiles {
  std::vector<std::filesystem::path> files;               // sorted by the bytes of their paths, without duplicates
  ExtensionCounts passed_over;                            // in the directories, because of their names
  std::vector<std::filesystem::path> linked_directories;  // sorted; not entered, because they may be loops or copies
};

/// Finds the files to read. A file in `from` is always read. A directory is searched recursively, without hidden
/// entries; links to directories are listed. Names must match one of `globs`; without globs, .txt, .md, .rst, .jsonl or
/// an extension of source code, in any case, which .gz or .zst may follow. Throws Failure(Exit::data) if a path is
/// missing or no file is found.
CorpusFiles find_corpus_files(const std::vector<std::filesystem::path>& from, const std::vector<std::string>& globs);

/// Name of the file that holds standard input while a data set is built. Each of its lines is a document, as of .jsonl.
inline constexpr char kStandardInputCopy[] = ".standard-input";

/// Name of a file in messages.
std::string corpus_name(const std::filesystem::path& path);

/// A file that is not text, or a line ("a.jsonl:7") that is not a document, and the reason.
struct Skipped {
  std::string where, why;
};
constexpr std::size_t kMostSkipped = 1000;  // that are stored; all are counted

struct CorpusCounts {
  std::int64_t files = 0, skipped_files = 0;  // skipped: binary (a NUL byte), not UTF-8, or a Git LFS pointer
  std::int64_t skipped_lines = 0;             // of .jsonl files
  std::vector<Skipped> skipped;               // the first kMostSkipped
  std::int64_t documents = 0, bytes = 0;      // of text
  std::int64_t duplicates = 0;                // that --deduplicate left out
};

/// Calls `visit` with every document in order: a text file, or a line of a .jsonl file (.ndjson, .jsonlines; .jl if it
/// starts with a JSON object). A file of other names that holds JSON records is skipped. Empty documents are passed
/// over. A line that is not a JSON object with one string under `field` is skipped. Holds one document at a time in
/// memory. Throws Failure(Exit::data) naming a file that cannot be read, that is compressed or Parquet against its
/// name, or whose compressed data are damaged or truncated.
CorpusCounts for_each_document(const std::vector<std::filesystem::path>& files, const std::string& field,
                               const std::function<void(std::string text)>& visit);

/// Returns the string under `field` of one line of JSON. Throws Failure(Exit::data) with the reason if there is none.
std::string text_of_json(std::string_view line, const std::string& field);

}  // namespace llmc::data
