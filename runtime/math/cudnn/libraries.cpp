#include "math/libraries.h"

#include "math/attention.h"
#include "math/cublaslt/library.h"

namespace llmc {

std::vector<std::string> library_versions() { return {cublaslt_version(), cudnn_name()}; }

}  // namespace llmc
