#include "text/console.h"

#include <fmt/format.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <cstring>
#include <limits>
#include <utility>
#include <vector>

#include "text/message.h"
#include "text/printable.h"

namespace llmc {
namespace {

/// Writes without throwing, unlike fmt::print: a broken log pipe must not stop a run.
void put(std::FILE* out, const std::string& text) {
  std::fputs(text.c_str(), out);
  std::fflush(out);
}

/// Columns of the terminal. A line that wraps could not be rewritten in place.
std::size_t terminal_columns(std::FILE* out) {
  winsize size{};
  return ioctl(fileno(out), TIOCGWINSZ, &size) == 0 && size.ws_col > 1 ? size.ws_col : 80;
}

}  // namespace

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

double without_nan_sign(double number) {
  return std::isnan(number) ? std::numeric_limits<double>::quiet_NaN() : number;
}

std::string format_progress(const Progress& p, std::size_t columns) {
  const std::string steps = fmt::format("{}", p.steps);
  struct Field {
    int importance;  // the smallest is dropped first
    std::string text;
  };
  std::vector<Field> fields;
  fields.push_back({9, fmt::format("step {:>{}}/{}", p.step, steps.size(), steps)});
  fields.push_back({8, fmt::format("  loss {:.4f}", without_nan_sign(p.loss))});
  if (p.largest) fields.push_back({0, fmt::format("  max {:.4f}", *p.largest)});
  if (p.val_loss) fields.push_back({5, fmt::format("  val {:.4f}", without_nan_sign(*p.val_loss))});
  fields.push_back({1, fmt::format("  lr {:.2e}", p.lr)});
  fields.push_back({2, fmt::format("  norm {:.2f}", without_nan_sign(p.grad_norm))});
  fields.push_back({4, fmt::format("  {} tok/s", format_count(std::llround(p.tokens_per_second)))});
  if (p.mfu) fields.push_back({3, fmt::format("  MFU {:.1f} %", 100 * *p.mfu)});
  fields.push_back({6, fmt::format("  ETA {}", format_duration(p.seconds_left))});
  const auto whole = [&] {
    std::string line;
    for (const Field& field : fields) line += field.text;
    return line;
  };
  while (fields.size() > 2 && whole().size() > columns)
    fields.erase(std::ranges::min_element(fields, {}, &Field::importance));
  return whole().substr(0, columns);
}

Console::Console(std::FILE* out, bool quiet, bool launched) : out_(out), shows_(true), quiet_(quiet) {
  const char* term = std::getenv("TERM");
  terminal_ = !launched && isatty(fileno(out)) && term && std::strcmp(term, "dumb") != 0;
  colour_ = terminal_ && colour_on(fileno(out));
}

Console::Console() = default;

void Console::log_to(std::FILE* log) {
  out_ = log;
  put(out_, std::exchange(kept_, {}));
}

void Console::line(const std::string& text) {
  const std::string shown = printable_text(text) + "\n";
  if (out_)
    put(out_, shown);
  else
    kept_ += shown;
}

void Console::text(const std::string& line) {
  if (quiet_) return;
  finish();
  this->line(line);
}

void Console::progress(const Progress& progress, bool keep) {
  if (quiet_) return;
  std::string text = terminal_ ? format_progress(progress, terminal_columns(out_) - 1) : format_progress(progress);
  if (terminal_) {
    if (colour_) {
      const std::size_t end = std::min(text.find("  loss"), text.size());
      text = "\033[1m" + text.substr(0, end) + "\033[0m" + text.substr(end);
    }
    put(out_, fmt::format("\r\033[K{}{}", text, keep ? "\n" : ""));
    open_ = !keep;
  } else if (keep) {
    line(text);
  }
}

void Console::warning(const std::string& line) {
  finish();
  if (!shows_) return this->line("warning: " + line);
  const bool colour = colour_on(STDERR_FILENO);
  put(stderr,
      fmt::format("{}warning:{} {}\n", colour ? "\033[33m" : "", colour ? "\033[0m" : "", printable_text(line)));
}

void Console::finish() {
  if (!open_) return;
  put(out_, "\n");
  open_ = false;
}

}  // namespace llmc
