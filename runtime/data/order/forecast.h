// Forecasts how a run uses its sources: how long each lasts, and what the run repeats.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "data/order/sources.h"

namespace llmc {

/// Use of a source up to the end of a run.
struct SourceForecast {
  std::string name;
  double share = 0;          // of the samples, from the start on
  std::int64_t samples = 0;  // of one epoch
  double lasts = 0;          // steps that one epoch of it lasts
  double epochs = 0;         // passes over it at the end of the run
  double repeats = 0;        // samples seen before, as a part of all samples of the run
};

/// Steps from `done` to `stop` of `sequences` samples each, of `sequence_length` tokens, from `start` on. `fixed`: the
/// number of steps is compiled in.
struct RunLength {
  std::int64_t done = 0, stop = 0, sequences = 1, sequence_length = 1;
  bool fixed = false;
};

std::vector<SourceForecast> forecast(const Sources& sources, const DataPosition& start, const RunLength& run);

/// "code: 20.0 % of the samples; lasts 750 steps; 4.17 epochs, 15.2 % of the run repeats it"
std::string forecast_text(const SourceForecast& source);

/// Warnings on sources whose weight is so small that no sample of them is ever drawn.
std::vector<std::string> never_drawn(const Sources& sources);

/// Throws Failure(data) if the run exceeds most_epochs of a source; names the largest number of steps that does not.
void check_most_epochs(const Sources& sources, const DataPosition& start, const RunLength& run);

}  // namespace llmc
