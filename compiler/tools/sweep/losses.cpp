#include "compiler/tools/sweep/losses.h"

#include <sys/stat.h>

#include <cmath>
#include <fstream>
#include <nlohmann/json.hpp>
#include <string>

#include "files/disk.h"
#include "run/json_lines.h"

namespace llmc::sweep {

void Losses::update() {
  struct stat status{};
  if (::stat(path_.c_str(), &status) != 0) return;
  const auto size = static_cast<std::uintmax_t>(status.st_size);
  // A resume or a rollback replaces the file, whose new lines may be longer than the old ones.
  if (const auto file = std::pair(status.st_dev, status.st_ino); file != file_ || size < read_) {
    file_ = file;
    read_ = 0;
    steps_.clear();
  }
  if (size == read_) return;
  std::ifstream file = disk::open(path_);
  file.seekg(static_cast<std::streamoff>(read_));
  // A line without its line break is still being written.
  LineReader lines(file);
  for (std::string line; lines.next(line);) {
    read_ = static_cast<std::uintmax_t>(file.tellg());
    const nlohmann::json object = nlohmann::json::parse(line, nullptr, false);
    if (!object.is_object() || !object.contains("step") || !object["step"].is_number_integer()) continue;
    const auto step = object["step"].get<std::int64_t>();
    steps_.erase(steps_.lower_bound(step), steps_.end());  // a rollback repeats steps
    const auto loss = object.find("loss");
    steps_[step] = loss != object.end() && loss->is_number() ? loss->get<double>() : NAN;
  }
}

std::optional<double> Losses::mean(std::int64_t end, std::int64_t count) const {
  double sum = 0;
  int lines = 0;
  for (auto at = steps_.upper_bound(end - count); at != steps_.end() && at->first <= end; ++at, ++lines)
    sum += at->second;
  return lines ? std::optional(sum / lines) : std::nullopt;
}

}  // namespace llmc::sweep
