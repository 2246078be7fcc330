// Size of Muon's updates.
#pragma once

#include "device/math.h"
#include "device/types.h"

namespace llmc {

/// Factor on an orthogonalised matrix of rows x cols: 0.2 sqrt(max(rows, cols)), with which learning rates of AdamW
/// serve (Liu et al. 2025); or sqrt(max(1, rows / cols)) (Jordan et al. 2024).
template <int kMatrixRows, int kMatrixCols>
LLMC_HD inline float muon_size(bool original) {
  constexpr float kLong = kMatrixRows < kMatrixCols ? kMatrixCols : kMatrixRows;
  constexpr float kAspect = kMatrixRows < kMatrixCols ? 1.0f : static_cast<float>(kMatrixRows) / kMatrixCols;
  return original ? sqrt(kAspect) : 0.2f * sqrt(kLong);
}

/// Factor that brings a matrix from this Frobenius norm to sqrt(min(rows, cols)), that of singular values of 1.
template <int kMatrixRows, int kMatrixCols>
LLMC_HD inline float muon_to_norm(float norm) {
  constexpr float kShort = kMatrixRows < kMatrixCols ? kMatrixRows : kMatrixCols;
  constexpr float kLeast = 1e-7f;  // norm of a matrix of zeros
  return sqrt(kShort) / (norm > kLeast ? norm : kLeast);
}

}  // namespace llmc
