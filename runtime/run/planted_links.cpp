#include "run/planted_links.h"

#include <string>
#include <string_view>

#include "checkpoint/retention.h"

namespace llmc {

namespace fs = std::filesystem;

namespace {

/// Checks every entry whose name starts with `prefix`. A missing folder has none.
void refuse_in(const fs::path& folder, std::string_view prefix, const Writer& writer) {
  std::error_code error;
  for (fs::directory_iterator at(folder, error), end; !error && at != end; at.increment(error))
    if (at->path().filename().string().starts_with(prefix)) refuse_link(at->path(), writer);
}

}  // namespace

void refuse_planted_links(const fs::path& folder, const Writer& writer) {
  for (const char* name : {"spec.yaml", "plan.json", "history.jsonl", "metrics.jsonl", "samples.jsonl", "state",
                           "checkpoints", "tensorboard", "ranks"})
    refuse_link(folder / name, writer);
  refuse_in(folder, ".", writer);  // temporary files
  for (const char* name : {"state", "tensorboard", "ranks"}) refuse_in(folder / name, "", writer);
  const fs::path checkpoints = checkpoints_directory(folder);
  refuse_link(checkpoints / "best.json", writer);
  refuse_in(checkpoints, kCheckpointPrefix, writer);
}

}  // namespace llmc
