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
#include "data/order.h"
#include "data/shards.h"

namespace llmc {

/// Which micro-batches of a step a rank runs: consecutive ones, as many as the others or one more or fewer.
struct RankShare {
  int rank = 0, ranks = 1;
  bool all = false;  // the loader gives the others' as well

  std::int64_t begin(std::int64_t micro_batches) const { return micro_batches * rank / ranks; }
  std::int64_t past(std::int64_t micro_batches) const { return micro_batches * (rank + 1) / ranks; }
};

/// The whole state of the loader is its position: a loader started there gives the same batches as one that got there.
/// Where the position has stretches of other lengths, the epoch goes on in the order of this length: a target that they
/// have trained on is -1 (its token is context only), and a sample without any other is passed over. So every target of
/// an epoch is trained on once, but for the tails of shards that a length drops.
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
  std::int64_t samples_per_epoch() const { return samples_.count(); }

 private:
  void run();
  void fill(StepBatch& batch);
  void fill(MicroBatch& micro, StepBatch& batch);
  void pass_over(StepBatch& batch);
  template <class Read>
  std::uint64_t next_sample(Read read);
  std::int64_t mask_visited(std::uint64_t sample, std::span<std::int32_t> targets) const;
  void step_place();

  /// A stretch of this epoch before the current one.
  struct Earlier {
    Samples samples;
    SampleOrder order;
    std::uint64_t places;
  };

  Samples samples_;
  SampleOrder order_;
  std::vector<Earlier> earlier_;
  std::int64_t micro_batch_, sequences_per_step_;
  DataPosition position_;
  RankShare share_;
  std::vector<std::int32_t> sample_, targets_, counts_;  // scratch of the thread

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
