#include "compiler/tools/calibrate/calibration.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <nlohmann/json.hpp>

#include "compiler/plan/price.h"
#include "device/device.h"
#include "error.h"
#include "program/program.h"
#include "spec/schema/schema.h"
#include "text/json_problem.h"
#include "text/printable.h"

namespace llmc::calibration {
namespace {

using devices::Device;
using devices::Figure;
using devices::Rate;
using nlohmann::json;

constexpr std::size_t kMostSizes = 64;
constexpr std::int64_t kLargestSize = 8192;     // of `trainer calibrate --sizes`
constexpr double kLeast = 1e-30, kMost = 1e30;  // of a figure: quotients of two stay finite
constexpr std::int64_t kMostBytes = std::int64_t{1} << 53;

double positive(const json& value) {
  const double number = value.get<double>();
  if (!(number > 0)) throw std::invalid_argument("a figure is not a number above 0");
  if (number < kLeast || number > kMost)
    throw std::invalid_argument(fmt::format("the figure {} is not from {:.0e} to {:.0e}", number, kLeast, kMost));
  return number;
}

std::int64_t whole(const json& value, const char* name, std::int64_t most) {
  const double number = value.get<double>();
  if (!(number >= 1 && number <= static_cast<double>(most)) || number != std::floor(number))
    throw std::invalid_argument(fmt::format("{} is not a whole number from 1 to {}", name, most));
  return static_cast<std::int64_t>(number);
}

/// Text that becomes part of a device file.
std::string shown(const json& value, const char* name) {
  std::string text = value;
  if (printable_text(text) != text)
    throw std::invalid_argument(fmt::format("{} has a control character, or is not UTF-8", name));
  return text;
}

std::vector<double> positives(const json& list, std::size_t count) {
  std::vector<double> numbers;
  for (const json& item : list) numbers.push_back(positive(item));
  if (numbers.size() != count) throw std::invalid_argument("the length of a list does not match its sizes");
  return numbers;
}

Timed timed(const json& item) {
  const json& flops = item.at("flops");
  return {positive(item.at("seconds")), flops == 0 ? 0 : positive(flops), positive(item.at("bytes")),
          positive(item.at("launches"))};
}

/// A device's figures of fp16 are those of bf16.
DType precision_of(const std::string& name) {
  for (const DType type : {DType::bf16, DType::f32})
    if (name == name_of(type)) return type;
  if (name == name_of(DType::f16)) return DType::bf16;
  throw std::invalid_argument("precision is none of bf16, fp16 and fp32");
}

Figures parsed(const json& text) {
  if (text.at("format") != kCalibrationFormat) throw std::invalid_argument("it has another format");
  Figures figures;
  const std::string kind = text.at("kind");
  if (kind != "cpu" && kind != "cuda") throw std::invalid_argument("kind is neither cpu nor cuda");
  figures.kind = kind == "cpu" ? spec::TargetKind::cpu : spec::TargetKind::cuda;
  figures.device = shown(text.at("device"), "device");
  figures.date = shown(text.at("date"), "date");
  figures.threads = static_cast<int>(whole(text.at("threads"), "threads", kMostThreads));
  figures.precision = precision_of(text.at("precision"));
  const auto most = [](const char* key) { return static_cast<std::int64_t>(*spec::find_key(key)->maximum); };
  figures.head_dim = whole(text.at("head_dim"), "head_dim", most("model.head_dim"));
  figures.sequence = whole(text.at("sequence"), "sequence", most("batch.sequence_length"));
  figures.spread = text.at("spread");
  figures.attention_forward = timed(text.at("attention_forward"));
  figures.attention_backward = timed(text.at("attention_backward"));
  positive(text.at("attention_forward").at("flops"));
  positive(text.at("attention_backward").at("flops"));
  if (!text.contains("products")) return figures;
  const json& products = text.at("products");
  if (products.at("sizes").size() > kMostSizes)
    throw std::invalid_argument(fmt::format("products have more than {} sizes", kMostSizes));
  for (const json& size : products.at("sizes"))
    figures.sizes.push_back(static_cast<double>(whole(size, "a size of products", kLargestSize)));
  if (figures.sizes.empty() || std::ranges::adjacent_find(figures.sizes, std::greater_equal<>()) != figures.sizes.end())
    throw std::invalid_argument("the sizes of products are not ascending");
  for (std::size_t form = 0; form < devices::kForms; ++form)
    figures.products[form] = positives(products.at(name_of(static_cast<devices::Form>(form))),
                                       figures.sizes.size() * figures.sizes.size() * figures.sizes.size());
  if (text.contains("product_fp8"))
    figures.product_fp8 = {positive(text.at("product_fp8").at("size")), positive(text.at("product_fp8").at("rate"))};
  for (const json& copy : text.at("copies"))
    figures.copies.emplace_back(whole(copy.at("bytes"), "bytes of a copy", kMostBytes), positive(copy.at("rate")));
  if (figures.copies.empty()) throw std::invalid_argument("it has no copies");
  figures.launch = positive(text.at("launch"));
  if (text.contains("kernels")) figures.kernels = timed(text.at("kernels"));
  if (text.contains("optimizer")) figures.optimizer = timed(text.at("optimizer"));
  return figures;
}

/// Subtracts launch times, which the price of each launch counts separately.
double without_launches(const Timed& timed, double launch) {
  return std::max(timed.seconds - timed.launches * launch, timed.seconds / 2);
}

class Merge {
 public:
  Merge(const std::vector<Figures>& all, Device base) : all_(all), device_(std::move(base)) {
    const Figures& first = all_.front();
    origin_ = fmt::format("measured by llmc calibrate, {}, {}", first.date, first.device);
  }

  Device run() {
    for (const Figures& f : all_)
      if (!f.sizes.empty()) (f.precision == DType::bf16 ? bf16_ : fp32_) = &f;
    const Figures& whole = bf16_ ? *bf16_ : *fp32_;
    if (device_.kind == spec::TargetKind::cpu)
      set(Figure::processors, whole.threads, "threads of the trainers that measured");
    copies(whole);
    set(Figure::launch, whole.launch);
    products();
    attention(DType::bf16);
    attention(DType::f32);
    if (device_.kind == spec::TargetKind::cpu) kernels();
    return device_;
  }

 private:
  void set(Figure figure, double value, const std::string& how = "") {
    device_.figures[figure] = {value, how.empty() ? origin_ : origin_ + ": " + how};
  }

  /// Takes the largest working set that still reaches three quarters of the fastest copy's rate, and one that no cache
  /// holds.
  void copies(const Figures& f) {
    double fastest = 0;
    for (const auto& [bytes, rate] : f.copies) fastest = std::max(fastest, rate);
    std::pair<double, double> cached = f.copies.front();
    for (const auto& copy : f.copies)
      if (copy.second >= 0.75 * fastest) cached = copy;
    const auto size = [](double bytes) { return fmt::format("{:.0f} KiB read and written", bytes / 1024); };
    set(Figure::copy, f.copies.back().second, size(f.copies.back().first));
    set(Figure::cache, cached.first, "largest copy at 3/4 of the fastest rate or more");
    set(Figure::cache_copy, std::max(cached.second, f.copies.back().second), size(cached.first));
  }

  void products() {
    const double bf16 = device_[Figure::product_bf16];
    for (const DType type : {DType::bf16, DType::f32}) {
      const Figures* own = type == DType::bf16 ? bf16_ : fp32_;
      const bool cpu = device_.kind == spec::TargetKind::cpu;
      if (!own && !cpu) continue;  // a GPU's other precision keeps its figures
      const Figures& f = own ? *own : type == DType::bf16 ? *fp32_ : *bf16_;
      const std::string how = own ? "" : "not measured in this precision, copied from the other";
      double peak = 0, large = 0;
      for (const std::vector<double>& rates : f.products) {
        peak = std::max(peak, *std::ranges::max_element(rates));
        large += 1 / rates.back();
      }
      const double size = f.sizes.back();
      set(figure_of(Rate::product, type), static_cast<double>(devices::kForms) / large,
          own ? fmt::format("m = n = k = {:.0f}, forward and both gradients", size) : how);
      if (!cpu) continue;
      set(figure_of(Rate::peak, type), peak, own ? "the fastest product" : how);
      device_.products.from = origin_;
      device_.products.sizes = f.sizes;
      device_.products.of[type] = f.products;
    }
    for (const Figure other : {Figure::product_fp8, Figure::product_tf32})
      if (device_.has(other) && device_[Figure::product_bf16] != bf16)
        set(other, device_[other] * device_[Figure::product_bf16] / bf16,
            "not measured, in the same ratio to bf16's as before");
    const auto fp8 = std::ranges::find_if(all_, [](const Figures& f) { return f.product_fp8.has_value(); });
    if (fp8 != all_.end())
      set(Figure::product_fp8, fp8->product_fp8->second,
          fmt::format("m = n = k = {:.0f}, forward and both gradients", fp8->product_fp8->first));
  }

  /// Inverts the formula of plan/price.cpp: returns the rate that gives these seconds.
  void attention(DType type) {
    static constexpr Rate kOf[2][2] = {{Rate::attention_forward_64, Rate::attention_forward_128},
                                       {Rate::attention_backward_64, Rate::attention_backward_128}};
    const double launch = device_[Figure::launch];
    for (const int backward : {0, 1})
      for (const int wide : {0, 1}) {
        const std::int64_t dim = wide ? 128 : 64;
        const Figures *own = nullptr, *other = nullptr;
        for (const Figures& f : all_)
          if (f.precision == type) (f.head_dim == dim ? own : other) = &f;
        const Figures* f = own ? own : other && device_.kind == spec::TargetKind::cpu ? other : nullptr;
        if (!f) continue;
        const Timed& t = backward ? f->attention_backward : f->attention_forward;
        const Mask causal = {static_cast<int>(f->sequence), 0};
        const double scores = plan::computed_scores(device_.kind, causal) / causal.scores();
        set(figure_of(kOf[backward][wide], type), t.flops * scores / without_launches(t, launch),
            own ? fmt::format("{} tokens", f->sequence)
                : fmt::format("measured at head_dim {}, used for {}", f->head_dim, dim));
      }
  }

  void kernels() {
    const double launch = device_[Figure::launch];
    const auto rate = [&](Figure figure, const std::optional<Timed>& t) {
      if (t) set(figure, t->bytes / without_launches(*t, launch));
    };
    if (bf16_) rate(figure_of(Rate::kernels, DType::bf16), bf16_->kernels);
    if (fp32_) rate(figure_of(Rate::kernels, DType::f32), fp32_->kernels);
    rate(Figure::kernels_optimizer, (bf16_ ? bf16_ : fp32_)->optimizer);
  }

  const std::vector<Figures>& all_;
  Device device_;
  std::string origin_;
  const Figures *bf16_ = nullptr, *fp32_ = nullptr;  // those with products
};

}  // namespace

Figures read_figures(const std::string& text, const std::string& name) {
  try {
    return parsed(json::parse(text));
  } catch (const json::exception& error) {
    throw Failure(Exit::usage,
                  fmt::format("{} is not a file of `trainer calibrate -o FILE`: {}", name, json_problem(error)));
  } catch (const std::exception& error) {
    throw Failure(Exit::usage, fmt::format("{} is not a file of `trainer calibrate -o FILE`: {}", name, error.what()));
  }
}

Device apply(const std::vector<Figures>& all, Device base) {
  const Figures* whole = nullptr;
  for (const Figures& f : all) {
    if (!f.sizes.empty()) {
      if (whole && whole->sizes != f.sizes)
        throw Failure(Exit::usage, "the files have products of different sizes. Measure them with the same --sizes");
      whole = &f;
    }
    if (f.device != all.front().device)
      throw Failure(Exit::usage,
                    fmt::format("the files are of different devices, '{}' and '{}'. Give files of one device",
                                all.front().device, f.device));
    if (f.kind != base.kind)
      throw Failure(Exit::usage,
                    fmt::format("the figures are of '{}', but {} is of another target.kind", f.device, base.name));
  }
  if (!whole)
    throw Failure(Exit::usage,
                  "none of the files has products. Give one of `trainer calibrate` without --attention-only");
  return Merge(all, std::move(base)).run();
}

}  // namespace llmc::calibration
