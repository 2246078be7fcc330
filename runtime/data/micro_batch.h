// Host tensors of one micro-batch and one optimizer step, laid out like the inputs of buffers.h.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "data/order/position.h"
#include "data/order/sample_id.h"

namespace llmc {

struct MicroBatch {
  std::vector<std::int32_t> inputs, targets;  // [micro_batch * T]; a target of -1 is ignored by the loss
  std::vector<std::int32_t> order;            // [micro_batch * T]: positions sorted by their input token, stable
  std::vector<std::int32_t>
      run_begin;  // [micro_batch * T + 1]: start of each distinct token's run in `order`, then the end
  std::vector<std::int32_t> run_token;  // [micro_batch * T]: the distinct tokens, ascending; zero past run_count
  std::int32_t run_count = 0;
  // [micro_batch * T] each, of a run whose samples are divided: data/documents.h. Otherwise empty.
  std::vector<std::int32_t> document_begin, document_end;
  std::int64_t target_count = 0;  // targets that are not -1
};

struct StepBatch {
  std::vector<MicroBatch> micro_batches;  // this rank's, or all
  std::size_t begin = 0, past = 0;        // this rank's are [begin, past)
  std::int64_t target_count = 0;          // over the micro-batches of all ranks
  DataPosition end;                       // position after this step
  std::vector<SampleId> sample_ids;       // [sequences_per_step], in training order
};

/// Writes row `row` of the batch from a sample of T + 1 tokens: inputs are tokens [0, T), targets are tokens [1, T].
void set_row(MicroBatch& batch, std::int64_t row, std::span<const std::int32_t> sample);

/// Same tokens without targets: no loss, and zero gradients.
MicroBatch without_targets(MicroBatch batch);

/// Computes order, run_begin, run_token, run_count and target_count from inputs and targets by a counting sort.
/// `counts` is scratch, reusable between calls. Every input must be in [0, 2^31).
void index_tokens(MicroBatch& batch, std::vector<std::int32_t>& counts);

}  // namespace llmc
