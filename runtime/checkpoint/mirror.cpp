#include "checkpoint/mirror.h"

#include <algorithm>
#include <fstream>
#include <vector>

#include "checkpoint/retention.h"
#include "error.h"
#include "files/atomic_directory.h"
#include "files/disk.h"

namespace llmc {

namespace fs = std::filesystem;

namespace {

constexpr std::size_t kBlock = std::size_t{1} << 20;

FileRecord copied(const fs::path& from, const fs::path& to) {
  std::ifstream in(from, std::ios::binary);
  if (!in) throw Failure(Exit::checkpoint, "cannot open '" + from.string() + "'");
  DurableFile out(to, kMirrorWriter);
  std::vector<char> block(kBlock);
  while (in) {
    in.read(block.data(), static_cast<std::streamsize>(block.size()));
    out.write(block.data(), static_cast<std::size_t>(in.gcount()));
  }
  if (in.bad()) throw Failure(Exit::checkpoint, "cannot read '" + from.string() + "'");
  return out.finish();
}

bool lies_in(const fs::path& inner, const fs::path& outer) {
  return std::mismatch(outer.begin(), outer.end(), inner.begin(), inner.end()).first == outer.end();
}

}  // namespace

void mirror_checkpoint(const fs::path& checkpoint, std::int64_t step, const fs::path& mirror,
                       const Retention& retention, const Log& log) {
  const fs::path parent = checkpoints_directory(mirror);
  make_directories(parent, kMirrorWriter);
  remove_stale_directories(parent, kCheckpointPrefix);
  AtomicDirectory directory(parent, checkpoint_name(step), kMirrorWriter);
  std::vector<FileRecord> files;
  for (const FileRecord& file : read_manifest(checkpoint)) {
    files.push_back(copied(checkpoint / file.name, directory.path() / file.name));
    if (files.back().bytes != file.bytes || files.back().xxh3 != file.xxh3)
      throw Failure(Exit::checkpoint, "'" + (checkpoint / file.name).string() + "' was damaged before it was copied");
  }
  write_manifest(directory.path(), files, kMirrorWriter);
  directory.commit();
  apply_retention(mirror, step, retention, log);
}

void check_mirror(const fs::path& mirror, const fs::path& run) {
  const fs::path second = disk::weakly_canonical(mirror, Exit::checkpoint),
                 first = disk::weakly_canonical(run, Exit::checkpoint);
  if (lies_in(second, first) || lies_in(first, second))
    throw Failure(Exit::checkpoint, "checkpoint.mirror '" + mirror.string() + "' and the run folder '" + run.string() +
                                        "' are one inside the other. Choose a mirror on another disk");
  make_directories(checkpoints_directory(mirror), kMirrorWriter);
  const AtomicDirectory probe(checkpoints_directory(mirror), std::string(kCheckpointPrefix) + "probe", kMirrorWriter);
  write_small_file(probe.path(), "probe", "x", kMirrorWriter);
}

}  // namespace llmc
