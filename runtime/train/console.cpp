#include "train/console.h"

#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <cstring>

namespace llmc {

std::string format_duration(double seconds) {
  if (!std::isfinite(seconds) || seconds < 0) return "?";
  const auto whole = static_cast<std::int64_t>(std::min(seconds, 1e15));
  if (whole < 60) return fmt::format("{}s", whole);
  if (whole < 3600) return fmt::format("{}m {:02}s", whole / 60, whole % 60);
  if (whole < 86400) return fmt::format("{}h {:02}m", whole / 3600, whole / 60 % 60);
  return fmt::format("{}d {:02}h", whole / 86400, whole / 3600 % 24);
}

std::string format_count(std::int64_t count) {
  std::string digits = fmt::format("{}", count);
  const std::size_t first = count < 0 ? 1 : 0;
  for (std::size_t at = digits.size(); at > first + 3;) digits.insert(at -= 3, 1, ',');
  return digits;
}

std::string format_progress(const Progress& p) {
  const std::string steps = fmt::format("{}", p.steps);
  std::string line = fmt::format("step {:>{}}/{}  loss {:.4f}", p.step, steps.size(), steps, p.loss);
  if (p.val_loss) line += fmt::format("  val {:.4f}", *p.val_loss);
  return line + fmt::format("  lr {:.2e}  norm {:.2f}  {} tok/s  ETA {}", p.lr, p.grad_norm,
                            format_count(std::llround(p.tokens_per_second)), format_duration(p.seconds_left));
}

Console::Console(std::FILE* out, bool quiet) : out_(out), quiet_(quiet) {
  const char* term = std::getenv("TERM");
  const char* no_colour = std::getenv("NO_COLOR");
  terminal_ = isatty(fileno(out)) && term && std::strcmp(term, "dumb") != 0;
  colour_ = terminal_ && !(no_colour && *no_colour);
}

void Console::text(const std::string& line) {
  if (quiet_) return;
  finish();
  fmt::print(out_, "{}\n", line);
  std::fflush(out_);
}

void Console::progress(const Progress& progress, bool keep) {
  if (quiet_) return;
  std::string line = format_progress(progress);
  if (terminal_) {
    if (colour_) {
      const std::size_t end = line.find("  loss");
      line = "\033[1m" + line.substr(0, end) + "\033[0m" + line.substr(end);
    }
    fmt::print(out_, "\r\033[K{}{}", line, keep ? "\n" : "");
    open_ = !keep;
  } else if (keep) {
    fmt::print(out_, "{}\n", line);
  }
  std::fflush(out_);
}

void Console::warning(const std::string& line) {
  finish();
  const char* no_colour = std::getenv("NO_COLOR");
  const bool colour = isatty(STDERR_FILENO) && !(no_colour && *no_colour);
  fmt::print(stderr, "{}warning:{} {}\n", colour ? "\033[33m" : "", colour ? "\033[0m" : "", line);
  std::fflush(stderr);
}

void Console::finish() {
  if (!open_) return;
  fmt::print(out_, "\n");
  std::fflush(out_);
  open_ = false;
}

}  // namespace llmc
