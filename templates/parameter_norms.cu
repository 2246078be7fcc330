// norms[p] = L2 norms of parameter p's gradient, weight and last update, from the partial sums of its chunks, in order.
// first_chunk [kParameters + 1]; norms [kParameters, 3].
#include "device/group.h"
#include "params.h"

namespace llmc {

LLMC_KERNEL parameter_norms(const float* gradient_partial, const float* weight_partial, const float* update_partial,
                            const int* first_chunk, float* norms) {
  const Group<kLanes> g;
  for (int p : g.rows(kParameters)) {
    const int begin = first_chunk[p];
    const int count = first_chunk[p + 1] - begin;
    const double gradient = g.sum_of(count, [=](int i) { return static_cast<double>(gradient_partial[begin + i]); });
    const double weight = g.sum_of(count, [=](int i) { return static_cast<double>(weight_partial[begin + i]); });
    const double update = g.sum_of(count, [=](int i) { return static_cast<double>(update_partial[begin + i]); });
    if (g.first()) {
      norms[3 * p] = static_cast<float>(sqrt(gradient));
      norms[3 * p + 1] = static_cast<float>(sqrt(weight));
      norms[3 * p + 2] = static_cast<float>(sqrt(update));
    }
  }
}

}  // namespace llmc
