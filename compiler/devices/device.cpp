#include "compiler/devices/device.h"

#include <fmt/format.h>
#include <yaml-cpp/yaml.h>

#include <algorithm>
#include <cmath>
#include <set>

#include "error.h"
#include "program/shards.h"
#include "spec/gpus.h"
#include "spec/scalars.h"
#include "spec/schema/schema.h"
#include "text/printable.h"

namespace llmc::devices {
namespace {

constexpr const char* kNames[kFigures] = {"memory",
                                          "processors",
                                          "peak_bf16",
                                          "peak_fp32",
                                          "product_bf16",
                                          "product_fp32",
                                          "attention_forward_64",
                                          "attention_forward_128",
                                          "attention_backward_64",
                                          "attention_backward_128",
                                          "copy",
                                          "cache",
                                          "cache_copy",
                                          "launch",
                                          "link_inside",
                                          "latency_inside",
                                          "link_between",
                                          "latency_between",
                                          "attention_forward_64_fp32",
                                          "attention_forward_128_fp32",
                                          "attention_backward_64_fp32",
                                          "attention_backward_128_fp32",
                                          "kernels_bf16",
                                          "kernels_fp32",
                                          "kernels_optimizer",
                                          "product_fp8",
                                          "peak_tf32",
                                          "product_tf32"};
constexpr struct {
  Rate rate;
  DType operand;
  Figure figure;
} kRates[] = {
    {Rate::peak, DType::bf16, Figure::peak_bf16},
    {Rate::peak, DType::f32, Figure::peak_fp32},
    {Rate::product, DType::bf16, Figure::product_bf16},
    {Rate::product, DType::f32, Figure::product_fp32},
    {Rate::product, DType::e4m3, Figure::product_fp8},
    {Rate::attention_forward_64, DType::bf16, Figure::attention_forward_64},
    {Rate::attention_forward_64, DType::f32, Figure::attention_forward_64_fp32},
    {Rate::attention_forward_128, DType::bf16, Figure::attention_forward_128},
    {Rate::attention_forward_128, DType::f32, Figure::attention_forward_128_fp32},
    {Rate::attention_backward_64, DType::bf16, Figure::attention_backward_64},
    {Rate::attention_backward_64, DType::f32, Figure::attention_backward_64_fp32},
    {Rate::attention_backward_128, DType::bf16, Figure::attention_backward_128},
    {Rate::attention_backward_128, DType::f32, Figure::attention_backward_128_fp32},
    {Rate::kernels, DType::bf16, Figure::kernels_bf16},
    {Rate::kernels, DType::f32, Figure::kernels_fp32},
};
constexpr const char* kFormNames[kForms] = {"forward", "data_gradient", "weight_gradient"};
constexpr DType kPrecisions[] = {DType::bf16, DType::f32};

class Reader {
 public:
  explicit Reader(std::string name) : name_(std::move(name)) {}

  Device read(const std::string& text) {
    YAML::Node root;
    try {
      root = YAML::Load(text);
    } catch (const YAML::Exception& error) {
      fail(error.mark, fmt::format("this is not YAML: {}", error.msg), "correct the syntax");
    }
    if (!root.IsMap()) fail(root.Mark(), "a device is a map", "begin with `name: NAME`");
    known(root, {"name", "also", "kind", "arch", "reports", "per_host", "figures", "products"});
    Device device;
    device.name = text_of(root, root, "name", "a name such as my-gpu");
    if (spec::run_name(device.name) != device.name)
      fail(root["name"].Mark(), "a device's name is lower-case letters, digits and hyphens, a letter first",
           "write name: my-gpu");
    if (const YAML::Node also = root["also"]) {
      if (!also.IsSequence()) fail(also.Mark(), "also takes a list of names", "write also: [NAME]");
      for (const YAML::Node& item : also) device.also.push_back(scalar(item, "a name"));
    }
    const std::string kind = text_of(root, root, "kind", "cuda or cpu");
    if (kind != "cuda" && kind != "cpu") fail(root["kind"].Mark(), "kind takes cuda or cpu", "write one of them");
    device.kind = kind == "cuda" ? spec::TargetKind::cuda : spec::TargetKind::cpu;
    if (root["arch"]) device.arch = scalar(root["arch"], "a compute capability, 90");
    if (device.arch.find_first_not_of("0123456789") != std::string::npos)
      fail(root["arch"].Mark(), fmt::format("arch takes digits only, not '{}'", device.arch),
           "write a compute capability such as 90");
    if (root["reports"]) device.reports = scalar(root["reports"], "what the driver calls the device");
    const std::map<Figure, SourcedValue> known_figures = take_known(device);
    if (const YAML::Node count = root["per_host"]) {
      const double devices = number(count, "per_host", "a whole number such as 8");
      if (devices != std::floor(devices) || devices > kMostRanks)
        fail(count.Mark(), fmt::format("per_host is not a whole number up to {}", kMostRanks), "write one such as 8");
      device.per_host = static_cast<std::int64_t>(devices);
    }
    if (device.kind == spec::TargetKind::cuda && device.arch.empty())
      text_of(root, root, "arch", "a compute capability, 90");
    const YAML::Node figures = root["figures"];
    if (!figures || !figures.IsMap())
      fail(root.Mark(), "a device needs figures", "write them as in `llmc devices NAME`");
    known(figures, {std::begin(kNames), std::end(kNames)});
    for (std::size_t i = 0; i < kFigures; ++i)
      if (const auto known = known_figures.find(static_cast<Figure>(i));
          known != known_figures.end() && !figures[kNames[i]])
        device.figures.insert(*known);
      else if (i < kRequiredFigures || figures[kNames[i]])
        device.figures[static_cast<Figure>(i)] = figure(figures, kNames[i]);
    check_memory(device[Figure::memory], figures);
    if (device.kind == spec::TargetKind::cuda) {
      device.figures.insert({Figure::peak_tf32, {device[Figure::peak_bf16] / 2, "half of bf16's"}});
      device.figures.insert({Figure::product_tf32, {device[Figure::product_bf16] / 2, "assumed: half of bf16's"}});
    }
    if (const YAML::Node products = root["products"]) device.products = product_rates(products);
    return device;
  }

 private:
  /// Fills in the names and the arch of a known GPU (spec/gpus.h). Returns the figures that its file may leave out.
  static std::map<Figure, SourcedValue> take_known(Device& device) {
    for (const spec::Gpu& gpu : spec::gpus()) {
      if (device.name != gpu.name) continue;
      if (device.also.empty() && *gpu.also) device.also = {gpu.also};
      if (device.arch.empty()) device.arch = gpu.arch;
      if (device.reports.empty()) device.reports = gpu.reports;
      return {{Figure::memory,
               {static_cast<double>(gpu.budget), "what the driver reports, less 2 GiB for context and libraries"}},
              {Figure::peak_bf16, {gpu.bf16, "data sheet, dense"}},
              {Figure::peak_fp32, {gpu.fp32, "data sheet"}}};
    }
    return {};
  }

  /// Refuses a memory that memory.budget does not take.
  void check_memory(double bytes, const YAML::Node& figures) const {
    const spec::Key& budget = *spec::find_key("memory.budget");
    if (bytes >= *budget.minimum && bytes <= *budget.maximum) return;
    fail(figures["memory"].Mark(),
         fmt::format("memory takes {} to {}", bound_text(budget, *budget.minimum), bound_text(budget, *budget.maximum)),
         "write bytes such as 80GiB");
  }

  [[noreturn]] void fail(const YAML::Mark& mark, const std::string& what, const std::string& advice) const {
    throw Failure(Exit::spec, fmt::format("{}:{}: {}; {}", name_, mark.line + 1, what, advice));
  }

  /// Throws Failure(spec) unless every key of `map` is one of `names` and stands once.
  void known(const YAML::Node& map, const std::vector<std::string>& names) const {
    std::set<std::string> seen;
    for (const auto& member : map) {
      const std::string key = scalar(member.first, "a key");
      if (std::ranges::find(names, key) == names.end()) {
        const std::string missing = fmt::format("there is no key {} here", key);
        const std::string meant = spec::did_you_mean(key, names);
        if (meant.empty()) fail(member.first.Mark(), missing, "remove it");
        throw Failure(Exit::spec, fmt::format("{}:{}: {}. {}", name_, member.first.Mark().line + 1, missing, meant));
      }
      if (!seen.insert(key).second)
        fail(member.first.Mark(), fmt::format("{} is set twice", key), "remove one of them");
    }
  }

  std::string scalar(const YAML::Node& node, const std::string& expected) const {
    if (!node.IsScalar() || node.Scalar().empty()) fail(node.Mark(), "expected " + expected, "write " + expected);
    if (const std::string shown = printable_text(node.Scalar()); shown != node.Scalar())
      fail(node.Mark(), fmt::format("'{}' has a control character, or is not UTF-8", printable(shown)),
           "write plain text in UTF-8");
    return node.Scalar();
  }

  std::string text_of(const YAML::Node& root, const YAML::Node& map, const char* key,
                      const std::string& expected) const {
    const YAML::Node node = map[key];
    if (!node) fail(root.Mark(), fmt::format("{} is missing", key), fmt::format("write {}: {}", key, expected));
    return scalar(node, expected);
  }

  double number(const YAML::Node& node, const std::string& what, const std::string& expected) const {
    const std::string text = scalar(node, expected);
    const auto plain = spec::parse_number(text).value;
    const auto bytes = spec::parse_bytes(text).value;
    const double value = plain ? *plain : bytes ? static_cast<double>(*bytes) : 0;
    if (!(value > 0))
      fail(node.Mark(), fmt::format("{} takes a number above 0, not '{}'", what, text), "write " + expected);
    return value;
  }

  SourcedValue figure(const YAML::Node& figures, const char* name) const {
    const YAML::Node node = figures[name];
    const std::string expected = fmt::format("{}: {{value: NUMBER, from: \"where it comes from\"}}", name);
    if (!node) fail(figures.Mark(), fmt::format("the figure {} is missing", name), "write " + expected);
    if (!node.IsMap()) fail(node.Mark(), fmt::format("the figure {} is not a map", name), "write " + expected);
    known(node, {"value", "from"});
    if (!node["value"] || !node["from"])
      fail(node.Mark(), fmt::format("{} needs value and from", name), "write " + expected);
    return {number(node["value"], name, "a number such as 3.2e12, or bytes such as 50MiB"),
            scalar(node["from"], "where the figure comes from")};
  }

  std::vector<double> numbers(const YAML::Node& node, const std::string& what, std::size_t count) const {
    if (!node.IsSequence() || node.size() == 0 || (count && node.size() != count))
      fail(node.Mark(), fmt::format("{} takes {} numbers", what, count ? fmt::to_string(count) : "a list of"),
           "let llmc calibrate write them");
    std::vector<double> values;
    for (const YAML::Node& item : node) values.push_back(number(item, what, "a number such as 2e11"));
    return values;
  }

  ProductRates product_rates(const YAML::Node& node) const {
    if (!node.IsMap()) fail(node.Mark(), "products is not a map", "let llmc calibrate write it");
    known(node, {"from", "sizes", "bf16", "fp32"});
    ProductRates rates;
    rates.from = text_of(node, node, "from", "where the figures come from");
    if (!node["sizes"]) fail(node.Mark(), "products has no sizes", "write sizes: [32, 128, 512, 2048]");
    rates.sizes = numbers(node["sizes"], "sizes", 0);
    if (std::ranges::adjacent_find(rates.sizes, std::greater_equal<>()) != rates.sizes.end())
      fail(node["sizes"].Mark(), "sizes are not ascending", "write the smallest first");
    const std::size_t count = rates.sizes.size() * rates.sizes.size() * rates.sizes.size();
    for (const DType type : kPrecisions) {
      const YAML::Node forms = node[llmc::name_of(type)];
      if (!forms) continue;
      if (!forms.IsMap()) fail(forms.Mark(), "this is not a map of forms", "write forward: [...]");
      known(forms, {std::begin(kFormNames), std::end(kFormNames)});
      for (std::size_t form = 0; form < kForms; ++form) {
        if (!forms[kFormNames[form]])
          fail(forms.Mark(), fmt::format("{} is missing", kFormNames[form]), "let llmc calibrate write it");
        rates.of[type][form] = numbers(forms[kFormNames[form]], kFormNames[form], count);
      }
    }
    return rates;
  }

  std::string name_;
};

}  // namespace

const char* name_of(Figure figure) { return kNames[static_cast<std::size_t>(figure)]; }

Figure figure_of(Rate rate, DType operand) {
  if (operand == DType::f16) operand = DType::bf16;
  for (const auto& row : kRates)
    if (row.rate == rate && row.operand == operand) return row.figure;
  throw Failure(Exit::internal, fmt::format("device files have no such figure for {}", llmc::name_of(operand)));
}

double Device::operator()(Rate rate, DType operand) const {
  const Figure own = figure_of(rate, operand);
  return (*this)[has(own) ? own : figure_of(rate, DType::bf16)];
}

double Device::peak(const spec::Spec& spec) const {
  if (spec.matmul == spec::Matmul::tf32) return (*this)[Figure::peak_tf32];
  return (*this)(Rate::peak, spec.compute);
}

const char* name_of(Form form) { return kFormNames[static_cast<std::size_t>(form)]; }

double ProductRates::at(DType operand, Form form, double m, double n, double k) const {
  struct Place {
    std::size_t below;
    double part;  // fraction of the distance to the next size
  };
  const auto place = [this](double size) -> Place {
    std::size_t i = 0;
    while (i + 2 < sizes.size() && sizes[i + 1] <= size) ++i;
    if (sizes.size() == 1) return {0, 0};
    return {i, std::clamp(std::log(size / sizes[i]) / std::log(sizes[i + 1] / sizes[i]), 0.0, 1.0)};
  };
  const std::vector<double>& rates =
      of.at(operand == DType::f16 ? DType::bf16 : operand)[static_cast<std::size_t>(form)];
  const Place places[3] = {place(m), place(n), place(k)};
  double sum = 0;
  for (unsigned corner = 0; corner < 8; ++corner) {
    double share = 1;
    std::size_t index = 0;
    for (unsigned i = 0; i < 3; ++i) {
      const bool above = corner >> i & 1;
      share *= above ? places[i].part : 1 - places[i].part;
      index = index * sizes.size() + places[i].below + above;
    }
    if (share > 0) sum += share * rates[index];
  }
  return sum;
}

std::string to_yaml(const Device& device) {
  const auto list = [](const std::vector<double>& values) {
    std::string text;
    for (const double value : values) text += fmt::format("{}{:.4g}", text.empty() ? "" : ", ", value);
    return "[" + text + "]";
  };
  const auto quoted = [](const std::string& text) {
    YAML::Emitter out;
    out << YAML::DoubleQuoted << text;
    return std::string(out.c_str());
  };
  std::string out = fmt::format("name: {}\n", device.name);
  if (!device.also.empty()) {
    std::string names;
    for (const std::string& name : device.also) names += (names.empty() ? "" : ", ") + quoted(name);
    out += fmt::format("also: [{}]\n", names);
  }
  const bool cuda = device.kind == spec::TargetKind::cuda;
  out += fmt::format("kind: {}\n", cuda ? "cuda" : "cpu");
  if (cuda) out += fmt::format("arch: {}\n", device.arch);
  if (!device.reports.empty()) out += fmt::format("reports: {}\n", quoted(device.reports));
  out += fmt::format("per_host: {}\nfigures:\n", device.per_host);
  constexpr double kMiB = 1 << 20;
  for (const auto& [figure, value] : device.figures) {
    const bool bytes = figure == Figure::memory || figure == Figure::cache;
    const bool whole = bytes && std::fmod(value.value, kMiB) == 0;
    out += fmt::format("  {}: {{value: {}, from: {}}}\n", name_of(figure),
                       whole ? fmt::format("{:.0f}MiB", value.value / kMiB) : fmt::format("{:.6g}", value.value),
                       quoted(value.from));
  }
  const ProductRates& products = device.products;
  if (products.of.empty()) return out;
  out += fmt::format("products:  # FLOP/s by m, then n, then k\n  from: {}\n  sizes: {}\n", quoted(products.from),
                     list(products.sizes));
  for (const auto& [type, forms] : products.of) {
    out += fmt::format("  {}:\n", llmc::name_of(type));
    for (std::size_t form = 0; form < kForms; ++form)
      out += fmt::format("    {}: {}\n", kFormNames[form], list(forms[form]));
  }
  return out;
}

bool Device::is_called(const std::string& word) const {
  return name == word || std::ranges::find(also, word) != also.end() || (!reports.empty() && reports == word);
}

Device read(const std::string& text, const std::string& name) { return Reader(name).read(text); }

}  // namespace llmc::devices
