// Prints a trainer's output: a header, one progress line, warnings. In-place updates and colour on a terminal only.
#pragma once

#include <cstdint>
#include <cstdio>
#include <optional>
#include <string>

namespace llmc {

struct Progress {
  std::int64_t step = 0, steps = 0;
  double loss = 0;                 // mean over the steps since the last line
  std::optional<double> largest;   // largest of their losses, if there are several
  std::optional<double> val_loss;  // of this step
  double lr = 0, grad_norm = 0;
  double tokens_per_second = 0;
  std::optional<double> mfu;  // if a peak is known
  double seconds_left = 0;
};

/// Removes the sign of a NaN, for messages.
double without_nan_sign(double number);

/// Formats "step  120/20000  loss 4.1234  max 4.3012  val 4.2345  lr 3.00e-04  norm 0.85  12,345 tok/s  MFU 51.6 %  ETA
/// 1h 23m". Beyond `columns` characters it drops fields, the least important first; step and loss are kept and cut.
std::string format_progress(const Progress& progress, std::size_t columns = SIZE_MAX);
/// Formats "45s", "12m 05s", "1h 23m", "3d 04h".
std::string format_duration(double seconds);
/// Formats "1,234,567".
std::string format_count(std::int64_t count);

/// Prints lines. Control characters in them, which may come from a file or a peer, are shown as \x1b.
class Console {
 public:
  /// Prints text to `out`, warnings to stderr. `quiet`: warnings only. `launched`: a launcher reads the lines, even if
  /// it gives the process a terminal, as Open MPI does.
  Console(std::FILE* out, bool quiet, bool launched = false);
  /// For a rank without output: keeps lines until log_to() is called.
  Console();
  /// Writes the kept lines and all later ones to `log`, which must outlive this.
  void log_to(std::FILE* log);

  bool terminal() const { return terminal_; }
  void text(const std::string& line);
  /// On a terminal the line replaces the previous one, unless that was kept.
  void progress(const Progress& progress, bool keep);
  void warning(const std::string& line);
  /// Ends the line being rewritten, so that others may print.
  void finish();

 private:
  void line(const std::string& text);
  std::FILE* out_ = nullptr;  // null: lines are kept in memory
  std::string kept_;
  bool shows_ = false;  // warnings go to stderr instead of out_
  bool quiet_ = false, terminal_ = false, colour_ = false;
  bool open_ = false;  // the cursor is after a line that will be rewritten
};

}  // namespace llmc
