// neuron_factors: factors of the rows of a matrix that Muon has orthogonalised, by a second moment of each row, a
// neuron's (NorMuon, Li et al. 2025); a skipped step does not change the moments.
//   v = beta2 v + (1 - beta2) mean(x^2), factor = size / (sqrt(v) + eps)
// With that size the matrix has norm sqrt(min(kRows, kCols)) times Muon's factor of an update; with `equilibrate` x has
// norm sqrt(min(kRows, kCols)).
#include "device/group.h"
#include "device/muon.h"
#include "params.h"

namespace llmc {

/// norms: of rows x; moments: v; factors [kRows], finite even if v is 0 and eps the least. scalars [1].
LLMC_BOUNDS(kLanes)
LLMC_KERNEL neuron_factors(const float* __restrict__ norms, const MuonScalars* __restrict__ scalars,
                           const StepResults* __restrict__ results, float* __restrict__ moments,
                           float* __restrict__ factors) {
  const Group<kLanes> lanes;
  if (!lanes.alone()) return;
  const bool skipped = results->skipped;
  const float rest = 1.0f - scalars->beta2, eps = scalars->eps;
  const auto rows = lanes.load(lanes.row<kRows>(norms));
  const float norm = sqrt(lanes.sum(rows, [](float n) { return n * n; }));
  const float even = scalars->equilibrate ? muon_to_norm<kRows, kCols>(norm) : 1.0f;
  const auto out = lanes.unaligned_row<kRows>(moments);  // other matrices' rows are before these
  const auto before = lanes.load(out);
  const auto moment = [=](float n, float v) {
    const float x = n * even;
    return skipped ? v : fma(rest, x * x / kCols - v, v);
  };
  const float squares = lanes.sum(rows, before, [=](float n, float v) {
    const float scaled = n / (sqrt(moment(n, v)) + eps);
    return scaled * scaled;
  });
  const float wanted = muon_size<kRows, kCols>(scalars->original) * muon_to_norm<kRows, kCols>(sqrt(squares));
  const float most = 1e38f * eps;  // rows of zeros times infinity would be NaN
  const float size = wanted < most ? wanted : most;
  lanes.store(lanes.row<kRows>(factors), rows, before,
              [=](float n, float v) { return size / (sqrt(moment(n, v)) + eps); });
  lanes.store(out, rows, before, moment);
}

}  // namespace llmc
