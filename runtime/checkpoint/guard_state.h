// What the guards of a run remember: part of a checkpoint, so that a resumed run judges its steps by the same numbers.
#pragma once

#include <cstdint>
#include <vector>

namespace llmc {

struct GuardState {
  std::vector<double> losses, grad_norms;  // of the last steps that were applied, oldest first; of equal length
  std::int64_t newest = 0;                 // the step of the last of them; 0: there is none
  std::vector<std::int64_t> skipped;       // the last steps that were not, ascending
  std::int64_t rollbacks = 0;

  bool operator==(const GuardState&) const = default;
};

}  // namespace llmc
