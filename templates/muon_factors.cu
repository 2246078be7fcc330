// muon_factors: factors of the rows of a matrix that Muon orthogonalises. Before the iterations they bring the matrix
// to Frobenius norm 1, or just below it; with `equilibrate` its rows to equal norms too. Of the result (kResult) they
// are the size of the update; with `equilibrate` for a Frobenius norm of sqrt(min(kRows, kCols)).
#include "device/group.h"
#include "device/muon.h"
#include "params.h"

namespace llmc {

/// norms, factors [kRows]; of a row of zeros the factor is 0 with `equilibrate`. scalars [1].
LLMC_BOUNDS(kLanes)
LLMC_KERNEL muon_factors(const float* __restrict__ norms, const MuonScalars* __restrict__ scalars,
                         float* __restrict__ factors) {
  constexpr float kLeast = 1e-7f;  // norm of a matrix of zeros
  const Group<kLanes> lanes;
  if (!lanes.alone()) return;
  const auto rows = lanes.load(lanes.row<kRows>(norms));
  const float norm = sqrt(lanes.sum(rows, [](float n) { return n * n; }));
  const bool equilibrate = scalars->equilibrate;
  if constexpr (kResult) {
    const float size = muon_size<kRows, kCols>(scalars->original);
    const float factor = equilibrate ? size * muon_to_norm<kRows, kCols>(norm) : size;
    lanes.store(lanes.row<kRows>(factors), rows, [=](float) { return factor; });
  } else {
    float mean = 1.0f, whole = norm;
    if (equilibrate) {
      mean = lanes.sum(rows, [](float n) { return n; }) / kRows;
      whole = mean * sqrt(lanes.sum(rows, [](float n) { return n > 0.0f ? 1.0f : 0.0f; }));  // rows of zeros stay so
    }
    const float inverse = 1.0f / (kPolarExpress ? fma(1.02f, whole, 1e-6f) : whole > kLeast ? whole : kLeast);
    lanes.store(lanes.row<kRows>(factors), rows, [=](float n) {
      return !equilibrate ? inverse : n > 0.0f ? mean / n * inverse : 0.0f;
    });
  }
}

}  // namespace llmc
