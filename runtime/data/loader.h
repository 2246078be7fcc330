// Hands out the batch of each optimizer step, prepared ahead on a thread of its own.
#pragma once

#include <condition_variable>
#include <cstdint>
#include <deque>
#include <exception>
#include <memory>
#include <mutex>
#include <span>
#include <thread>
#include <vector>

#include "data/micro_batch.h"
#include "data/sample_walk.h"
#include "data/shards.h"
#include "program/mesh.h"

namespace llmc {

/// Which micro-batches of a step a rank runs: consecutive ones, as many as the others or one more or fewer.
struct RankShare {
  DataRank self;
  bool all = false;  // the loader gives the others' as well

  std::int64_t begin(std::int64_t micro_batches) const { return micro_batches * self.index / self.size; }
  std::int64_t past(std::int64_t micro_batches) const { return micro_batches * (self.index + 1) / self.size; }
};

/// The whole state of the loader is its position: a loader started there gives the same batches as one that got there.
/// Its samples are those of SampleWalk, so that every target of an epoch is trained on once, but for the tails of
/// shards that a length drops.
/// The loader's thread reads files and counts; it starts no other threads (no OpenMP), takes no signals, and stays at
/// most two steps ahead.
class Loader {
 public:
  /// `sequences_per_step` is a multiple of `micro_batch`; all are counted in sequences of `sequence_length` tokens. A
  /// step has at least as many micro-batches as there are ranks. Throws Failure(Exit::data) when the shards hold no
  /// sample.
  Loader(std::shared_ptr<const TokenShards> shards, std::uint64_t seed, std::int64_t sequence_length,
         std::int64_t micro_batch, std::int64_t sequences_per_step, const DataPosition& start, RankShare share = {});
  ~Loader();
  Loader(const Loader&) = delete;
  Loader& operator=(const Loader&) = delete;

  /// The next step's batch; waits for it. `used` gives its memory back for a later batch. What the thread threw is
  /// thrown here, again on every further call.
  StepBatch next(StepBatch used = {});
  std::int64_t samples_per_epoch() const { return walk_.samples().count(); }

 private:
  void run();
  void fill(StepBatch& batch);
  void fill(MicroBatch& micro, StepBatch& batch);
  void pass_over(StepBatch& batch);

  SampleWalk walk_;
  std::int64_t micro_batch_, sequences_per_step_;
  std::uint64_t tokens_;  // trained on up to the last batch that is ready
  RankShare share_;
  std::vector<std::int32_t> sample_, counts_;  // scratch of the thread

  std::mutex mutex_;
  std::condition_variable changed_;
  std::deque<StepBatch> ready_, free_;
  std::exception_ptr error_;
  bool stop_ = false;
  std::thread thread_;
};

/// `sequences` samples spread evenly over the shards, in file order (all of them when there are fewer), so that every
/// evaluation of a run sees the same ones. The last micro-batch is filled up with inputs 0 and targets -1.
std::vector<MicroBatch> evaluation_batches(std::shared_ptr<const TokenShards> shards, std::int64_t sequence_length,
                                           std::int64_t micro_batch, std::int64_t sequences);

}  // namespace llmc
