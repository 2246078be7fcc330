#include "compiler/tools/checkpoints/listing.h"

#include <fmt/chrono.h>
#include <fmt/format.h>
#include <sys/stat.h>

#include <algorithm>
#include <fstream>
#include <map>

#include "checkpoint/best.h"
#include "compiler/tools/report/plan_report.h"
#include "error.h"
#include "files/atomic_directory.h"
#include "files/disk.h"
#include "run/folder_lock.h"
#include "run/json_lines.h"
#include "run/run_folder.h"
#include "spec/validation_sets.h"
#include "spec/values.h"

namespace llmc::checkpoints {

namespace fs = std::filesystem;

namespace {

/// Error context of pruning a run folder.
constexpr Writer kPruneWriter{Exit::checkpoint, "run folder", false};

void check_run(const fs::path& run) {
  const auto refuse = [&](const char* what) {
    throw Failure(Exit::checkpoint, fmt::format("'{}' {}. Give a run folder, such as runs/NAME", run.string(), what));
  };
  if (!disk::exists(run, Exit::checkpoint)) refuse("does not exist");
  if (!disk::is_folder(run, Exit::checkpoint)) refuse("is not a folder");
  if (RunFolder::holds_run(run) || disk::is_folder(checkpoints_directory(run), Exit::checkpoint)) return;
  refuse(has_manifest(run) ? "is a checkpoint" : "has no run in it");
}

/// Returns "val_loss", or "val_loss/NAME" if the leading set has a name. Falls back to "val_loss" if the spec cannot be
/// read.
std::string loss_key(const fs::path& run) try {
  const std::optional<std::string> text = RunFolder::spec_yaml(run);
  if (!text) return "val_loss";
  return "val_loss" + spec::metric_suffix(spec::leading_set(spec::read_values(*text, "spec.yaml").spec));
} catch (const std::exception&) {
  return "val_loss";
}

/// Returns validation losses by step; skips lines that no trainer writes.
std::map<std::int64_t, double> validation_losses(const fs::path& run) {
  std::map<std::int64_t, double> losses;
  const std::string key = loss_key(run);
  std::ifstream file = disk::open(run / "metrics.jsonl");
  LineReader lines(file);
  for (std::string line; lines.next(line);) {
    if (line.find("\"" + key + "\"") == std::string::npos) continue;  // most lines have none, and parsing is slow
    const nlohmann::json object = nlohmann::json::parse(line, nullptr, false);
    if (!object.is_object() || !object.contains("step") || !object.contains(key)) continue;
    if (object["step"].is_number_integer() && object[key].is_number())
      losses[object["step"].get<std::int64_t>()] = object[key].get<double>();
  }
  return losses;
}

std::string time_of(const fs::path& path) {
  struct stat status{};
  if (::stat(path.c_str(), &status) != 0) return "";
  return fmt::format("{:%Y-%m-%dT%H:%M:%SZ}", fmt::gmtime(status.st_mtime));
}

std::int64_t bytes_in(const fs::path& directory) {
  std::int64_t bytes = 0;
  std::error_code error;
  for (fs::directory_iterator it(directory, error), end; !error && it != end; it.increment(error)) {
    std::error_code ignored;
    if (it->is_regular_file(ignored)) bytes += static_cast<std::int64_t>(it->file_size(ignored));
  }
  return bytes;
}

}  // namespace

Listing list(const fs::path& run) {
  check_run(run);
  const std::map<std::int64_t, double> losses = validation_losses(run);
  Listing listing;
  for (const CheckpointEntry& entry : list_checkpoints(run)) {
    const std::optional<std::string> damage = find_checkpoint_damage(entry, Depth::sizes);
    if (damage && was_removed(entry.path)) continue;
    const std::string written = time_of(entry.path / "manifest.json");
    const auto loss = losses.find(entry.step);
    listing.checkpoints.push_back({.step = entry.step,
                                   .path = entry.path,
                                   .time = written.empty() ? time_of(entry.path) : written,
                                   .bytes = bytes_in(entry.path),
                                   .val_loss = loss == losses.end() ? std::nullopt : std::optional(loss->second),
                                   .damage = damage});
  }
  std::error_code error;
  for (fs::directory_iterator it(checkpoints_directory(run), error), end; !error && it != end; it.increment(error))
    if (it->path() != best_file(run) &&
        std::none_of(listing.checkpoints.begin(), listing.checkpoints.end(),
                     [&](const Listed& checkpoint) { return checkpoint.path == it->path(); }))
      listing.strangers.push_back(it->path().filename().string());
  std::sort(listing.strangers.begin(), listing.strangers.end());
  return listing;
}

std::optional<double> validation_loss(const fs::path& run, std::int64_t step) {
  const std::map<std::int64_t, double> losses = validation_losses(run);
  const auto loss = losses.find(step);
  return loss == losses.end() ? std::nullopt : std::optional(loss->second);
}

std::string listing_text(const Listing& listing) {
  if (listing.checkpoints.empty()) return "no checkpoints\n";
  std::string text = fmt::format("{:>10}  {:<20}  {:>10}  {:>8}\n", "step", "time", "size", "val loss");
  for (const Listed& checkpoint : listing.checkpoints)
    text += fmt::format("{:>10}  {:<20}  {:>10}  {:>8}  {}\n", checkpoint.step, checkpoint.time,
                        report::human_bytes(static_cast<double>(checkpoint.bytes)),
                        checkpoint.val_loss ? fmt::format("{:.4f}", *checkpoint.val_loss) : "-",
                        checkpoint.damage ? "damaged: " + *checkpoint.damage : "complete");
  return text;
}

nlohmann::ordered_json listing_json(const Listing& listing) {
  using Json = nlohmann::ordered_json;
  Json list = Json::array();
  for (const Listed& checkpoint : listing.checkpoints) {
    Json entry = {{"step", checkpoint.step},
                  {"path", checkpoint.path.string()},
                  {"time", checkpoint.time},
                  {"bytes", checkpoint.bytes},
                  {"complete", !checkpoint.damage}};
    if (checkpoint.val_loss) entry["val_loss"] = *checkpoint.val_loss;
    if (checkpoint.damage) entry["damage"] = *checkpoint.damage;
    list.push_back(std::move(entry));
  }
  return list;
}

Pruning choose(const fs::path& run, const Retention& retention) {
  const Listing listing = list(run);
  const std::optional<CheckpointEntry> newest = find_latest_checkpoint(run, {});
  Pruning pruning;
  std::int64_t last = 0;
  const std::optional<Best> best = read_best(run);
  for (auto it = listing.checkpoints.rbegin(); it != listing.checkpoints.rend(); ++it) {
    if (it->damage) {
      pruning.damaged.push_back(*it);
      continue;
    }
    // Without a sound checkpoint none is removed: sizes did not show the damage of the newest, so all may be damaged.
    const bool stays = !newest || it->step == newest->step || last < retention.keep_last ||
                       (retention.keep_every > 0 && it->step % retention.keep_every == 0) ||
                       (best && it->step == best->step);
    last += last < retention.keep_last;
    (stays ? pruning.kept : pruning.removed).push_back(*it);
  }
  for (std::vector<Listed>* part : {&pruning.removed, &pruning.kept, &pruning.damaged})
    std::reverse(part->begin(), part->end());
  return pruning;
}

Pruning prune(const fs::path& run, const Retention& retention, const Log& log) {
  check_run(run);
  if (!RunFolder::holds_run(run))
    throw Failure(Exit::checkpoint,
                  fmt::format("'{}' was not made by a trainer: it has no state/model. Remove checkpoints there by hand",
                              run.string()));
  const FolderLock lock(run, "stop it", log, kPruneWriter);
  Pruning pruning = choose(run, retention);
  for (const Listed& checkpoint : pruning.removed)
    remove_directory(checkpoints_directory(run), checkpoint.path.filename().string(), kPruneWriter);
  return pruning;
}

}  // namespace llmc::checkpoints
