// Formats the lines of metrics.jsonl and samples.jsonl, and the scalars TensorBoard shows of a step.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "data/order/sources.h"
#include "device/types.h"
#include "program/outputs.h"
#include "program/program.h"
#include "run/event.h"
#include "train/audit.h"
#include "train/evaluation.h"
#include "train/sampling.h"
#include "train/task.h"

namespace llmc {

/// Metrics of one step, written as one line. Losses are in nats per target.
struct StepMetrics {
  std::int64_t step =
      0;  // optimizer steps done, this one included: the last metrics of checkpoint step-N are those of step N
  StepResults results;                  // of this step's batch, before its update
  std::span<const Figure> figures;      // other than its loss
  std::optional<float> loss_scale;      // of this step's gradients; nothing if they have none
  double lr = 0;                        // of this step
  double data_wait = 0;                 // seconds of this step in which the loop waited for its batch
  double epochs = 0;                    // trained on so far, including a fraction
  std::optional<double> mfu;            // of this step; nothing without a known peak
  std::optional<double> product_share;  // same, relative to the measured GEMM rate; nothing if that is unknown
  std::optional<double> evaluation_seconds;
  std::optional<Audited> audited;
  std::optional<double> saving_seconds;  // of the save between the previous step and this one
  struct Memory {
    std::int64_t allocated, resident;  // bytes: allocated on the device; resident memory of the process
  };
  std::optional<Memory> memory;
  double ignored = 0;                         // fraction of the batch's tokens without a target
  std::int64_t tokens = 0;                    // trained on so far
  std::vector<SourceUse> sources;             // of each source with a name
  double tokens_per_second = 0;               // of this step, without evaluation, sampling and saving
  double seconds = 0;                         // since the trainer started
  double total_seconds = 0;                   // including the earlier starts that this one resumes
  std::span<const Validation> validation;     // of each set
  std::span<const TaskResult> answers;        // of each task
  std::span<const SampleId> skipped_samples;  // not empty: samples of the step whose update was skipped
  const SampleNames* sample_names = nullptr;  // of these; null: numbers
  const char* skip_reason = "";               // reason for skipping: guards.h
  std::span<const float> parameter_norms;     // [parameters, 3] gradient, weight, update; empty: not logged
};

/// Formats one JSON object without a line break; non-finite numbers become null. "skipped" lists sample ids,
/// "skip_reason" gives the reason. "per_parameter" maps Hugging Face names to {"grad", "weight", "update", "ratio"};
/// ratio is update to weight. For a skipped update, which computes no others, it is {"grad"}.
std::string format_metrics(const StepMetrics& metrics, std::span<const ParameterInfo> parameters);

/// total_seconds of such a line, or seconds in lines of older versions; 0 if it has neither.
double seconds_of(const std::string& line);

/// Returns the same values as TensorBoard scalars: "train/KEY" for each key of the line, with the number of samples for
/// "skipped"; "audit/loss" and "audit/difference"; "validation/loss", "validation/top1" and "validation/bits_per_byte",
/// with suffix "/NAME" for a named set; "task/NAME" and "task/NAME/norm"; "grad/NAME", "weight/NAME", "update/NAME" and
/// "ratio/NAME" for "per_parameter".
std::vector<Scalar> metrics_scalars(const StepMetrics& metrics, std::span<const ParameterInfo> parameters);

/// {"step", "prompt", "text"}; bytes that are not UTF-8 become U+FFFD.
std::string format_sample(std::int64_t step, const Sample& sample);

/// {"seconds_to_training", "seconds_to_first_step", "steps": [seconds, ...]}, counted from the start of the process.
std::string format_timing(double seconds_to_training, double seconds_to_first_step, std::span<const double> steps);

}  // namespace llmc
