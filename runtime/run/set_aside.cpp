#include "run/set_aside.h"

#include <sys/stat.h>

#include <cerrno>
#include <cstdio>
#include <string>
#include <vector>

#include "files/disk.h"
#include "files/durable_file.h"

namespace llmc {

namespace fs = std::filesystem;

fs::path new_aside_folder(const fs::path& run) {
  for (int number = 1;; ++number) {
    const fs::path folder = run / ("set-aside-" + std::to_string(number));
    if (::mkdir(folder.c_str(), 0777) == 0) return folder;
    if (errno != EEXIST) throw_errno("create", folder);
  }
}

void set_logs_aside(const fs::path& run, const Log& log) {
  if (!disk::has_content(run / "metrics.jsonl") && !disk::has_content(run / "samples.jsonl")) return;
  const fs::path folder = new_aside_folder(run);
  // The logs checked above are moved last, so that the next start finishes an interrupted move.
  for (const char* name : {"tensorboard", "samples.jsonl", "metrics.jsonl"})
    if (::rename((run / name).c_str(), (folder / name).c_str()) != 0 && errno != ENOENT)
      throw_errno("rename", run / name);
  sync_directory(folder);
  sync_directory(run);
  if (log)
    log("the run starts from step 0, because its last start saved no checkpoint. The metrics and samples of that start "
        "are in '" +
        folder.string() + "'");
}

}  // namespace llmc
