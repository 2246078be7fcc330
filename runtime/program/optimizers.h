// Lists the optimizers: the state each keeps per parameter, and the scalars its kernel gets before a step.
#pragma once

#include <array>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <optional>
#include <span>
#include <string_view>
#include <vector>

#include "device/dynamic_map.h"
#include "device/types.h"
#include "program/dtype.h"
#include "program/parameters.h"

namespace llmc {

/// In the order of kOptimizers: values of optimizer.kind, and forms of these with other state.
enum class OptimizerKind : std::uint8_t { adamw, lion, muon, adamw_int8, muon_neurons };

/// Keys of optimizer.muon that a run may change.
struct MuonValues {
  double momentum = 0, momentum_start = 0;  // the first is reached after momentum_steps updates
  std::int64_t momentum_steps = 0;
  bool original_scaling = false, equilibrate = false, cautious = false;
};

/// Keys whose meaning depends on the kind, as a group of parameters has them.
struct OptimizerValues {
  double beta1 = 0, beta2 = 0, eps = 0;
  MuonValues muon = {};
};

/// A tensor of state, with one element for each `block` consecutive elements of the parameters. A block belongs to one
/// parameter, whose rows have no padding, and to one rank's shard. With `of_rows` it has one for each row of these
/// matrices, on every rank.
struct StateTensor {
  const char* name;  // also the prefix of a parameter's name in a checkpoint, unless that is another
  DType dtype;
  std::int64_t block = 1;  // a power of two
  const char* saved_as = nullptr;
  bool of_rows = false;

  constexpr const char* prefix() const { return saved_as ? saved_as : name; }
};

/// Scales of a tensor of codes have its prefix in a checkpoint with this suffix.
inline constexpr const char* kScaleSuffix = "_scale";

struct OptimizerRow {
  OptimizerKind kind;
  std::optional<OptimizerKind> form_of = {};  // the row that it is with other state; not in specs
  const char* name;                           // in specs
  const char* op;                             // name of the op that updates weights, and of its template
  const char* title;                          // for people
  const char* doc;
  std::span<const StateTensor> state;
  const char* keeps;  // describes `state`, for people
  std::array<double, 2> betas;
  const char* betas_doc;
  const char* record;  // struct of device/types.h sent to the device before each step, one for each group of parameters
  std::size_t record_bytes;
  /// Fills that struct for a step of a group. `updates` updates are known to have been applied; one more may have been.
  std::vector<std::byte> (*scalars)(const OptimizerValues& values, std::int64_t updates);
  /// Whether it updates the matrices of layers alone, by their orthogonalised momentum; others have AdamW.
  bool orthogonalises = false;
};

namespace optimizers {

template <class Record>
std::vector<std::byte> as_vector(const Record& record) {
  std::vector<std::byte> bytes(sizeof record);
  std::memcpy(bytes.data(), &record, sizeof record);
  return bytes;
}

inline constexpr StateTensor kAdamwState[] = {{"exp_avg", DType::f32}, {"exp_avg_sq", DType::f32}};

/// Loshchilov and Hutter 2019.
inline std::vector<std::byte> adamw(const OptimizerValues& values, std::int64_t updates) {
  const auto correction = [updates](double beta, int more) {
    return static_cast<float>(1 - std::pow(beta, static_cast<double>(updates + more)));
  };
  return as_vector(AdamwScalars{.beta1 = static_cast<float>(values.beta1),
                                .beta2 = static_cast<float>(values.beta2),
                                .eps = static_cast<float>(values.eps),
                                .updates = static_cast<unsigned>(updates),
                                .bias_correction1 = {correction(values.beta1, 1), correction(values.beta1, 2)},
                                .bias_correction2 = {correction(values.beta2, 1), correction(values.beta2, 2)}});
}

inline constexpr StateTensor kAdamwInt8State[] = {{"exp_avg_codes", DType::dynamic8, 1, "exp_avg"},
                                                  {"exp_avg_scale", DType::f32, kStateBlock},
                                                  {"exp_avg_sq_codes", DType::udynamic8, 1, "exp_avg_sq"},
                                                  {"exp_avg_sq_scale", DType::f32, kStateBlock}};

inline constexpr StateTensor kMomentum[] = {{"momentum", DType::f32}};

inline constexpr StateTensor kNeuronsState[] = {{"momentum", DType::f32},
                                                {.name = "neuron_avg_sq", .dtype = DType::f32, .of_rows = true}};

/// Chen et al. 2023.
inline std::vector<std::byte> lion(const OptimizerValues& values, std::int64_t) {
  return as_vector(LionScalars{.beta1 = static_cast<float>(values.beta1), .beta2 = static_cast<float>(values.beta2)});
}

/// Jordan et al. 2024, as in torch.optim.Muon. The momentum rises linearly.
inline std::vector<std::byte> muon(const OptimizerValues& values, std::int64_t updates) {
  const MuonValues& muon = values.muon;
  const auto momentum = [&](std::int64_t done) {
    const double part =
        done >= muon.momentum_steps ? 1 : static_cast<double>(done) / static_cast<double>(muon.momentum_steps);
    return static_cast<float>(muon.momentum_start + (muon.momentum - muon.momentum_start) * part);
  };
  return as_vector(MuonScalars{.updates = static_cast<unsigned>(updates),
                               .momentum = {momentum(updates), momentum(updates + 1)},
                               .equilibrate = muon.equilibrate,
                               .original = muon.original_scaling,
                               .cautious = muon.cautious,
                               .beta2 = static_cast<float>(values.beta2),
                               .eps = static_cast<float>(values.eps)});
}

}  // namespace optimizers

inline constexpr auto kOptimizers = std::to_array<OptimizerRow>({
    {.kind = OptimizerKind::adamw,
     .name = "adamw",
     .op = "adamw",
     .title = "AdamW",
     .doc = "AdamW as in PyTorch: decoupled weight decay, bias correction.",
     .state = optimizers::kAdamwState,
     .keeps = "two moments",
     .betas = {0.9, 0.95},
     .betas_doc = "decay of the first and second moments",
     .record = "AdamwScalars",
     .record_bytes = sizeof(AdamwScalars),
     .scalars = optimizers::adamw},
    {.kind = OptimizerKind::lion,
     .name = "lion",
     .op = "lion",
     .title = "Lion",
     .doc = "Chen et al. 2023: each weight moves by lr in the direction of a momentum's sign; about a tenth of AdamW's "
            "lr.",
     .state = optimizers::kMomentum,
     .keeps = "momentum",
     .betas = {0.9, 0.99},
     .betas_doc = "weight of the momentum in the direction, and in the next momentum",
     .record = "LionScalars",
     .record_bytes = sizeof(LionScalars),
     .scalars = optimizers::lion},
    {.kind = OptimizerKind::muon,
     .name = "muon",
     .op = "muon",
     .title = "Muon",
     .doc = "Jordan et al. 2024: each matrix of a layer moves by its orthogonalised momentum; the embedding, the head, "
            "norms and biases have AdamW.",
     .state = optimizers::kMomentum,
     .keeps = "momentum",
     .betas = {0.9, 0.95},
     .betas_doc = "of AdamW's parameters; the second also of muon.normalise",
     .record = "MuonScalars",
     .record_bytes = sizeof(MuonScalars),
     .scalars = optimizers::muon,
     .orthogonalises = true},
    {.kind = OptimizerKind::adamw_int8,
     .form_of = OptimizerKind::adamw,
     .name = "adamw_int8",
     .op = "adamw_int8",
     .title = "AdamW",
     .doc = "AdamW with moments in 8 bits (Dettmers et al. 2022).",
     .state = optimizers::kAdamwInt8State,
     .keeps = "two moments in blocks of 256",
     .betas = {0.9, 0.95},
     .betas_doc = "decay of the first and second moments",
     .record = "AdamwScalars",
     .record_bytes = sizeof(AdamwScalars),
     .scalars = optimizers::adamw},
    {.kind = OptimizerKind::muon_neurons,
     .form_of = OptimizerKind::muon,
     .name = "muon_neurons",
     .op = "muon",
     .title = "Muon",
     .doc = "Muon with a second moment of each neuron (Li et al. 2025).",
     .state = optimizers::kNeuronsState,
     .keeps = "momentum, and a second moment of each row",
     .betas = {0.9, 0.95},
     .betas_doc = "the second is that of the rows' second moment",
     .record = "MuonScalars",
     .record_bytes = sizeof(MuonScalars),
     .scalars = optimizers::muon,
     .orthogonalises = true},
});

constexpr const OptimizerRow& row_of(OptimizerKind kind) { return kOptimizers[static_cast<std::size_t>(kind)]; }

/// Type of the codes that some optimizer saves with this prefix; nothing if none does.
constexpr std::optional<DType> codes_named(std::string_view prefix) {
  for (const OptimizerRow& row : kOptimizers)
    for (const StateTensor& state : row.state)
      if (is_dynamic(state.dtype) && state.prefix() == prefix) return state.dtype;
  return std::nullopt;
}

/// Whether some optimizer saves an element for each row with this prefix.
constexpr bool is_row_state(std::string_view prefix) {
  for (const OptimizerRow& row : kOptimizers)
    for (const StateTensor& state : row.state)
      if (state.of_rows && state.prefix() == prefix) return true;
  return false;
}

/// An optimizer of a run, and the groups of parameters that name it.
struct GroupsOptimizer {
  OptimizerKind kind;
  GroupSet groups;
};

/// The optimizers that groups name, `kind` where they name none, in the order in which they first do.
inline std::vector<GroupsOptimizer> optimizers_of(std::span<const ParameterGroup> groups, OptimizerKind kind) {
  std::vector<GroupsOptimizer> optimizers;
  for (std::size_t i = 0; i < groups.size(); ++i) {
    const OptimizerKind named = groups[i].optimizer.value_or(kind);
    std::size_t at = 0;
    while (at < optimizers.size() && optimizers[at].kind != named) ++at;
    if (at == optimizers.size()) optimizers.push_back({named, 0});
    optimizers[at].groups |= GroupSet{1} << i;
  }
  if (optimizers.size() == 1) optimizers[0].groups = kAllGroups;
  return optimizers;
}

}  // namespace llmc
