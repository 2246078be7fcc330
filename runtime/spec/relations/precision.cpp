// Relations of the precision with the model and the target.
#include <algorithm>
#include <string>
#include <utility>
#include <vector>

#include "spec/relations/checks.h"
#include "spec/targets.h"
#include "spec/values.h"
#include "text/plural.h"

namespace llmc::spec {
namespace {

class PrecisionRelations : RelationChecks {
 public:
  PrecisionRelations(const BoundSpec& bound, std::vector<Diagnostic>& diagnostics)
      : RelationChecks(bound, diagnostics) {}

  void residual_stream() {
    if (!usable({"precision.compute", "precision.residual"}) || spec_.compute == DType::bf16 ||
        spec_.residual == DType::f32)
      return;
    fail("E0316", fmt::format("a bf16 residual stream needs compute: bf16, but compute is {}", compute()),
         "write residual: fp32, or compute: bf16",
         any_of({write("precision.residual", "fp32"), write("precision.compute", "bf16")}),
         {"precision.residual", "precision.compute"});
  }

  void fp16() {
    if (!usable({"precision.compute", "target.kind"}) || spec_.compute != DType::f16 ||
        spec_.target.kind == TargetKind::cuda)
      return;
    fail("E0363", "compute: fp16 needs a GPU, but target.kind is cpu", "write compute: bf16, or target.kind: cuda",
         any_of({write("precision.compute", "bf16"), write("target.kind", "cuda")}),
         {"precision.compute", "target.kind"});
  }

  /// A target.arch of `native` is checked where it is resolved (compiler/build/toolchain.cpp).
  void bf16x3() {
    if (!usable({"precision.matmul", "precision.compute", "target.kind", "target.arch"}) ||
        spec_.matmul != Matmul::bf16x3)
      return;
    const auto& arch = spec_.target.arch;
    if (spec_.target.kind != TargetKind::cpu) {
      fail("E0325", "matmul: bf16x3 needs AMX tiles, but target.kind is cuda",
           "write matmul: auto, or target.kind: cpu",
           any_of({write("precision.matmul", "auto"), write("target.kind", "cpu")}),
           {"precision.matmul", "target.kind"});
    } else if (spec_.compute != DType::f32) {
      fail("E0325", fmt::format("matmul: bf16x3 needs compute: fp32, but compute is {}", compute()),
           "write compute: fp32, or matmul: auto",
           any_of({write("precision.compute", "fp32"), write("precision.matmul", "auto")}),
           {"precision.matmul", "precision.compute"});
    } else if (arch.size() == 1 && arch[0] != "native" && contains(cpu_architectures(), arch[0]) &&
               !contains(architectures_with_tiles(), arch[0])) {
      fail("E0325", fmt::format("matmul: bf16x3 needs AMX tiles, which arch {} does not have", arch[0]),
           fmt::format("write matmul: auto, or target.arch: {}", either(architectures_with_tiles())),
           any_of({write("precision.matmul", "auto"), write("target.arch", architectures_with_tiles()[0])}),
           {"precision.matmul", "target.arch"});
    }
  }

  void tf32() {
    if (!usable({"precision.matmul", "precision.compute", "target.kind"}) || spec_.matmul != Matmul::tf32) return;
    if (spec_.target.kind != TargetKind::cuda)
      fail("E0329", "matmul: tf32 needs tensor cores, but target.kind is cpu",
           "write matmul: auto, or target.kind: cuda",
           any_of({write("precision.matmul", "auto"), write("target.kind", "cuda")}),
           {"precision.matmul", "target.kind"});
    else if (spec_.compute != DType::f32)
      fail("E0329", fmt::format("matmul: tf32 needs compute: fp32, but compute is {}", compute()),
           "write compute: fp32, or matmul: auto",
           any_of({write("precision.compute", "fp32"), write("precision.matmul", "auto")}),
           {"precision.matmul", "precision.compute"});
  }

  void split_masters() {
    if (!usable({"precision.master", "precision.compute"}) || spec_.master == Masters::fp32 ||
        spec_.compute == DType::bf16)
      return;
    fail("E0331",
         fmt::format("master: split joins bf16 copies with their rest, but compute is {}", name_of(spec_.compute)),
         "write master: fp32, or compute: bf16",
         any_of({write("precision.master", "fp32"), write("precision.compute", "bf16")}),
         {"precision.master", "precision.compute"});
  }

  /// Of specs' optimizers AdamW alone has another format.
  void optimizer_state() {
    if (!usable({"precision.optimizer_state", "optimizer.kind"}) || spec_.optimizer_state == OptimizerState::fp32 ||
        spec_.optimizer.kind == OptimizerKind::adamw)
      return;
    fail("E0330",
         fmt::format("optimizer_state: int8 is a format of AdamW's moments, but optimizer.kind is {}",
                     row_of(spec_.optimizer.kind).name),
         "write optimizer_state: fp32, or optimizer.kind: adamw",
         any_of({write("precision.optimizer_state", "fp32"), write("optimizer.kind", "adamw")}),
         {"precision.optimizer_state", "optimizer.kind"});
  }

  void fp8() {
    if (!usable({"precision.matmul"}) || !spec_.has_fp8_products()) return;
    if (usable({"precision.compute"}) && spec_.compute != DType::bf16)
      fail("E0327", fmt::format("matmul: {} needs compute: bf16, but compute is {}", word(), compute()),
           "write compute: bf16, or matmul: auto",
           any_of({write("precision.compute", "bf16"), write("precision.matmul", "auto")}),
           {"precision.matmul", "precision.compute"});
    if (usable({"target.kind", "target.arch"}) && spec_.target.kind == TargetKind::cuda) fp8_archs();
    fp8_widths();
    fp8_vocabulary();
    if (spec_.has_fp8_weight_gradients()) fp8_rows();
    fp8_layers();
  }

 private:
  std::string word() const { return text_of("precision.matmul", spec_); }
  const char* compute() const { return name_of(spec_.compute); }

  static bool contains(const std::vector<std::string>& list, const std::string& name) {
    return std::ranges::find(list, name) != list.end();
  }

  void fp8_archs() {
    const std::vector<std::string>& archs = spec_.target.arch;
    const bool blocks = spec_.matmul == Matmul::mxfp8;
    const auto propose = any_of({write("precision.matmul", "fp8_tensor"),
                                 blocks ? write("precision.matmul", "fp8") : write("target.arch", "[90a]"),
                                 write("precision.matmul", "auto")});
    const auto products = [&](const std::string& arch) { return code_products(spec_.matmul, arch); };
    for (const std::string& arch : archs) {
      if (!contains(cuda_architectures(), arch)) return;
      if (products(arch) == CodeProducts::none) {
        fail("E0327",
             fmt::format("matmul: {} has {}, which products of arch {} do not take", word(),
                         !blocks                  ? "a scale for each row"
                         : arch.starts_with("12") ? "operands that lie across the sum"
                                                  : "a scale for each 32 elements",
                         arch),
             blocks ? "write matmul: fp8_tensor" : "write matmul: fp8_tensor, or target.arch: [90a]", propose,
             {"precision.matmul", "target.arch"});
        return;
      }
      if (products(arch) == products(archs[0])) continue;
      fail("E0327",
           fmt::format("matmul: {} needs one kind of arch, but of {} and {} one alone has fp8 products", word(),
                       archs[0], arch),
           "write one arch for each trainer", propose, {"precision.matmul", "target.arch"});
      return;
    }
  }

  void fp8_widths() {
    const Model& m = spec_.model;
    const std::int64_t multiple = spec_.fp8_multiple();
    for (const auto& [path, width] :
         {std::pair("model.hidden_size", m.hidden_size), std::pair("model.intermediate_size", m.intermediate_size)})
      if (usable({path}) && width % multiple)
        fail("E0328",
             fmt::format("matmul: {} needs widths that are multiples of {}, but {} is {}", word(), multiple,
                         leaf_of(path), width),
             fmt::format("write a multiple of {}, or matmul: auto", multiple),
             [path = std::string(path), width = width, multiple](const Sound& sound) {
               std::vector<Edit> edits;
               add_multiples(sound, path, width, multiple, edits);
               add(sound, write("precision.matmul", "auto"), edits);
               return edits;
             },
             {path, "precision.matmul"});
    if (!usable({"model.head_dim", "model.num_attention_heads", "model.num_key_value_heads"})) return;
    const std::int64_t q = m.num_attention_heads * m.head_dim, k = m.num_key_value_heads * m.head_dim;
    if (m.has_fp8_columns(multiple)) return;
    fail("E0328",
         fmt::format("matmul: {} needs widths that are multiples of {}, but q has {} columns, k and v {} each", word(),
                     multiple, q, k),
         fmt::format("write a head_dim that is a multiple of {}, or matmul: auto", multiple),
         [dim = m.head_dim, multiple](const Sound& sound) {
           std::vector<Edit> edits;
           add_multiples(sound, "model.head_dim", dim, multiple, edits);
           add(sound, write("precision.matmul", "auto"), edits);
           return edits;
         },
         {"model.head_dim", "model.num_attention_heads", "precision.matmul"});
  }

  /// The gradient of the head's input is a sum over the vocabulary.
  void fp8_vocabulary() {
    const std::int64_t vocabulary = spec_.model.vocab_size;
    if (!usable({"precision.fp8.head", "model.vocab_size"}) || spec_.fp8.head == Fp8Head::off ||
        vocabulary % kFp8Multiple == 0)
      return;
    fail("E0328", fmt::format("fp8.head needs a vocab_size that is a multiple of 16, but it is {}", vocabulary),
         "write a multiple of 16, or head: off",
         [vocabulary](const Sound& sound) {
           std::vector<Edit> edits;
           add_multiples(sound, "model.vocab_size", vocabulary, kFp8Multiple, edits);
           add(sound, write("precision.fp8.head", "off"), edits);
           return edits;
         },
         {"model.vocab_size", "precision.fp8.head"});
  }

  /// A weight gradient is a sum over the tokens of a micro-batch.
  void fp8_rows() {
    if (!usable({"batch.sequence_length", "batch.micro_batch"})) return;
    const std::int64_t multiple = spec_.fp8_multiple(), length = spec_.batch.sequence_length,
                       sequences = std::max<std::int64_t>(spec_.batch.micro_batch, 1);
    if (length * sequences % multiple == 0) return;
    fail("E0328",
         fmt::format("matmul: {} needs micro-batches of a multiple of {} tokens, but {} sequence{} of {} {} {}", word(),
                     multiple, sequences, plural(sequences), length, sequences == 1 ? "has" : "have",
                     length * sequences),
         fmt::format("write a multiple of {} as sequence_length, or matmul: fp8", multiple),
         [length, multiple](const Sound& sound) {
           std::vector<Edit> edits;
           add_multiples(sound, "batch.sequence_length", length, multiple, edits);
           add(sound, write("precision.matmul", "fp8"), edits);
           return edits;
         },
         {"batch.sequence_length", "batch.micro_batch", "precision.matmul"});
  }

  void fp8_layers() {
    if (!usable({"precision.fp8.first_layers", "precision.fp8.last_layers", "model.num_hidden_layers"})) return;
    const std::int64_t wide = spec_.fp8.first_layers + spec_.fp8.last_layers, layers = spec_.model.num_hidden_layers;
    if (wide < layers) return;
    fail("E0327",
         fmt::format("first_layers {} and last_layers {} leave no fp8 product in {} layer{}", spec_.fp8.first_layers,
                     spec_.fp8.last_layers, layers, plural(layers)),
         fmt::format("write numbers whose sum is below {}", layers),
         [layers, first = spec_.fp8.first_layers](const Sound& sound) {
           std::vector<Edit> edits;
           Edit fewer = write("precision.fp8.first_layers", std::min(first, layers - 1));
           fewer.write.emplace_back("precision.fp8.last_layers",
                                    std::to_string(layers - 1 - std::min(first, layers - 1)));
           add(sound, fewer, edits);
           add(sound, write("precision.matmul", "auto"), edits);
           return edits;
         },
         {"precision.fp8.first_layers", "precision.fp8.last_layers"});
  }
};

}  // namespace

void check_precision_relations(const BoundSpec& bound, std::vector<Diagnostic>& diagnostics) {
  PrecisionRelations relations(bound, diagnostics);
  relations.residual_stream();
  relations.fp16();
  relations.bf16x3();
  relations.tf32();
  relations.split_masters();
  relations.optimizer_state();
  relations.fp8();
}

}  // namespace llmc::spec
