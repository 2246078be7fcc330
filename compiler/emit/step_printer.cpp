#include "compiler/emit/step_printer.h"

#include <fmt/format.h>

#include <algorithm>
#include <set>

#include "compiler/emit/printer.h"
#include "compiler/emit/product_printer.h"
#include "compiler/emit/specialiser/specialiser.h"
#include "compiler/ops/attention.h"
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
  explicit StepPrinter(const plan::Plan& plan) : plan_(plan), g_(plan.graph) {
    cuda_ = plan.spec.target.kind == spec::TargetKind::cuda;
    cudnn_ = cuda_ && plan.attention.forward == AttentionBy::cudnn;
    tiles_ = ops::attention_in_tiles(plan.spec);
    variants_ = 1 + *std::max_element(g_.variants.begin(), g_.variants.end());
    for (const plan::HostBuffer& buffer : plan.layout.buffers)
      if (buffer.use == Use::math_workspace) workspace_ = &buffer, used_.insert(buffer.area);
  }

  std::string print() {
    for (std::size_t r = 0; r < g_.regions.size(); ++r)
      if (!in_place(g_.regions[r].part)) region(r);
    functions();
    const std::string body = out_.take();
    head();
    places();
    step_struct();
    constructor();
    out_.raw("namespace {\n\n" + body + "}  // namespace llmc\n");
    return out_.take();
  }

 private:
  void head() {
    out_.line("// The training step of $name$: what runs, in which order, on which bytes of the arena.",
              {{"name", plan_.spec.name}});
    out_.line("// Made by llmc from spec $print$; change the spec, not this file.", {{"print", plan_.fingerprint}});
    out_.line("//");
    out_.line(
        "// A micro-batch is $b$ sequences of $t$ tokens. Activations are written with =; gradients of parameters with "
        "= by",
        {{"b", std::to_string(g_.batch)}, {"t", std::to_string(g_.sequence)}});
    out_.line("// the first micro-batch of a step and with += by the later ones.");
    out_.raw(
        "\n#include <cstddef>\n#include <cstdint>\n\n#include \"comm/collectives.h\"\n#include \"device/launch.h\"\n");
    if (cuda_) out_.raw("#include \"device/cuda/arch.h\"\n#include \"device/range.h\"\n");
    if (tiles_) out_.raw("#include \"device/cpu/arch.h\"\n");
    if (cudnn_) out_.raw("#include \"math/attention.h\"\n");
    out_.raw("#include \"kernels.h\"\n#include \"math/gemm.h\"\n#include \"shares.h\"\n#include \"step.h\"\n\n");
    out_.raw("namespace llmc {\n\n");
  }

  void step_struct() {
    out_.open("struct Step");
    out_.line("Device& device;");
    out_.line("Stream& stream;");
    out_.line("Communicator& ranks;");
    out_.line("std::byte* arena;");
    out_.line("std::size_t state_bytes;  // of a buffer of the optimizer's state: of this rank's share");
    out_.line("MathLibrary math;");
    for (const plan::Product& p : plan_.products)
      out_.line("Gemm $name$;  // $what$", {{"name", p.name}, {"what", product_text(p)}});
    if (cudnn_) out_.line("Attention attention;");
    out_.blank();
    out_.line("Step(Device& device, Communicator& ranks, std::byte* arena, std::size_t state_bytes);");
    out_.blank();
    out_.line("/// The planned place `bytes` from the arena's start.");
    out_.open("template <class T> T* at(std::size_t bytes) const");
    out_.line("return reinterpret_cast<T*>(arena + bytes);");
    out_.close();
    out_.close("};");
    out_.blank();
  }

  void constructor() {
    out_.open(
        "Step::Step(Device& d, Communicator& communicator, std::byte* memory, std::size_t bytes_of_state)\n    : "
        "device(d),\n      stream(d.stream()),\n      ranks(communicator),\n      arena(memory),\n      "
        "state_bytes(bytes_of_state),\n      math(d, $workspace$, $bytes$)$products$",
        {{"workspace", workspace_ ? "memory + " + area_name(workspace_->area) : std::string("nullptr")},
         {"bytes", std::to_string(workspace_ ? workspace_->bytes() : 0)},
         {"products", product_initialisers()}});
    out_.close();
    out_.blank();
  }

  std::string area_name(std::size_t area) const { return constant_name(plan_.layout.areas[area].name); }

  /// Where the parts of the arena lie that the functions of the step use, and what else they count with.
  void places() {
    const auto number = [](const char* type, const std::string& name, std::size_t value, const std::string& note = "") {
      return fmt::format("constexpr {} {} = {};{}\n", type, name, value, note.empty() ? "" : "  // " + note);
    };
    out_.line("namespace {");
    out_.blank();
    out_.line("// Byte offsets in the arena of $bytes$ bytes, and from one layer to the next.",
              {{"bytes", std::to_string(plan_.layout.bytes)}});
    for (const std::size_t i : used_) {
      const plan::Area& area = plan_.layout.areas[i];
      out_.raw(number("std::size_t", area_name(i), area.offset));
      if (area.stride && !area.sharded) out_.raw(number("std::size_t", area_name(i) + "Stride", area.stride));
    }
    out_.blank();
    out_.raw(number("std::size_t", "kLayerMatrices", static_cast<std::size_t>(plan_.parameters.layer_stride),
                    "elements from a layer's matrices to the next layer's"));
    out_.raw(number("std::size_t", "kLayerVectors", static_cast<std::size_t>(plan_.parameters.vector_stride),
                    "the same of its vectors"));
    out_.raw(
        number("int", "kChunkCount", static_cast<std::size_t>(plan_.parameters.chunk_count),
               fmt::format("of at most {} elements: the optimizer's units of work", plan_.parameters.chunk_elements)));
    if (variants_ > 1) {
      std::string variants, ranks;
      std::vector<int> count(static_cast<std::size_t>(variants_));
      for (const int variant : g_.variants) {
        variants += (variants.empty() ? "" : ", ") + std::to_string(variant);
        ranks += (ranks.empty() ? "" : ", ") + std::to_string(count[static_cast<std::size_t>(variant)]++);
      }
      out_.line("constexpr int kVariant[] = {$variants$};  // which functions run a layer", {{"variants", variants}});
      out_.line("constexpr std::size_t kSlab[] = {$ranks$};  // a layer's place among the layers of its variant",
                {{"ranks", ranks}});
    }
    out_.blank();
    out_.line("}  // namespace");
    out_.blank();
  }

  std::string product_initialisers() const {
    std::string text;
    for (const plan::Product& p : plan_.products)
      text += fmt::format(",\n      {}(math, {})", p.name, constant_name(p.name));
    if (cudnn_) text += ",\n      attention(math, kAttention)";
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
    out_.line(
        "$type$* $name$ = s.at<$type$>($address$);  // $shape$$note$",
        {{"type", type}, {"name", name(id)}, {"address", address(r, id)}, {"shape", shape_text(t)}, {"note", note}});
  }

  /// Of a tensor in a region, in words of places().
  std::string address(std::size_t r, TensorId id) {
    const Tensor& t = g_.at(id);
    if (t.role == Role::parameter || t.role == Role::copy || t.role == Role::gradient || t.role == Role::bucket)
      return in_flat(id);
    const plan::Place& place = plan_.layout.find(g_, r, id);
    const plan::Area& area = plan_.layout.areas[place.area];
    used_.insert(place.area);
    const std::size_t inside = place.offset - area.offset;
    if (area.sharded) {
      const std::size_t index = inside / area.stride;
      return area_name(place.area) + (index ? fmt::format(" + {} * s.state_bytes", index) : "");
    }
    const std::string stride = area_name(place.area) + "Stride";
    const bool boundary = area.stride && t.scope == Scope::boundary;  // inside: whole strides
    std::string text = area_name(place.area);
    if (inside && !boundary) text += fmt::format(" + {}", inside);
    const std::string layer = t.scope == Scope::layer && variants_ > 1 ? "kSlab[layer]" : "layer";
    if (boundary && place.layer_stride && inside)
      text += fmt::format(" + ({} + {}) * {}", layer, inside / area.stride, stride);
    else if (boundary && inside)
      text += fmt::format(" + {} * {}", inside / area.stride, stride);
    else if (place.layer_stride)
      text += fmt::format(" + {} * {}", layer, stride);
    if (g_.regions[r].loop == Loop::loss_chunks && t.axis == Axis::token) {
      // This chunk's rows of a tensor with one row (or one element) a token.
      const std::int64_t step = g_.chunk_rows * bytes_of(t.dtype, g_.row_a_token(t) ? t.pitch : 1);
      text += fmt::format(" + chunk * {}", step);
    }
    return text;
  }

  /// The flat buffer that holds a parameter, its copy, its gradient, or a bucket of any of these.
  Use flat_use(const Tensor& t) const {
    switch (t.role) {
      case Role::bucket: return g_.at(t.partner).use;
      case Role::gradient: return Use::gradients;
      case Role::copy: return Use::copies;
      default: return Use::masters;
    }
  }

  /// The flat buffer, and the element where the tensor begins.
  std::string in_flat(TensorId id) {
    const Tensor& t = g_.at(id);
    const Use use = flat_use(t);
    const plan::ParameterLayout& layout = plan_.parameters;
    const TensorId owner = t.role == Role::parameter ? id : t.partner;
    const std::int64_t offset =
        t.role == Role::bucket ? layout.buckets[layout.first_bucket.at(t.block)].offset : layout.offset.at(owner);
    const std::int64_t size = bytes_of(t.dtype, 1);
    const bool vector = t.role != Role::bucket && bucket_of(g_.at(owner)) == Block::none;
    for (const auto& [flat, place] : plan_.layout.fixed) {
      if (g_.at(flat).use != use || g_.at(flat).dtype != t.dtype) continue;
      used_.insert(place.area);
      const std::string base = area_name(place.area);
      const std::string strides = std::string("layer * ") + (vector ? "kLayerVectors" : "kLayerMatrices");
      const std::string elements = offset ? fmt::format("({} + {})", offset, strides) : strides;
      if (t.scope == Scope::layer) return fmt::format("{} + {} * {}", base, size, elements);
      return offset ? fmt::format("{} + {} * {}", base, size, offset) : base;
    }
    throw Failure(Exit::internal, "no flat buffer holds %" + t.name);
  }

  /// A copy goes by its parameter's name: no function reads both.
  std::string name(TensorId id) const { return g_.at(g_.at(id).role == Role::copy ? g_.at(id).partner : id).name; }

  std::string text(const ops::Argument& a) const { return a.tensor == kNone ? a.text : name(a.tensor); }

  void launch(const plan::Launch& launch, const char* stream = "s.stream") {
    std::string list, members;
    for (const ops::Argument& a : launch.arguments)
      if (a.member)
        members += fmt::format("{}.{} = {}", members.empty() ? "" : ", ", a.member, text(a));
      else
        list += ", " + text(a);
    switch (launch.call) {
      case ops::Call::own_backward:
      case ops::Call::kernel: {
        const plan::Kernel& k = plan_.kernels[launch.kernel];
        const std::string cluster = k.cluster > 1 ? fmt::format(", {}", k.cluster) : "";
        const std::string grid = cuda_ ? fmt::format("Grid{{{}, {}{}}}, ", k.blocks, k.threads, cluster) : "";
        return out_.line("launch($stream$, $grid$$name$$list$);",
                         {{"stream", stream}, {"grid", grid}, {"name", k.name}, {"list", list}});
      }
      case ops::Call::product:
        return out_.line("s.$name$(s.stream, {$members$});",
                         {{"name", plan_.products[launch.product].name}, {"members", members}});
      case ops::Call::attention_forward: return out_.line("s.attention.forward(s.stream$list$);", {{"list", list}});
      case ops::Call::attention_backward: return out_.line("s.attention.backward(s.stream$list$);", {{"list", list}});
      case ops::Call::zero: return out_.line("if (first) s.device.zero($list$);", {{"list", list.substr(2)}});
      case ops::Call::collective:
        return out_.line("s.ranks.$function$($list$, $stream$);",
                         {{"function", launch.function},
                          {"list", list.substr(2)},
                          {"stream", launch.beside ? "s.ranks.beside(s.stream)" : "s.stream"}});
    }
  }

  void launches(std::size_t r) {
    for (const plan::Launch& l : plan_.launches)
      if (l.region_index == r && l.call != ops::Call::own_backward) launch(l);
  }

  /// What class Attention calls where it does not take cuDNN's backward pass.
  void own_backward() {
    const auto first = std::find_if(plan_.launches.begin(), plan_.launches.end(),
                                    [](const plan::Launch& l) { return l.call == ops::Call::own_backward; });
    if (first == plan_.launches.end()) return;
    out_.open(
        "void own_attention_backward(Stream& stream, const bf16* dout, const bf16* out, const bf16* qkv, "
        "const float* lse, bf16* dqkv, float* delta)");
    for (auto l = first; l != plan_.launches.end() && l->call == ops::Call::own_backward; ++l) launch(*l, "stream");
    out_.close();
    out_.blank();
  }

  /// Whether the ops of a part stand in the function that is called for it, without one of their own.
  static bool in_place(Part part) { return part == Part::initialise || part == Part::refresh; }

  std::string parameters(std::size_t r, bool declare) const {
    const Region& region = g_.regions[r];
    const bool adds = std::any_of(plan_.launches.begin(), plan_.launches.end(),
                                  [r](const plan::Launch& l) { return l.region_index == r && l.adds; });
    std::string text = declare ? "Step& s" : "s";
    if (adds) text += declare ? ", bool first" : ", first";
    if (region.block == Block::layer) text += declare ? ", std::size_t layer" : ", layer";
    if (region.loop == Loop::loss_chunks) text += declare ? ", std::size_t chunk" : ", chunk";
    return text;
  }

  void region(std::size_t r) {
    const Region& region = g_.regions[r];
    out_.open("void $name$($parameters$)", {{"name", region.name}, {"parameters", parameters(r, true)}});
    pointers(r);
    out_.blank();
    if (cuda_) out_.line("const Range range(\"$name$\");", {{"name", region.name}});
    launches(r);
    out_.close();
    out_.blank();
  }

  /// The one region of `part`, in place.
  void ops_of(Part part) {
    for (std::size_t r = 0; r < g_.regions.size(); ++r)
      if (g_.regions[r].part == part) {
        pointers(r);
        out_.blank();
        launches(r);
      }
  }

  bool has(Part part) const {
    return std::any_of(g_.regions.begin(), g_.regions.end(), [part](const Region& r) { return r.part == part; });
  }

  void call(std::size_t r) {
    out_.line("$name$($arguments$);", {{"name", g_.regions[r].name}, {"arguments", parameters(r, false)}});
  }

  /// Calls every region of `part`, in order; all variants of a layer are one loop.
  void calls(Part part) {
    for (std::size_t r = 0; r < g_.regions.size(); ++r) {
      const Region& region = g_.regions[r];
      if (region.part != part || (region.block == Block::layer && region.variant > 0)) continue;
      const std::string layers = std::to_string(g_.layers());
      switch (region.loop) {
        case Loop::once:
          call(r);
          if (part == Part::backward) reduce(region.block);
          continue;
        case Loop::loss_chunks:
          out_.open("for (std::size_t chunk = 0; chunk < $n$; ++chunk)",
                    {{"n", std::to_string(g_.tokens() / g_.chunk_rows)}});
          call(r);
          break;
        case Loop::layers_up:
          out_.open("for (std::size_t layer = 0; layer < $n$; ++layer)", {{"n", layers}});
          variant_calls(part);
          break;
        case Loop::layers_down:
          out_.open("for (std::size_t layer = $n$; layer-- > 0;)", {{"n", layers}});
          variant_calls(part);
          if (part == Part::backward) reduce(region.block);
          break;
      }
      out_.close();
    }
  }

  /// In the last micro-batch of a step the gradients of a block are complete.
  void reduce(Block block) {
    for (std::size_t r = 0; r < g_.regions.size(); ++r)
      if (g_.regions[r].part == Part::reduce && g_.regions[r].block == block)
        out_.line("if (last) $name$($arguments$);",
                  {{"name", g_.regions[r].name}, {"arguments", parameters(r, false)}});
  }

  /// A layer's function is that of its variant.
  void variant_calls(Part part) {
    for (std::size_t r = 0; r < g_.regions.size(); ++r) {
      const Region& region = g_.regions[r];
      if (region.block != Block::layer || region.part != part) continue;
      if (variants_ == 1 || region.variant == kAllVariants) return call(r);
      const std::string test =
          region.variant + 1 == variants_ ? "" : fmt::format("if (kVariant[layer] == {})", region.variant);
      if (region.variant == 0)
        out_.open(test);
      else if (test.empty())
        out_.middle("} else {");
      else
        out_.middle("} else " + test + " {");
      call(r);
    }
    out_.close();
  }

  void functions() {
    out_.open("void forward(Step& s)");
    calls(Part::forward);
    out_.close();
    out_.blank();
    if (has(Part::gather)) {
      out_.open("void gather(Step& s)");
      calls(Part::gather);
      out_.close();
      out_.blank();
    }
    out_.line("}  // namespace");
    out_.blank();
    own_backward();
    out_.open("Step* create_step(Device& device, Communicator& ranks, std::byte* arena, std::size_t state_bytes)");
    if (cuda_) out_.line("require_arch(\"$archs$\");", {{"archs", arch_list(plan_.spec)}});
    if (tiles_) out_.line("require_tiles();");
    out_.line("return new Step(device, ranks, arena, state_bytes);");
    out_.close();
    out_.blank();
    out_.open("void destroy_step(Step* step)");
    out_.line("delete step;");
    out_.close();
    out_.blank();
    out_.open("void initialise(Step& s, std::uint64_t seed)");
    ops_of(Part::initialise);
    out_.close();
    out_.blank();
    if (has(Part::refresh)) {
      out_.open("void refresh_copies(Step& s)");
      ops_of(Part::refresh);
      if (has(Part::gather)) out_.line("gather(s);");
      out_.close();
    } else {
      out_.line("/// The masters are what matrix products read.");
      out_.line("void refresh_copies(Step&) {}");
    }
    out_.blank();
    out_.open("void micro_batch(Step& s, bool first, bool last)");
    out_.line("forward(s);");
    calls(Part::loss);
    calls(Part::backward);
    reduce(Block::none);
    out_.line("if (last) s.ranks.join(s.stream);");
    out_.close();
    out_.blank();
    out_.open("void optimizer_step(Step& s)");
    calls(Part::optimizer);
    if (has(Part::gather)) out_.line("gather(s);");
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
  bool cuda_ = false, cudnn_ = false, tiles_ = false;
  int variants_ = 0;
  std::set<std::size_t> used_;                   // of Layout::areas, by offset
  const plan::HostBuffer* workspace_ = nullptr;  // of matrix products; null on cpu
};

}  // namespace

std::string print_step(const plan::Plan& plan) { return format(StepPrinter(plan).print()); }

}  // namespace llmc::emit
