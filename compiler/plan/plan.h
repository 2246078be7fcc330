// The answer to "will it fit, how fast, why": every byte, every launch and every kernel of a run, as plain data.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "compiler/devices/device.h"
#include "compiler/graph/graph.h"
#include "compiler/ops/attention_choice.h"
#include "compiler/ops/op.h"
#include "compiler/passes/choice.h"
#include "compiler/plan/schedule.h"
#include "error.h"
#include "program/program.h"
#include "program/shards.h"
#include "spec/spec.h"

namespace llmc::plan {

/// A Hugging Face tensor inside a (possibly fused) parameter of the graph.
struct Slice {
  std::string name;         // "model.layers.3.self_attn.q_proj.weight"
  std::int64_t offset = 0;  // elements, in each flat parameter buffer
  std::int64_t rows = 0, cols = 0, pitch = 0;
  bool matrix = true;
  int group = 0;  // index into Graph::groups
  double init_std = 0, init_value = 0;
};

/// Where the parameters lie in the flat buffers: the vectors of all blocks, then the matrices of each, in the order of
/// the forward pass, so that each bucket is one stretch. Layer l's copy of a per-layer parameter is at offset + l *
/// layer_stride, of a vector at offset + l * vector_stride.
struct ParameterLayout : ops::FlatSizes {
  std::map<graph::TensorId, std::int64_t> offset;    // elements, of layer 0
  std::int64_t layer_stride = 0, vector_stride = 0;  // elements
  std::int64_t logical = 0;                          // parameters as papers count them
  std::vector<Slice> slices;                         // in the order of offsets

  /// Elements of a buffer of shares that has one for each `block` of those of some groups' parameters.
  std::int64_t state_elements(const Shares& shares, std::int64_t block, GroupSet groups) const {
    return in_blocks(shares.state_elements(buckets_of(groups)), block);
  }
};

/// A stretch of the arena under one name. What there is once a layer (or once a layer of a variant) repeats with a
/// stride.
struct Area {
  std::string name;  // "masters", "stream", "kept", "transients"
  std::size_t offset = 0, stride = 0;
  int shared = -1;  // of a buffer that ranks share out: its number among those
};

/// Memory behind the shares in which a bucket of a buffer that ranks share out is whole for a while, or in which it is
/// sent. With one rank there is none.
struct Window {
  std::size_t offset = 0;  // bytes from where windows begin
  std::size_t stride = 0;  // to the second one, where layers take turns
};

/// Bytes from the arena's start; what exists once a layer moves by `layer_stride`.
struct Place {
  std::size_t offset = 0;
  std::size_t layer_stride = 0;
  std::size_t area = 0;  // index into Layout::areas
};

/// One of the buffers that the host knows (buffers.h).
struct HostBuffer {
  std::string name;
  DType dtype = DType::f32;
  std::int64_t elements = 0;
  Use use = Use::unseen;
  std::size_t offset = 0;
  std::size_t area = 0;          // index into Layout::areas
  std::int64_t block = 1;        // as Buffer::block
  GroupSet groups = kAllGroups;  // as Buffer::groups

  std::size_t bytes() const { return static_cast<std::size_t>(bytes_of(dtype, elements)); }
};

/// Since when and until when a part of the arena is in use, within a step.
enum class Lasting { step, pass, op };  // all of it; from a layer's forward pass to its backward pass; while ops run

/// One named part of the arena, for people.
struct Section {
  std::string name;
  std::size_t offset = 0, bytes = 0;
  std::string what;
  Lasting lasting = Lasting::step;
};

/// A transient that is alive from the op at position `first` to that at `last`, both included.
struct Transient {
  graph::TensorId tensor = graph::kNone;
  std::size_t bytes = 0;
  int first = 0, last = 0;
};

struct Layout {
  std::size_t bytes = 0;  // of the arena
  std::vector<Section> sections;
  std::vector<Area> areas;
  std::vector<HostBuffer> buffers;                        // by offset
  std::map<graph::TensorId, Place> fixed;                 // what the host knows, and the stream
  std::map<graph::TensorId, Window> windows;              // of buckets, and of the wire
  std::size_t window_bytes = 0;                           // part of `bytes` where parallel.world_size is not 1
  std::size_t gradient_window_bytes = 0;                  // of these the first
  std::vector<std::map<graph::TensorId, Place>> regions;  // by region index: what else its ops touch
  std::size_t transient_bytes = 0, transient_bound = 0;   // packed size, and the most alive at once
  std::vector<std::size_t> region_bounds;                 // by region index: of these, while it runs
  std::vector<std::vector<std::size_t>> alive;            // by region and op: of these, while the op runs
  std::vector<std::size_t> region_kept;                   // by region index: bytes of the slab that it fills
  std::vector<Transient> transients;
  std::vector<int> region_begin;  // by region index: the position of its first op

  /// Where a region finds an activation, input or constant.
  const Place& find(const graph::Graph& graph, std::size_t region, graph::TensorId tensor) const;
};

using ops::Kernel;
using ops::KernelParam;
using ops::Product;

/// One launch: what a region runs, resolved to a kernel, a product or a library's function and its operands.
struct Launch {
  std::size_t region_index = 0;
  std::size_t op_index = 0;  // in its region
  std::string region, op;
  std::string what;  // kernel or product name, "attention forward (cuDNN)", op of a memset
  ops::Call call = ops::Call::kernel;
  const char* function = nullptr;       // of a collective: which one of class Communicator
  std::size_t kernel = 0, product = 0;  // by `call`: index into Plan::kernels or Plan::products
  std::vector<ops::Argument> arguments;
  bool adds = false;       // to what earlier micro-batches left; the first one writes
  std::int64_t times = 1;  // a micro-batch, or a step (per_step); 0 of what no training step runs
  bool per_step = false;
  double bytes = 0, flops = 0;  // of one
  double wire = 0;              // bytes that a rank sends to others
  bool beside = false;          // a collective on a stream of its own; on cpu there is none
  double stream_bytes = 0;      // of `bytes`: what a residual stream in the compute type would not move

  const char* kind() const;  // "kernel", "gemm", "attention", "memset", "collective"
  /// As what the step asks for it (device/timeline.h): "kernel", "product", "attention", "memset", "collective". llmc's
  /// own kernels in cuDNN's place are asked for as an attention pass.
  const char* launched_as() const;
};

/// What a step's time is predicted to be made of, on one rank.
struct StepTime {
  double seconds = 0;          // of one step
  double compute_seconds = 0;  // of these: what the device computes
  double exposed_seconds = 0;  // of these: waits for collectives that nothing is left to run beside
};

struct Cost {
  double model_flops_per_token = 0;  // causal attention as half, embedding look-ups excluded
  double linear_flops_per_token = 0, attention_flops_per_token = 0;
  double hardware_flops_per_step = 0;  // with recomputation
  double bytes_per_step = 0;           // read and written by every launch
  double wire_bytes_per_step = 0;      // sent by one rank
  double stream_bytes_per_step = 0;    // of these: the residual stream's, as far as it is wider than the compute dtype
  std::int64_t launches_per_step = 0;
  StepTime time;
};

/// Another choice that fits: the spec with it, and what it costs.
struct Alternative {
  spec::Spec spec;
  double seconds = 0;     // of a step
  std::size_t bytes = 0;  // of the arena
};

struct Plan {
  spec::Spec spec;
  passes::Choice choice;  // what `auto` became, and the rest of what was decided beside the spec
  std::string fingerprint;
  graph::Graph graph;
  Schedule schedule;
  ops::AttentionChoices attention;  // of target.kind: cuda
  ParameterLayout parameters;
  Layout layout;
  std::size_t process_bytes = 0;  // of the host's memory beside the arena, which memory.budget counts too (process.h)
  std::vector<Kernel> kernels;
  std::vector<Product> products;
  std::vector<Launch> launches;
  Cost cost;
  devices::Device device;                 // whose times are predicted
  std::vector<Alternative> alternatives;  // the next best ones, of other micro-batches or shares, best first

  /// What is to be within memory.budget.
  std::size_t needed_bytes() const { return layout.bytes + process_bytes; }
  std::int64_t sequences_per_step() const { return spec.batch.tokens / spec.batch.sequence_length; }
  std::int64_t micro_batches() const { return sequences_per_step() / choice.micro_batch; }
  /// The most that a rank runs in a step.
  std::int64_t rank_micro_batches() const {
    return (micro_batches() + spec.parallel.world_size - 1) / spec.parallel.world_size;
  }
  /// How often a rank that runs the most runs it in a step.
  std::int64_t times_a_step(const Launch& launch) const {
    return launch.times * (launch.per_step ? 1 : rank_micro_batches());
  }
};

/// Lowers, lays out and costs. `auto` becomes what is predicted to take least time within memory.budget (search.h).
/// Throws Failure(does_not_fit) with the bytes needed, the budget and what would make it fit.
Plan make_plan(const spec::Spec& spec);

/// The plan's spec with the numbers that its `auto` became.
spec::Spec chosen_spec(const Plan& plan);

/// Whether make_plan would plan it: Exit::done, or the code that it would fail with.
Exit planned_exit(const spec::Spec& spec);

}  // namespace llmc::plan
