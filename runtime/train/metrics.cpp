#include "train/metrics.h"

#include <charconv>
#include <cmath>
#include <nlohmann/json.hpp>

#include "spec/validation_sets.h"

namespace llmc {
namespace {

using Json = nlohmann::ordered_json;

/// Numbers of a step's samples; names with their source if there are several.
Json sample_ids(const StepMetrics& metrics) {
  const bool numbers = !metrics.sample_names || metrics.sample_names->are_numbers();
  Json ids = Json::array();
  for (const SampleId sample : metrics.skipped_samples)
    ids.push_back(numbers ? Json(sample.id) : Json(metrics.sample_names->of(sample)));
  return ids;
}

std::string line(const Json& object) { return object.dump(-1, ' ', false, Json::error_handler_t::replace); }

/// Double with the shortest digits that still round to this float: 0.1, not 0.10000000149011612.
Json short_number(float value) {
  if (!std::isfinite(value)) return nullptr;
  char text[32];
  const auto end = std::to_chars(text, text + sizeof text, value).ptr;
  double result = 0;
  std::from_chars(text, end, result);
  return result;
}

struct Norms {
  float grad, weight, update, ratio;
};

/// A weight that is all zeros has no ratio: infinity or NaN.
Norms norms_of(const StepMetrics& metrics, std::size_t parameter) {
  const float* norms = &metrics.parameter_norms[3 * parameter];
  return {norms[0], norms[1], norms[2], norms[2] / norms[1]};
}

}  // namespace

std::string format_metrics(const StepMetrics& metrics, std::span<const ParameterInfo> parameters) {
  Json object = {{"step", metrics.step},
                 {"loss", metrics.results.loss},
                 {"lr", metrics.lr},
                 {"grad_norm", short_number(metrics.results.grad_norm)}};
  for (const Figure& figure : metrics.figures) object[figure.name] = short_number(static_cast<float>(figure.value));
  if (metrics.loss_scale) object["loss_scale"] = *metrics.loss_scale;
  object.update({{"ignored", metrics.ignored},
                 {"tokens", metrics.tokens},
                 {"tokens_per_second", metrics.tokens_per_second},
                 {"seconds", metrics.seconds},
                 {"total_seconds", metrics.total_seconds},
                 {"epochs", metrics.epochs},
                 {"data_wait", metrics.data_wait}});
  for (const SourceUse& source : metrics.sources) {
    object["tokens/" + source.name] = source.tokens;
    object["epochs/" + source.name] = source.epochs;
  }
  if (metrics.mfu) object["mfu"] = *metrics.mfu;
  if (metrics.product_share) object["product_share"] = *metrics.product_share;
  for (const Validation& validation : metrics.validation) {
    const std::string set = spec::metric_suffix(validation.set);
    object["val_loss" + set] = validation.loss;
    object["val_top1" + set] = validation.top1;
    if (validation.bits_per_byte) object["val_bits_per_byte" + set] = *validation.bits_per_byte;
  }
  for (const TaskResult& answer : metrics.answers) {
    object["task/" + answer.task] = answer.accuracy;
    object["task/" + answer.task + "/norm"] = answer.accuracy_norm;
  }
  if (metrics.evaluation_seconds) object["evaluation_seconds"] = *metrics.evaluation_seconds;
  if (metrics.audited) {
    object["audit_loss"] = metrics.audited->loss;
    object["audit_difference"] = metrics.results.loss - metrics.audited->loss;
    object["audit_seconds"] = metrics.audited->seconds;
  }
  if (metrics.saving_seconds) object["saving_seconds"] = *metrics.saving_seconds;
  if (metrics.memory) {
    object["memory"] = metrics.memory->allocated;
    object["resident"] = metrics.memory->resident;
  }
  if (!metrics.skipped_samples.empty()) {
    object["skipped"] = sample_ids(metrics);
    object["skip_reason"] = metrics.skip_reason;
  }
  if (!metrics.parameter_norms.empty()) {
    Json& norms = object["per_parameter"] = Json::object();
    for (std::size_t p = 0; p < parameters.size(); ++p) {
      const Norms of = norms_of(metrics, p);
      Json& named = norms[parameters[p].name] = {{"grad", short_number(of.grad)}};
      if (!metrics.skipped_samples.empty()) continue;
      named["weight"] = short_number(of.weight);
      named["update"] = short_number(of.update);
      named["ratio"] = short_number(of.ratio);
    }
  }
  return line(object);
}

double seconds_of(const std::string& line) {
  const Json object = Json::parse(line, nullptr, false);
  if (!object.is_object()) return 0;
  for (const char* key : {"total_seconds", "seconds"})
    if (const auto found = object.find(key); found != object.end() && found->is_number()) return *found;
  return 0;
}

std::vector<Scalar> metrics_scalars(const StepMetrics& metrics, std::span<const ParameterInfo> parameters) {
  std::vector<Scalar> scalars = {{"train/loss", static_cast<float>(metrics.results.loss)},
                                 {"train/lr", static_cast<float>(metrics.lr)},
                                 {"train/grad_norm", metrics.results.grad_norm}};
  const auto add = [&](const std::string& name, double value) {
    scalars.push_back({"train/" + name, static_cast<float>(value)});
  };
  for (const Figure& figure : metrics.figures) add(figure.name, figure.value);
  if (metrics.loss_scale) add("loss_scale", static_cast<double>(*metrics.loss_scale));
  add("ignored", metrics.ignored);
  add("tokens", static_cast<double>(metrics.tokens));
  add("tokens_per_second", metrics.tokens_per_second);
  add("seconds", metrics.seconds);
  add("total_seconds", metrics.total_seconds);
  add("epochs", metrics.epochs);
  add("data_wait", metrics.data_wait);
  for (const SourceUse& source : metrics.sources) {
    add("tokens/" + source.name, static_cast<double>(source.tokens));
    add("epochs/" + source.name, source.epochs);
  }
  if (metrics.mfu) scalars.push_back({"train/mfu", static_cast<float>(*metrics.mfu)});
  if (metrics.product_share) scalars.push_back({"train/product_share", static_cast<float>(*metrics.product_share)});
  for (const Validation& validation : metrics.validation) {
    const std::string set = spec::metric_suffix(validation.set);
    scalars.push_back({"validation/loss" + set, static_cast<float>(validation.loss)});
    scalars.push_back({"validation/top1" + set, static_cast<float>(validation.top1)});
    if (validation.bits_per_byte)
      scalars.push_back({"validation/bits_per_byte" + set, static_cast<float>(*validation.bits_per_byte)});
  }
  for (const TaskResult& answer : metrics.answers) {
    scalars.push_back({"task/" + answer.task, static_cast<float>(answer.accuracy)});
    scalars.push_back({"task/" + answer.task + "/norm", static_cast<float>(answer.accuracy_norm)});
  }
  if (metrics.evaluation_seconds)
    scalars.push_back({"train/evaluation_seconds", static_cast<float>(*metrics.evaluation_seconds)});
  if (metrics.audited) {
    scalars.push_back({"audit/loss", static_cast<float>(metrics.audited->loss)});
    scalars.push_back({"audit/difference", static_cast<float>(metrics.results.loss - metrics.audited->loss)});
    scalars.push_back({"train/audit_seconds", static_cast<float>(metrics.audited->seconds)});
  }
  if (metrics.saving_seconds) scalars.push_back({"train/saving_seconds", static_cast<float>(*metrics.saving_seconds)});
  if (metrics.memory) {
    scalars.push_back({"train/memory", static_cast<float>(metrics.memory->allocated)});
    scalars.push_back({"train/resident", static_cast<float>(metrics.memory->resident)});
  }
  if (!metrics.skipped_samples.empty())
    scalars.push_back({"train/skipped", static_cast<float>(metrics.skipped_samples.size())});
  if (metrics.parameter_norms.empty()) return scalars;
  for (std::size_t p = 0; p < parameters.size(); ++p) {
    const std::string name = parameters[p].name;
    const Norms of = norms_of(metrics, p);
    scalars.push_back({"grad/" + name, of.grad});
    if (!metrics.skipped_samples.empty()) continue;
    scalars.push_back({"weight/" + name, of.weight});
    scalars.push_back({"update/" + name, of.update});
    scalars.push_back({"ratio/" + name, of.ratio});
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
