#include "compiler/tools/runs/table.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <nlohmann/json.hpp>

#include "files/disk.h"
#include "spec/source.h"
#include "text/console.h"

namespace llmc::runs {

namespace fs = std::filesystem;

namespace {

constexpr std::size_t kColumns = 7;
using Row = std::array<std::string, kColumns>;

/// Returns the path relative to `base`; the folder's own name if `run` is `base`.
std::string shown(const fs::path& run, const fs::path& base) {
  const fs::path relative = run.lexically_relative(base);
  return relative.empty() || relative == "." ? disk::canonical_if_known(run).filename().string() : relative.string();
}

std::string shown_number(const std::optional<double>& number, const char* format) {
  return number ? fmt::format(fmt::runtime(format), without_nan_sign(*number)) : "-";
}

Row row(const Summary& run, const fs::path& base) {
  return {spec::printable(shown(run.path, base)),
          name(run.state),
          fmt::format("{}/{}", format_count(run.step), run.steps ? format_count(run.steps) : "?"),
          shown_number(run.loss, "{:.4f}"),
          shown_number(run.val_loss, "{:.4f}"),
          run.tokens_per_second && std::isfinite(*run.tokens_per_second)
              ? format_count(std::llround(*run.tokens_per_second))
              : "-",
          run.started.empty() ? "never" : spec::printable(run.started)};
}

nlohmann::ordered_json json_number(const std::optional<double>& number) {
  return number && std::isfinite(*number) ? nlohmann::ordered_json(*number) : nlohmann::ordered_json();
}

}  // namespace

std::string as_text(std::span<const Summary> runs, std::span<const fs::path> others, const fs::path& base) {
  std::string text;
  if (!runs.empty()) {
    std::vector<Row> rows = {{"run", "state", "step", "loss", "val", "tok/s", "last start"}};
    for (const Summary& run : runs) rows.push_back(row(run, base));
    std::array<std::size_t, kColumns> widths{};
    for (const Row& each : rows)
      for (std::size_t c = 0; c < kColumns; ++c) widths[c] = std::max(widths[c], each[c].size());
    for (const Row& r : rows)
      text += fmt::format("{:<{}}  {:<{}}  {:>{}}  {:>{}}  {:>{}}  {:>{}}  {}\n", r[0], widths[0], r[1], widths[1],
                          r[2], widths[2], r[3], widths[3], r[4], widths[4], r[5], widths[5], r[6]);
  }
  if (runs.empty()) text += fmt::format("no runs in '{}'\n", spec::printable(base.string()));
  for (const Summary& run : runs)
    if (!run.problem.empty())
      text += fmt::format("{}: {}\n", spec::printable(shown(run.path, base)), spec::printable(run.problem));
  for (const fs::path& other : others)
    text += fmt::format("{}: not a run folder\n", spec::printable(shown(other, base)));
  return text;
}

std::string as_json(std::span<const Summary> runs, std::span<const fs::path> others, const fs::path& base) {
  using Json = nlohmann::ordered_json;
  Json document = {{"runs", Json::array()}, {"others", Json::array()}};
  for (const Summary& run : runs)
    document["runs"].push_back({{"run", shown(run.path, base)},
                                {"path", run.path.string()},
                                {"state", name(run.state)},
                                {"step", run.step},
                                {"steps", run.steps ? Json(run.steps) : Json()},
                                {"loss", json_number(run.loss)},
                                {"val_loss", json_number(run.val_loss)},
                                {"val_step", run.val_loss ? Json(run.val_step) : Json()},
                                {"tokens_per_second", json_number(run.tokens_per_second)},
                                {"started", run.started.empty() ? Json() : Json(run.started)},
                                {"problem", run.problem.empty() ? Json() : Json(run.problem)}});
  for (const fs::path& other : others) document["others"].push_back(shown(other, base));
  return document.dump(2, ' ', false, Json::error_handler_t::replace) + "\n";
}

}  // namespace llmc::runs
