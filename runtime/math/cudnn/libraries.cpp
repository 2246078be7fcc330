#include "math/libraries.h"

#include <cudnn.h>

#include "math/cublaslt/library.h"

namespace llmc {

std::vector<std::string> library_versions() {
  const std::size_t version = cudnnGetVersion();  // 91900: 9.19.0
  return {cublaslt_version(), "cuDNN " + std::to_string(version / 10000) + "." + std::to_string(version / 100 % 100) +
                                  "." + std::to_string(version % 100)};
}

}  // namespace llmc
