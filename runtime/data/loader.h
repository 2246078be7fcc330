// Hands out the batch of each optimizer step, prepared ahead on a thread of its own.
#pragma once

#include <condition_variable>
#include <cstdint>
#include <deque>
#include <exception>
#include <memory>
#include <mutex>
#include <thread>
#include <vector>

#include "data/micro_batch.h"
#include "data/order.h"
#include "data/shards.h"

namespace llmc {

/// The whole state of the loader is one number, the samples consumed: a loader started at `first_sample` gives the same
/// batches as one that got there. Its thread reads files and counts; it starts no other threads (no OpenMP), takes no
/// signals, and stays at most two steps ahead.
class Loader {
 public:
  /// `sequences_per_step` is a multiple of `micro_batch`; all are counted in sequences of `sequence_length` tokens.
  /// Throws Failure(Exit::data) when the shards hold no sample.
  Loader(std::shared_ptr<const TokenShards> shards, std::uint64_t seed, std::int64_t sequence_length,
         std::int64_t micro_batch, std::int64_t sequences_per_step, std::int64_t first_sample);
  ~Loader();
  Loader(const Loader&) = delete;
  Loader& operator=(const Loader&) = delete;

  /// The next step's batch; waits for it. `used` gives its memory back for a later batch. What the thread threw is
  /// thrown here, again on every further call.
  StepBatch next(StepBatch used = {});
  std::int64_t samples_per_epoch() const { return samples_.count(); }

 private:
  void run();
  void fill(StepBatch& batch, std::int64_t consumed);

  Samples samples_;
  SampleOrder order_;
  std::int64_t micro_batch_, sequences_per_step_, consumed_;
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
