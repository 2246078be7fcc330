#include <fmt/format.h>

#include <memory>
#include <string>
#include <vector>

#include "compiler/cli/commands.h"
#include "compiler/runs/summary.h"
#include "compiler/runs/table.h"

namespace llmc::cli {

namespace {

void add_runs(CLI::App& app) {
  struct Options {
    std::string folder;
    bool json = false;
  };
  auto options = std::make_shared<Options>();
  CLI::App* command = app.add_subcommand("runs", "table of the runs below a folder");
  command->add_option("folder", options->folder, "a folder with run folders in it, or one of them")->required();
  command->add_flag("--json", options->json, "as JSON");
  command->footer("Example: llmc runs specs/runs");
  command->callback([options] {
    const runs::Found found = runs::find_runs(options->folder);
    std::vector<runs::Summary> summaries;
    for (const std::filesystem::path& run : found.runs) summaries.push_back(runs::summarise(run));
    fmt::print("{}", options->json ? runs::as_json(summaries, found.others, options->folder)
                                   : runs::as_text(summaries, found.others, options->folder));
  });
}

}  // namespace

void add_run_commands(CLI::App& app, Result&) { add_runs(app); }

}  // namespace llmc::cli
