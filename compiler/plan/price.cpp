#include "compiler/plan/price.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

namespace llmc::plan {
namespace {

using devices::Figure;
using devices::Rate;

// Compute and memory of a product overlap, except at its beginning and end: the time is between their maximum (an
// exponent of infinity) and their sum (1). Measured on an H100 within the step, docs/reference/benchmarks.md: 564
// TFLOP/s for o_forward, whose result and addend are fp32; 694 to 756 for the others.
constexpr double kOverlap = 1.5;
double overlapped(double a, double b) { return std::pow(std::pow(a, kOverlap) + std::pow(b, kOverlap), 1 / kOverlap); }

/// Tiles of a GPU's products, and the fraction of the largest tile's rate that they reach. A smaller tile reads its
/// operands more often (a tile of a x b reads a + b for a b results).
constexpr struct {
  std::int64_t m, n;
  double rate;
} kTiles[] = {{256, 128, 1}, {128, 256, 1}, {128, 128, 0.92}, {128, 64, 0.75}, {64, 64, 0.55}};
constexpr std::int64_t kLeastSplit = 1024;  // of k, for each part

std::int64_t ceil_div(std::int64_t a, std::int64_t b) { return (a + b - 1) / b; }

// Numbers of a formula, formatted only if it is printed.
struct Number {
  double value;
  const char* unit;
};
Number ms(double seconds) { return {1e3 * seconds, "ms"}; }
Number giga(double value) { return {1e-9 * value, "G"}; }

}  // namespace
}  // namespace llmc::plan

template <>
struct fmt::formatter<llmc::plan::Number> : fmt::formatter<std::string_view> {
  auto format(const llmc::plan::Number& number, fmt::format_context& context) const {
    return fmt::format_to(context.out(), "{:.4g} {}", number.value, number.unit);
  }
};

namespace llmc::plan {
namespace {

class Pricing {
 public:
  Pricing(const Plan& plan, const Launch& launch, std::string* formula)
      : plan_(plan), launch_(launch), device_(plan.device), formula_(formula) {}

  Price run() {
    const graph::OpKind kind = plan_.graph.regions[launch_.region_index].ops[launch_.op_index].kind;
    if (launch_.call == ops::Call::collective) return collective();
    if (launch_.call == ops::Call::product) return product();
    if (launch_.call == ops::Call::rotate_back) return kernel();
    switch (ops::row_of(kind).priced_as) {
      case ops::PricedAs::bytes_moved: break;
      case ops::PricedAs::attention_forward: return attention(false);
      case ops::PricedAs::attention_backward: return attention(true);
    }
    return kernel();
  }

 private:
  double at(Figure figure) const { return device_[figure]; }
  bool cuda() const { return device_.kind == spec::TargetKind::cuda; }

  template <class... T>
  void say(fmt::format_string<T...> text, T&&... values) {
    if (formula_) *formula_ += fmt::format(text, std::forward<T>(values)...) + "\n";
  }

  /// Returns bytes/s of a kernel that moves `bytes`; a cache must hold them twice.
  double rate(double bytes) const { return 2 * bytes <= at(Figure::cache) ? at(Figure::cache_copy) : at(Figure::copy); }

  Price with_launch(double seconds, Bottleneck bound) {
    const double launch = at(Figure::launch);
    say("  + launch {} = {}", ms(launch), ms(seconds + launch));
    return {seconds + launch, seconds < launch ? Bottleneck::launch : bound};
  }

  /// Measured rates are of kernels in the order of a step, so they include data that caches keep between kernels.
  Price kernel() {
    const bool optimizer = plan_.graph.regions[launch_.region_index].is_optimizer();
    const Figure measured =
        optimizer ? Figure::kernels_optimizer : devices::figure_of(Rate::kernels, plan_.spec.compute);
    if (device_.has(measured)) {
      const double seconds = launch_.bytes / at(measured);
      say("{}B / {}B/s ({}) = {}", giga(launch_.bytes), giga(at(measured)), devices::name_of(measured), ms(seconds));
      return with_launch(seconds, Bottleneck::memory);
    }
    const double bytes = rate(launch_.bytes), seconds = launch_.bytes / bytes;
    say("{}B / {}B/s ({}) = {}", giga(launch_.bytes), giga(bytes), bytes == at(Figure::copy) ? "copy" : "cache_copy",
        ms(seconds));
    return with_launch(seconds, Bottleneck::memory);
  }

  /// Returns the FLOPs of whole waves of tiles: in the last wave some of a GPU's SMs are idle.
  double in_waves(const GemmShape& shape) {
    const double sms = at(Figure::processors);
    double least = 0;
    std::string how;
    for (const auto& tile : kTiles)
      for (std::int64_t split = 1; split == 1 || shape.k / split >= kLeastSplit; split *= 2) {
        const auto tiles = static_cast<double>(ceil_div(shape.m, tile.m) * ceil_div(shape.n, tile.n) * split);
        const double waves = std::ceil(tiles / sms);
        const double of_a_tile = 2.0 * static_cast<double>(tile.m * tile.n) * static_cast<double>(shape.k / split);
        // The parts of a split sum pass through memory as fp32.
        const double sums = split == 1 ? 0 : 8.0 * static_cast<double>(split * shape.m * shape.n) / at(Figure::copy);
        const double flops = waves * sms * of_a_tile / tile.rate + sums * rate_of_products();
        if (least == 0 || flops < least) {
          least = flops;
          if (formula_)
            how = fmt::format("{:.0f} tiles of {} x {}{} in {:.0f} waves on {:.0f} SMs", tiles, tile.m, tile.n,
                              split == 1 ? "" : fmt::format(", k in {} parts", split), waves, sms);
        }
      }
    say("{}FLOP as {}: {}FLOP", giga(launch_.flops), how, giga(least));
    return least;
  }

  double rate_of_products() const {
    const GemmShape& shape = plan_.products[launch_.product].shape;
    if (shape.tf32) return at(Figure::product_tf32);
    return device_(Rate::product, type_of(shape)) / times_of(shape);
  }

  /// Dtype and number of a product's passes. No device file has rates of bf16x3, which is three products of bf16.
  static DType type_of(const GemmShape& shape) { return shape.bf16x3() ? DType::bf16 : shape.operand; }
  static double times_of(const GemmShape& shape) { return shape.bf16x3() ? 3 : 1; }
  static const char* said_of(const GemmShape& shape) { return shape.bf16x3() ? ", a third of bf16's" : ""; }

  /// Prices a product at the measured rate of its sizes, which includes the bytes of a plain product; an addend or a
  /// wider result is added.
  Price measured_product(const GemmShape& shape) {
    const devices::Form form = shape.transpose_a   ? devices::Form::weight_gradient
                               : shape.transpose_b ? devices::Form::forward
                                                   : devices::Form::data_gradient;
    const auto m = static_cast<double>(shape.m), n = static_cast<double>(shape.n), k = static_cast<double>(shape.k);
    const double rate = device_.products.at(type_of(shape), form, m, n, k) / times_of(shape),
                 compute = launch_.flops / rate;
    const auto wide = static_cast<double>(bytes_of(shape.operand, 1));
    const double plain = wide * (m * k + k * n) + m * n * (shape.transpose_a ? 4 : wide);
    const double more = std::max(0.0, launch_.bytes - plain) / at(Figure::copy);
    say("{}FLOP / {}FLOP/s ({} at {:.0f} x {:.0f} x {:.0f}{}) = {}", giga(launch_.flops), giga(rate),
        devices::name_of(form), m, n, k, said_of(shape), ms(compute));
    if (more > 0) say("bytes in addition to those of a plain product: {}", ms(more));
    const double memory = launch_.bytes / at(Figure::copy);
    return with_launch(compute + more,
                       launch_.flops / rate_of_products() >= memory ? Bottleneck::compute : Bottleneck::memory);
  }

  Price product() {
    const GemmShape& shape = plan_.products[launch_.product].shape;
    if (device_.products.has(type_of(shape)) && !shape.tf32) return measured_product(shape);
    const double flops = cuda() ? in_waves(shape) : launch_.flops;
    const double compute = flops / rate_of_products(), memory = launch_.bytes / rate(launch_.bytes);
    say("compute {}FLOP / {}FLOP/s{} = {}", giga(flops), giga(rate_of_products()), said_of(shape), ms(compute));
    say("memory {}B / {}B/s = {}", giga(launch_.bytes), giga(rate(launch_.bytes)), ms(memory));
    const double seconds = overlapped(compute, memory);
    say("partly overlapped: {}", ms(seconds));
    return with_launch(seconds, compute >= memory ? Bottleneck::compute : Bottleneck::memory);
  }

  /// A score's time is linear in head_dim: products grow with it, the exponential does not.
  Price attention(bool backward) {
    const graph::Op& op = plan_.graph.regions[launch_.region_index].ops[launch_.op_index];
    const auto& attention = op.as<ops::AttentionAttributes>();
    const auto dim = static_cast<double>(attention.heads.dim);
    const double products = backward ? 5 : 2;
    const double scores = static_cast<double>(plan_.graph.batch * attention.heads.query) *
                          computed_scores(device_.kind, attention.mask(plan_.graph.sequence));
    const DType type = plan_.graph.at(op.inputs[backward ? 2 : 0]).dtype;  // of q, k and v: an audit's is fp32
    const double at_64 =
        2 * products * 64 / device_(backward ? Rate::attention_backward_64 : Rate::attention_forward_64, type);
    const double at_128 =
        2 * products * 128 / device_(backward ? Rate::attention_backward_128 : Rate::attention_forward_128, type);
    // Limits the line, which may reach 0 before head_dim does, to half of 64's time for each element.
    const double score = std::max(at_64 + (at_128 - at_64) * (dim - 64) / 64, at_64 * dim / 128);
    double seconds = scores * score;
    say("{} scores, {:.4g} ns each at head_dim {:.0f}: {}", giga(scores), 1e9 * score, dim, ms(seconds));
    const double predicted =
        backward && cuda() ? predicted_ms(plan_.attention.of(plan_.graph, op, plan_.spec).backward.front(), device_)
                           : 0;
    if (predicted > 0) {
      seconds = 1e-3 * predicted;
      say("by the rates of this architecture's backward passes (target.attention) and this device's peak: {}",
          ms(seconds));
    }
    if (backward && cuda() && launch_.call != ops::Call::attention_backward) {  // llmc's own: one of two passes
      const double part = launch_.flops / (scores * 2 * 7 * dim);
      seconds *= part;
      say("of which this pass has {:.3g}: {}", part, ms(seconds));
    }
    return with_launch(seconds, Bottleneck::compute);
  }

  Price collective() {
    const auto ranks = static_cast<double>(plan_.spec.parallel.world_size);
    const bool inside = plan_.spec.parallel.world_size <= device_.per_host;
    const double link = inside ? at(Figure::link_inside) : std::min(at(Figure::link_inside), at(Figure::link_between));
    const double latency = at(inside ? Figure::latency_inside : Figure::latency_between);
    const double messages = std::ceil(std::log2(std::max(ranks, 2.0)));
    const double bytes = launch_.wire / link, seconds = bytes + messages * latency;
    say("{}B / {}B/s (link {} hosts) + {:.0f} x {} = {}", giga(launch_.wire), giga(link), inside ? "inside" : "between",
        messages, ms(latency), ms(seconds));
    return {seconds, bytes >= messages * latency ? Bottleneck::link : Bottleneck::launch};
  }

  const Plan& plan_;
  const Launch& launch_;
  const devices::Device& device_;
  std::string* formula_;
};

}  // namespace

const char* name_of(Bottleneck bound) {
  switch (bound) {
    case Bottleneck::compute: return "compute";
    case Bottleneck::memory: return "memory";
    case Bottleneck::launch: return "launch";
    case Bottleneck::link: return "link";
  }
  return "";
}

double computed_scores(spec::TargetKind kind, const Mask& mask) {
  constexpr double kBeyondEdge = 32;
  const double edge = kind == spec::TargetKind::cpu ? kBeyondEdge * mask.sequence : 0;
  const double all = Mask{mask.sequence, 0}.scores() + edge;
  return mask.window ? std::min(mask.scores() + 2 * edge, all) : all;
}

double predicted_ms(const BackwardWay& way, const devices::Device& device) {
  return way.predicted_ms * (ops::kBackwardRatesPeak / device[devices::Figure::peak_bf16]);
}

Price price(const Plan& plan, const Launch& launch, std::string* formula) {
  return Pricing(plan, launch, formula).run();
}

}  // namespace llmc::plan
