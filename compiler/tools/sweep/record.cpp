#include "compiler/tools/sweep/record.h"

#include <fmt/format.h>

#include <array>
#include <cmath>
#include <nlohmann/json.hpp>

#include "compiler/tools/sweep/ranking.h"
#include "error.h"
#include "files/disk.h"
#include "files/durable_file.h"
#include "spec/source.h"

namespace llmc::sweep {

namespace fs = std::filesystem;
using Json = nlohmann::ordered_json;

namespace {

constexpr std::array kStates = {State::waiting,  State::running, State::stopped, State::failed,
                                State::finished, State::pruned,  State::diverged};

/// A loss; null: not known, "nan": not finite.
Json number(const std::optional<double>& value) {
  if (!value) return {};
  return std::isfinite(*value) ? Json(*value) : Json("nan");
}

Json as_json(const Run& run, const Grid& grid, std::size_t index) {
  Json values = Json::object();
  const std::vector<std::size_t> place = grid.place_of(index);
  for (std::size_t i = 0; i < place.size(); ++i) values[grid.axes[i].key] = grid.axes[i].values[place[i]];
  return {{"run", run.folder},        {"values", values},
          {"build", run.build},       {"state", name(run.state)},
          {"exit", run.exit_code},    {"reason", run.reason},
          {"step", run.step},         {"steps", run.steps},
          {"loss", number(run.loss)}, {"val_loss", number(run.val_loss)}};
}

Json as_json(const Ranking& ranking, const Record& record) {
  if (ranking.settings.empty()) return nullptr;
  const Setting& best = ranking.settings.front();
  Json runs = Json::array(), neighbours = Json::array();
  for (const std::size_t run : best.runs) runs.push_back(record.runs[run].folder);
  for (const Neighbour& each : ranking.neighbours)
    neighbours.push_back({{"key", each.key}, {"value", each.value}, {"loss", number(each.loss)}});
  return {{"of", ranking.validation ? "val_loss" : "loss"},
          {"runs", runs},
          {"setting", best.label},
          {"loss", best.loss},
          {"spread", best.spread},
          {"neighbours", neighbours},
          {"at_the_edge_of", ranking.edges}};
}

/// Throws nlohmann::json::exception or std::out_of_range for what write() did not write.
Record parsed(const Json& document) {
  Record record;
  document.at("spec").get_to(record.spec);
  document.at("digest").get_to(record.digest);
  document.at("fixed").get_to(record.grid.fixed);
  for (const Json& axis : document.at("axes"))
    record.grid.axes.push_back({axis.at("key").get<std::string>(), axis.at("values").get<std::vector<std::string>>()});
  for (const Json& build : document.at("builds"))
    record.builds.push_back(
        {build.at("folder").get<std::string>(), build.at("compiled").get<std::vector<std::string>>()});
  const auto known = [](const Json& value) {
    return value.is_null() ? std::nullopt : std::optional(value == "nan" ? NAN : value.get<double>());
  };
  for (const Json& each : document.at("runs")) {
    Run run{.folder = each.at("run").get<std::string>(),
            .build = each.at("build").get<std::size_t>(),
            .state = State::waiting,
            .exit_code = each.at("exit").get<int>(),
            .reason = each.at("reason").get<std::string>(),
            .step = each.at("step").get<std::int64_t>(),
            .steps = each.at("steps").get<std::int64_t>(),
            .loss = known(each.at("loss")),
            .val_loss = known(each.at("val_loss"))};
    const auto state = each.at("state").get<std::string>();
    for (const State candidate : kStates)
      if (state == name(candidate)) run.state = candidate;
    record.runs.push_back(std::move(run));
  }
  if (record.grid.axes.empty() || record.runs.size() != record.grid.size()) throw std::out_of_range("runs");
  return record;
}

}  // namespace

const char* name(State state) {
  switch (state) {
    case State::waiting: return "waiting";
    case State::running: return "running";
    case State::stopped: return "stopped";
    case State::failed: return "failed";
    case State::finished: return "finished";
    case State::pruned: return "pruned";
    case State::diverged: return "diverged";
  }
  return "";
}

void Run::take_end(const Run& before) {
  state = before.state;
  exit_code = before.exit_code;
  reason = before.reason;
  step = before.step;
  loss = before.loss;
  val_loss = before.val_loss;
}

bool is_final(State state) { return state == State::finished || state == State::pruned || state == State::diverged; }

void write(const fs::path& folder, const Record& record) {
  Json axes = Json::array(), builds = Json::array(), runs = Json::array();
  for (const Axis& axis : record.grid.axes) axes.push_back({{"key", axis.key}, {"values", axis.values}});
  for (const Build& build : record.builds) builds.push_back({{"folder", build.folder}, {"compiled", build.compiled}});
  for (std::size_t i = 0; i < record.runs.size(); ++i) runs.push_back(as_json(record.runs[i], record.grid, i));
  const Json document = {{"spec", record.spec},
                         {"digest", record.digest},
                         {"fixed", record.grid.fixed},
                         {"axes", axes},
                         {"best", as_json(rank(record), record)},
                         {"builds", builds},
                         {"runs", runs}};
  write_file_atomically(folder / kFile, document.dump(2, ' ', false, Json::error_handler_t::replace) + "\n",
                        {Exit::usage, "-o", false});
}

std::optional<Record> read(const fs::path& folder) {
  const fs::path path = folder / kFile;
  if (!disk::exists(path, Exit::usage)) return std::nullopt;
  const std::optional<std::string> text = disk::text(path);
  try {
    if (text) return parsed(Json::parse(*text));
  } catch (const std::exception&) {
  }
  throw Failure(Exit::usage, fmt::format("'{}' is not readable as the record of a sweep. Move it aside to start the "
                                         "sweep anew in its folder; the runs in it then go on",
                                         spec::printable(path.string())));
}

}  // namespace llmc::sweep
