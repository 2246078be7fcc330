// Describes every byte, launch and kernel of a run, and its predicted time, as plain data.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "compiler/devices/device.h"
#include "compiler/graph/graph.h"
#include "compiler/ops/attention/choice.h"
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
  std::int64_t first_row = 0;  // as ParameterInfo::first_row
};

/// Layout of parameters in the flat buffers: the vectors of all blocks, then the matrices of each in the order of the
/// forward pass, so that each bucket is one range. Layer l's matrix is at offset + l * layer_stride, its vector at
/// offset + l * vector_stride.
struct ParameterLayout : ops::FlatSizes {
  std::map<graph::TensorId, std::int64_t> offset;    // elements, of layer 0
  std::int64_t layer_stride = 0, vector_stride = 0;  // elements
  std::int64_t logical = 0;                          // parameters as papers count them
  std::int64_t state_rows = 0;                       // of the matrices that are orthogonalised, in all layers
  std::vector<Slice> slices;                         // in the order of offsets

  /// Elements of a buffer of shares that has one for each `block` of those of some groups' parameters.
  std::int64_t state_elements(const Shares& shares, std::int64_t block, GroupSet groups) const {
    return in_blocks(shares.state_elements(buckets_of(groups)), block);
  }
};

/// A named range of the arena. Contents of a layer (or of a layer of one variant) repeat with a stride.
struct Area {
  std::string name;  // "masters", "stream", "kept", "transients"
  std::size_t offset = 0, stride = 0;
  int shared = -1;  // of a sharded buffer: its number among those
};

/// A gather buffer behind the shards. It holds a whole bucket of a sharded buffer for a while, or the bucket as it is
/// sent. With one rank there is none.
struct GatherBuffer {
  std::size_t offset = 0;  // bytes from the first gather buffer
  std::size_t stride = 0;  // to the second one, if layers alternate
};

/// Offset of a tensor: bytes from the arena's start; a tensor of each layer moves by `layer_stride`.
struct Placement {
  std::size_t offset = 0;
  std::size_t layer_stride = 0;
  std::size_t area = 0;  // index into ArenaLayout::areas
};

/// A buffer that the host knows (buffers.h).
struct HostBuffer {
  std::string name;
  DType dtype = DType::f32;
  std::int64_t elements = 0;
  Use use = Use::unseen;
  std::size_t offset = 0;
  std::size_t area = 0;            // index into ArenaLayout::areas
  std::int64_t block = 1;          // as Buffer::block
  GroupSet groups = kAllGroups;    // as Buffer::groups
  const char* saved_as = nullptr;  // as Buffer::saved_as

  std::size_t bytes() const { return static_cast<std::size_t>(bytes_of(dtype, elements)); }
};

/// Lifetime of a part of the arena within a step.
enum class Lasting { step, pass, op };  // all of it; from a layer's forward pass to its backward pass; while ops run

/// A named part of the arena, for people.
struct Section {
  std::string name;
  std::size_t offset = 0, bytes = 0;
  std::string what;
  Lasting lasting = Lasting::step;
};

/// A transient that is live from the op at position `first` to that at `last`, both included.
struct Transient {
  graph::TensorId tensor = graph::kNone;
  std::size_t bytes = 0;
  int first = 0, last = 0;
};

struct ArenaLayout {
  std::size_t bytes = 0;  // of the arena
  std::vector<Section> sections;
  std::vector<Area> areas;
  std::vector<HostBuffer> buffers;                            // by offset
  std::map<graph::TensorId, Placement> fixed;                 // buffers known to the host, and the stream
  std::map<graph::TensorId, GatherBuffer> windows;            // gather buffers of buckets and of the wire
  std::size_t window_bytes = 0;                               // part of `bytes` if parallel.world_size is not 1
  std::size_t gradient_window_bytes = 0;                      // of these, the first ones
  std::vector<std::map<graph::TensorId, Placement>> regions;  // by region index: other tensors of its ops
  std::size_t transient_bytes = 0, transient_bound = 0;       // packed size, and most live bytes
  std::vector<std::size_t> region_bounds;       // by region index: most live transient bytes while it runs
  std::vector<std::vector<std::size_t>> alive;  // by region and op: live transient bytes while the op runs
  std::vector<std::size_t> region_kept;         // by region index: bytes of the slab that it fills
  std::vector<Transient> transients;
  std::vector<int> region_begin;  // by region index: the position of its first op

  /// Returns the offset of an activation, input or constant in a region.
  const Placement& find(const graph::Graph& graph, std::size_t region, graph::TensorId tensor) const;
};

using ops::Kernel;
using ops::KernelParam;
using ops::Product;

/// One launch: an op of a region, resolved to a kernel, a product or a library's function and its operands.
struct Launch {
  std::size_t region_index = 0;
  std::size_t op_index = 0;  // in its region
  std::string region, op;
  std::string what;  // kernel or product name, "attention forward (cuDNN)", op of a memset
  ops::Call call = ops::Call::kernel;
  const char* function = nullptr;       // of a collective: the function of class Communicator
  std::size_t kernel = 0, product = 0;  // by `call`: index into Plan::kernels or Plan::products
  std::vector<ops::Argument> arguments;
  bool adds = false;       // to the result of earlier micro-batches; the first one writes
  std::int64_t times = 1;  // per micro-batch, or per step (per_step); 0 if no training step runs it
  std::int64_t left = 0;   // of these, for matrices that the rank with most of that work leaves to others
  bool per_step = false;
  bool once = false;            // as Op::once
  double bytes = 0, flops = 0;  // of one launch
  double wire = 0;              // bytes that a rank sends to others
  bool beside = false;          // a collective on a separate stream; cpu has no such stream
  double stream_bytes = 0;      // part of `bytes` that a residual stream in the compute dtype would not move

  /// By the rank with most work.
  std::int64_t own_times() const { return times - left; }
  const char* kind() const;  // Returns "kernel", "gemm", "attention", "memset" or "collective".
  /// Returns the category of device/timeline.h: "kernel", "product", "attention", "memset" or "collective". llmc's own
  /// kernels that replace cuDNN count as an attention pass.
  const char* launched_as() const;
};

/// Predicted time of a step on one rank, by parts.
struct StepTime {
  double seconds = 0;          // of one step
  double compute_seconds = 0;  // of these: computing on the device
  double exposed_seconds = 0;  // of these: waiting for collectives with nothing left to overlap
};

struct Cost {
  double model_flops_per_token = 0;  // causal attention counted as half, without embedding look-ups
  double linear_flops_per_token = 0, attention_flops_per_token = 0;
  double hardware_flops_per_step = 0;  // with recomputation
  double bytes_per_step = 0;           // read and written by all launches
  double wire_bytes_per_step = 0;      // sent by one rank
  double stream_bytes_per_step = 0;    // of these: the residual stream's, beyond its size in the compute dtype
  std::int64_t launches_per_step = 0;
  StepTime time;
};

/// Another choice that fits: its spec and cost.
struct Alternative {
  spec::Spec spec;
  double seconds = 0;     // of a step
  std::size_t bytes = 0;  // of the arena
};

struct Plan {
  spec::Spec spec;
  passes::Choice choice;  // the values chosen for `auto`, and decisions beyond the spec
  std::string fingerprint;
  graph::Graph graph;
  Schedule schedule;
  ops::AttentionChoices attention;  // of target.kind: cuda
  ParameterLayout parameters;
  ArenaLayout layout;
  std::size_t process_bytes = 0;  // host memory outside the arena, which memory.budget includes (process.h)
  std::vector<Kernel> kernels;
  std::vector<Product> products;
  std::vector<Launch> launches;
  Cost cost;
  devices::Device device;                 // the device that times are predicted for
  std::vector<Alternative> alternatives;  // the next best ones, with other micro-batches or sharding, best first

  /// Bytes that must be within memory.budget.
  std::size_t needed_bytes() const { return layout.bytes + process_bytes; }
  std::int64_t sequences_per_step() const { return spec.batch.tokens / spec.batch.sequence_length; }
  std::int64_t micro_batches() const { return sequences_per_step() / choice.micro_batch; }
  /// Of the largest step that its trainer may have, in any phase.
  std::int64_t most_micro_batches() const {
    return std::max(spec.batch.tokens, spec.phase.most_tokens) / spec.batch.sequence_length / choice.micro_batch;
  }
  /// Most micro-batches that a rank runs in a step.
  std::int64_t rank_micro_batches() const {
    return (micro_batches() + spec.parallel.world_size - 1) / spec.parallel.world_size;
  }
  /// Executions in a step on a rank with the most micro-batches, and the most work on matrices.
  std::int64_t times_a_step(const Launch& launch) const {
    return launch.own_times() * (launch.per_step ? 1 : rank_micro_batches());
  }
};

/// Lowers, lays out and costs. Replaces `auto` by the choice with the least predicted time within memory.budget
/// (search.h). Throws Failure(does_not_fit) with the bytes needed, the budget and changes that make it fit.
Plan make_plan(const spec::Spec& spec);

/// Returns the plan that make_plan() would return, without its alternatives and its fingerprint; nothing if none fits,
/// if a relation of the spec's values does not hold, or if no micro-batch has whole loss chunks.
std::optional<Plan> fastest_plan(const spec::Spec& spec);

/// The least memory.budget in whole GiB, or below one in MiB, that holds these bytes: "12GiB".
std::string budget_text(std::int64_t bytes);

/// Returns the plan's spec with the values chosen for `auto`.
spec::Spec chosen_spec(const Plan& plan);

/// Returns Exit::done if make_plan() would succeed, else the exit code that it would fail with: Exit::spec if a
/// relation of the spec's values does not hold.
Exit planned_exit(const spec::Spec& spec);

}  // namespace llmc::plan
