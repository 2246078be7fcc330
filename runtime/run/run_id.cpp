#include "run/run_id.h"

#include <fmt/format.h>

#include <algorithm>
#include <random>

#include "checkpoint/manifest.h"
#include "error.h"
#include "files/durable_file.h"

namespace llmc {

namespace fs = std::filesystem;

namespace {

constexpr std::size_t kDigits = 32;

fs::path file(const fs::path& run) { return run / "state" / "run"; }

}  // namespace

std::string draw_run_id() {
  std::random_device random;
  std::string id;
  while (id.size() < kDigits) id += fmt::format("{:08x}", static_cast<std::uint32_t>(random()));
  return id;
}

std::string run_id(const fs::path& run) {
  std::error_code error;
  if (!fs::exists(file(run), error)) return {};
  try {
    std::string id = read_small_file(file(run));
    if (!id.empty() && id.back() == '\n') id.pop_back();
    const auto digit = [](char c) { return (c >= '0' && c <= '9') || (c >= 'a' && c <= 'f'); };
    return id.size() == kDigits && std::ranges::all_of(id, digit) ? id : std::string();
  } catch (const Failure&) {
    return {};
  }
}

void write_run_id(const fs::path& run, const std::string& id) { replace_where_different(file(run), id + "\n"); }

}  // namespace llmc
