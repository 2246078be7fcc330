#include "checkpoint/best.h"

#include <unistd.h>

#include <cerrno>
#include <nlohmann/json.hpp>

#include "checkpoint/checkpoint.h"
#include "error.h"
#include "files/disk.h"
#include "text/json_problem.h"

namespace llmc {

namespace fs = std::filesystem;

namespace {

bool has_checkpoint(const fs::path& run, std::int64_t step) {
  std::error_code error;
  return fs::exists(checkpoints_directory(run) / checkpoint_name(step), error);
}

}  // namespace

fs::path best_file(const fs::path& run) { return checkpoints_directory(run) / "best.json"; }

std::optional<Best> read_best(const fs::path& run) {
  const fs::path path = best_file(run);
  if (!disk::exists(path, Exit::checkpoint)) return std::nullopt;
  std::string why = "its step is negative";
  try {
    const nlohmann::json text = nlohmann::json::parse(read_small_file(path));
    Best best{text.at("step").get<std::int64_t>(), text.at("validation").get<std::string>(),
              text.at("loss").get<double>()};
    if (best.step >= 0) return has_checkpoint(run, best.step) ? std::optional(best) : std::nullopt;
  } catch (const nlohmann::json::exception& error) {
    why = json_problem(error);
  } catch (const Failure& failure) {
    why = failure.what();
  }
  throw Failure(Exit::checkpoint, "'" + path.string() + "' does not say which checkpoint is the best: " + why +
                                      ". No checkpoint was removed. Remove this file to go on without a best one");
}

std::optional<Best> best_of_run(const fs::path& run, const std::string& set, std::int64_t step,
                                const std::optional<Best>& noted) {
  if (set == "none") return std::nullopt;
  const std::optional<Best> best = noted ? noted : read_best(run);
  if (!best || best->validation != set || best->step > step || !has_checkpoint(run, best->step)) return std::nullopt;
  return best;
}

void settle_best(const fs::path& run, const std::optional<Best>& best) {
  if (!best) {
    if (::unlink(best_file(run).c_str()) != 0 && errno != ENOENT) throw_errno("remove", best_file(run));
    return;
  }
  const nlohmann::ordered_json text = {{"step", best->step}, {"validation", best->validation}, {"loss", best->loss}};
  replace_where_different(best_file(run), text.dump() + "\n");
}

}  // namespace llmc
