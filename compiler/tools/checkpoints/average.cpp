#include "compiler/tools/checkpoints/average.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "compiler/tools/checkpoints/blocks.h"
#include "error.h"

namespace llmc::checkpoints {

std::vector<CheckpointTensor> weights_of(const Contents& contents) {
  std::vector<CheckpointTensor> weights;
  for (const CheckpointTensor& tensor : contents.tensors)
    if (tensor.moment.empty()) weights.push_back(tensor);
  return weights;
}

void check_averaged(std::span<const Contents> checkpoints) {
  const Contents& first = checkpoints.front();
  const Contents* tokenized = nullptr;  // the first checkpoint that records a tokenizer
  for (const Contents& other : checkpoints) {
    if (const std::string keys = spec::model_changes(first.values.spec, other.values.spec); !keys.empty())
      throw Failure(Exit::checkpoint,
                    fmt::format("'{}' has another model than '{}': {}. Average checkpoints of one model",
                                other.path.string(), first.path.string(), keys));
    if (other.state.tokenizer.empty()) continue;
    if (!tokenized) tokenized = &other;
    if (other.state.tokenizer != tokenized->state.tokenizer)
      throw Failure(
          Exit::checkpoint,
          fmt::format("'{}' was trained with another tokenizer than '{}': its checksum is {}, not {}. Average "
                      "checkpoints of one tokenizer",
                      other.path.string(), tokenized->path.string(), other.state.tokenizer,
                      tokenized->state.tokenizer));
  }
}

void for_each_mean(std::span<const CheckpointTensor> tensors,
                   const std::function<void(std::span<const float>)>& block) {
  std::vector<TensorNumbers> numbers;
  for (const CheckpointTensor& tensor : tensors) numbers.emplace_back(tensor, tensors);
  std::vector<float> values;
  std::vector<double> sums;
  std::vector<std::byte> bytes;
  const std::int64_t all = tensors.front().elements();
  for (std::int64_t at = 0; at < all; at += static_cast<std::int64_t>(values.size())) {
    values.resize(static_cast<std::size_t>(std::min<std::int64_t>(kBlockElements, all - at)));
    for (std::size_t i = 0; i < tensors.size(); ++i) {
      numbers[i].next(values, bytes);
      if (!std::ranges::all_of(values, [](float value) { return std::isfinite(value); }))
        throw Failure(Exit::checkpoint, fmt::format("{} has a weight that is not finite. Leave this checkpoint out",
                                                    tensors[i].reader->tensor(tensors[i].name())));
      if (i == 0)  // not added to 0, which would lose the sign of -0
        sums.assign(values.begin(), values.end());
      else
        std::ranges::transform(sums, values, sums.begin(), [](double sum, float value) { return sum + value; });
    }
    const auto count = static_cast<double>(tensors.size());
    std::ranges::transform(sums, values.begin(), [&](double sum) { return static_cast<float>(sum / count); });
    block(values);
  }
}

}  // namespace llmc::checkpoints
