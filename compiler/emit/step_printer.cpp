#include "compiler/emit/step_printer.h"

#include <fmt/format.h>

#include <algorithm>
#include <set>

#include "compiler/emit/printer.h"
#include "compiler/emit/product_printer.h"
#include "compiler/emit/specialiser/specialiser.h"
#include "compiler/plan/attention.h"
#include "compiler/plan/kernels.h"
#include "error.h"

namespace llmc::emit {

using namespace graph;

namespace {

std::string shape_text(const Tensor& t) {
  std::string text = t.rows == 1 ? fmt::format("[{}]", t.cols) : fmt::format("[{}, {}]", t.rows, t.cols);
  if (t.pitch != t.cols && t.rows != 1) text += fmt::format(" pitch {}", t.pitch);
  return text;
}

class StepPrinter {
 public:
  explicit StepPrinter(const plan::Plan& plan) : plan_(plan), g_(plan.graph) {
    cuda_ = plan.spec.target.kind == spec::TargetKind::cuda;
    if (cuda_) {
      const plan::AttentionChoice choice = plan::choose_attention(g_, plan.spec);
      cudnn_ = choice.forward == plan::AttentionBy::cudnn;
      cudnn_backward_ = choice.backward == plan::AttentionBy::cudnn;
    }
    tiles_ = plan::attention_in_tiles(plan.spec);
    for (const Region& r : g_.regions) variants_ += r.loop == Loop::layers_up;
  }

  std::string print() {
    head();
    step_struct();
    constants();
    for (std::size_t r = 0; r < g_.regions.size(); ++r)
      if (g_.regions[r].part != Part::initialise && g_.regions[r].part != Part::refresh) region(r);
    functions();
    out_.raw("}  // namespace llmc\n");
    return out_.take();
  }

 private:
  void head() {
    out_.line("// The training step of $name$: what runs, in which order, on which bytes of the arena.", {{"name", plan_.spec.name}});
    out_.line("// Made by llmc from spec $print$; change the spec, not this file.", {{"print", plan_.fingerprint}});
    out_.line("//");
    out_.line("// A micro-batch is $b$ sequences of $t$ tokens. Activations are written with =; gradients of parameters with = by", {{"b", std::to_string(g_.batch)}, {"t", std::to_string(g_.sequence)}});
    out_.line("// the first micro-batch of a step and with += by the later ones.");
    out_.raw("\n#include <cstddef>\n#include <cstdint>\n\n#include \"device/launch.h\"\n");
    if (cuda_) out_.raw("#include \"comm/collectives.h\"\n#include \"device/cuda/arch.h\"\n#include \"device/range.h\"\n");
    if (tiles_) out_.raw("#include \"device/cpu/arch.h\"\n");
    if (cudnn_) out_.raw("#include \"math/attention.h\"\n");
    out_.raw("#include \"kernels.h\"\n#include \"math/gemm.h\"\n#include \"step.h\"\n\nnamespace llmc {\n\n");
  }

  void step_struct() {
    out_.open("struct Step");
    out_.line("Device& device;");
    out_.line("Stream& stream;");
    out_.line("std::byte* arena;");
    out_.line("MathLibrary math;");
    for (const plan::Product& p : plan_.products)
      out_.line("Gemm $name$;  // $what$", {{"name", p.name}, {"what", product_text(p)}});
    if (cudnn_) out_.line("Attention attention;");
    if (cuda_) out_.line("Communicator ranks;");
    out_.blank();
    out_.line("Step(Device& device, std::byte* arena);");
    out_.blank();
    out_.line("/// The planned place `bytes` from the arena's start.");
    out_.open("template <class T> T* at(std::size_t bytes) const");
    out_.line("return reinterpret_cast<T*>(arena + bytes);");
    out_.close();
    out_.close("};");
    out_.blank();
  }

  void constants() {
    const ArenaLayout& a = plan_.layout.arena;
    const auto number = [](std::size_t n) { return std::to_string(n); };
    out_.open("Step::Step(Device& d, std::byte* memory)\n    : device(d),\n      stream(d.stream()),\n      arena(memory),\n      math(d, $workspace$, $bytes$)$products$",
              {{"workspace", a.math_workspace_bytes ? "memory + " + number(a.math_workspace) : std::string("nullptr")},
               {"bytes", number(a.math_workspace_bytes)},
               {"products", product_initialisers()}});
    out_.close();
    out_.blank();
    out_.line("namespace {");
    out_.blank();
    out_.line("// Byte offsets in the arena of $bytes$ bytes.", {{"bytes", number(a.bytes)}});
    for (const auto& [name, offset] : std::initializer_list<std::pair<const char*, std::size_t>>{
             {"kMasters", a.masters}, {"kCopies", a.copies}, {"kGradients", a.gradients}, {"kExpAvg", a.exp_avg},
             {"kExpAvgSq", a.exp_avg_sq}, {"kScalars", a.scalars}, {"kResults", a.results}, {"kChunks", a.chunks},
             {"kFirstChunk", a.first_chunk}, {"kInitRules", a.init_rules}})
      out_.line("constexpr std::size_t $n$ = $v$;", {{"n", name}, {"v", number(offset)}});
    out_.line("constexpr std::size_t kLayerParameters = $v$;  // elements from a layer's parameters to the next layer's",
              {{"v", std::to_string(plan_.parameters.layer_stride)}});
    out_.line("constexpr int kChunkCount = $v$;  // of at most $e$ elements: the optimizer's units of work",
              {{"v", std::to_string(plan_.parameters.chunk_count)}, {"e", std::to_string(plan_.parameters.chunk_elements)}});
    if (variants_ > 1) {
      std::string ranks;
      std::vector<std::size_t> rank(static_cast<std::size_t>(g_.layers));
      for (const Region& r : g_.regions)
        if (r.loop == Loop::layers_up)
          for (std::size_t i = 0; i < r.layers.size(); ++i) rank[static_cast<std::size_t>(r.layers[i])] = i;
      for (std::size_t r : rank) ranks += (ranks.empty() ? "" : ", ") + std::to_string(r);
      out_.line("constexpr std::size_t kSlab[] = {$ranks$};  // a layer's place among the layers that keep the same tensors", {{"ranks", ranks}});
    }
    out_.blank();
  }

  std::string product_initialisers() const {
    std::string text;
    for (const plan::Product& p : plan_.products) text += fmt::format(",\n      {}(math, {})", p.name, product_constant(p));
    if (cudnn_) {
      const TensorId qkv = g_.find("qkv"), out = g_.find("attention_out");
      text += fmt::format(",\n      attention(math, {{.batch = {}, .sequence = {}, .heads = {}, .kv_heads = {}, .head_dim = {}, .qkv_pitch = {},\n"
                          "                 .out_pitch = {}, .deterministic = {}{}}})",
                          g_.batch, g_.sequence, g_.heads, g_.kv_heads, g_.head_dim, g_.at(qkv).pitch, g_.at(out).pitch,
                          plan_.spec.deterministic, cudnn_backward_ ? "" : ", .backward = false");
    }
    if (cuda_) text += ",\n      ranks(d)";
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
    const Region& region = g_.regions[r];
    const Tensor& t = g_.at(id);
    if (t.name == "loss" || t.name == "clip_scale") return;  // members of StepResults
    std::string address, type = row_of(t.dtype).c_name, note;
    if (t.role == Role::parameter || t.role == Role::copy || t.role == Role::gradient) {
      const char* base = t.role == Role::gradient ? "kGradients" : t.role == Role::copy ? "kCopies" : "kMasters";
      const TensorId owner = t.role == Role::parameter ? id : t.partner;
      const std::int64_t offset = plan_.parameters.offset.at(owner), size = bytes_of(t.dtype, 1);
      address = t.scope == Scope::layer
                    ? fmt::format("{} + {} * ({} + layer * kLayerParameters)", base, size, offset)
                    : fmt::format("{} + {}", base, size * offset);
    } else {
      const plan::Place& place = plan_.layout.find(g_, r, id);
      address = std::to_string(place.offset);
      if (place.layer_stride) {
        const bool stream = plan_.layout.fixed.count(id) || plan_.layout.fixed.count(g_.storage(id));
        address += fmt::format(" + {} * {}", !stream && variants_ > 1 ? "kSlab[layer]" : "layer", place.layer_stride);
      }
      if (region.loop == Loop::loss_chunks && per_token(t)) {
        // This chunk's rows of a tensor with one row (or one element) a token.
        const std::int64_t step = g_.chunk_rows * (t.rows == g_.tokens() ? bytes_of(t.dtype, t.pitch) : bytes_of(t.dtype, 1));
        address += fmt::format(" + chunk * {}", step);
      }
    }
    if (const TensorId root = g_.storage(id); root != id) note = ", over " + g_.at(root).name;
    out_.line("$type$* $name$ = s.at<$type$>($address$);  // $shape$$note$",
              {{"type", type}, {"name", name(id)}, {"address", address}, {"shape", shape_text(t)}, {"note", note}});
  }

  bool per_token(const Tensor& t) const {
    return t.rows == g_.tokens() || (t.rows == 1 && t.cols == g_.tokens() && t.role != Role::parameter);
  }

  /// The op's kernel `number`, of usually one.
  const plan::Kernel& kernel(const Region& region, const Op& op, std::size_t number = 0) const {
    const auto wanted = plan::kernels_for(g_, region, op, plan_.parameters, plan_.spec);
    for (const plan::Kernel& k : plan_.kernels)
      if (number < wanted.size() && k.name == wanted[number].name) return k;
    throw Failure(Exit::internal, "no kernel runs op " + op.name + " in region " + region.name);
  }

  void launch(const plan::Kernel& k, const std::vector<std::string>& arguments) {
    std::string list;
    for (const std::string& a : arguments) list += ", " + a;
    const std::string cluster = k.cluster > 1 ? fmt::format(", {}", k.cluster) : "";
    out_.line("launch(s.stream, $grid$$name$$list$);",
              {{"grid", cuda_ ? fmt::format("Grid{{{}, {}{}}}, ", k.blocks, k.threads, cluster) : ""}, {"name", k.name}, {"list", list}});
  }

  /// A copy goes by its parameter's name: no function reads both.
  std::string name(TensorId id) const { return g_.at(g_.at(id).role == Role::copy ? g_.at(id).partner : id).name; }

  std::string copies() const { return fmt::format("s.at<{}>(kCopies)", row_of(plan_.spec.compute).c_name); }

  void op(const Region& region, const Op& op) {
    const auto in = [&](std::size_t i) { return name(op.inputs.at(i)); };
    const auto out = [&](std::size_t i) { return name(op.outputs.at(i)); };
    const char* add = region.loop == Loop::loss_chunks ? "!first || chunk > 0" : "!first";
    switch (op.kind) {
      case OpKind::linear: {
        const auto product = plan::product_for(g_, region, op);
        out_.line("s.$p$(s.stream, $a$, $b$, $bias$, $c$, $d$, false);",
                  {{"p", product->name}, {"a", in(0)}, {"b", in(1)}, {"bias", op.bias ? in(2) : "nullptr"},
                   {"c", op.residual ? name(op.inputs.back()) : "nullptr"}, {"d", out(0)}});
        return;
      }
      case OpKind::linear_dgrad:
      case OpKind::linear_wgrad: {
        const auto product = plan::product_for(g_, region, op);
        out_.line("s.$p$(s.stream, $a$, $b$, nullptr, nullptr, $d$, $add$);",
                  {{"p", product->name}, {"a", in(0)}, {"b", in(1)}, {"d", out(0)},
                   {"add", op.kind == OpKind::linear_wgrad ? add : "false"}});
        return;
      }
      case OpKind::attention:
        if (cudnn_) return out_.line("s.attention.forward(s.stream, $q$, $o$, $l$);", {{"q", in(0)}, {"o", out(0)}, {"l", out(1)}});
        return launch(kernel(region, op), {in(0), out(0), out(1)});
      case OpKind::attention_backward:
        if (cudnn_backward_)
          return out_.line("s.attention.backward(s.stream, $d$, $o$, $q$, $l$, $r$, $w$);",
                           {{"d", in(0)}, {"o", in(1)}, {"q", in(2)}, {"l", in(3)}, {"r", out(0)}, {"w", out(1)}});
        launch(kernel(region, op), {in(0), in(1), in(2), in(3), out(0), out(1)});
        if (cuda_) launch(kernel(region, op, 1), {in(0), in(2), in(3), out(1), out(0)});
        return;
      case OpKind::rms_norm_backward:
        return launch(kernel(region, op), {in(0), in(1), in(2), in(3), op.residual ? name(op.inputs.back()) : "nullptr",
                                           out(0), out(1), op.recompute ? name(op.outputs.back()) : "nullptr"});
      case OpKind::swiglu_backward:
        return launch(kernel(region, op), {in(0), in(1), out(0), op.recompute ? name(op.outputs.back()) : "nullptr"});
      case OpKind::rope:
      case OpKind::rope_backward: return launch(kernel(region, op), {in(0), in(1)});
      case OpKind::cross_entropy: return launch(kernel(region, op), {in(0), in(1), out(0), "s.at<StepScalars>(kScalars)"});
      case OpKind::loss_sum:
        return launch(kernel(region, op), {in(0), "s.at<StepScalars>(kScalars)", "s.at<StepResults>(kResults)", "!first"});
      case OpKind::column_reduce: {
        const bool gradient = g_.at(op.outputs[0]).role == Role::gradient;
        return launch(kernel(region, op), {in(0), out(0), gradient ? add : "false"});
      }
      case OpKind::zero:
        return out_.line("if (first) s.device.zero($d$, $bytes$);",
                         {{"d", out(0)}, {"bytes", std::to_string(g_.at(op.outputs[0]).bytes())}});
      case OpKind::gradient_norm:
        return launch(kernel(region, op), {"s.at<float>(kGradients)", "s.at<Chunk>(kChunks)", out(0), "0", "kChunkCount"});
      case OpKind::gradient_clip:
        return launch(kernel(region, op), {in(0), "kChunkCount", "s.at<StepScalars>(kScalars)", "s.at<StepResults>(kResults)"});
      case OpKind::adamw: {
        return launch(kernel(region, op),
                      {"s.at<float>(kMasters)", "s.at<float>(kGradients)", "s.at<float>(kExpAvg)", "s.at<float>(kExpAvgSq)",
                       op.copies ? copies() : "nullptr", "s.at<Chunk>(kChunks)", "0", "kChunkCount",
                       "s.at<StepScalars>(kScalars)", "s.at<StepResults>(kResults)", op.outputs.empty() ? "nullptr" : out(0),
                       op.outputs.empty() ? "nullptr" : out(1)});
      }
      case OpKind::initialise:
        return launch(kernel(region, op), {"s.at<float>(kMasters)", "s.at<InitRule>(kInitRules)", "0",
                                           std::to_string(plan_.parameters.slices.size()), "seed"});
      case OpKind::cast:
        return launch(kernel(region, op), {"s.at<float>(kMasters)", copies(), "s.at<Chunk>(kChunks)", "0", "kChunkCount"});
      case OpKind::parameter_norms:
        return launch(kernel(region, op), {in(0), in(1), in(2), "s.at<int>(kFirstChunk)", out(0)});
      case OpKind::embedding:
      case OpKind::rms_norm:
      case OpKind::swiglu:
      case OpKind::gather_rows:
      case OpKind::embedding_backward:
      case OpKind::column_sum: {
        std::vector<std::string> arguments;
        for (TensorId id : op.inputs) arguments.push_back(name(id));
        for (TensorId id : op.outputs) arguments.push_back(name(id));
        return launch(kernel(region, op), arguments);
      }
      case OpKind::add:
      case OpKind::cross_entropy_backward: break;
    }
    throw Failure(Exit::internal, std::string("a ") + name_of(op.kind) + " was left unfused: op " + op.name);
  }

  static bool takes_first(const Region& r) {
    return r.part == Part::loss || r.part == Part::backward || r.name == "evaluate_sum";
  }

  std::string parameters(const Region& r, bool declare) const {
    std::string text = declare ? "Step& s" : "s";
    if (takes_first(r) && uses_first(r)) text += declare ? ", bool first" : ", first";
    if (r.loop == Loop::layers_up || r.loop == Loop::layers_down) text += declare ? ", std::size_t layer" : ", layer";
    if (r.loop == Loop::loss_chunks) text += declare ? ", std::size_t chunk" : ", chunk";
    return text;
  }

  static bool uses_first(const Region& r) {
    return std::any_of(r.ops.begin(), r.ops.end(), [](const Op& op) {
      return op.kind == OpKind::linear_wgrad || op.kind == OpKind::column_reduce || op.kind == OpKind::loss_sum ||
             op.kind == OpKind::zero;
    });
  }

  void region(std::size_t r) {
    const Region& region = g_.regions[r];
    out_.open("void $name$($parameters$)", {{"name", region.name}, {"parameters", parameters(region, true)}});
    pointers(r);
    out_.blank();
    if (cuda_) out_.line("const Range range(\"$name$\");", {{"name", region.name}});
    for (const Op& o : region.ops) op(region, o);
    out_.close();
    out_.blank();
  }

  /// The ops of the one region of `part`, in place.
  void ops(Part part) {
    for (const Region& r : g_.regions)
      if (r.part == part)
        for (const Op& o : r.ops) op(r, o);
  }

  /// Calls every region of `part`, in order; equal loops over layers are one loop that chooses the layer's variant.
  void calls(Part part) {
    bool up = false, down = false;
    for (const Region& r : g_.regions) {
      if (r.part != part) continue;
      const auto call = [&](const Region& callee) {
        out_.line("$name$($arguments$);", {{"name", callee.name}, {"arguments", parameters(callee, false)}});
      };
      switch (r.loop) {
        case Loop::once: call(r); break;
        case Loop::loss_chunks:
          out_.open("for (std::size_t chunk = 0; chunk < $n$; ++chunk)", {{"n", std::to_string(g_.tokens() / g_.chunk_rows)}});
          call(r);
          out_.close();
          break;
        case Loop::layers_up:
        case Loop::layers_down: {
          bool& done = r.loop == Loop::layers_up ? up : down;
          if (done) break;
          done = true;
          const std::string n = std::to_string(g_.layers);
          if (r.loop == Loop::layers_up) out_.open("for (std::size_t layer = 0; layer < $n$; ++layer)", {{"n", n}});
          else out_.open("for (std::size_t layer = $n$; layer-- > 0;)", {{"n", n}});
          layer_calls(r.loop, call);
          out_.close();
          break;
        }
      }
    }
  }

  template <class Call>
  void layer_calls(Loop loop, const Call& call) {
    std::vector<const Region*> variants;
    for (const Region& r : g_.regions)
      if (r.loop == loop) variants.push_back(&r);
    if (variants.size() == 1) return call(*variants[0]);
    // The first variant's layers are the multiples of memory.recompute's `every`.
    const Region& first = *variants[0];
    const std::int64_t every = first.layers.size() > 1 ? first.layers[1] - first.layers[0] : g_.layers;
    out_.open("if (layer % $n$ == 0)", {{"n", std::to_string(every)}});
    call(first);
    out_.middle("} else {");
    call(*variants[1]);
    out_.close();
  }

  void functions() {
    out_.open("void forward(Step& s)");
    calls(Part::forward);
    out_.close();
    out_.blank();
    out_.line("}  // namespace");
    out_.blank();
    out_.open("Step* create_step(Device& device, std::byte* arena)");
    if (cuda_) out_.line("require_arch(\"$archs$\");", {{"archs", arch_list(plan_.spec)}});
    if (tiles_) out_.line("require_tiles();");
    out_.line("return new Step(device, arena);");
    out_.close();
    out_.blank();
    out_.open("void destroy_step(Step* step)");
    out_.line("delete step;");
    out_.close();
    out_.blank();
    out_.open("void initialise(Step& s, std::uint64_t seed)");
    ops(Part::initialise);
    if (cuda_)
      out_.line("s.ranks.broadcast(s.at<float>(kMasters), $bytes$, 0, s.stream);  // every rank begins with rank 0's bits",
                {{"bytes", std::to_string(4 * plan_.parameters.elements)}});
    out_.close();
    out_.blank();
    if (std::any_of(g_.regions.begin(), g_.regions.end(), [](const Region& r) { return r.part == Part::refresh; })) {
      out_.open("void refresh_copies(Step& s)");
      ops(Part::refresh);
      out_.close();
    } else {
      out_.line("/// The masters are what matrix products read.");
      out_.line("void refresh_copies(Step&) {}");
    }
    out_.blank();
    out_.open("void micro_batch(Step& s, bool first, bool /*last*/)");
    out_.line("forward(s);");
    calls(Part::loss);
    calls(Part::backward);
    out_.close();
    out_.blank();
    out_.open("void optimizer_step(Step& s)");
    calls(Part::optimizer);
    out_.close();
    out_.blank();
    out_.open("void evaluate(Step& s, bool first)");
    out_.line("forward(s);");
    calls(Part::evaluate);
    out_.close();
    out_.blank();
    out_.open("void next_logits(Step& s)");
    out_.line("forward(s);");
    calls(Part::sample);
    out_.close();
    out_.blank();
  }

  const plan::Plan& plan_;
  const Graph& g_;
  Source out_;
  bool cuda_ = false, cudnn_ = false, cudnn_backward_ = false, tiles_ = false;
  int variants_ = 0;
};

}  // namespace

std::string print_step(const plan::Plan& plan) { return format(StepPrinter(plan).print()); }

}  // namespace llmc::emit
