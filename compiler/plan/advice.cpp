#include "compiler/plan/advice.h"

#include <algorithm>
#include <bit>
#include <functional>
#include <future>
#include <set>

#include "spec/relations/relations.h"
#include "spec/schema/schema.h"
#include "spec/targets.h"
#include "spec/values.h"

namespace llmc::plan {
namespace {

using spec::Spec;

constexpr double kWorthSaying = 0.005;         // of a step: less is within the time model's error
constexpr std::int64_t kMostTokens = 1 << 24;  // of a pass: far more than devices hold

/// Returns the largest value that fits, to within a sixteenth of it if that is more than `unit`. `known` fits.
Limit largest(std::int64_t known, std::int64_t unit, std::int64_t most, const auto& fits) {
  std::int64_t low = known, high = 0;
  while (high == 0 && low < most) {
    const std::int64_t next = std::min(2 * low, most);
    (fits(next) ? low : high) = next;
  }
  if (high == 0) return {low, {}, 0};
  const auto step =
      std::max(unit, static_cast<std::int64_t>(std::bit_floor(static_cast<std::uint64_t>(low))) / 16 / unit * unit);
  while (high - low > step) {
    const std::int64_t middle = low + std::max((high - low) / 2 / step, std::int64_t{1}) * step;
    (fits(middle) ? low : high) = middle;
  }
  return {low, {}, high - low};
}

/// Returns the value for a pass of kMostTokens, or the key's maximum.
std::int64_t most_of(const char* key, std::int64_t of_tokens) {
  return std::min(of_tokens, static_cast<std::int64_t>(*spec::find_key(key)->maximum));
}

/// Searches with the plan's recomputation, then with everything recomputed.
Limit both(const Plan& plan, const Spec& spec, std::int64_t known, std::int64_t unit, std::int64_t most,
           const auto& with) {
  const auto fits = [&](const spec::Recompute& recompute) {
    return [&](std::int64_t value) {
      Spec changed = with(spec, value);
      changed.memory.recompute = recompute;
      return planned_exit(changed) == Exit::done;
    };
  };
  Limit limit = largest(known, unit, most, fits(spec.memory.recompute));
  if (plan.spec.memory.recompute.kind == spec::Recompute::Kind::automatic) {
    const Limit all = largest(limit.as_chosen, unit, most, fits({.kind = spec::Recompute::Kind::full}));
    limit.recomputing_all = all.as_chosen;
    limit.all_to_within = all.to_within;
  }
  return limit;
}

class Hints {
 public:
  explicit Hints(const Plan& plan) : plan_(plan), chosen_(chosen_spec(plan)) {}

  std::vector<Hint> run() {
    left_to_the_planner();
    if (chosen_.compute == DType::f32)
      try_one([](Spec& s) {
        s.compute = DType::bf16;
        s.matmul = spec::Matmul::automatic;
      });
    if (chosen_.compute == DType::f32 && chosen_.target.kind == spec::TargetKind::cuda &&
        chosen_.matmul == spec::Matmul::automatic)
      try_one([](Spec& s) { s.matmul = spec::Matmul::tf32; });
    if (chosen_.compute == DType::bf16 && chosen_.residual == DType::f32)
      try_one([](Spec& s) { s.residual = DType::bf16; });
    fp8();
    heads();
    arch();
    if (chosen_.target.kind == spec::TargetKind::cuda && chosen_.deterministic)
      try_one([](Spec& s) { s.deterministic = false; });
    if (chosen_.parallel.world_size > 1 && chosen_.parallel.gradient_dtype == DType::f32)
      try_one([](Spec& s) { s.parallel.gradient_dtype = DType::bf16; });
    auto memory = static_cast<std::int64_t>(plan_.device[devices::Figure::memory]);
    if (chosen_.target.kind == spec::TargetKind::cuda && chosen_.parallel.world_size > 1) memory -= spec::kMemoryOfNccl;
    if (memory > chosen_.memory.budget)
      start([this, memory] { return consider([memory](Spec& s) { s.memory.budget = memory; }, plan_.spec); });
    std::vector<Hint> found;
    for (std::future<Tried>& tried : tried_)
      if (std::optional<Hint> hint = tried.get().hint) found.push_back(std::move(*hint));
    std::ranges::stable_sort(found, std::greater{}, &Hint::seconds);
    return found;
  }

 private:
  struct Tried {
    bool fits = false;
    std::optional<Hint> hint = {};
  };

  /// Plans beside the other changes: most of a plan's time is that of its hints. Without threads get() plans it.
  void start(std::function<Tried()> change) {
    tried_.push_back(std::async(std::launch::async | std::launch::deferred, std::move(change)));
  }

  /// Tries the change alone and keeps the plan's other choices, or chooses anew if it does not fit with them.
  void try_one(std::function<void(Spec&)> change) {
    start([this, change = std::move(change)] {
      const Tried alone = consider(change, chosen_);
      return alone.fits ? alone : consider(change, plan_.spec);
    });
  }

  Tried consider(const std::function<void(Spec&)>& change, Spec spec) const {
    change(spec);
    const std::optional<Plan> other = fastest_plan(spec);
    if (!other) return {};
    const double gain = plan_.cost.time.seconds - other->cost.time.seconds;
    if (gain < kWorthSaying * plan_.cost.time.seconds) return {.fits = true};
    std::vector<spec::Change> changes = spec::changes(chosen_, chosen_spec(*other));
    // Keys that only now have an effect keep their defaults.
    if (!chosen_.has_fp8_products())
      std::erase_if(changes, [](const spec::Change& change) { return change.key->when_key == "precision.matmul"; });
    // A spec that leaves more to the planner may need more than these changes.
    Spec followed = plan_.spec;
    for (const spec::Change& made : changes) made.key->set(followed, made.key->get(chosen_spec(*other)));
    if (!spec::relations_hold(followed)) return {.fits = true};
    return {.fits = true,
            .hint = Hint{std::move(changes), gain,
                         static_cast<std::int64_t>(other->layout.bytes) - static_cast<std::int64_t>(plan_.layout.bytes),
                         other->parameters.logical - plan_.parameters.logical}};
  }

  /// Tries to leave to the planner the keys that the spec fixes.
  void left_to_the_planner() {
    const Spec& s = plan_.spec;
    if (!s.batch.micro_batch && !s.memory.loss_chunk && s.parallel.shard_automatic &&
        s.memory.recompute.kind == spec::Recompute::Kind::automatic)
      return;
    const auto open_all = [](Spec& open) {
      open.batch.micro_batch = open.memory.loss_chunk = 0;
      open.memory.recompute = {.kind = spec::Recompute::Kind::automatic};
      open.parallel.shard_automatic = open.parallel.world_size > 1;
    };
    start([this, open_all] { return consider(open_all, plan_.spec); });
  }

  /// Tries fp8 products where the target has them and sizes allow them.
  void fp8() {
    if (chosen_.compute != DType::bf16 || !chosen_.model.has_fp8_widths()) return;
    const auto has = [&](spec::Matmul matmul) { return spec::has_code_products(matmul, chosen_.target); };
    const bool tokens = chosen_.batch.micro_batch * chosen_.batch.sequence_length % spec::kFp8Multiple == 0;
    if (!has(spec::Matmul::fp8)) {
      if (!has(spec::Matmul::fp8_tensor) || !tokens) return;
      if (chosen_.has_fp8_products()) return fp8_head();
      return try_one([](Spec& s) {
        s.matmul = spec::Matmul::fp8_tensor;
        s.fp8.first_layers = s.fp8.last_layers = s.usual_wide_layers();
      });
    }
    if (!chosen_.has_fp8_products()) try_one([](Spec& s) { s.matmul = spec::Matmul::fp8; });
    const std::int64_t usual = chosen_.usual_wide_layers();
    const bool as_usual = chosen_.fp8.first_layers == usual && chosen_.fp8.last_layers == usual;
    if (chosen_.matmul != spec::Matmul::fp8_full && tokens)
      try_one([as_usual](Spec& s) {
        s.matmul = spec::Matmul::fp8_full;
        if (as_usual) s.fp8.first_layers = s.fp8.last_layers = s.usual_wide_layers();
      });
    fp8_head();
  }

  void fp8_head() {
    if (!chosen_.has_fp8_products() || chosen_.model.vocab_size % spec::kFp8Multiple != 0) return;
    for (const spec::Fp8Head head : {spec::Fp8Head::forward, spec::Fp8Head::forward_dgrad})
      if (head != chosen_.fp8.head) try_one([head](Spec& s) { s.fp8.head = head; });
  }

  /// Tries an arch that uses all of its processors' features: 90a in place of 90.
  void arch() {
    if (chosen_.target.kind != spec::TargetKind::cuda) return;
    std::vector<std::string> better = chosen_.target.arch;
    for (std::string& arch : better) arch = spec::arch_of_capability(arch);
    const std::set<std::string> once(better.begin(), better.end());
    if (better != chosen_.target.arch) try_one([once](Spec& s) { s.target.arch.assign(once.begin(), once.end()); });
  }

  /// Wider heads raise the FLOPs of attention's products per exponential; fewer key and value heads mean fewer bytes.
  void heads() {
    const spec::Model& m = chosen_.model;
    if (m.head_dim == 64 && m.num_attention_heads % 2 == 0 && m.num_key_value_heads % 2 == 0)
      try_one([](Spec& s) {
        s.model.head_dim *= 2;
        s.model.num_attention_heads /= 2;
        s.model.num_key_value_heads /= 2;
      });
    if (m.num_key_value_heads * 2 > m.num_attention_heads && m.num_attention_heads % 4 == 0)
      try_one([](Spec& s) { s.model.num_key_value_heads = s.model.num_attention_heads / 4; });
  }

  const Plan& plan_;
  const Spec chosen_;
  std::vector<std::future<Tried>> tried_;
};

}  // namespace

Limits limits(const Plan& plan) {
  Spec spec = chosen_spec(plan);
  const std::int64_t ranks = spec.parallel.world_size;
  spec.memory.loss_chunk = 0;
  Limits limits;
  limits.micro_batch = both(plan, spec, plan.choice.micro_batch, spec.sequence_multiple(),
                            most_of("batch.micro_batch", kMostTokens / spec.batch.sequence_length),
                            [&](Spec changed, std::int64_t sequences) {
                              changed.batch.micro_batch = sequences;
                              changed.batch.tokens = sequences * ranks * changed.batch.sequence_length;
                              return changed;
                            });
  // A sequence alone may have to be shorter than one of several.
  const std::int64_t multiple = spec.token_multiple();
  const std::int64_t alone = std::max(spec.batch.sequence_length / multiple, std::int64_t{1}) * multiple;
  limits.sequence_length = both(plan, spec, alone, 64, most_of("batch.sequence_length", kMostTokens),
                                [&](Spec changed, std::int64_t tokens) {
                                  changed.batch.micro_batch = 1;
                                  changed.batch.sequence_length = tokens;
                                  changed.batch.tokens = ranks * tokens;
                                  return changed;
                                });
  return limits;
}

std::vector<Hint> hints(const Plan& plan) { return Hints(plan).run(); }

}  // namespace llmc::plan
