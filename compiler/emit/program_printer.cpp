#include "compiler/emit/program_printer.h"

#include <fmt/format.h>
#define XXH_INLINE_ALL
#include <xxhash.h>

#include <algorithm>
#include <cmath>
#include <nlohmann/json.hpp>
#include <numeric>
#include <ranges>

#include "compiler/emit/printer.h"
#include "compiler/emit/product_printer.h"
#include "compiler/plan/pieces.h"
#include "compiler/plan/rope.h"
#include "spec/values.h"

namespace llmc::emit {
namespace {

/// A text that is embedded in the program, and its symbol.
struct Text {
  const char* symbol;
  const char* file;
  std::string ProgramTexts::* member;
};

constexpr Text kTexts[] = {{"llmc_plan_text", "plan.txt", &ProgramTexts::plan_text},
                           {"llmc_plan_json", "plan.json", &ProgramTexts::plan_json},
                           {"llmc_spec_yaml", "spec.yaml", &ProgramTexts::spec_yaml},
                           {"llmc_config_json", "config.json", &ProgramTexts::config_json},
                           {"llmc_phases_json", "phases.json", &ProgramTexts::phases_json}};

/// Texts that the trainer of a plan embeds.
std::vector<Text> texts_of(const plan::Plan& plan) {
  std::vector<Text> texts(std::begin(kTexts), std::end(kTexts));
  if (plan.spec.phase.count == 1) texts.pop_back();
  return texts;
}

void parameters(SourceWriter& out, const plan::Plan& plan) {
  out.line("// name, offset, rows, cols, pitch, matrix, group, init_std, init_value, key");
  out.line("constexpr ParameterInfo kParameters[] = {");
  for (const plan::Slice& s : plan.parameters.slices)
    out.line("    $row$",
             {{"row", fmt::format("{{\"{}\", {}, {}, {}, {}, {}, {}, {:#.9g}f, {:.1f}f, {}u{}}},", s.name, s.offset,
                                  s.rows, s.cols, s.pitch, s.matrix, s.group, s.init_std == 0 ? 0.0 : s.init_std,
                                  s.init_value, XXH64(s.name.data(), s.name.size(), 0),
                                  s.first_row ? fmt::format(", {}", s.first_row) : std::string())}});
  out.line("};");
  out.blank();
}

/// Returns whether sliding layers have frequencies of their own.
bool frequencies(SourceWriter& out, const plan::Plan& plan) {
  const auto print = [&](const char* name, const std::vector<double>& all) {
    out.line("constexpr double $name$[] = {", {{"name", name}});
    for (double f : all) out.line("    $f$,", {{"f", fmt::format("{:.17g}", f)}});
    out.line("};");
    out.blank();
  };
  out.line("// RoPE: angle of pair i at position p is p * kInverseFrequencies[i].");
  print("kInverseFrequencies", plan::inverse_frequencies(plan.spec.model));
  const bool local = std::ranges::any_of(plan.graph.kinds, &graph::LayerKind::local_rope);
  if (local) print("kLocalInverseFrequencies", plan::local_inverse_frequencies(plan.spec.model));
  return local;
}

void groups(SourceWriter& out, const plan::Plan& plan) {
  out.line("// Groups of parameters.");
  out.line("constexpr ParameterGroup kGroups[] = {");
  for (const ParameterGroup& g : plan.graph.groups)
    out.line("    {\"$name$\", ParameterRole::$role$$optimizer$},",
             {{"name", g.name},
              {"role", kParameterRoleNames[static_cast<std::size_t>(g.role)]},
              {"optimizer", g.optimizer ? fmt::format(", OptimizerKind::{}", row_of(*g.optimizer).name) : ""}});
  out.line("};");
  out.blank();
}

/// Prints the names of what the step reports. Returns whether there are any.
bool reports(SourceWriter& out, const plan::Plan& plan) {
  const std::vector<std::string>& names = plan.graph.reports;
  if (names.empty()) return false;
  out.line("// Figures that the step reports in addition to StepResults, in the order of buffer reports.");
  out.line("constexpr const char* kReports[] = {$names$};",
           {{"names", fmt::format("\"{}\"", fmt::join(names, "\", \""))}});
  out.blank();
  return true;
}

/// Prints the lists of the phase, and returns its initialiser; empty if the run has one phase.
std::string phase(SourceWriter& out, const spec::Phase& phase) {
  if (phase.count == 1) return "";
  std::vector<std::int64_t> ends = phase.borders;
  ends.push_back(phase.steps);
  std::vector<int> trainers = phase.trainers;
  if (trainers.empty()) {  // a phase alone
    trainers.resize(static_cast<std::size_t>(phase.count));
    std::iota(trainers.begin(), trainers.end(), 1);
  }
  out.line(
      "// Last steps of all phases, the first phase of each one's trainer, and keys that differ from the phase "
      "before.");
  out.line("constexpr std::int64_t kPhaseEnds[] = {$steps$};", {{"steps", fmt::format("{}", fmt::join(ends, ", "))}});
  out.line("constexpr int kPhaseTrainers[] = {$numbers$};",
           {{"numbers", fmt::format("{}", fmt::join(trainers, ", "))}});
  if (!phase.changed.empty())
    out.line("constexpr const char* kChangedKeys[] = {$keys$};",
             {{"keys", fmt::format("\"{}\"", fmt::join(phase.changed, "\", \""))}});
  out.blank();
  return fmt::format("{{{}, {}, kPhaseEnds, kPhaseTrainers, {}}}", phase.number, phase.count,
                     phase.changed.empty() ? "{}" : "kChangedKeys");
}

/// Prints the buffers of one rank; the program sizes sharded ones at start for another number of ranks. Returns the
/// arena's bytes.
std::size_t buffers(SourceWriter& out, const plan::Plan& plan) {
  out.line("// Buffers of one rank's arena: name, dtype, elements, use, offset in bytes.");
  out.line("constexpr Buffer kBuffers[] = {");
  std::size_t end = 0;
  for (const plan::HostBuffer& b : plan.layout.buffers) {
    const bool sharded = is_sharded(b.use, plan.spec.parallel.shard);
    const std::int64_t elements =
        sharded ? plan.parameters.state_elements(Shares(plan.parameters.buckets), b.block, b.groups) : b.elements;
    const std::size_t offset = sharded && end ? end : b.offset;
    if (sharded) end = offset + buffer_space(b.dtype, elements);
    const bool part = b.block != 1 || b.groups != kAllGroups || b.saved_as;
    out.line("    {\"$name$\", $type$, $elements$, Use::$use$, $offset$$part$},",
             {{"name", b.name},
              {"type", dtype_literal(b.dtype)},
              {"elements", std::to_string(elements)},
              {"use", name_of(b.use)},
              {"offset", std::to_string(offset)},
              {"part", part ? fmt::format(", {}, {:#x}{}", b.block, b.groups,
                                          b.saved_as ? fmt::format(", \"{}\"", b.saved_as) : "")
                            : ""}});
  }
  out.line("};");
  out.blank();
  return end ? end : plan.layout.bytes - (plan.spec.parallel.world_size > 1 ? plan.layout.window_bytes : 0);
}

void buckets(SourceWriter& out, const plan::Plan& plan) {
  out.line("// Ranges that ranks reduce and gather at once: first element, elements.");
  out.line("constexpr Bucket kBuckets[] = {");
  for (const Bucket& b : plan.parameters.buckets)
    out.line("    {$offset$, $elements$},",
             {{"offset", std::to_string(b.offset)}, {"elements", std::to_string(b.elements)}});
  out.line("};");
  out.blank();
}

/// Prints the ranges that ranks gather. Returns whether there are any.
bool gathered(SourceWriter& out, const plan::Plan& plan) {
  std::vector<std::string> lines;
  for (const graph::Region& region : plan.graph.regions) {
    if (!region.gathers_weights()) continue;
    for (const graph::Op& op : region.ops) {
      if (!ops::row_of(op.kind).gathers) continue;
      const graph::Tensor& bucket = plan.graph.at(op.outputs[0]);
      if (is_sharded(plan.graph.at(bucket.partner).use, plan.spec.parallel.shard)) continue;
      const std::size_t first = plan.parameters.first_bucket.at(bucket.block);
      const std::size_t count = bucket.block == graph::Block::layer ? static_cast<std::size_t>(plan.graph.layers()) : 1;
      for (std::size_t i = first; i < first + count; ++i)
        lines.push_back(fmt::format("    {{\"{}\", {}, {}}},", plan.graph.at(bucket.partner).name,
                                    plan.parameters.buckets[i].offset, plan.parameters.buckets[i].elements));
    }
  }
  if (lines.empty()) return false;
  out.line("// Ranges that ranks gather before a step: flat buffer, first element, elements.");
  out.line("constexpr Gathered kGathered[] = {");
  for (const std::string& line : lines) out.line(line);
  out.line("};");
  out.blank();
  return true;
}

bool has_audit(const plan::Plan& plan) { return std::ranges::any_of(plan.graph.regions, &graph::Region::is_audit); }

/// Whether masters are split.
bool joins(const plan::Plan& plan) { return !plan.schedule.pass(plan::PassName::join_masters).empty(); }

/// Returns the attentions that cuDNN computes.
std::vector<const ops::AttentionChoice*> attentions(const plan::Plan& plan) {
  std::vector<const ops::AttentionChoice*> list;
  for (const ops::AttentionChoice& choice : plan.attention.list)
    if (choice.forward == AttentionBy::cudnn) list.push_back(&choice);
  return list;
}

/// `next`: constant of the next attention in the list, or empty.
void print_attention(SourceWriter& out, const ops::AttentionChoice& choice, const std::string& next) {
  const AttentionShape& s = choice.shape;
  const std::string suffix = ops::attention_suffix(s);
  const bool own = choice.carries(AttentionBy::portable);
  const bool rotates_after = choice.rotates && choice.carries(AttentionBy::cudnn);
  out.blank();
  if (own) {
    out.line("/// llmc's own kernels of attention's backward pass. `delta`: fp32, one per query and head.");
    if (choice.rotates) out.line("/// They rotate dq and dk back, which cuDNN leaves to a kernel of its own.");
    out.line("void own_attention_backward$s$(Stream& stream, const bf16* dout, const bf16* out, const bf16* qkv,",
             {{"s", suffix}});
    out.line("                            const float* lse, bf16* dqkv, float* delta, const float* rope_table);");
  }
  if (rotates_after)
    out.line("void rotate_gradients_back$s$(Stream& stream, bf16* dqkv, const float* rope_table);", {{"s", suffix}});
  if (own || rotates_after) out.blank();
  out.line(
      "// cuDNN's attention. Variants of its backward pass: implementation, predicted ms per layer (0: unknown), "
      "workspace.");
  out.line("inline constexpr BackwardWay kBackwardWays$s$[] = {", {{"s", suffix}});
  for (const BackwardWay& way : choice.backward)
    out.line("    {AttentionBy::$by$, $ms$, $bytes$},", {{"by", way.by == AttentionBy::cudnn ? "cudnn" : "portable"},
                                                         {"ms", fmt::format("{:.4g}", way.predicted_ms)},
                                                         {"bytes", std::to_string(way.workspace_bytes)}});
  out.line("};");
  out.line("inline constexpr AttentionPlan kAttention$s$ = {", {{"s", suffix}});
  out.line("    .shape = {$shape$},",
           {{"shape",
             fmt::format(".batch = {}, .sequence = {}, .heads = {}, .kv_heads = {}, .head_dim = {}, .qkv_pitch = {}, "
                         ".out_pitch = {}, .deterministic = {}{}{}",
                         s.batch, s.sequence, s.heads, s.kv_heads, s.head_dim, s.qkv_pitch, s.out_pitch,
                         s.deterministic, s.window ? fmt::format(", .window = {}", s.window) : "",
                         s.multiplier != 0 ? fmt::format(", .multiplier = {:#.9g}f", s.multiplier) : "")}});
  out.line("    .ways = kBackwardWays$s$,", {{"s", suffix}});
  if (own) out.line("    .own = own_attention_backward$s$,", {{"s", suffix}});
  if (rotates_after) out.line("    .rotate_back = rotate_gradients_back$s$,", {{"s", suffix}});
  if (!next.empty()) out.line("    .next = &$next$,", {{"next", next}});
  out.line("};");
}

std::string attention_constant(const ops::AttentionChoice& choice) {
  return "kAttention" + ops::attention_suffix(choice.shape);
}

/// In reverse order, because each names the next.
void print_attentions(SourceWriter& out, const plan::Plan& plan) {
  std::string next;
  for (const ops::AttentionChoice* choice : std::views::reverse(attentions(plan))) {
    print_attention(out, *choice, next);
    next = attention_constant(*choice);
  }
}

std::string pieces(const plan::Plan& plan) {
  std::string text;
  for (std::size_t i = 0; i < kPieces; ++i) {
    const PieceWork work = plan::work_of(plan, static_cast<StepPiece>(i));
    text += fmt::format("{}{{{:.17g}, {:.17g}, {}}}", i ? ", " : "", work.flops, work.bytes, work.launches);
  }
  return "{{" + text + "}}";
}

}  // namespace

std::string phases_json(std::span<const PhaseOfRun> phases) {
  nlohmann::ordered_json list = nlohmann::ordered_json::array();
  for (const auto& [phase, texts] : phases)
    list.push_back({{"number", phase.number},
                    {"changed", phase.changed},
                    {"plan_text", texts.plan_text},
                    {"plan_json", texts.plan_json},
                    {"spec_yaml", texts.spec_yaml}});
  return list.dump(1) + "\n";
}

std::vector<std::pair<std::string, std::string>> text_files(const plan::Plan& plan, const ProgramTexts& texts) {
  std::vector<std::pair<std::string, std::string>> files;
  for (const Text& text : texts_of(plan)) files.emplace_back(text.file, texts.*text.member);
  return files;
}

std::string print_texts(const plan::Plan& plan) {
  SourceWriter out;
  out.raw("// Files next to this one that the trainer contains, each ended by a zero.\n\n    .section .rodata\n");
  for (const Text& text : texts_of(plan))
    out.line("    .globl $s$\n$s$: .incbin \"$f$\"\n    .byte 0", {{"s", text.symbol}, {"f", text.file}});
  out.raw("    .section .note.GNU-stack, \"\", @progbits\n");
  return out.take();
}

std::string print_step_header(const plan::Plan& plan) {
  SourceWriter out;
  const bool attention = !attentions(plan).empty();
  out.line("// The matrix products$attention$ and the functions of the step of run $name$ ($print$).",
           {{"attention", attention ? ", the attention" : ""}, {"name", plan.spec.name}, {"print", plan.fingerprint}});
  out.raw("#pragma once\n\n#include <cstddef>\n#include <cstdint>\n#include <span>\n\n#include \"device/device.h\"\n");
  if (attention) out.raw("#include \"math/attention.h\"\n");
  out.raw("#include \"math/gemm.h\"\n#include \"program/program.h\"\n\nnamespace llmc {\n\n");
  print_products(out, plan);
  print_attentions(out, plan);
  out.raw(R"(
Step* create_step(Device& device, Communicator& ranks, const Shares& shares, std::byte* arena,
                  std::span<const std::size_t> places);
void destroy_step(Step* step);
void initialise(Step& step, std::uint64_t seed);
void refresh_copies(Step& step);
void gather_weights(Step& step);
void micro_batch(Step& step, bool first, bool last);
void optimizer_step(Step& step);
void evaluate(Step& step, bool first);
void next_logits(Step& step);
void run_piece(Step& step, StepPiece piece, std::size_t layer);
)");
  if (has_audit(plan)) out.line("void audit(Step& step);");
  if (joins(plan)) out.line("void fetch_masters(Step& step);");
  if (plan.spec.target.kind != spec::TargetKind::cuda)
    out.raw("\nextern const std::uint64_t kInstructions;  // instruction sets of the step and its kernels\n");
  out.raw("\n}  // namespace llmc\n");
  return out.take();
}

std::string print_program(const plan::Plan& plan) {
  const spec::Spec& spec = plan.spec;
  SourceWriter out;
  out.line("// Constants of the trainer of run $name$ ($print$), and its main function.",
           {{"name", spec.name}, {"print", plan.fingerprint}});
  const bool cuda = spec.target.kind == spec::TargetKind::cuda;
  if (std::ranges::any_of(plan.graph.groups, [](const ParameterGroup& g) { return g.optimizer.has_value(); }))
    out.raw("#include \"program/optimizers.h\"\n");
  out.raw("#include \"program/program.h\"\n\n");
  if (!cuda) out.raw("#include \"device/cpu/wait_policy.h\"\n");
  out.raw("#include \"step.h\"\n\n// Files embedded by texts.S.\nextern \"C\" {\n");
  for (const Text& text : texts_of(plan)) out.line("extern const char $s$[];", {{"s", text.symbol}});
  out.raw("}\n\nnamespace llmc {\nnamespace {\n\n");
  parameters(out, plan);
  const bool local = frequencies(out, plan);
  groups(out, plan);
  const bool reported = reports(out, plan);
  const std::size_t arena_bytes = buffers(out, plan);
  buckets(out, plan);
  const bool gathers = gathered(out, plan);
  const std::string of_phase = phase(out, spec.phase);
  const double rope_scale = plan::rope_table_scale(spec.model);
  const auto n = [](std::int64_t value) { return std::to_string(value); };
  out.line("constexpr ProgramInfo kInfo = {");
  const plan::ParameterLayout& p = plan.parameters;
  const std::vector<const ops::AttentionChoice*> attention = attentions(plan);
  const std::initializer_list<std::pair<const char*, std::string>> fields = {
      {"name", "\"" + spec.name + "\""},
      {"fingerprint", "\"" + plan.fingerprint + "\""},
      {"plan_text", "llmc_plan_text"},
      {"plan_json", "llmc_plan_json"},
      {"spec_yaml", "llmc_spec_yaml"},
      {"config_json", "llmc_config_json"},
      {"arch", cuda ? "\"" + arch_list(spec) + "\"" : "LLMC_ARCH"},
      {"instructions", cuda ? "nullptr" : "&kInstructions"},
      {"vocab_size", n(spec.model.vocab_size)},
      {"vocab_pitch", n(plan.graph.at(plan.graph.host(Use::sample_logits)).pitch)},
      {"hidden_size", n(spec.model.hidden_size)},
      {"layers", n(spec.model.num_hidden_layers)},
      {"head_dim", n(spec.model.head_dim)},
      {"sequence_length", n(spec.batch.sequence_length)},
      {"micro_batch", n(plan.choice.micro_batch)},
      {"parameter_count", n(p.logical)},
      {"parameter_elements", n(p.elements)},
      {"flops_per_token", fmt::format("{:.17g}", plan.cost.model_flops_per_token)},
      {"parameters", "kParameters"},
      {"inverse_frequencies", "kInverseFrequencies"},
      {"local_inverse_frequencies", local ? "kLocalInverseFrequencies" : ""},
      {"rope_scale", rope_scale == 1 ? "" : fmt::format("{:.17g}", rope_scale)},
      {"rope_interleaved", spec.model.rope_interleaved ? "true" : ""},
      {"groups", "kGroups"},
      {"reports", reported ? "kReports" : ""},
      {"chunk_elements", n(p.chunk_elements)},
      {"products", "kProducts"},
      {"attention", attention.empty() ? "nullptr" : "&" + attention_constant(*attention.front())},
      {"arena_bytes", n(static_cast<std::int64_t>(arena_bytes))},
      {"process_bytes", n(static_cast<std::int64_t>(plan.process_bytes))},
      {"buffers", "kBuffers"},
      {"buckets", "kBuckets"},
      {"share_unit", p.share_unit == kShareUnit ? "" : n(p.share_unit)},
      {"gathered", gathers ? "kGathered" : "{}"},
      {"shard", fmt::format("Shard::{}", spec::text_of("parallel.shard", plan::chosen_spec(plan)))},
      {"window_bytes", n(static_cast<std::int64_t>(plan.layout.window_bytes))},
      {"gradient_window_bytes", n(static_cast<std::int64_t>(plan.layout.gradient_window_bytes))},
      {"pieces", pieces(plan)},
      {"phase", of_phase},
      {"phases_json", spec.phase.count > 1 ? "llmc_phases_json" : ""}};
  for (const auto& [name, value] : fields)
    if (!value.empty()) out.line("    .$n$ = $v$,", {{"n", name}, {"v", value}});
  out.raw(R"(};

}  // namespace

const Program& program() {
  static const Program table = {kInfo,       create_step,    destroy_step, initialise, refresh_copies, gather_weights,
                                micro_batch, optimizer_step, evaluate,     next_logits,  run_piece)");
  if (has_audit(plan)) out.raw(",  audit");
  if (joins(plan)) out.raw(has_audit(plan) ? ", fetch_masters" : ", nullptr, fetch_masters");
  out.raw(R"(};
  return table;
}

}  // namespace llmc

int main(int argc, char** argv) {
)");
  if (!cuda) out.raw("  llmc::limit_spinning(argv);\n");
  out.raw("  return llmc::train_main(argc, argv, llmc::program());\n}\n");
  return out.take();
}

}  // namespace llmc::emit
