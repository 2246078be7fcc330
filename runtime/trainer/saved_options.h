// Command-line options of `trainer evaluate` and `trainer sample`.
#pragma once

#include <filesystem>
#include <functional>
#include <memory>
#include <optional>

#include "trainer/commands/saved_commands.h"

namespace CLI {
class App;
}

namespace llmc {

/// Adds `evaluate` and `sample` to a trainer's command line and parses their options. Must live as long as the app.
class SavedOptions {
 public:
  /// `gpu`: whether the trainer runs on a GPU.
  SavedOptions(CLI::App& app, bool gpu);
  ~SavedOptions();

  /// Return the command's options after parsing; nothing if it was not given. `default_base` returns the base folder of
  /// relative paths, and is called only if --base is not given. Throw Failure(usage) if options of a run accompany the
  /// command or several ranks are requested.
  std::optional<EvaluateCommand> evaluate(const std::function<std::filesystem::path()>& default_base) const;
  std::optional<SampleCommand> sample(const std::function<std::filesystem::path()>& default_base) const;

 private:
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace llmc
