#include "trainer/startup/saved_model.h"

#include <fmt/format.h>

#include <utility>

#include "checkpoint/manifest.h"
#include "error.h"
#include "files/disk.h"
#include "spec/huggingface/families.h"
#include "spec/model_config.h"
#include "spec/values.h"
#include "text/shell.h"
#include "trainer/startup/values.h"
#include "trainer/startup/weights.h"

namespace llmc {

namespace fs = std::filesystem;

namespace {

[[noreturn]] void refuse(const std::string& what) { throw Failure(Exit::checkpoint, what); }

spec::ModelConfig config_of(const fs::path& config) try {
  return spec::read_model_config(read_small_file(config), config.string());
} catch (const Failure& failure) {
  if (failure.code() == Exit::spec) refuse(failure.what());
  throw;
}

/// `newest`: is set to the checkpoint that stands for a run folder.
SavedModel find(const fs::path& folder, const Log& log, fs::path& newest) {
  if (!disk::is_folder(folder, Exit::checkpoint))
    refuse(fmt::format("there is no folder '{}'. Name a checkpoint, a run folder, or a Hugging Face model's folder",
                       folder.string()));
  if (disk::is_folder(checkpoints_directory(folder), Exit::checkpoint)) {
    const auto latest = find_latest_checkpoint(folder, log);
    if (!latest) refuse(fmt::format("the run '{}' has no complete checkpoint", folder.string()));
    newest = latest->path;
    return {newest, folder, read_train_state(newest)};
  }
  if (disk::exists(folder / "state.json", Exit::checkpoint)) return {folder, run_of(folder), read_train_state(folder)};
  if (!disk::exists(folder / "config.json", Exit::checkpoint))
    refuse(fmt::format("'{}' is neither a checkpoint nor a run folder, and has no config.json of a Hugging Face model",
                       folder.string()));
  check_has_safetensors(folder);
  return {folder, {}, {}};
}

/// Sets the form of weights by the model's config.json.
void check_model(SavedModel& saved, const spec::Spec& spec) {
  spec::Spec ours = spec, theirs = spec;
  if (saved.state) {
    theirs.model = read_spec(read_checkpoint_spec(saved.folder), saved.folder).spec.model;
  } else {
    spec::ModelConfig config = config_of(saved.folder / "config.json");
    theirs.model = spec::as_read_back(config.model);
    ours.model = spec::as_read_back(spec.model);
    saved.form = std::move(config.weights);
  }
  const std::string keys = spec::model_changes(theirs, ours);
  if (keys.empty()) return;
  refuse(fmt::format("'{}' has another model than this trainer: {}. {}", saved.folder.string(), keys,
                     saved.state ? fmt::format("To compile a trainer of its model use `llmc compile {}`",
                                               shell_word((saved.folder / "spec.yaml").string()))
                                 : fmt::format("To write a spec of its model use `llmc init --from {}`",
                                               shell_word(saved.folder.string()))));
}

}  // namespace

void use_weights(const fs::path& folder, const spec::Spec& spec, const Log& log,
                 const std::function<void(const SavedModel&)>& use) {
  constexpr int kMostTries = 10;
  for (int tries = 1;; ++tries) {
    fs::path newest;
    try {
      SavedModel saved = find(folder, log, newest);
      check_model(saved, spec);
      return use(saved);
    } catch (const Failure&) {
      if (newest.empty() || !was_removed(newest) || tries == kMostTries) throw;
    }
  }
}

SavedModel find_weights(const fs::path& folder, const spec::Spec& spec, const Log& log) {
  SavedModel found;
  use_weights(folder, spec, log, [&](const SavedModel& saved) { found = saved; });
  return found;
}

}  // namespace llmc
