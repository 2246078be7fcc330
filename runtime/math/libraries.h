// Libraries whose versions determine the bits of a run.
#pragma once

#include <string>
#include <vector>

namespace llmc {

/// "oneDNN 2.6.3"; "cuBLASLt 13.1.0", "cuDNN 9.19.0".
std::vector<std::string> library_versions();

}  // namespace llmc
