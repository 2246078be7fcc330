// The lines of metrics.jsonl and samples.jsonl, and what TensorBoard shows of a step.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "device/types.h"
#include "program/program.h"
#include "run/event.h"
#include "train/audit.h"
#include "train/evaluation.h"
#include "train/sampling.h"

namespace llmc {

/// One step; each has a line. Losses are in nats a target.
struct StepMetrics {
  std::int64_t step =
      0;  // optimizer steps done, this one included: checkpoint step-N has the metrics of step N as its last
  StepResults results;                  // of this step's batch, before its update
  double lr = 0;                        // of this step
  double data_wait = 0;                 // seconds of this step in which the loop waited for its batch
  double epochs = 0;                    // trained on so far, a part of one included
  std::optional<double> mfu;            // of this step; nothing where no peak is known
  std::optional<double> product_share;  // the same of the measured rate of products; nothing where that is not known
  std::optional<double> evaluation_seconds;
  std::optional<Audited> audited;
  std::optional<double> saving_seconds;  // of the save between the step before and this one
  struct Memory {
    std::int64_t allocated, resident;  // bytes: on the device; of the process in the machine's memory
  };
  std::optional<Memory> memory;
  double ignored = 0;                              // share of the batch's tokens without a target
  std::int64_t tokens = 0;                         // trained on so far
  double tokens_per_second = 0;                    // of this step: evaluation, sampling and saving are not counted
  double seconds = 0;                              // since the trainer started
  double total_seconds = 0;                        // with those of the starts that this one goes on from
  std::span<const Validation> validation;          // of each set
  std::span<const std::uint64_t> skipped_samples;  // not empty: the update was skipped, and these were its samples
  const char* skip_reason = "";                    // then: guards.h
  std::span<const float> parameter_norms;          // [parameters, 3] gradient, weight, update; empty: not logged
};

/// One JSON object without a line break; numbers that are not finite are null. "skipped" lists sample ids,
/// "skip_reason" says why; "per_parameter" maps Hugging Face names to {"grad", "weight", "update", "ratio"}, the last
/// of update to weight; of a skipped update, which computes no others, to {"grad"}.
std::string format_metrics(const StepMetrics& metrics, std::span<const ParameterInfo> parameters);

/// The total_seconds of such a line, of older ones the seconds; 0 where it has neither.
double seconds_of(const std::string& line);

/// The same as scalars of TensorBoard: "train/KEY" for each key of the line, with the number of samples for "skipped",
/// "audit/loss" and "audit/difference", "validation/loss", "validation/top1" and "validation/bits_per_byte", of a named
/// set with "/NAME" behind, and
/// "grad/NAME", "weight/NAME", "update/NAME" and "ratio/NAME" for "per_parameter".
std::vector<Scalar> metrics_scalars(const StepMetrics& metrics, std::span<const ParameterInfo> parameters);

/// {"step", "prompt", "text"}; bytes that are no UTF-8 become U+FFFD.
std::string format_sample(std::int64_t step, const Sample& sample);

/// {"seconds_to_training", "seconds_to_first_step", "steps": [seconds, ...]}, from the start of the process.
std::string format_timing(double seconds_to_training, double seconds_to_first_step, std::span<const double> steps);

}  // namespace llmc
