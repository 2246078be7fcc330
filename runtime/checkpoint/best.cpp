#include "checkpoint/best.h"

#include <nlohmann/json.hpp>

#include "checkpoint/checkpoint.h"
#include "error.h"
#include "files/disk.h"

namespace llmc {

namespace fs = std::filesystem;

namespace {

fs::path best_file(const fs::path& run) { return checkpoints_directory(run) / "best.json"; }

}  // namespace

std::optional<Best> read_best(const fs::path& run) try {
  if (!disk::exists(best_file(run), Exit::checkpoint)) return std::nullopt;
  const nlohmann::json text = nlohmann::json::parse(read_small_file(best_file(run)));
  Best best{text.at("step").get<std::int64_t>(), text.at("validation").get<std::string>(),
            text.at("loss").get<double>()};
  if (best.step < 0 || !disk::exists(checkpoints_directory(run) / checkpoint_name(best.step), Exit::checkpoint))
    return std::nullopt;
  return best;
} catch (const nlohmann::json::exception&) {
  return std::nullopt;
} catch (const Failure&) {
  return std::nullopt;
}

void write_best(const fs::path& run, const Best& best) {
  const nlohmann::ordered_json text = {{"step", best.step}, {"validation", best.validation}, {"loss", best.loss}};
  write_file_atomically(best_file(run), text.dump() + "\n");
}

}  // namespace llmc
