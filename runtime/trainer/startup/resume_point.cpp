#include "trainer/startup/resume_point.h"

#include <fmt/format.h>

#include "checkpoint/nearby.h"
#include "error.h"
#include "files/disk.h"
#include "run/history.h"
#include "run/json_lines.h"
#include "run/run_folder.h"
#include "run/saved_mark.h"
#include "text/shell.h"
#include "trainer/startup/values.h"

namespace llmc {

namespace fs = std::filesystem;

namespace {

/// checkpoint.mirror of the spec that ran last in the folder, if it has checkpoints; else empty.
fs::path mirror_with_checkpoints(const fs::path& run) try {
  const std::optional<std::string> text = RunFolder::spec_yaml(run);
  if (!text) return {};
  const fs::path mirror =
      read_spec(*text, disk::absolute(run, Exit::checkpoint).lexically_normal()).spec.checkpoint.mirror;
  return mirror.empty() || list_checkpoints(mirror).empty() ? fs::path() : mirror;
} catch (const Failure&) {
  return {};
}

/// Throws if a folder without checkpoints belongs to a run that had already trained.
void refuse_anew(const fs::path& run) {
  const std::string anew = fmt::format("For a new run choose another --run, or rename or remove '{}'", run.string());
  const std::optional<std::int64_t> saved = saved_step(run);
  const std::string from = last_checkpoint(RunFolder::history(run));
  if (!saved && from.empty()) return;
  if (!saved && disk::weakly_canonical(run_of(from), Exit::checkpoint) != disk::weakly_canonical(run, Exit::checkpoint))
    throw Failure(
        Exit::checkpoint,
        fmt::format(
            "the run in '{}' began from '{}' and has not saved a checkpoint yet. To restart it use --resume {}. {}",
            run.string(), from, shell_word(from), anew));
  const std::optional<std::int64_t> metrics = last_step(run / "metrics.jsonl");
  const fs::path mirror = mirror_with_checkpoints(run);
  throw Failure(
      Exit::checkpoint,
      fmt::format(
          "'{}' has saved checkpoints, the last {}, but none is there now{}. Restore them to '{}'{}. {}", run.string(),
          saved ? fmt::format("of step {}", *saved) : fs::path(from).filename().string(),
          metrics ? fmt::format(" (metrics.jsonl ends at step {})", *metrics) : "", checkpoints_directory(run).string(),
          mirror.empty() ? "" : fmt::format(", or resume from the mirror by --resume {}", shell_word(mirror.string())),
          anew));
}

}  // namespace

std::optional<StartPoint> find_start(const fs::path& run, const std::string& resume, const Log& log, Depth depth) {
  const auto refuse = [](const std::string& what) { throw Failure(Exit::checkpoint, what); };
  const auto checkpoints = list_checkpoints(run);
  if (resume == "none") {
    if (!checkpoints.empty() || saved_step(run) || disk::has_content(run / "metrics.jsonl") ||
        disk::has_content(run / "samples.jsonl"))
      refuse(
          fmt::format("'{}' already has a run, which --resume none would overwrite. Choose another --run, or remove it",
                      run.string()));
    return std::nullopt;
  }
  if (resume == "auto") {
    if (checkpoints.empty()) {
      refuse_anew(run);
      return std::nullopt;
    }
    const auto latest = find_latest_checkpoint(run, log, depth);
    if (!latest)
      refuse(
          fmt::format("every checkpoint in '{}' is damaged. Resume from a copy of one by --resume, or for a new run "
                      "choose another --run",
                      checkpoints_directory(run).string()));
    return StartPoint{latest->path, depth == Depth::checksums ? Trust::verified : Trust::unverified};
  }
  if (disk::is_folder(checkpoints_directory(resume), Exit::checkpoint)) {
    const auto latest = find_latest_checkpoint(resume, log, depth);
    if (!latest) refuse(fmt::format("the run '{}' has no complete checkpoint. Give another --resume", resume));
    return find_start(run, latest->path.string(), log, depth);
  }
  if (!disk::is_folder(resume, Exit::checkpoint))
    refuse(fmt::format("there is no checkpoint '{}'{}. --resume takes auto, none, a run folder or a checkpoint", resume,
                       checkpoints_near(resume)));
  if (!disk::exists(fs::path(resume) / "state.json", Exit::checkpoint) && !has_manifest(resume))
    refuse(fmt::format(
        "'{}' is {}{}. --resume takes a run folder, or a checkpoint such as RUN/checkpoints/step-00000100", resume,
        disk::exists(fs::path(resume) / "config.json", Exit::checkpoint)
            ? "a Hugging Face model, without optimizer state and data position. To start a new run with its weights "
              "use init.from"
            : "neither a run folder nor a checkpoint that a trainer saved",
        checkpoints_near(fs::path(resume) / "step")));
  const std::int64_t step = read_train_state(resume).step;
  if (!checkpoints.empty() && checkpoints.back().step > step)
    refuse(
        fmt::format("'{}' is of step {}, but the run folder already has '{}'. Choose another --run, or remove the "
                    "newer checkpoints",
                    resume, step, checkpoints.back().path.string()));
  return StartPoint{resume, Trust::unverified};
}

}  // namespace llmc
