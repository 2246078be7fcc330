#include "checkpoint/train_state.h"

#include <nlohmann/json.hpp>
#include <stdexcept>

namespace llmc {
namespace {

using Json = nlohmann::json;
constexpr char kFormat[] = "llmc-state-1";

}  // namespace

std::string format_train_state(const TrainState& state) {
  return Json{{"format", kFormat},
              {"step", state.step},
              {"samples_consumed", state.samples_consumed},
              {"seed", state.seed},
              {"data_seed", state.data_seed},
              {"spec_fingerprint", state.spec_fingerprint},
              {"data_fingerprint", state.data_fingerprint}}
             .dump(1) +
         "\n";
}

TrainState parse_train_state(const std::string& text) try {
  const Json document = Json::parse(text);
  TrainState state;
  document.at("step").get_to(state.step);
  document.at("samples_consumed").get_to(state.samples_consumed);
  document.at("seed").get_to(state.seed);
  document.at("data_seed").get_to(state.data_seed);
  document.at("spec_fingerprint").get_to(state.spec_fingerprint);
  document.at("data_fingerprint").get_to(state.data_fingerprint);
  // Duplicate keys, signs, fractions, extra keys and another format all fail to come back as the same bytes.
  if (state.step < 0 || format_train_state(state) != text) throw std::invalid_argument("it was altered");
  return state;
} catch (const Json::exception&) {
  throw std::invalid_argument("it does not hold a training state");
}

}  // namespace llmc
