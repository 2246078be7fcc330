#include "train/metrics.h"

#include <charconv>
#include <cmath>
#include <nlohmann/json.hpp>

namespace llmc {
namespace {

using Json = nlohmann::ordered_json;

std::string line(const Json& object) { return object.dump(-1, ' ', false, Json::error_handler_t::replace); }

/// The double with the shortest digits that still name this float: 0.1, not 0.10000000149011612.
Json short_number(float value) {
  if (!std::isfinite(value)) return nullptr;
  char text[32];
  const auto end = std::to_chars(text, text + sizeof text, value).ptr;
  double result = 0;
  std::from_chars(text, end, result);
  return result;
}

}  // namespace

std::string format_metrics(const StepMetrics& metrics, std::span<const ParameterInfo> parameters) {
  Json object = {{"step", metrics.step},      {"loss", metrics.loss},
                 {"lr", metrics.lr},          {"grad_norm", short_number(metrics.grad_norm)},
                 {"tokens", metrics.tokens},  {"tokens_per_second", metrics.tokens_per_second},
                 {"seconds", metrics.seconds}};
  if (metrics.val_loss) object["val_loss"] = *metrics.val_loss;
  if (!metrics.skipped_samples.empty()) {
    object["skipped"] = std::vector<std::uint64_t>(metrics.skipped_samples.begin(), metrics.skipped_samples.end());
    object["skip_reason"] = metrics.skip_reason;
  }
  if (!metrics.parameter_norms.empty()) {
    Json& norms = object["per_parameter"] = Json::object();
    for (std::size_t p = 0; p < parameters.size(); ++p)
      norms[parameters[p].name] = {{"grad", short_number(metrics.parameter_norms[3 * p])},
                                   {"weight", short_number(metrics.parameter_norms[3 * p + 1])},
                                   {"update", short_number(metrics.parameter_norms[3 * p + 2])}};
  }
  return line(object);
}

std::vector<Scalar> metrics_scalars(const StepMetrics& metrics, std::span<const ParameterInfo> parameters) {
  std::vector<Scalar> scalars = {{"train/loss", static_cast<float>(metrics.loss)},
                                 {"train/lr", static_cast<float>(metrics.lr)},
                                 {"train/grad_norm", metrics.grad_norm},
                                 {"train/tokens", static_cast<float>(metrics.tokens)},
                                 {"train/tokens_per_second", static_cast<float>(metrics.tokens_per_second)},
                                 {"train/seconds", static_cast<float>(metrics.seconds)}};
  if (metrics.val_loss) scalars.push_back({"validation/loss", static_cast<float>(*metrics.val_loss)});
  if (!metrics.skipped_samples.empty())
    scalars.push_back({"train/skipped", static_cast<float>(metrics.skipped_samples.size())});
  if (metrics.parameter_norms.empty()) return scalars;
  for (std::size_t p = 0; p < parameters.size(); ++p) {
    const std::string name = parameters[p].name;
    scalars.push_back({"grad/" + name, metrics.parameter_norms[3 * p]});
    scalars.push_back({"weight/" + name, metrics.parameter_norms[3 * p + 1]});
    scalars.push_back({"update/" + name, metrics.parameter_norms[3 * p + 2]});
  }
  return scalars;
}

std::string format_sample(std::int64_t step, const Sample& sample) {
  return line({{"step", step}, {"prompt", sample.prompt}, {"text", sample.text}});
}

std::string format_timing(double seconds_to_training, double seconds_to_first_step, std::span<const double> steps) {
  return line({{"seconds_to_training", seconds_to_training},
               {"seconds_to_first_step", seconds_to_first_step},
               {"steps", std::vector<double>(steps.begin(), steps.end())}}) +
         "\n";
}

}  // namespace llmc
