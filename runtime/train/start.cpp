#include "train/start.h"

#include <fmt/format.h>

#include <algorithm>
#include <fstream>
#include <stdexcept>

#include "error.h"
#include "executable.h"
#include "files/durable_file.h"
#include "train/options.h"

namespace llmc {

namespace fs = std::filesystem;

spec::Values built_values(const ProgramInfo& info, const fs::path& base) {
  try {
    spec::Values values = spec::read_values(info.spec_yaml, "spec.yaml");
    spec::resolve_paths(values.spec, base);
    return values;
  } catch (const std::invalid_argument& error) {
    throw Failure(Exit::internal, fmt::format("the spec in this trainer: {}", error.what()));
  }
}

spec::Values read_spec(const std::string& text, const fs::path& folder) {
  try {
    spec::Values values = spec::read_values(text, (folder / "spec.yaml").string());
    spec::resolve_paths(values.spec, folder);
    return values;
  } catch (const std::invalid_argument& error) {
    throw Failure(Exit::checkpoint, fmt::format("'{}' cannot be read: {}; write it as it was, or choose another --run",
                                                (folder / "spec.yaml").string(), error.what()));
  }
}

spec::Values go_on_with(const spec::Values& built, const spec::Values& before, bool whole) {
  spec::Values values = built;
  for (const spec::Key& key : spec::keys()) {
    if (key.stage != spec::Stage::run_time || (key.aside && !whole)) continue;
    key.set(values.spec, key.get(before.spec));
    values.derived.erase(key.path);
    if (before.derived.count(key.path) && key.path != "batch.tokens") values.derived.insert(key.path);
  }
  return values;
}

const std::vector<std::string>& guarded_keys() {
  static const std::vector<std::string> keys = {"data.train.path", "data.tokenizer", "data.seed", "seed",
                                                "optimizer.kind",  "schedule.steps"};
  return keys;
}

void check_resume(const TrainState& saved, const spec::Spec& before, const TrainState& ours, const spec::Spec& after,
                  const std::vector<std::string>& allowed, const fs::path& checkpoint) {
  const auto refuse = [&](const std::string& what, const std::string& theirs, const std::string& mine,
                          const std::string& remedy) {
    throw Failure(Exit::checkpoint, fmt::format("checkpoint '{}' was made with {} {}, this run has {}; {}",
                                                checkpoint.string(), what, theirs, mine, remedy));
  };
  if (saved.model_fingerprint != ours.model_fingerprint) {
    std::string keys;
    for (const spec::Change& change : spec::changes(before, after))
      if (spec::is_model(*change.key))
        keys += fmt::format("{}{} {} -> {}", keys.empty() ? "" : ", ", change.key->path, change.before, change.after);
    refuse("model", saved.model_fingerprint, ours.model_fingerprint + (keys.empty() ? "" : " (" + keys + ")"),
           "choose another --run");
  }
  // Of files, `theirs` and `mine` are checksums of what they hold.
  const auto guard = [&](const char* key, const std::string& theirs, const std::string& mine, const char* remedy) {
    if (theirs != mine && std::ranges::find(allowed, key) == allowed.end())
      refuse(key, theirs, mine, fmt::format("{}, or go on with --allow {}", remedy, key));
  };
  guard("data.train.path", saved.data_fingerprint, ours.data_fingerprint, "restore the token shards");
  if (!ours.tokenizer.empty() && !saved.tokenizer.empty())
    guard("data.tokenizer", saved.tokenizer, ours.tokenizer, "restore the tokenizer");
  guard("data.seed", std::to_string(saved.data_seed), std::to_string(ours.data_seed), "use the same");
  guard("seed", std::to_string(saved.seed), std::to_string(ours.seed), "use the same");
  guard("optimizer.kind", spec::text_of("optimizer.kind", before), spec::text_of("optimizer.kind", after),
        "use the same");
  if (after.schedule.steps < before.schedule.steps)
    guard("schedule.steps", std::to_string(before.schedule.steps), std::to_string(after.schedule.steps),
          "a shorter schedule is another one: stop earlier with --steps");
}

DataPosition position_after(const TrainState& saved, const TrainState& ours) {
  const bool same = saved.data_fingerprint == ours.data_fingerprint && saved.data_seed == ours.data_seed;
  return same ? saved.position : begin_epoch(saved.position);
}

bool shapes_tensors(const spec::Key& key) { return !key.aside; }

std::string file_checksum(const fs::path& path) {
  std::ifstream file(path, std::ios::binary);
  if (path.empty() || !file) return {};
  Checksum checksum;
  char block[1 << 16];
  while (file.read(block, sizeof block) || file.gcount() > 0)
    checksum.update(block, static_cast<std::size_t>(file.gcount()));
  return checksum.hex();
}

std::vector<std::string> edited_spec_files() {
  std::vector<std::string> edited;
  std::ifstream list(executable_folder() / kSpecFilesFile);
  for (std::string line; std::getline(list, line);) {
    const std::size_t blank = line.find(' ');
    if (blank == std::string::npos) continue;
    const std::string path = line.substr(blank + 1), now = file_checksum(path);
    if (!now.empty() && now != line.substr(0, blank)) edited.push_back(path);
  }
  return edited;
}

}  // namespace llmc
