#include "data/loader.h"

#include <fmt/format.h>
#include <pthread.h>
#include <signal.h>

#include <algorithm>
#include <span>

#include "error.h"

namespace llmc {

namespace {

constexpr std::size_t kStepsAhead = 2;

void shape(MicroBatch& batch, std::int64_t rows, std::int64_t sequence_length) {
  batch.inputs.resize(static_cast<std::size_t>(rows * sequence_length));
  batch.targets.resize(batch.inputs.size());
}

}  // namespace

Loader::Loader(const Sources& sources, std::uint64_t seed, std::int64_t sequence_length, std::int64_t micro_batch,
               std::int64_t sequences_per_step, const DataPosition& start, RankShare share)
    : walk_(sources, seed, sequence_length, start),
      sequence_length_(sequence_length),
      micro_batch_(micro_batch),
      sequences_per_step_(sequences_per_step),
      share_(share),
      sample_(static_cast<std::size_t>(sequence_length) + 1) {
  if (micro_batch < 1 || sequences_per_step < 1 || sequences_per_step % micro_batch != 0 ||
      sequences_per_step / micro_batch < share.self.size)
    throw Failure(Exit::internal,
                  fmt::format("the loader cannot split {} sequences a step into micro-batches of {} for {} ranks",
                              sequences_per_step, micro_batch, share.self.size));
  // Only the main thread handles signals. A new thread inherits the mask set around its start.
  sigset_t all, before;
  sigfillset(&all);
  sigdelset(&all, SIGBUS);  // raised in the reading thread by a truncated shard
  pthread_sigmask(SIG_SETMASK, &all, &before);
  thread_ = std::thread([this] { run(); });
  pthread_sigmask(SIG_SETMASK, &before, nullptr);
}

Loader::~Loader() {
  {
    const std::lock_guard lock(mutex_);
    stop_ = true;
  }
  changed_.notify_all();
  thread_.join();
}

StepBatch Loader::next(StepBatch used) {
  std::unique_lock lock(mutex_);
  if (!used.micro_batches.empty() && free_.size() < kStepsAhead) free_.push_back(std::move(used));
  changed_.wait(lock, [&] { return !ready_.empty() || error_; });
  if (ready_.empty()) std::rethrow_exception(error_);
  StepBatch batch = std::move(ready_.front());
  ready_.pop_front();
  lock.unlock();
  changed_.notify_all();
  return batch;
}

void Loader::run() {
  try {
    while (true) {
      StepBatch batch;
      {
        std::unique_lock lock(mutex_);
        changed_.wait(lock, [&] { return stop_ || ready_.size() < kStepsAhead; });
        if (stop_) return;
        if (!free_.empty()) {
          batch = std::move(free_.front());
          free_.pop_front();
        }
      }
      fill(batch);
      const std::lock_guard lock(mutex_);
      ready_.push_back(std::move(batch));
      changed_.notify_all();
    }
  } catch (...) {
    const std::lock_guard lock(mutex_);
    error_ = std::current_exception();
    changed_.notify_all();
  }
}

void Loader::fill(StepBatch& batch) {
  const std::int64_t count = sequences_per_step_ / micro_batch_;
  const std::int64_t first = share_.begin(count), past = share_.past(count), skipped = share_.all ? 0 : first;
  batch.micro_batches.resize(static_cast<std::size_t>(share_.all ? count : past - first));
  batch.begin = static_cast<std::size_t>(first - skipped);
  batch.past = static_cast<std::size_t>(past - skipped);
  batch.sample_ids.clear();
  batch.target_count = 0;
  for (std::int64_t i = 0; i < count; ++i)
    if (share_.all || (i >= first && i < past))
      fill(batch.micro_batches[static_cast<std::size_t>(i - skipped)], batch);
    else
      pass_over(batch);
  batch.end = walk_.position();
}

void Loader::fill(MicroBatch& micro, StepBatch& batch) {
  const std::int64_t length = sequence_length_;
  shape(micro, micro_batch_, length);
  for (std::int64_t row = 0; row < micro_batch_; ++row) {
    const auto visited = walk_.next([&](SampleId of) {
      walk_.samples(of.source).read(static_cast<std::int64_t>(of.id), sample_);
      set_row(micro, row, sample_);
      return std::span(micro.targets).subspan(static_cast<std::size_t>(row * length), static_cast<std::size_t>(length));
    });
    batch.sample_ids.push_back(visited.sample);
  }
  index_tokens(micro, counts_);
  batch.target_count += micro.target_count;
}

/// For another rank's micro-batch only sample numbers and target counts are needed.
void Loader::pass_over(StepBatch& batch) {
  for (std::int64_t row = 0; row < micro_batch_; ++row) {
    const auto [sample, targets] = walk_.next();
    batch.sample_ids.push_back(sample);
    batch.target_count += targets;
  }
}

std::vector<MicroBatch> evaluation_batches(std::shared_ptr<const TokenShards> shards, std::int64_t sequence_length,
                                           std::int64_t micro_batch, std::int64_t sequences) {
  const Samples samples(std::move(shards), sequence_length);
  const std::int64_t wanted = std::min(sequences, samples.count());
  std::vector<std::int32_t> sample(static_cast<std::size_t>(sequence_length) + 1), counts;
  std::vector<MicroBatch> batches(static_cast<std::size_t>((wanted + micro_batch - 1) / micro_batch));
  std::int64_t taken = 0;
  for (MicroBatch& batch : batches) {
    shape(batch, micro_batch, sequence_length);
    std::ranges::fill(batch.inputs, 0);
    std::ranges::fill(batch.targets, -1);
    for (std::int64_t row = 0; row < micro_batch && taken < wanted; ++row, ++taken) {
      // taken * count / wanted, without the product, which could exceed 2^63
      const std::int64_t stride = samples.count() / wanted, rest = samples.count() % wanted;
      samples.read(taken * stride + taken * rest / wanted, sample);
      set_row(batch, row, sample);
    }
    index_tokens(batch, counts);
  }
  return batches;
}

}  // namespace llmc
