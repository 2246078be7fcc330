#include "math/tuning.h"

#include "error.h"

namespace llmc {

std::string tune_products(Device&, std::span<const GemmShape>, std::size_t,
                          const std::function<void(const TunedProduct&)>&) {
  throw Failure(Exit::usage, "tune is for GPUs: on a CPU oneDNN knows one kernel for a product, and takes it");
}

std::string describe_tuning(std::span<const GemmShape>, std::size_t) { return ""; }

}  // namespace llmc
