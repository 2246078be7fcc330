// State of a run's guards: part of a checkpoint, so that a resumed run judges its steps by the same numbers.
#pragma once

#include <cstdint>
#include <vector>

namespace llmc {

struct GuardState {
  std::vector<double> losses, grad_norms;  // of the last applied steps, oldest first; of equal length
  std::int64_t newest = 0;                 // step of the last of them; 0: none
  std::vector<std::int64_t> skipped;       // last skipped steps, ascending
  std::int64_t rollbacks = 0;

  bool operator==(const GuardState&) const = default;
};

}  // namespace llmc
