// The command lines of `trainer evaluate` and `trainer sample`.
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

/// Adds both commands to a trainer's words. Lives as long as the app.
class SavedWords {
 public:
  /// `gpu`: whether the trainer is for one.
  SavedWords(CLI::App& app, bool gpu);
  ~SavedWords();

  /// After parsing, the command that was given. `default_base`: called where --base says nothing. Throws Failure(usage)
  /// where words of a run stand beside it, or several ranks are asked for.
  std::optional<EvaluateCommand> evaluate(const std::function<std::filesystem::path()>& default_base) const;
  std::optional<SampleCommand> sample(const std::function<std::filesystem::path()>& default_base) const;

 private:
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace llmc
