#include "compiler/emit/step_printer.h"

#include <fmt/format.h>

#include <algorithm>
#include <set>

#include "compiler/emit/addresses.h"
#include "compiler/emit/order_printer.h"
#include "compiler/emit/printer.h"
#include "compiler/emit/product_printer.h"
#include "compiler/emit/specialiser/specialiser.h"
#include "compiler/graph/orthogonal.h"
#include "compiler/ops/attention/attention.h"
#include "compiler/plan/pieces.h"
#include "error.h"

namespace llmc::emit {

using namespace graph;

namespace {

std::string shape_text(const Tensor& t) {
  if (t.record) return fmt::format("[{}]", t.rows);
  std::string text = t.rows == 1 ? fmt::format("[{}]", t.cols) : fmt::format("[{}, {}]", t.rows, t.cols);
  if (t.pitch != t.cols && t.rows != 1) text += fmt::format(" pitch {}", t.pitch);
  return text;
}

class StepPrinter {
 public:
  StepPrinter(const plan::Plan& plan, Probes probes)
      : plan_(plan),
        g_(plan.graph),
        where_(plan),
        shard_(plan.spec.parallel.shard),
        probed_(probes == Probes::around_ops) {
    cuda_ = plan.spec.target.kind == spec::TargetKind::cuda;
    for (const ops::AttentionChoice& choice : plan.attention.list)
      if (choice.forward == AttentionBy::cudnn) cudnn_.push_back(ops::attention_suffix(choice.shape));
    tiles_ = ops::attention_in_tiles(plan.spec);
    matrix_flops_ =
        orthogonalising_flops(orthogonal_matrices(g_, plan.spec.optimizer.kind), plan.spec.optimizer.muon_iterations);
    for (const plan::HostBuffer& buffer : plan.layout.buffers)
      if (buffer.use == Use::math_workspace) workspace_ = &buffer;
  }

  StepSources print() {
    for (std::size_t r = 0; r < g_.regions.size(); ++r)
      if (!in_place(r)) region(r);
    functions();
    const std::string body = out_.take();
    pieces();
    const std::string pieces = out_.take();
    constructor();
    const std::string start = out_.take();
    head();
    where_.print_places(out_);
    step_struct();
    out_.raw(start);
    out_.raw("namespace {\n\n");
    order_.events();
    out_.raw(body + fmt::format("}}  // namespace llmc\n\n#include \"{}\"\n", kPiecesFile));
    return {format(out_.take()), format(pieces)};
  }

 private:
  void head() {
    out_.line("// The training step of $name$: ops in order, at their offsets in the arena.",
              {{"name", plan_.spec.name}});
    out_.line("// Made by llmc from spec $print$; change the spec, not this file.", {{"print", plan_.fingerprint}});
    out_.line("//");
    out_.line(
        "// A micro-batch is $b$ sequences of $t$ tokens. Activations are written with =; gradients of parameters with "
        "= by",
        {{"b", std::to_string(g_.batch)}, {"t", std::to_string(g_.sequence)}});
    out_.line("// the first micro-batch of a step and with += by the later ones.");
    out_.raw(
        "\n#include <cstddef>\n#include <cstdint>\n#include <span>\n\n#include \"comm/collectives.h\"\n#include "
        "\"device/launch.h\"\n");
    if (cuda_) out_.raw("#include \"device/cuda/arch.h\"\n");
    out_.raw("#include \"device/range.h\"\n");
    if (tiles_) out_.raw("#include \"device/cpu/arch.h\"\n");
    if (!cuda_) out_.raw("#include \"device/cpu/instructions.h\"\n");
    if (!cudnn_.empty()) out_.raw("#include \"math/attention.h\"\n");
    out_.raw("#include \"kernels.h\"\n#include \"math/gemm.h\"\n");
    if (!matrix_flops_.empty()) out_.raw("#include \"program/matrix_owners.h\"\n");
    out_.raw("#include \"program/shards.h\"\n#include \"step.h\"\n");
    if (probed_) out_.raw("#include \"step/probe.h\"\n");
    out_.raw("\n");
    out_.raw("namespace llmc {\n\n");
    if (!cuda_) out_.raw("const std::uint64_t kInstructions = kInstructionsOfSource;\n\n");
  }

  void step_struct() {
    out_.open("struct Step");
    out_.line("Device& device;");
    out_.line("Stream& stream;");
    out_.line("Communicator& ranks;");
    out_.line("const Shares& shares;");
    out_.line("std::byte* arena;");
    out_.line("std::span<const std::size_t> places;  // offsets in the arena that depend on the number of ranks");
    out_.line("MathLibrary math;");
    for (const plan::Product& p : plan_.products)
      out_.line("Gemm $name$;  // $what$", {{"name", p.name}, {"what", product_text(p)}});
    for (const std::string& suffix : cudnn_) out_.line("Attention attention$s$;", {{"s", suffix}});
    if (probed_) out_.line("Probe probe;");
    if (!matrix_flops_.empty()) out_.line("MatrixOwners owners;");
    out_.blank();
    out_.line(
        "Step(Device& device, Communicator& ranks, const Shares& shares, std::byte* arena, "
        "std::span<const std::size_t> places);");
    out_.blank();
    out_.line("/// Address at the planned offset `bytes` from the arena's start.");
    out_.open("template <class T> T* at(std::size_t bytes) const");
    out_.line("return reinterpret_cast<T*>(arena + bytes);");
    out_.close();
    if (!matrix_flops_.empty()) {
      out_.blank();
      out_.line("/// Whether this rank orthogonalises matrix `i` of a layer.");
      out_.open("bool owns(std::size_t layer, std::size_t i) const");
      out_.line("return owners.of(layer, i) == ranks.rank();");
      out_.close();
    }
    if (where_.has_whole()) {
      out_.blank();
      out_.line("/// Offset of a whole sharded buffer: with one rank its `buffer`, else a gather buffer, `window`.");
      out_.open("std::size_t whole(std::size_t buffer, std::size_t window) const");
      out_.line("return ranks.world_size() == 1 ? buffer : window;");
      out_.close();
    }
    if (is_sharded(Use::gradients, shard_)) {
      out_.blank();
      out_.line(
          "/// Whether gradients add to those of earlier micro-batches. With several ranks each micro-batch's "
          "gradients");
      out_.line("/// are reduced, and their sums add up in the shards.");
      out_.open("bool adds(bool first) const");
      out_.line("return !first && ranks.world_size() == 1;");
      out_.close();
    }
    out_.close("};");
    out_.blank();
  }

  void constructor() {
    out_.open(
        "Step::Step(Device& d, Communicator& communicator, const Shares& of_rank, std::byte* memory, "
        "std::span<const std::size_t> shared)\n    : device(d),\n      stream(d.stream()),\n      "
        "ranks(communicator),\n      shares(of_rank),\n      arena(memory),\n      places(shared),\n      "
        "math(d, $workspace$, $bytes$$reserved$)$products$",
        {{"workspace", workspace_ ? "memory + " + where_.area_address(workspace_->area) : std::string("nullptr")},
         {"bytes", std::to_string(workspace_ ? workspace_->bytes() : 0)},
         {"reserved", reserved_sms()},
         {"products", product_initialisers()}});
    out_.close();
    out_.blank();
  }

  /// Prints the argument that leaves SMs to the collectives of several ranks.
  std::string reserved_sms() const {
    const std::int64_t sms = plan_.spec.parallel.reserved_sms;
    return sms ? fmt::format(", communicator.world_size() > 1 ? {} : 0", sms) : "";
  }

  std::string product_initialisers() const {
    std::string text;
    for (const plan::Product& p : plan_.products)
      text += fmt::format(",\n      {}(math, {})", p.name, constant_name(p.name));
    for (const std::string& suffix : cudnn_) text += fmt::format(",\n      attention{0}(math, kAttention{0})", suffix);
    if (probed_) text += ",\n      probe(d)";
    if (!matrix_flops_.empty()) {
      std::string flops;
      for (const double of : matrix_flops_) flops += fmt::format("{}{}", flops.empty() ? "" : ", ", of);
      text += fmt::format(",\n      owners(communicator.world_size(), {}, {{{}}})", g_.layers(), flops);
    }
    return text;
  }

  /// Declares a pointer to each tensor that the region's ops touch.
  void pointers(std::size_t r) {
    const Region& region = g_.regions[r];
    std::set<TensorId> declared;
    for (const Op& op : region.ops) {
      for (std::size_t list = 0; list < 2; ++list)
        for (TensorId id : list ? op.outputs : op.inputs) {
          if (declared.insert(id).second) pointer(r, id);
        }
    }
  }

  void pointer(std::size_t r, TensorId id) {
    const Tensor& t = g_.at(id);
    const std::string type = t.record ? t.record : row_of(t.dtype).c_name;
    std::string note;
    if (const TensorId root = g_.storage(id); root != id) note = ", over " + g_.at(root).name;
    out_.line("$type$* $name$ = s.at<$type$>($address$);  // $shape$$note$", {{"type", type},
                                                                              {"name", where_.name(id)},
                                                                              {"address", where_.address(r, id)},
                                                                              {"shape", shape_text(t)},
                                                                              {"note", note}});
  }

  std::string text(const ops::Argument& a) const {
    if (a.tensor == kNone) return a.text;
    return a.text.empty() ? where_.name(a.tensor) : ops::in_place_of_dollar(a.text, where_.name(a.tensor));
  }

  void launch(const plan::Launch& launch, const char* stream = "s.stream") {
    std::string list, members;
    for (const ops::Argument& a : launch.arguments)
      if (a.member)
        members += fmt::format("{}.{} = {}", members.empty() ? "" : ", ", a.member, text(a));
      else
        list += ", " + text(a);
    switch (launch.call) {
      case ops::Call::own_backward:
      case ops::Call::rotate_back:
      case ops::Call::kernel: {
        const plan::Kernel& k = plan_.kernels[launch.kernel];
        const std::string more = k.shared        ? fmt::format(", {}, {}", k.cluster, k.shared)
                                 : k.cluster > 1 ? fmt::format(", {}", k.cluster)
                                                 : "";
        const std::string grid = cuda_ ? fmt::format("Grid{{{}, {}{}}}, ", k.blocks, k.threads, more) : "";
        return out_.line("launch($stream$, $grid$$name$$list$);",
                         {{"stream", stream}, {"grid", grid}, {"name", k.name}, {"list", list}});
      }
      case ops::Call::product:
        return out_.line("s.$name$(s.stream, {$members$});",
                         {{"name", plan_.products[launch.product].name}, {"members", members}});
      case ops::Call::attention_forward:
        return out_.line("s.attention$s$.forward(s.stream$list$);", {{"s", suffix(launch)}, {"list", list}});
      case ops::Call::attention_backward:
        return out_.line("s.attention$s$.backward(s.stream$list$);", {{"s", suffix(launch)}, {"list", list}});
      case ops::Call::zero:
        return out_.line(
            "if ($first$) s.device.zero($list$);",
            {{"first", is_sharded(Use::gradients, shard_) ? "!s.adds(first)" : "first"}, {"list", list.substr(2)}});
      case ops::Call::collective:
        return out_.line("s.ranks.$function$($list$, $stream$);",
                         {{"function", launch.function}, {"list", list.substr(2)}, {"stream", stream}});
    }
  }

  /// Returns the suffix in the names of a launch's attention.
  std::string suffix(const plan::Launch& launch) const {
    return ops::attention_suffix(
        ops::attention_shape(g_, g_.regions[launch.region_index].ops[launch.op_index], plan_.spec));
  }

  void launches(std::size_t r, const char* stream = "s.stream") {
    const std::vector<Op>& ops = g_.regions[r].ops;
    for (std::size_t o = 0; o < ops.size(); ++o) {
      // Neighbours that run once share the condition.
      if (ops[o].once && (o == 0 || !ops[o - 1].once)) out_.open("if (first)");
      const bool probed = probe(r, ops[o]);  // ops that launch nothing too
      for (const plan::Launch& l : plan_.launches)
        if (l.region_index == r && l.op_index == o && !is_in_attention(l.call)) launch(l, stream);
      if (probed) out_.line("s.probe.after();");
      if (ops[o].once && (o + 1 == ops.size() || !ops[o + 1].once)) out_.close();
    }
  }

  /// Prints the call of the probe before an op in a step to verify. Returns false for ops between ranks, which are not
  /// probed.
  bool probe(std::size_t r, const Op& op) {
    if (!probed_ || is_between_ranks(op.kind)) return false;
    const Region& region = g_.regions[r];
    std::string operands;
    for (const auto* list : {&op.inputs, &op.outputs})
      for (TensorId id : *list) operands += (operands.empty() ? "" : ", ") + where_.name(id);
    out_.line("s.probe.before($number$, $layer$, $chunk$, {$operands$});",
              {{"number", std::to_string(op_number(g_, r, static_cast<std::size_t>(&op - region.ops.data())))},
               {"layer", region.block == Block::layer ? "layer" : "0"},
               {"chunk", region.loop == Loop::loss_chunks ? "chunk" : "0"},
               {"operands", operands}});
    return true;
  }

  /// Prints the ranks' ops, which overlap the passes on a separate stream.
  void beside(std::size_t r) {
    const bool kernels = std::any_of(plan_.launches.begin(), plan_.launches.end(), [r](const plan::Launch& l) {
      return l.region_index == r && l.call == ops::Call::kernel;
    });
    if (kernels) out_.line("if (s.ranks.world_size() == 1) return;");
    out_.line("Stream& beside = s.ranks.beside(s.stream);");
    launches(r, "beside");
    if (const int event = plan_.schedule.event_after(r); event != plan::kNoEvent)
      out_.line("s.ranks.mark($mark$);", {{"mark", order_.event(event)}});
  }

  /// Prints the launches of kernels that class Attention calls in its backward pass.
  void in_attention() {
    for (const ops::AttentionChoice& choice : plan_.attention.list) {
      const std::string attention = ops::attention_suffix(choice.shape);
      in_attention(ops::Call::own_backward, attention,
                   fmt::format("void own_attention_backward{}(Stream& stream, const bf16* dout, const bf16* out, const "
                               "bf16* qkv, const float* lse, bf16* dqkv, float* delta, const float*{})",
                               attention, choice.rotates ? " rope_table" : ""));
      in_attention(
          ops::Call::rotate_back, attention,
          fmt::format("void rotate_gradients_back{}(Stream& stream, bf16* dqkv, const float* rope_table)", attention));
    }
  }

  /// Regions of an attention's layers have equal launches.
  void in_attention(ops::Call call, const std::string& attention, const std::string& declaration) {
    const auto is_one = [&](const plan::Launch& l) { return l.call == call && suffix(l) == attention; };
    const auto first = std::find_if(plan_.launches.begin(), plan_.launches.end(), is_one);
    if (first == plan_.launches.end()) return;
    out_.open(declaration);
    for (auto l = first; l != plan_.launches.end() && is_one(*l); ++l) launch(*l, "stream");
    out_.close();
    out_.blank();
  }

  /// Whether the region's ops are printed in the function of the pass that runs it, without a function of their own.
  bool in_place(std::size_t r) const {
    for (const plan::PassName pass :
         {plan::PassName::initialise, plan::PassName::refresh_copies, plan::PassName::join_masters})
      for (const plan::ScheduleItem& item : plan_.schedule.pass(pass))
        if (item.regions.front() == r) return true;
    return false;
  }

  void region(std::size_t r) {
    const Region& region = g_.regions[r];
    out_.open("void $name$($parameters$)", {{"name", region.name}, {"parameters", region_parameters(plan_, r)}});
    pointers(r);
    out_.blank();
    out_.line("const Range range(s.stream, \"$name$\");", {{"name", region.name}});
    if (region.is_collective())
      beside(r);
    else
      launches(r);
    out_.close();
    out_.blank();
  }

  void ops_of(plan::PassName pass) {
    for (const plan::ScheduleItem& item : plan_.schedule.pass(pass)) {
      pointers(item.regions.front());
      out_.blank();
      launches(item.regions.front());
    }
  }

  void functions() {
    order_.forward();
    out_.line("}  // namespace");
    out_.blank();
    in_attention();
    out_.open(
        "Step* create_step(Device& device, Communicator& ranks, const Shares& shares, std::byte* arena, "
        "std::span<const std::size_t> places)");
    if (cuda_) out_.line("require_arch(\"$archs$\");", {{"archs", arch_list(plan_.spec)}});
    if (tiles_) out_.line("require_tiles();");
    out_.line("return new Step(device, ranks, shares, arena, places);");
    out_.close();
    out_.blank();
    out_.open("void destroy_step(Step* step)");
    out_.line("delete step;");
    out_.close();
    out_.blank();
    out_.open("void initialise(Step& s, std::uint64_t seed)");
    ops_of(plan::PassName::initialise);
    out_.close();
    out_.blank();
    if (!plan_.schedule.pass(plan::PassName::refresh_copies).empty()) {
      out_.open("void refresh_copies(Step& s)");
      ops_of(plan::PassName::refresh_copies);
      out_.close();
    } else {
      out_.line("/// Matrix products read the masters.");
      out_.line("void refresh_copies(Step&) {}");
    }
    out_.blank();
    if (!plan_.schedule.pass(plan::PassName::join_masters).empty()) {
      out_.open("void fetch_masters(Step& s)");
      ops_of(plan::PassName::join_masters);
      out_.close();
      out_.blank();
    }
    order_.passes();
  }

  /// Prints the parts of a layer that `trainer calibrate` times separately.
  void pieces() {
    constexpr std::pair<StepPiece, const char*> kOfALayer[] = {{StepPiece::attention_forward, "attention_forward"},
                                                               {StepPiece::attention_backward, "attention_backward"},
                                                               {StepPiece::kernels, "kernels"}};
    out_.line(
        "// Parts of a layer for `trainer calibrate` to time. Included at the end of the step, whose offsets it uses.");
    out_.raw("#pragma once\n\nnamespace llmc {\n\n");
    out_.open("void run_piece(Step& s, StepPiece piece, std::size_t layer)");
    for (const auto& [piece, name] : kOfALayer) {
      const std::vector<const plan::Launch*> launches = plan::launches_of(plan_, piece);
      out_.open("if (piece == StepPiece::$name$)", {{"name", name}});
      if (std::ranges::any_of(launches, [](const plan::Launch* l) { return l->adds; }))
        out_.line("constexpr bool first = true;");
      std::set<TensorId> declared;
      for (const plan::Launch* l : launches)
        for (const ops::Argument& argument : l->arguments)
          if (argument.tensor != kNone && declared.insert(argument.tensor).second)
            pointer(l->region_index, argument.tensor);
      out_.blank();
      for (const plan::Launch* l : launches) launch(*l);
      out_.close();
    }
    out_.close();
    out_.raw("\n}  // namespace llmc\n");
  }

  const plan::Plan& plan_;
  const Graph& g_;
  Addresses where_;
  const Shard shard_;
  SourceWriter out_;
  OrderPrinter order_{plan_, out_};
  const bool probed_;
  std::vector<std::string> cudnn_;    // suffixes of the attentions that have members
  std::vector<double> matrix_flops_;  // of a layer, if the optimizer orthogonalises
  bool cuda_ = false, tiles_ = false;
  const plan::HostBuffer* workspace_ = nullptr;  // of matrix products; null on cpu
};

}  // namespace

StepSources print_step(const plan::Plan& plan, Probes probes) { return StepPrinter(plan, probes).print(); }

std::int32_t op_number(const Graph& graph, std::size_t region, std::size_t op) {
  for (std::size_t r = 0; r < region; ++r) op += graph.regions[r].ops.size();
  return static_cast<std::int32_t>(op);
}

}  // namespace llmc::emit
