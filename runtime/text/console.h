// What a trainer shows: a header, one progress line, warnings; in place and in colour on a terminal only.
#pragma once

#include <cstdint>
#include <cstdio>
#include <optional>
#include <string>

namespace llmc {

struct Progress {
  std::int64_t step = 0, steps = 0;
  double loss = 0;                 // mean of the steps since the last line
  std::optional<double> largest;   // of their losses, where there are several
  std::optional<double> val_loss;  // of this step
  double lr = 0, grad_norm = 0;
  double tokens_per_second = 0;
  std::optional<double> mfu;  // where a peak is known
  double seconds_left = 0;
};

/// The number for a message: one that is none has no sign there.
double without_nan_sign(double number);

/// "step  120/20000  loss 4.1234  max 4.3012  val 4.2345  lr 3.00e-04  norm 0.85  12,345 tok/s  MFU 51.6 %  ETA 1h 23m"
/// Where that has more than `columns` characters, fields are left out, the least important first; step and loss stay,
/// and are cut.
std::string format_progress(const Progress& progress, std::size_t columns = SIZE_MAX);
/// "45s", "12m 05s", "1h 23m", "3d 04h"
std::string format_duration(double seconds);
/// "1,234,567"
std::string format_count(std::int64_t count);

/// Shows lines; what a terminal would obey in them, which may come from a file or a peer, as \x1b.
class Console {
 public:
  /// Text goes to `out`, warnings to stderr. `quiet`: warnings only. `launched`: a launcher reads the lines, even where
  /// it shows the process a terminal, as Open MPI's does.
  Console(std::FILE* out, bool quiet, bool launched = false);
  /// Of a rank that shows nothing: lines are kept until log_to() says where they go.
  Console();
  /// What was kept, and all that follows, goes to `log`, which stays open as long as this.
  void log_to(std::FILE* log);

  bool terminal() const { return terminal_; }
  void text(const std::string& line);
  /// On a terminal the line replaces the one before it, unless that was kept.
  void progress(const Progress& progress, bool keep);
  void warning(const std::string& line);
  /// Ends the line that is being rewritten, so that others may print.
  void finish();

 private:
  void line(const std::string& text);
  std::FILE* out_ = nullptr;  // null: lines are kept
  std::string kept_;
  bool shows_ = false;  // warnings go to stderr, not where text goes
  bool quiet_ = false, terminal_ = false, colour_ = false;
  bool open_ = false;  // the cursor stands behind a line that will be rewritten
};

}  // namespace llmc
