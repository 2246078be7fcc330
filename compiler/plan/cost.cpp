#include "compiler/plan/cost.h"

#include <algorithm>

#include "compiler/plan/kernels.h"
#include "error.h"

namespace llmc::plan {

using namespace graph;

namespace {

template <class T>
void add_once(std::vector<T>& list, const T& item) {
  for (const T& known : list)
    if (known.name == item.name) return;
  list.push_back(item);
}

std::int64_t times(const Graph& graph, const Region& region) {
  switch (region.loop) {
    case Loop::once: return 1;
    case Loop::layers_up:
    case Loop::layers_down: return static_cast<std::int64_t>(region.layers.size());
    case Loop::loss_chunks: return graph.tokens() / graph.chunk_rows;
  }
  return 1;
}

/// Elements of the residual stream that an op reads and writes; the rows of the embedding have its dtype.
std::int64_t stream_elements(const Graph& graph, const Op& op) {
  switch (op.kind) {
    case OpKind::embedding: return 2 * graph.at(op.outputs[0]).elements();
    case OpKind::rms_norm: return graph.at(op.inputs[0]).elements();
    case OpKind::rms_norm_backward: return graph.at(op.inputs[1]).elements();
    case OpKind::linear: return op.residual ? 2 * graph.at(op.outputs[0]).elements() : 0;
    default: return 0;
  }
}

/// Bytes that one launch of an accumulating product reads of its result, on average: the first one of a step reads none.
double accumulated_bytes(const Plan& plan, const Region& region, const Product& product) {
  if (!product.shape.accumulates) return 0;
  const std::int64_t chunks = region.loop == Loop::loss_chunks ? times(plan.graph, region) : 1;
  const double launches = static_cast<double>(chunks * plan.micro_batches());
  return 4 * static_cast<double>(product.shape.m * product.shape.n) * (launches - 1) / launches;
}

}  // namespace

void list_work(Plan& plan) {
  const Graph& g = plan.graph;
  const spec::Model& m = plan.spec.model;
  const std::int64_t wider = bytes_of(plan.spec.residual, 1) - bytes_of(plan.spec.compute, 1);
  for (const Region& region : g.regions) {
    const bool trains = region.part != Part::evaluate && region.part != Part::sample && region.part != Part::initialise &&
                        region.part != Part::refresh;
    for (const Op& op : region.ops) {
      Launch launch{.region = region.name, .op = op.name, .what = op.name, .kind = "kernel",
                    .times = times(g, region), .per_step = region.part == Part::optimizer};
      launch.stream_bytes = static_cast<double>(wider * stream_elements(g, op));
      if (const auto product = product_for(g, region, op)) {
        add_once(plan.products, *product);
        launch.what = product->name;
        launch.kind = "gemm";
        launch.bytes = product->bytes + accumulated_bytes(plan, region, *product);
        launch.flops = product->flops;
      } else if (const auto kernels = kernels_for(g, region, op, plan.parameters, plan.spec); !kernels.empty()) {
        for (const Kernel& kernel : kernels) {
          for (const Kernel& known : plan.kernels)
            if (known.name == kernel.name && known.key() != kernel.key())
              throw Failure(Exit::internal, "two kernels named " + known.name + ": " + known.key() + " and " + kernel.key());
          add_once(plan.kernels, kernel);
          launch.what = kernel.name;
          launch.bytes = kernel.bytes;
          launch.flops = kernel.flops;
          if (trains && &kernel != &kernels.back()) plan.launches.push_back(launch);
        }
      } else if (op.kind == OpKind::zero) {
        launch.kind = "memset";
        launch.per_step = true;  // what later micro-batches add to, the first one zeros
        launch.bytes = static_cast<double>(g.at(op.outputs[0]).bytes());
      } else {
        const bool backward = op.kind == OpKind::attention_backward;
        const double square = static_cast<double>(g.batch * g.heads * g.sequence) * static_cast<double>(g.sequence * g.head_dim);
        launch.kind = "attention";
        launch.what = backward ? "attention backward (cuDNN)" : "attention forward (cuDNN)";
        for (const auto* list : {&op.inputs, &op.outputs})
          for (TensorId id : *list)
            if (id != (backward ? op.outputs[1] : kNone)) launch.bytes += static_cast<double>(g.at(id).bytes());
        launch.flops = (backward ? 5 : 2) * square;
      }
      if (trains) plan.launches.push_back(std::move(launch));
    }
  }

  Cost& cost = plan.cost;
  const double heads = static_cast<double>(m.num_attention_heads * m.head_dim);
  const double kv = static_cast<double>(m.num_key_value_heads * m.head_dim), hidden = static_cast<double>(m.hidden_size);
  const double layers = static_cast<double>(m.num_hidden_layers);
  cost.linear_flops_per_token =
      6 * (layers * (hidden * (heads + 2 * kv) + heads * hidden + 3 * hidden * static_cast<double>(m.intermediate_size)) +
           hidden * static_cast<double>(m.vocab_size));
  cost.attention_flops_per_token = 6 * layers * heads * static_cast<double>(g.sequence);
  cost.model_flops_per_token = cost.linear_flops_per_token + cost.attention_flops_per_token;
  for (const Launch& launch : plan.launches) {
    const std::int64_t n = launch.times * (launch.per_step ? 1 : plan.micro_batches());
    cost.launches_per_step += n;
    cost.hardware_flops_per_step += launch.flops * static_cast<double>(n);
    cost.bytes_per_step += launch.bytes * static_cast<double>(n);
    cost.stream_bytes_per_step += launch.stream_bytes * static_cast<double>(n);
  }
}

}  // namespace llmc::plan
