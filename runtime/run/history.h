// history.jsonl: one line per start and per rollback of a run, recording how the run came about. Readers skip lines
// that are not JSON objects.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "data/order/position.h"
#include "data/shard_record.h"
#include "spec/values.h"

namespace llmc {

/// Inputs that determine the bits of a run, together with its spec and its data.
struct Environment {
  std::string version;  // of llmc
  std::string build;    // fingerprint of the compiled-in values
  std::string arch;     // architecture that kernels were compiled for
  std::string device;   // "AMD EPYC, 2 threads, avx512_bf16"
  std::vector<std::string> libraries;
  int threads = 1, ranks = 1;
  std::string tuned;  // checksum of tuned.json; empty: none

  bool operator==(const Environment&) const = default;
};

/// Order of samples after a step: an equal order gives equal samples.
struct DataOrder {
  std::string data;  // fingerprint
  std::uint64_t seed = 0;
  DataPosition position;              // after the step
  std::int64_t samples_per_step = 0;  // from then on

  bool operator==(const DataOrder&) const = default;
};

struct HistoryEntry {
  std::int64_t step = 0;   // the run resumes from
  std::string time;        // UTC, "2026-01-31T12:00:00Z"
  std::string checkpoint;  // it resumes from; empty: from the beginning
  std::string weights;     // folder of the initial weights; empty: random, or read from the checkpoint
  Environment environment;
  std::size_t memory = 0;               // bytes that rank 0 has allocated
  std::optional<double> product_flops;  // FLOP/s of a GEMM of the model, summed over all ranks' devices
  std::string model;                    // fingerprint
  DataOrder order;
  std::string spec;                      // file the trainer was compiled from, relative to the run folder; empty:
                                         // unknown
  std::vector<std::string> overrides;    // key=value arguments of the command line
  std::vector<std::string> allowed;      // keys that --allow named
  std::vector<spec::Change> changed;     // since the previous start
  bool same_start = false;               // a running process took other values: those of another phase
  std::string converted = {};            // of the checkpoint's optimizer state, to another format; empty: nothing
  std::int64_t rollbacks = 0;            // in the run so far
  bool plateau_told = false;             // whether the run has been told of a plateau
  int phase = 0;                         // that begins at `step`; 0: none does
  std::vector<ShardRecord> shards = {};  // of the training data, unless an earlier line lists them
  /// For a rollback: the step it left, and the reason. Else empty.
  std::int64_t left_step = 0;
  std::string why = {};
};

/// Formats an entry as one JSON object without a line break.
std::string format_history(const HistoryEntry& entry);

/// Environment of the last line; a default one if there is none.
Environment last_environment(const std::string& text);

/// Start that trains step `step` + 1: the step it resumed from, and its order. Nothing if no line covers that step, or
/// an older llmc wrote it.
struct OrderFrom {
  std::int64_t step;
  std::string checkpoint;
  DataOrder order;
  std::int64_t rollbacks;
  bool plateau_told = false;
};
std::optional<OrderFrom> order_after(const std::string& text, std::int64_t step);

/// Phase that the run was in at the step after `step`: 1 for a run without phases, 0 if no line says it.
int phase_in_history(const std::string& text, std::int64_t step);

/// Shards of the data with this fingerprint, from the last line that lists them; nothing if none does.
std::optional<std::vector<ShardRecord>> shards_of(const std::string& text, const std::string& data);

/// Checkpoint that the last start or rollback resumed from. Empty if it started from the beginning.
std::string last_checkpoint(const std::string& text);

/// Spec file of the last line that names one other than the run folder's own; empty if none does.
std::string last_spec(const std::string& text);

/// Describes each difference, such as "threads 2 -> 4". Empty if either is a default Environment.
std::vector<std::string> differences(const Environment& before, const Environment& after);

/// Current time in the format of HistoryEntry.
std::string utc_now();

}  // namespace llmc
