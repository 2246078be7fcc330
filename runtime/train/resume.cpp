#include "train/resume.h"

#include <fmt/format.h>

#include "error.h"
#include "files/disk.h"

namespace llmc {

namespace fs = std::filesystem;

namespace {

bool has_content(const fs::path& file) {
  std::error_code error;
  const auto bytes = fs::file_size(file, error);
  return !error && bytes > 0;
}

}  // namespace

std::optional<StartPoint> find_start(const fs::path& run, const std::string& resume, const Log& log, Depth depth) {
  const auto refuse = [](const std::string& what) { throw Failure(Exit::checkpoint, what); };
  const auto checkpoints = list_checkpoints(run);
  if (resume == "none") {
    if (!checkpoints.empty() || has_content(run / "metrics.jsonl") || has_content(run / "samples.jsonl"))
      refuse(fmt::format(
          "'{}' holds a run already, which --resume none would overwrite; choose another --run, or remove it",
          run.string()));
    return std::nullopt;
  }
  if (resume == "auto") {
    if (checkpoints.empty()) return std::nullopt;
    const auto latest = find_latest_checkpoint(run, log, depth);
    if (!latest)
      refuse(fmt::format("every checkpoint in '{}' is damaged; choose another --run, or remove them to start anew",
                         checkpoints_directory(run).string()));
    return StartPoint{latest->path, depth == Depth::checksums ? Trust::verified : Trust::unverified};
  }
  if (disk::is_folder(checkpoints_directory(resume), Exit::checkpoint)) {
    const auto latest = find_latest_checkpoint(resume, log, depth);
    if (!latest) refuse(fmt::format("the run '{}' has no checkpoint that is whole; give another --resume", resume));
    return find_start(run, latest->path.string(), log, depth);
  }
  if (!disk::is_folder(resume, Exit::checkpoint))
    refuse(
        fmt::format("there is no checkpoint '{}'; --resume takes auto, none, a run folder or a checkpoint such as "
                    "{}/checkpoints/step-00000100",
                    resume, run.string()));
  if (!disk::exists(fs::path(resume) / "state.json", Exit::checkpoint) && !has_manifest(resume))
    refuse(fmt::format("'{}' is {}; --resume takes a run folder, or a checkpoint such as {}/checkpoints/step-00000100",
                       resume,
                       disk::exists(fs::path(resume) / "config.json", Exit::checkpoint)
                           ? "a Hugging Face model, without optimizer state and place in the "
                             "data; a new run begins with its weights by "
                             "init.from"
                           : "neither a run folder nor a checkpoint that a trainer saved",
                       run.string()));
  const std::int64_t step = read_train_state(resume).step;
  if (!checkpoints.empty() && checkpoints.back().step > step)
    refuse(
        fmt::format("'{}' is of step {}, and the run folder has '{}' already; choose another --run, or remove the "
                    "newer checkpoints",
                    resume, step, checkpoints.back().path.string()));
  return StartPoint{resume, Trust::unverified};
}

}  // namespace llmc
