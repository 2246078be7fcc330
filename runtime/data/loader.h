// Prepares the batch of each optimizer step ahead of time on its own thread.
#pragma once

#include <condition_variable>
#include <cstdint>
#include <deque>
#include <exception>
#include <functional>
#include <memory>
#include <mutex>
#include <span>
#include <thread>
#include <vector>

#include "data/documents.h"
#include "data/micro_batch.h"
#include "data/order/mixture_walk.h"
#include "data/order/sources.h"
#include "program/mesh.h"

namespace llmc {

/// Micro-batches of a step that a rank runs: consecutive, and equally many on all ranks up to one.
struct RankShare {
  DataRank self;
  bool all = false;  // the batch also contains the other ranks'

  std::int64_t begin(std::int64_t micro_batches) const { return micro_batches * self.index / self.size; }
  std::int64_t past(std::int64_t micro_batches) const { return micro_batches * (self.index + 1) / self.size; }
};

/// The loader's state is its position: a loader started at a position gives the same batches as one that reached it.
/// Samples come from MixtureWalk, so each target of a source's epoch is trained on once, except shard tails that a
/// sequence length drops. A rank reads only samples of its own micro-batches, unless documents mask targets, which it
/// has to count in those of all ranks.
/// The loader's thread reads files and counts. It starts no other threads (no OpenMP), handles no signals, and prepares
/// at most two steps ahead.
class Loader {
 public:
  /// `sequences_per_step` is a multiple of `micro_batch`; both count sequences of `sequence_length` tokens. A step has
  /// at least one micro-batch per rank. Throws Failure(data) if the shards contain no sample.
  Loader(const Sources& sources, std::uint64_t seed, std::int64_t sequence_length, std::int64_t micro_batch,
         std::int64_t sequences_per_step, const DataPosition& start, RankShare share = {}, DocumentRule documents = {});
  ~Loader();
  Loader(const Loader&) = delete;
  Loader& operator=(const Loader&) = delete;

  /// Waits for the next step's batch. `used` recycles the memory of an earlier batch. Rethrows the thread's exception,
  /// also on every later call.
  StepBatch next(StepBatch used = {});

 private:
  void run();
  void fill(StepBatch& batch);
  void fill(MicroBatch& micro, StepBatch& batch);
  std::int64_t fill_row(MicroBatch& micro, std::int64_t row, StepBatch& batch);
  void pass_over(StepBatch& batch);

  MixtureWalk walk_;
  std::int64_t sequence_length_, micro_batch_, sequences_per_step_;
  RankShare share_;
  DocumentRule documents_;
  std::vector<std::int32_t> sample_, counts_;  // the thread's scratch
  MicroBatch others_;                          // a row of another rank, whose targets are counted

  std::mutex mutex_;
  std::condition_variable changed_;
  std::deque<StepBatch> ready_, free_;
  std::exception_ptr error_;
  bool stop_ = false;
  std::thread thread_;
};

/// Micro-batches of an evaluation. A rank keeps only its own.
struct EvaluationBatches {
  std::vector<MicroBatch> own;  // of those of all ranks: index, index + size, index + 2 size, ...
  MicroBatch idle;              // without targets, for a round in which the rank has none; empty if it always has one
  std::int64_t count = 0;       // of all ranks
  std::int64_t targets = 0;     // of all ranks, those that are not -1
};

/// Draws `sequences` samples spread evenly over the shards, in file order (all if there are fewer), so that every
/// evaluation of a run uses the same ones. The last micro-batch is padded with inputs 0 and targets -1. Calls `visit`
/// with the targets of each micro-batch of all ranks.
EvaluationBatches evaluation_batches(std::shared_ptr<const TokenShards> shards, std::int64_t sequence_length,
                                     std::int64_t micro_batch, std::int64_t sequences, DocumentRule documents = {},
                                     DataRank self = {},
                                     const std::function<void(std::span<const std::int32_t>)>& visit = {});

}  // namespace llmc
