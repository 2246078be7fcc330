// The documents of a corpus: text files, source code, and .jsonl files with a field of text.
#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>
#include <map>
#include <string>
#include <string_view>
#include <vector>

namespace llmc::data {

/// How many files have an extension, by extension; "" stands for none.
using ExtensionCounts = std::map<std::string, std::int64_t>;

/// "12 files passed over for their names (.parquet 10, .gz 2)": the most frequent extensions first, at most eight.
std::string passed_over_text(const ExtensionCounts& passed_over);

struct CorpusFiles {
  std::vector<std::filesystem::path> files;  // sorted by the bytes of their paths, each once
  ExtensionCounts passed_over;               // in the directories, for their names
};

/// The files to read. A file in `from` is taken as it is; a directory is searched recursively (hidden entries and links
/// to directories are not followed) for names that match one of `globs`, or, without globs, for .txt, .md, .rst, .jsonl
/// and the extensions of source code, in either case.
/// Throws Failure(Exit::data) when a path is missing or no file is found.
CorpusFiles find_corpus_files(const std::vector<std::filesystem::path>& from, const std::vector<std::string>& globs);

/// A file that is no text, or a line ("a.jsonl:7") that is no document, and how that shows.
struct Skipped {
  std::string where, why;
};
constexpr std::size_t kMostSkipped = 1000;  // that are remembered; all are counted

struct CorpusCounts {
  std::int64_t files = 0, skipped_files = 0;  // skipped: binary (a NUL byte), not UTF-8, or a Git LFS pointer
  std::int64_t skipped_lines = 0;             // of .jsonl files
  std::vector<Skipped> skipped;               // the first kMostSkipped
  std::int64_t documents = 0, bytes = 0;      // of text
};

/// Calls `visit` with every document in order: a text file is one, a line of a .jsonl file is one; empty ones are
/// passed over. A line that is no JSON object with one string under `field` is skipped. One document at a time is in
/// memory. Throws Failure(Exit::data) naming the file that cannot be read.
CorpusCounts for_each_document(const std::vector<std::filesystem::path>& files, const std::string& field,
                               const std::function<void(std::string text)>& visit);

/// The string under `field` of one line of JSON; throws Failure(Exit::data) that says why there is none.
std::string text_of_json(std::string_view line, const std::string& field);

}  // namespace llmc::data
