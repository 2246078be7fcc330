#include "program/compiled_spec.h"

#include <fmt/format.h>

#include <sstream>

#include "error.h"
#include "files/disk.h"
#include "files/durable_file.h"

namespace llmc {

namespace fs = std::filesystem;

namespace {

/// Spec files that `llmc compile` recorded next to a trainer.
struct Note {
  struct File {
    std::string checksum;
    fs::path path;
  };
  fs::path spec_folder, folder;
  std::vector<File> files;
};

Note read_note(const fs::path& folder) {
  Note note;
  std::string line;
  std::istringstream folders(disk::text(folder / kSpecDirectoryFile).value_or(""));
  if (std::getline(folders, line)) note.spec_folder = line;
  if (std::getline(folders, line)) note.folder = line;
  std::istringstream files(disk::text(folder / kSpecFilesFile).value_or(""));
  while (std::getline(files, line))
    if (const std::size_t blank = line.find(' '); blank != std::string::npos)
      note.files.push_back({line.substr(0, blank), line.substr(blank + 1)});
  return note;
}

/// Finds `file` in `folder` by its name, else by equal content, as after a rename. Empty if neither is found.
fs::path found_in(const fs::path& folder, const Note::File& file) {
  std::error_code error;
  const fs::path path = folder / file.path.filename();
  if (fs::exists(path, error)) return path;
  for (fs::directory_iterator entry(folder, error), end; !error && entry != end; entry.increment(error)) {
    const fs::path& other = entry->path();
    std::error_code unknown;
    if ((other.extension() == ".yaml" || other.extension() == ".yml") && entry->is_regular_file(unknown) &&
        file_checksum(other) == file.checksum)
      return other;
  }
  return {};
}

/// Maps `path` to its new location, assuming that it and the trainer's folder were moved together.
fs::path moved(const Note& note, const fs::path& path, const fs::path& folder) {
  return (folder / path.lexically_relative(note.folder)).lexically_normal();
}

}  // namespace

fs::path default_base(const fs::path& folder) {
  const Note note = read_note(folder);
  if (note.spec_folder.empty()) return disk::working_folder(Exit::usage);
  std::error_code missing;
  if (fs::equivalent(folder, note.folder, missing)) return note.spec_folder;
  const fs::path base = moved(note, note.spec_folder, folder);
  const bool there = note.files.empty() ? fs::exists(base, missing) : !found_in(base, note.files.front()).empty();
  if (there && !fs::equivalent(base, note.spec_folder, missing)) return base;
  throw Failure(
      Exit::usage,
      fmt::format("this trainer was compiled in '{0}' and is now in '{1}' without its spec. Give --base DIR, the "
                  "folder that its relative paths start from (for the spec that it was compiled from: --base '{2}')",
                  note.folder.string(), folder.string(), note.spec_folder.string()));
}

fs::path noted_spec(const fs::path& folder) {
  const Note note = read_note(folder);
  if (note.files.empty()) return {};
  const Note::File& spec = note.files.front();
  const fs::path here = moved(note, spec.path, folder);
  std::error_code missing;
  if (fs::exists(here, missing)) return here;
  if (fs::exists(spec.path, missing)) return spec.path;
  for (const fs::path& path : {here.parent_path(), spec.path.parent_path()})
    if (const fs::path renamed = found_in(path, spec); !renamed.empty()) return renamed;
  return spec.path;
}

fs::path spec_when_compiled(const fs::path& folder) {
  const Note note = read_note(folder);
  return note.files.empty() ? fs::path() : note.files.front().path;
}

std::vector<std::string> edited_spec_files(const fs::path& folder) {
  const Note note = read_note(folder);
  std::vector<std::string> edited;
  for (const Note::File& file : note.files) {
    const fs::path path = moved(note, file.path, folder);
    const std::string now = file_checksum(path);
    if (!now.empty() && now != file.checksum) edited.push_back(path.string());
  }
  return edited;
}

}  // namespace llmc
