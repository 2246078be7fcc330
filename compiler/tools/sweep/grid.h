// The grid of a sweep: keys with several values each, and one run for each combination.
#pragma once

#include <cstddef>
#include <span>
#include <string>
#include <vector>

namespace llmc::sweep {

inline constexpr std::size_t kMostRuns = 4096;

/// A key with several values, as typed.
struct Axis {
  std::string key;
  std::vector<std::string> values;

  bool operator==(const Axis&) const = default;
};

struct Grid {
  std::vector<std::string> fixed;  // key=value words that all runs share
  std::vector<Axis> axes;          // in the order of the command line

  std::size_t size() const;
  /// Index into the values of each axis. The last axis changes fastest.
  std::vector<std::size_t> place_of(std::size_t run) const;
  std::size_t run_at(std::span<const std::size_t> place) const;
  /// All key=value words of a run.
  std::vector<std::string> words_of(std::size_t run) const;
  /// "optimizer.lr=1e-3 model.hidden_size=512"
  std::string label(std::size_t run) const;

  bool operator==(const Grid&) const = default;
};

/// Reads key=value and key=value,value words. Commas in brackets, braces and quotes belong to a value. Throws
/// Failure(usage) for an empty value, a key that stands twice, no key with several values, or more than kMostRuns runs.
Grid parse_grid(std::span<const std::string> words);

}  // namespace llmc::sweep
