// history.jsonl: one line for each start of a run and each rollback, so that its folder says how it came about.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "data/position.h"
#include "data/shard_record.h"
#include "spec/values.h"

namespace llmc {

/// What decides the bits of a run beside its spec and its data.
struct Environment {
  std::string version;  // of llmc
  std::string build;    // fingerprint of what is compiled in
  std::string arch;     // that kernels were compiled for
  std::string device;   // "AMD EPYC, 2 threads, avx512_bf16"
  std::vector<std::string> libraries;
  int threads = 1, ranks = 1;
  std::string tuned;  // checksum of tuned.json; empty: there is none

  bool operator==(const Environment&) const = default;
};

/// Which samples a run trains on after a step: the same order gives the same samples.
struct DataOrder {
  std::string data;  // fingerprint
  std::uint64_t seed = 0;
  DataPosition position;              // after the step
  std::int64_t samples_per_step = 0;  // from then on

  bool operator==(const DataOrder&) const = default;
};

struct HistoryEntry {
  std::int64_t step = 0;   // that the run goes on from
  std::string time;        // UTC, "2026-01-31T12:00:00Z"
  std::string checkpoint;  // that it goes on from; empty: from the beginning
  std::string weights;     // folder whose weights it begins with; empty: they are drawn, or the checkpoint's
  Environment environment;
  std::size_t memory = 0;               // bytes that rank 0 has allocated
  std::optional<double> product_flops;  // FLOP/s of a product of the model on all ranks' devices together
  std::string model;                    // fingerprint
  DataOrder order;
  std::string spec;                      // file that the trainer was compiled from, from the run folder; empty: unknown
  std::vector<std::string> overrides;    // key=value words of the command line
  std::vector<std::string> allowed;      // keys that --allow named
  std::vector<spec::Change> changed;     // since the start before
  std::int64_t rollbacks = 0;            // of the run so far
  std::vector<ShardRecord> shards = {};  // of the training data, where no line before lists them; else empty
  /// Where this is no start but a rollback: the step that it came from, and why; else empty.
  std::int64_t left_step = 0;
  std::string why = {};
};

/// One JSON object without a line break.
std::string format_history(const HistoryEntry& entry);

/// The environment of the last line of a file's text; a default one where there is none that can be read.
Environment last_environment(const std::string& text);

/// Of the start that trains step `step` + 1, as far as a file's text tells: the step that it went on from, and its
/// order. Nothing where no line is of it, or an older llmc wrote that line.
struct OrderFrom {
  std::int64_t step;
  std::string checkpoint;
  DataOrder order;
  std::int64_t rollbacks;
};
std::optional<OrderFrom> order_after(const std::string& text, std::int64_t step);

/// The shards of data with this fingerprint, as the last line that lists them does; nothing where none does.
std::optional<std::vector<ShardRecord>> shards_of(const std::string& text, const std::string& data);

/// The checkpoint that the last start or rollback went on from; empty where that was from the beginning, or there is no
/// line that can be read.
std::string last_checkpoint(const std::string& text);

/// The spec file of the last line that names one other than the run folder's own; empty where none does.
std::string last_spec(const std::string& text);

/// "threads 2 -> 4", one of each difference; none against a default Environment.
std::vector<std::string> differences(const Environment& before, const Environment& after);

/// The time now, as HistoryEntry has it.
std::string utc_now();

}  // namespace llmc
