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

/// Adds both commands to a trainer's command line. Must live as long as the app.
class SavedWords {
 public:
  /// `gpu`: whether the trainer runs on a GPU.
  SavedWords(CLI::App& app, bool gpu);
  ~SavedWords();

  /// Return the options of the command if it was given, after parsing. `default_base`: called without --base. Throw
  /// Failure(usage) if options of a run accompany it or several ranks are requested.
  std::optional<EvaluateCommand> evaluate(const std::function<std::filesystem::path()>& default_base) const;
  std::optional<SampleCommand> sample(const std::function<std::filesystem::path()>& default_base) const;

 private:
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace llmc
