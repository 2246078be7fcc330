#include <fmt/format.h>

#include <memory>
#include <set>
#include <string>
#include <vector>

#include "compiler/cli/commands.h"
#include "compiler/tools/runs/page.h"
#include "compiler/tools/runs/record.h"
#include "compiler/tools/runs/summary.h"
#include "compiler/tools/runs/table.h"
#include "compiler/tools/sweep/chart.h"
#include "compiler/tools/sweep/record.h"
#include "compiler/tools/sweep/table.h"
#include "error.h"
#include "files/disk.h"
#include "files/durable_file.h"
#include "spec/source.h"
#include "text/message.h"
#include "text/plural.h"
#include "text/printable.h"

namespace llmc::cli {

namespace {

/// Finds the runs below a folder, and says if it did not search all of it.
runs::FoundRuns find_runs(const std::string& folder) {
  runs::FoundRuns found = runs::find_runs(folder);
  if (found.deeper)
    to_stderr("note: folders more than {} levels below '{}' were not searched. Name a folder further down\n",
              runs::kDeepest, printable(folder));
  return found;
}

void add_runs(CLI::App& app) {
  struct Options {
    std::string folder;
    bool json = false;
  };
  auto options = std::make_shared<Options>();
  CLI::App* command = app.add_subcommand("runs", "list the runs below a folder in a table");
  command->add_option("folder", options->folder, "a folder with run folders in it, or one of them")->required();
  command->add_flag("--json", options->json, "as JSON");
  command->footer("Example: llmc runs specs/runs");
  command->callback([options] {
    const runs::FoundRuns found = find_runs(options->folder);
    std::vector<runs::Summary> summaries;
    for (const std::filesystem::path& run : found.runs) summaries.push_back(runs::summarise(run));
    fmt::print("{}", options->json ? runs::as_json(summaries, found.others, options->folder)
                                   : runs::as_text(summaries, found.others, options->folder));
  });
}

/// Returns a sweep's part of a page.
nlohmann::ordered_json sweep_object(const sweep::Record& record, const std::string& folder) {
  nlohmann::ordered_json object = sweep::charts(record);
  object["folder"] = folder;
  object["table"] = sweep::as_text(record);
  return object;
}

void add_report(CLI::App& app) {
  struct Options {
    std::vector<std::string> folders;
    std::string out;
    std::size_t points = 5000;
  };
  auto options = std::make_shared<Options>();
  CLI::App* command = app.add_subcommand("report", "write one HTML page with the curves of several runs");
  command->add_option("runs", options->folders, "run folders, or folders with runs in them")->required();
  command->add_option("-o,--out", options->out, "file to write, FILE.html")->required();
  command
      ->add_option(
          "--points", options->points,
          "maximum steps of a run in its curves, in addition to those that were evaluated, skipped or are outliers")
      ->check(CLI::Range(100, 1000000))
      ->capture_default_str();
  command->footer("Example: llmc report specs/runs -o report.html");
  command->callback([options] {
    if (!options->out.ends_with(".html"))
      throw Failure(Exit::usage, fmt::format("-o '{}' does not end with .html. Write a name such as report.html",
                                             spec::printable(options->out)));
    std::vector<runs::Record> records;
    nlohmann::ordered_json sweeps = nlohmann::ordered_json::array();
    std::set<std::filesystem::path> read, swept;  // a run or sweep that two arguments name is shown once
    for (const std::string& folder : options->folders) {
      for (const std::filesystem::path& run : find_runs(folder).runs)
        if (read.insert(disk::canonical_if_known(run)).second) records.push_back(runs::read_record(run));
      if (!swept.insert(disk::canonical_if_known(std::filesystem::path(folder) / ".")).second) continue;
      try {
        if (const std::optional<sweep::Record> record = sweep::read(folder))
          sweeps.push_back(sweep_object(*record, folder));
      } catch (const Failure& failure) {
        to_stderr("note: {}: the page has no table of this sweep: {}\n", spec::printable(folder),
                  printable_text(failure.what()));
      }
    }
    if (records.empty())
      throw Failure(Exit::checkpoint,
                    fmt::format("there is no run in {}. Name a run folder that a trainer made",
                                spec::printable(fmt::format("'{}'", fmt::join(options->folders, "', '")))));
    for (const runs::Record& record : records)
      if (!record.summary.problem.empty())
        to_stderr("note: {}: {}\n", spec::printable(record.summary.path.string()),
                  spec::printable(record.summary.problem));
    write_file_atomically(options->out, runs::page(records, options->points, std::move(sweeps)), {Exit::usage, "-o"});
    fmt::print("{}: {} run{}\n", printable(options->out), records.size(),
               plural(static_cast<std::int64_t>(records.size())));
  });
}

}  // namespace

void add_run_commands(CLI::App& app, Result&) {
  add_runs(app);
  add_report(app);
}

}  // namespace llmc::cli
