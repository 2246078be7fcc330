// State of a run's guards: part of a checkpoint, so that a resumed run judges its steps by the same numbers.
#pragma once

#include <cstdint>
#include <vector>

namespace llmc {

/// Of the smoothed loss that guards.plateau watches.
struct PlateauState {
  std::int64_t block = 0;     // steps of a mean; 0: not watched, and only `told` may be set
  std::vector<double> means;  // of the last blocks, oldest first
  double sum = 0;             // of the losses of the block that has begun
  std::int64_t count = 0;     // their number
  bool told = false;

  bool operator==(const PlateauState&) const = default;
};

struct GuardState {
  std::vector<double> losses, grad_norms;  // of the last applied steps, oldest first; of equal length
  std::int64_t newest = 0;                 // step of the last of them; 0: none
  std::vector<std::int64_t> skipped;       // last skipped steps, ascending
  std::int64_t rollbacks = 0;
  PlateauState plateau = {};

  bool operator==(const GuardState&) const = default;
};

}  // namespace llmc
