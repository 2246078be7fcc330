#include "compiler/passes/choice.h"

#include <string>

#include "error.h"

namespace llmc::passes {

using namespace graph;

namespace {

Groups group_of(const std::string& word) {
  constexpr struct {
    const char* word;
    Group group;
  } kWords[] = {{"norms", Group::norms},       {"qkv", Group::qkv},         {"attention", Group::attention},
                {"residual", Group::residual}, {"gate_up", Group::gate_up}, {"swiglu", Group::swiglu}};
  for (const auto& row : kWords)
    if (word == row.word) return static_cast<Groups>(row.group);
  throw Failure(Exit::internal, "memory.recompute has no " + word);
}

}  // namespace

std::vector<Groups> recompute_of(const spec::Spec& spec) {
  const spec::Recompute& wish = spec.memory.recompute;
  std::vector<Groups> layers(static_cast<std::size_t>(spec.model.num_hidden_layers), 0);
  for (std::size_t layer = 0; layer < layers.size(); ++layer) switch (wish.kind) {
      case spec::Recompute::Kind::none: break;
      case spec::Recompute::Kind::full: layers[layer] = kAllGroups; break;
      case spec::Recompute::Kind::every:
        if (static_cast<std::int64_t>(layer) % wish.every == 0) layers[layer] = kAllGroups;
        break;
      case spec::Recompute::Kind::ops:
        for (const std::string& word : wish.ops) layers[layer] |= group_of(word);
        break;
    }
  return layers;
}

Choice choice_of(const spec::Spec& spec) {
  return {spec.batch.micro_batch, spec.memory.loss_chunk, recompute_of(spec)};
}

}  // namespace llmc::passes
