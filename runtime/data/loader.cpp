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
               std::int64_t sequences_per_step, const DataPosition& start, RankShare share, DocumentRule documents)
    : walk_(sources, seed, sequence_length, start),
      sequence_length_(sequence_length),
      micro_batch_(micro_batch),
      sequences_per_step_(sequences_per_step),
      share_(share),
      documents_(documents),
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
  if (batch.target_count == 0 && documents_.mask_first)
    throw Failure(Exit::data,
                  "a step has no targets: each of its tokens follows a separator, and "
                  "data.documents.mask_first leaves such targets out. Write data.documents.separator: the "
                  "token that ends documents, or mask_first: false");
}

void Loader::fill(MicroBatch& micro, StepBatch& batch) {
  shape(micro, micro_batch_, sequence_length_);
  for (std::int64_t row = 0; row < micro_batch_; ++row) fill_row(micro, row, batch);
  index_tokens(micro, counts_);
  if (documents_.divides()) index_documents(micro, sequence_length_, documents_);
  batch.target_count += micro.target_count;
}

/// Reads the next sample, and returns the number of its targets that are not masked.
std::int64_t Loader::fill_row(MicroBatch& micro, std::int64_t row, StepBatch& batch) {
  const auto length = static_cast<std::size_t>(sequence_length_), first = static_cast<std::size_t>(row) * length;
  const std::span targets = std::span(micro.targets).subspan(first, length);
  const auto visited = walk_.next([&](SampleId of) {
    walk_.samples(of.source).read(static_cast<std::int64_t>(of.id), sample_);
    set_row(micro, row, sample_);
    return targets;
  });
  batch.sample_ids.push_back(visited.sample);
  mask_first_targets(std::span(micro.inputs).subspan(first, length), targets, documents_);
  return static_cast<std::int64_t>(length) - std::ranges::count(targets, -1);
}

/// For another rank's micro-batch only sample numbers and target counts are needed.
void Loader::pass_over(StepBatch& batch) {
  for (std::int64_t row = 0; row < micro_batch_; ++row) {
    if (documents_.mask_first) {
      shape(others_, 1, sequence_length_);
      batch.target_count += fill_row(others_, 0, batch);
      continue;
    }
    const auto [sample, targets] = walk_.next();
    batch.sample_ids.push_back(sample);
    batch.target_count += targets;
  }
}

EvaluationBatches evaluation_batches(std::shared_ptr<const TokenShards> shards, std::int64_t sequence_length,
                                     std::int64_t micro_batch, std::int64_t sequences, DocumentRule documents,
                                     DataRank self, const std::function<void(std::span<const std::int32_t>)>& visit) {
  const Samples samples(std::move(shards), sequence_length);
  const std::int64_t wanted = std::min(sequences, samples.count());
  std::vector<std::int32_t> sample(static_cast<std::size_t>(sequence_length) + 1), counts;
  EvaluationBatches batches;
  batches.count = (wanted + micro_batch - 1) / micro_batch;
  const bool idles = batches.count % self.size != 0 && self.index >= batches.count % self.size;
  MicroBatch batch;
  std::int64_t taken = 0;
  for (std::int64_t i = 0; i < batches.count; ++i) {
    shape(batch, micro_batch, sequence_length);
    std::ranges::fill(batch.inputs, 0);
    std::ranges::fill(batch.targets, -1);
    for (std::int64_t row = 0; row < micro_batch && taken < wanted; ++row, ++taken) {
      // taken * count / wanted, without the product, which could exceed 2^63
      const std::int64_t stride = samples.count() / wanted, rest = samples.count() % wanted;
      samples.read(taken * stride + taken * rest / wanted, sample);
      set_row(batch, row, sample);
      const auto length = static_cast<std::size_t>(sequence_length), first = static_cast<std::size_t>(row) * length;
      mask_first_targets(std::span(batch.inputs).subspan(first, length),
                         std::span(batch.targets).subspan(first, length), documents);
    }
    batches.targets += std::ranges::count_if(batch.targets, [](std::int32_t target) { return target != -1; });
    if (visit) visit(batch.targets);
    const bool own = i % self.size == self.index, first = i == 0 && idles;
    if (!own && !first) continue;
    index_tokens(batch, counts);
    if (documents.divides()) index_documents(batch, sequence_length, documents);
    if (first) batches.idle = without_targets(batch);
    if (own) batches.own.push_back(std::move(batch));
  }
  return batches;
}

}  // namespace llmc
