// Constants of the trainer of run quickstart (274398525d62afeedc289c02dc9a8bde), and its main function.
#include "program/program.h"

#include "device/cpu/wait_policy.h"
#include "step.h"

// Files embedded by texts.S.
extern "C" {
extern const char llmc_plan_text[];
extern const char llmc_plan_json[];
extern const char llmc_spec_yaml[];
extern const char llmc_config_json[];
}

namespace llmc {
namespace {

// name, offset, rows, cols, pitch, matrix, group, init_std, init_value, key
constexpr ParameterInfo kParameters[] = {
    {"model.embed_tokens.weight", 7424, 4096, 256, 256, true, 2, 0.0200000000f, 0.0f, 1423043135670146906u},
    {"model.layers.0.input_layernorm.weight", 0, 1, 256, 256, false, 3, 0.00000000f, 1.0f, 16998227728630751625u},
    {"model.layers.0.self_attn.q_proj.weight", 1060096, 256, 256, 256, true, 0, 0.0625000000f, 0.0f, 534960929195008096u},
    {"model.layers.0.self_attn.k_proj.weight", 1125632, 128, 256, 256, true, 0, 0.0625000000f, 0.0f, 15892820877269756541u},
    {"model.layers.0.self_attn.v_proj.weight", 1158400, 128, 256, 256, true, 0, 0.0625000000f, 0.0f, 10650385000368943689u},
    {"model.layers.0.self_attn.o_proj.weight", 1191168, 256, 256, 256, true, 0, 0.0180421959f, 0.0f, 3077948862842739812u},
    {"model.layers.0.post_attention_layernorm.weight", 256, 1, 256, 256, false, 3, 0.00000000f, 1.0f, 6514232548166246882u},
    {"model.layers.0.mlp.gate_proj.weight", 1256704, 768, 256, 256, true, 0, 0.0625000000f, 0.0f, 8012669332075840325u},
    {"model.layers.0.mlp.up_proj.weight", 1453312, 768, 256, 256, true, 0, 0.0625000000f, 0.0f, 10309697275027804071u},
    {"model.layers.0.mlp.down_proj.weight", 1649920, 256, 768, 768, true, 0, 0.0180421959f, 0.0f, 14404227518461251360u},
    {"model.layers.1.input_layernorm.weight", 512, 1, 256, 256, false, 3, 0.00000000f, 1.0f, 15916752139863568841u},
    {"model.layers.1.self_attn.q_proj.weight", 1850624, 256, 256, 256, true, 0, 0.0625000000f, 0.0f, 13972072708742049389u},
    {"model.layers.1.self_attn.k_proj.weight", 1916160, 128, 256, 256, true, 0, 0.0625000000f, 0.0f, 14551278088522707808u},
    {"model.layers.1.self_attn.v_proj.weight", 1948928, 128, 256, 256, true, 0, 0.0625000000f, 0.0f, 16142080966003124986u},
    {"model.layers.1.self_attn.o_proj.weight", 1981696, 256, 256, 256, true, 0, 0.0180421959f, 0.0f, 1797961536004306799u},
    {"model.layers.1.post_attention_layernorm.weight", 768, 1, 256, 256, false, 3, 0.00000000f, 1.0f, 2877252466954635416u},
    {"model.layers.1.mlp.gate_proj.weight", 2047232, 768, 256, 256, true, 0, 0.0625000000f, 0.0f, 8297543430962719503u},
    {"model.layers.1.mlp.up_proj.weight", 2243840, 768, 256, 256, true, 0, 0.0625000000f, 0.0f, 14219585643576928858u},
    {"model.layers.1.mlp.down_proj.weight", 2440448, 256, 768, 768, true, 0, 0.0180421959f, 0.0f, 8533920030391569399u},
    {"model.layers.2.input_layernorm.weight", 1024, 1, 256, 256, false, 3, 0.00000000f, 1.0f, 1896069403780638099u},
    {"model.layers.2.self_attn.q_proj.weight", 2641152, 256, 256, 256, true, 0, 0.0625000000f, 0.0f, 441909851829814928u},
    {"model.layers.2.self_attn.k_proj.weight", 2706688, 128, 256, 256, true, 0, 0.0625000000f, 0.0f, 8068266744294207140u},
    {"model.layers.2.self_attn.v_proj.weight", 2739456, 128, 256, 256, true, 0, 0.0625000000f, 0.0f, 9051707927133268508u},
    {"model.layers.2.self_attn.o_proj.weight", 2772224, 256, 256, 256, true, 0, 0.0180421959f, 0.0f, 7068413518621951474u},
    {"model.layers.2.post_attention_layernorm.weight", 1280, 1, 256, 256, false, 3, 0.00000000f, 1.0f, 8086533634417849418u},
    {"model.layers.2.mlp.gate_proj.weight", 2837760, 768, 256, 256, true, 0, 0.0625000000f, 0.0f, 16443252736047392483u},
    {"model.layers.2.mlp.up_proj.weight", 3034368, 768, 256, 256, true, 0, 0.0625000000f, 0.0f, 16878762565333977084u},
    {"model.layers.2.mlp.down_proj.weight", 3230976, 256, 768, 768, true, 0, 0.0180421959f, 0.0f, 3392596095087529779u},
    {"model.layers.3.input_layernorm.weight", 1536, 1, 256, 256, false, 3, 0.00000000f, 1.0f, 16330798164111230472u},
    {"model.layers.3.self_attn.q_proj.weight", 3431680, 256, 256, 256, true, 0, 0.0625000000f, 0.0f, 7986204914775629367u},
    {"model.layers.3.self_attn.k_proj.weight", 3497216, 128, 256, 256, true, 0, 0.0625000000f, 0.0f, 15214516370192716336u},
    {"model.layers.3.self_attn.v_proj.weight", 3529984, 128, 256, 256, true, 0, 0.0625000000f, 0.0f, 5140914426731737677u},
    {"model.layers.3.self_attn.o_proj.weight", 3562752, 256, 256, 256, true, 0, 0.0180421959f, 0.0f, 7321164582418159217u},
    {"model.layers.3.post_attention_layernorm.weight", 1792, 1, 256, 256, false, 3, 0.00000000f, 1.0f, 821948245611791484u},
    {"model.layers.3.mlp.gate_proj.weight", 3628288, 768, 256, 256, true, 0, 0.0625000000f, 0.0f, 11505284334525071558u},
    {"model.layers.3.mlp.up_proj.weight", 3824896, 768, 256, 256, true, 0, 0.0625000000f, 0.0f, 13200704180540911719u},
    {"model.layers.3.mlp.down_proj.weight", 4021504, 256, 768, 768, true, 0, 0.0180421959f, 0.0f, 16654139979968904712u},
    {"model.layers.4.input_layernorm.weight", 2048, 1, 256, 256, false, 3, 0.00000000f, 1.0f, 11852105707367075760u},
    {"model.layers.4.self_attn.q_proj.weight", 4222208, 256, 256, 256, true, 0, 0.0625000000f, 0.0f, 12206287727419592317u},
    {"model.layers.4.self_attn.k_proj.weight", 4287744, 128, 256, 256, true, 0, 0.0625000000f, 0.0f, 1073712756847146501u},
    {"model.layers.4.self_attn.v_proj.weight", 4320512, 128, 256, 256, true, 0, 0.0625000000f, 0.0f, 9003774317907736567u},
    {"model.layers.4.self_attn.o_proj.weight", 4353280, 256, 256, 256, true, 0, 0.0180421959f, 0.0f, 17980868860169308298u},
    {"model.layers.4.post_attention_layernorm.weight", 2304, 1, 256, 256, false, 3, 0.00000000f, 1.0f, 17260653820586137935u},
    {"model.layers.4.mlp.gate_proj.weight", 4418816, 768, 256, 256, true, 0, 0.0625000000f, 0.0f, 4177580388381205437u},
    {"model.layers.4.mlp.up_proj.weight", 4615424, 768, 256, 256, true, 0, 0.0625000000f, 0.0f, 7854305452580969560u},
    {"model.layers.4.mlp.down_proj.weight", 4812032, 256, 768, 768, true, 0, 0.0180421959f, 0.0f, 16021785121691140809u},
    {"model.layers.5.input_layernorm.weight", 2560, 1, 256, 256, false, 3, 0.00000000f, 1.0f, 11185209835444897594u},
    {"model.layers.5.self_attn.q_proj.weight", 5012736, 256, 256, 256, true, 0, 0.0625000000f, 0.0f, 5060364171652925739u},
    {"model.layers.5.self_attn.k_proj.weight", 5078272, 128, 256, 256, true, 0, 0.0625000000f, 0.0f, 15277095937738549962u},
    {"model.layers.5.self_attn.v_proj.weight", 5111040, 128, 256, 256, true, 0, 0.0625000000f, 0.0f, 13437502317402453225u},
    {"model.layers.5.self_attn.o_proj.weight", 5143808, 256, 256, 256, true, 0, 0.0180421959f, 0.0f, 11364997778468039580u},
    {"model.layers.5.post_attention_layernorm.weight", 2816, 1, 256, 256, false, 3, 0.00000000f, 1.0f, 3103315619589211979u},
    {"model.layers.5.mlp.gate_proj.weight", 5209344, 768, 256, 256, true, 0, 0.0625000000f, 0.0f, 12865926397430437219u},
    {"model.layers.5.mlp.up_proj.weight", 5405952, 768, 256, 256, true, 0, 0.0625000000f, 0.0f, 8549996136616929713u},
    {"model.layers.5.mlp.down_proj.weight", 5602560, 256, 768, 768, true, 0, 0.0180421959f, 0.0f, 17194275286018375927u},
    {"model.norm.weight", 3072, 1, 256, 256, false, 3, 0.00000000f, 1.0f, 7501850037785087949u},
};

// RoPE: angle of pair i at position p is p * kInverseFrequencies[i].
constexpr double kInverseFrequencies[] = {
    1,
    0.56234132519034907,
    0.31622776601683794,
    0.17782794100389229,
    0.10000000000000001,
    0.056234132519034911,
    0.031622776601683791,
    0.017782794100389229,
    0.01,
    0.005623413251903491,
    0.0031622776601683794,
    0.0017782794100389228,
    0.001,
    0.0005623413251903491,
    0.00031622776601683794,
    0.00017782794100389227,
};

// Groups of parameters.
constexpr ParameterGroup kGroups[] = {
    {"matrices", ParameterRole::matrices},
    {"head", ParameterRole::head},
    {"embedding", ParameterRole::embedding},
    {"norms, biases", ParameterRole::vectors},
};

// Buffers of one rank's arena: name, dtype, elements, use, offset in bytes.
constexpr Buffer kBuffers[] = {
    {"masters", DType::f32, 5803264, Use::masters, 0},
    {"gradients", DType::f32, 5803264, Use::gradients, 23213056},
    {"scalars", DType::byte, 20, Use::scalars, 46426112},
    {"tokens", DType::i32, 2048, Use::tokens, 46426368},
    {"targets", DType::i32, 2048, Use::targets, 46434560},
    {"embedding_order", DType::i32, 2048, Use::embedding_order, 46442752},
    {"run_begin", DType::i32, 2049, Use::run_begin, 46450944},
    {"run_token", DType::i32, 2048, Use::run_token, 46459392},
    {"run_count", DType::i32, 1, Use::run_count, 46467584},
    {"adamw_scalars", DType::byte, 128, Use::optimizer_scalars, 46467840},
    {"group_scalars", DType::byte, 32, Use::group_scalars, 46468096},
    {"positions", DType::i32, 8, Use::positions, 46468352},
    {"chunks", DType::byte, 11680, Use::chunks, 46468608},
    {"rope_table", DType::f32, 8192, Use::rope_table, 46480384},
    {"results", DType::byte, 64, Use::results, 46513152},
    {"losses", DType::f32, 2048, Use::losses, 46513408},
    {"first_chunk", DType::i32, 57, Use::first_chunk, 46521600},
    {"tensor_norms", DType::f32, 168, Use::parameter_norms, 46521856},
    {"sample_logits", DType::f32, 32768, Use::sample_logits, 46522624},
    {"init_rules", DType::byte, 2688, Use::init_rules, 46653696},
    {"exp_avg", DType::f32, 5799168, Use::state, 288353280},
    {"exp_avg_sq", DType::f32, 5799168, Use::state, 311549952},
};

// Ranges that ranks reduce and gather at once: first element, elements.
constexpr Bucket kBuckets[] = {
    {0, 3328},
    {7424, 1048576},
    {1060096, 786432},
    {1850624, 786432},
    {2641152, 786432},
    {3431680, 786432},
    {4222208, 786432},
    {5012736, 786432},
};

// Ranges that ranks gather before a step: flat buffer, first element, elements.
constexpr Gathered kGathered[] = {
    {"masters", 0, 3328},
    {"masters", 7424, 1048576},
    {"masters", 1060096, 786432},
    {"masters", 1850624, 786432},
    {"masters", 2641152, 786432},
    {"masters", 3431680, 786432},
    {"masters", 4222208, 786432},
    {"masters", 5012736, 786432},
};

constexpr ProgramInfo kInfo = {
    .name = "quickstart",
    .fingerprint = "274398525d62afeedc289c02dc9a8bde",
    .plan_text = llmc_plan_text,
    .plan_json = llmc_plan_json,
    .spec_yaml = llmc_spec_yaml,
    .config_json = llmc_config_json,
    .arch = LLMC_ARCH,
    .instructions = &kInstructions,
    .vocab_size = 4096,
    .vocab_pitch = 4096,
    .hidden_size = 256,
    .layers = 6,
    .head_dim = 32,
    .sequence_length = 256,
    .micro_batch = 8,
    .parameter_count = 5770496,
    .parameter_elements = 5803264,
    .flops_per_token = 36962304,
    .parameters = kParameters,
    .inverse_frequencies = kInverseFrequencies,
    .groups = kGroups,
    .chunk_elements = 16384,
    .products = kProducts,
    .attention = nullptr,
    .arena_bytes = 334746624,
    .process_bytes = 67772416,
    .buffers = kBuffers,
    .buckets = kBuckets,
    .gathered = kGathered,
    .shard = Shard::optimizer,
    .window_bytes = 0,
    .gradient_window_bytes = 0,
    .pieces = {{{268435456, 6356992, 1}, {671088640, 12648448, 1}, {0, 89366528, 12}, {0, 184661712, 4}}},
};

}  // namespace

const Program& program() {
  static const Program table = {kInfo,       create_step,    destroy_step, initialise, refresh_copies, gather_weights,
                                micro_batch, optimizer_step, evaluate,     next_logits,  run_piece};
  return table;
}

}  // namespace llmc

int main(int argc, char** argv) {
  llmc::limit_spinning(argv);
  return llmc::train_main(argc, argv, llmc::program());
}
