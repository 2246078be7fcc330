#include "checkpoint/train_state.h"

#include <algorithm>
#include <cmath>
#include <nlohmann/json.hpp>
#include <stdexcept>

namespace llmc {
namespace {

using Json = nlohmann::json;
/// A state without a loss scale, a watched plateau, a mixture, skipped updates, guard state and best checkpoint is
/// written in an older format, which older versions can read.
const char* format_of(const TrainState& state) {
  if (state.loss_scale) return "llmc-state-8";
  if (!(state.guard.plateau == PlateauState{})) return "llmc-state-7";
  if (!is_plain(state.position)) return "llmc-state-6";
  if (state.skipped_updates > 0) return "llmc-state-5";
  if (state.best) return "llmc-state-4";
  return state.guard == GuardState{} ? "llmc-state-2" : "llmc-state-3";
}

Json as_json(const Best& best) { return {{"step", best.step}, {"validation", best.validation}, {"loss", best.loss}}; }

Best best_of(const Json& object) {
  Best best{object.at("step").get<std::int64_t>(), object.at("validation").get<std::string>(),
            object.at("loss").get<double>()};
  if (best.step < 0 || !std::isfinite(best.loss)) throw std::invalid_argument("it was altered");
  return best;
}

Json as_json(const LossScale& scale) {
  return {{"scale", static_cast<double>(scale.factor)},
          {"last", static_cast<double>(scale.last)},
          {"good", scale.good},
          {"overflows", scale.overflows}};
}

LossScale loss_scale_of(const Json& object) {
  const LossScale scale{object.at("scale").get<float>(), object.at("last").get<float>(),
                        object.at("good").get<unsigned>(), object.at("overflows").get<unsigned>()};
  if (!std::isfinite(scale.factor) || scale.factor < kLeastLossScale || scale.good >= kGoodSteps)
    throw std::invalid_argument("it was altered");
  return scale;
}

Json as_json(const PlateauState& plateau) {
  return {{"block", plateau.block},
          {"means", plateau.means},
          {"sum", plateau.sum},
          {"count", plateau.count},
          {"told", plateau.told}};
}

PlateauState plateau_of(const Json& object) {
  PlateauState plateau;
  object.at("block").get_to(plateau.block);
  object.at("means").get_to(plateau.means);
  object.at("sum").get_to(plateau.sum);
  object.at("count").get_to(plateau.count);
  object.at("told").get_to(plateau.told);
  const auto finite = [](double value) { return std::isfinite(value); };
  // A run that is no longer watched, or a rollback to before it was, keeps only that it was told.
  const bool watched = plateau.block > 0, begun = !plateau.means.empty() || plateau.sum != 0 || plateau.count != 0;
  if (plateau.block < 0 || (begun && !watched) || plateau.count < 0 || !finite(plateau.sum) ||
      !std::ranges::all_of(plateau.means, finite))
    throw std::invalid_argument("it was altered");
  return plateau;
}

Json as_json(const GuardState& guard) {
  Json object{{"losses", guard.losses},
              {"grad_norms", guard.grad_norms},
              {"newest", guard.newest},
              {"skipped", guard.skipped},
              {"rollbacks", guard.rollbacks}};
  if (!(guard.plateau == PlateauState{})) object["plateau"] = as_json(guard.plateau);
  return object;
}

GuardState guard_of(const Json& object) {
  GuardState guard;
  object.at("losses").get_to(guard.losses);
  object.at("grad_norms").get_to(guard.grad_norms);
  object.at("newest").get_to(guard.newest);
  object.at("skipped").get_to(guard.skipped);
  object.at("rollbacks").get_to(guard.rollbacks);
  if (object.contains("plateau")) guard.plateau = plateau_of(object["plateau"]);
  const auto finite = [](double value) { return std::isfinite(value); };
  if (guard.losses.size() != guard.grad_norms.size() || !std::ranges::all_of(guard.losses, finite) ||
      !std::ranges::all_of(guard.grad_norms, finite))
    throw std::invalid_argument("it was altered");
  return guard;
}

}  // namespace

std::string format_train_state(const TrainState& state) {
  Json document{{"format", format_of(state)}, {"step", state.step}};
  write_position(document, state.position);
  document.update({{"seed", state.seed},
                   {"data_seed", state.data_seed},
                   {"model_fingerprint", state.model_fingerprint},
                   {"data_fingerprint", state.data_fingerprint},
                   {"tokenizer", state.tokenizer}});
  if (!(state.guard == GuardState{})) document["guard"] = as_json(state.guard);
  if (state.best) document["best"] = as_json(*state.best);
  if (state.loss_scale) document["loss_scale"] = as_json(*state.loss_scale);
  if (state.separator >= 0) document["separator"] = state.separator;
  if (state.skipped_updates > 0) document["skipped_updates"] = state.skipped_updates;
  return document.dump(1) + "\n";
}

TrainState parse_train_state(const std::string& text) try {
  const Json document = Json::parse(text);
  const Json& format = document.at("format");
  constexpr const char* kFormats[] = {"llmc-state-2", "llmc-state-3", "llmc-state-4", "llmc-state-5",
                                      "llmc-state-6", "llmc-state-7", "llmc-state-8"};
  if (std::ranges::find(kFormats, format) == std::end(kFormats))
    throw std::invalid_argument("it was written by another version of llmc. Resume with that version");
  TrainState state;
  document.at("step").get_to(state.step);
  state.position = read_position(document);
  if (!is_possible(state.position)) throw std::invalid_argument("it was altered");
  document.at("seed").get_to(state.seed);
  document.at("data_seed").get_to(state.data_seed);
  document.at("model_fingerprint").get_to(state.model_fingerprint);
  document.at("data_fingerprint").get_to(state.data_fingerprint);
  document.at("tokenizer").get_to(state.tokenizer);
  if (document.contains("guard")) state.guard = guard_of(document["guard"]);
  if (document.contains("best")) state.best = best_of(document["best"]);
  if (document.contains("loss_scale")) state.loss_scale = loss_scale_of(document["loss_scale"]);
  if (document.contains("separator")) document["separator"].get_to(state.separator);
  if (document.contains("skipped_updates")) document["skipped_updates"].get_to(state.skipped_updates);
  // Rejects duplicate keys, signs, fractions, extra keys and other formats, because none of them round-trips to the
  // same bytes.
  if (state.updates() < 0 || format_train_state(state) != text) throw std::invalid_argument("it was altered");
  return state;
} catch (const Json::exception&) {
  throw std::invalid_argument("it is not a training state");
}

}  // namespace llmc
