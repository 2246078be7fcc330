#include "compiler/tools/report/diff.h"

#include <fmt/format.h>

#include <algorithm>
#include <filesystem>
#include <functional>
#include <sstream>

#include "compiler/tools/report/plan_report.h"
#include "compiler/tools/report/side_by_side.h"
#include "compiler/tools/report/unified.h"
#include "math/gemm_text.h"
#include "spec/schema/schema.h"

namespace llmc::report {

using plan::Kernel;
using plan::KernelParam;
using plan::Plan;
using plan::Product;

namespace {

using Keys = std::map<std::string, std::string>;

/// Returns keys that differ, as key -> (before, after).
std::vector<std::pair<std::string, std::pair<std::string, std::string>>> changed_keys(const Keys& a, const Keys& b) {
  std::vector<std::pair<std::string, std::pair<std::string, std::string>>> result;
  Keys all = a;
  all.insert(b.begin(), b.end());
  for (const auto& [key, value] : all) {
    const auto in_a = a.find(key), in_b = b.find(key);
    const std::string before = in_a == a.end() ? "(none)" : in_a->second,
                      after = in_b == b.end() ? "(none)" : in_b->second;
    if (before != after) result.push_back({key, {before, after}});
  }
  return result;
}

/// Returns the changed keys among those that a param is computed from; a section such as "model" stands for all of its
/// keys.
std::vector<std::string> through(const std::string& origins, const Difference& difference) {
  std::vector<std::string> result;
  std::istringstream list(origins);
  for (std::string origin; std::getline(list, origin, ',');) {
    origin.erase(0, origin.find_first_not_of(' '));
    for (const auto& [key, values] : difference.keys)
      if (key == origin || key.rfind(origin + ".", 0) == 0) result.push_back(key);
  }
  return result;
}

std::vector<KernelParam> product_params(const Product& p) {
  const GemmShape& s = p.shape;
  return {{"int", "m", std::to_string(s.m), ""},
          {"int", "n", std::to_string(s.n), ""},
          {"int", "k", std::to_string(s.k), ""},
          {"using", "operands", s.e5m2_a ? operands_text(s) : row_of(s.operand).c_name, ""},
          {"Scaling", "scaled by", s.scaling == Scaling::none ? "nothing" : name_of(s.scaling), ""},
          {"bool", "tf32", s.tf32 ? "true" : "false", ""},
          {"bool", "fast accumulation", s.fast_accumulation ? "true" : "false", ""},
          {"using", "result", row_of(s.result).c_name, ""},
          {"float", "alpha", fmt::format("{}", s.alpha), ""},
          {"float", "beta", fmt::format("{}", s.beta), ""},
          {"bool", "bias", s.bias ? "true" : "false", ""},
          {"bool", "tiles", s.tiles ? "true" : "false", ""}};
}

std::string value_of(const std::vector<KernelParam>& list, const std::string& name) {
  for (const KernelParam& p : list)
    if (p.name == name) return p.value;
  return "(none)";
}

/// Plans with one key changed from one side to the other, each made once.
class Causes {
 public:
  Causes(const Difference& difference, const PlanAlone& alone) : difference_(difference), alone_(alone) {}

  /// Returns the keys that changed a value to `after`. `value`: that of a plan, or nothing if the item is not in it.
  std::vector<std::string> of(const std::string& before, const std::string& after,
                              const std::function<std::optional<std::string>(const Plan&)>& value) {
    std::vector<std::string> result;
    const auto differs = [&](const std::string& key, bool without) {
      const std::optional<Plan>& plan = plan_of(key, without);
      const std::optional<std::string> found = plan ? value(*plan) : std::nullopt;
      return found && *found != (without ? after : before);
    };
    for (const bool without : {false, true}) {
      for (const auto& [key, values] : difference_.keys)
        if (differs(key, without)) result.push_back(key);
      if (!result.empty()) return result;
    }
    return result;
  }

 private:
  const std::optional<Plan>& plan_of(const std::string& key, bool without) {
    const auto [found, fresh] = plans_.try_emplace({key, without});
    if (fresh) found->second = alone_(key, without);
    return found->second;
  }

  const Difference& difference_;
  const PlanAlone& alone_;
  std::map<std::pair<std::string, bool>, std::optional<Plan>> plans_;
};

/// Returns an item's changed params with the keys that caused each. `items`: those of a plan; `params`: those of an
/// item.
template <class Item>
std::vector<ParamChange> changed_params(const Item& a, const Item& b, const Difference& difference, Causes& causes,
                                        const auto& items, const auto& params) {
  const std::vector<KernelParam> old = params(a), now = params(b);
  std::vector<KernelParam> all = old;
  for (const KernelParam& p : now)
    if (value_of(old, p.name) == "(none)") all.push_back(p);
  std::vector<ParamChange> changes;
  for (const KernelParam& p : all) {
    const std::string before = value_of(old, p.name), after = value_of(now, p.name);
    if (before == after) continue;
    const auto value = [&](const Plan& plan) -> std::optional<std::string> {
      for (const Item& item : items(plan))
        if (item.name == a.name || item.name == b.name) return value_of(params(item), p.name);
      return {};
    };
    ParamChange change{p.name, before, after, causes.of(before, after, value)};
    // If changing only one key never gives a valid run, lists the keys that the value is computed from.
    if (change.through.empty()) change.through = through(p.origin, difference);
    if (change.through.empty())
      change.through = through("model, precision, batch, memory, metrics, target", difference);
    changes.push_back(std::move(change));
  }
  return changes;
}

template <class Item>
std::vector<KernelChange> compare_items(const Plan& plan_a, const Plan& plan_b, const Difference& difference,
                                        Causes& causes, const std::vector<Item> Plan::* member, const auto& params,
                                        const auto& same_family) {
  const auto items = [&](const Plan& plan) -> const std::vector<Item>& { return plan.*member; };
  const std::vector<Item>&a = items(plan_a), &b = items(plan_b);
  std::vector<KernelChange> result;
  const auto named = [](const std::vector<Item>& list, const std::string& name) -> const Item* {
    for (const Item& item : list)
      if (item.name == name) return &item;
    return nullptr;
  };
  const auto changed = [&](const Item& x, const Item& y) {
    return changed_params(x, y, difference, causes, items, params);
  };
  std::vector<const Item*> gone, come;
  for (const Item& item : a) {
    const Item* other = named(b, item.name);
    if (!other) {
      gone.push_back(&item);
      continue;
    }
    std::vector<ParamChange> changes = changed(item, *other);
    if (!changes.empty()) result.push_back({KernelChange::Kind::changed, item.name, "", std::move(changes)});
  }
  for (const Item& item : b)
    if (!named(a, item.name)) come.push_back(&item);
  // An item removed under one name and added under another of the same family counts as changed.
  for (const Item* old : gone) {
    const auto match =
        std::find_if(come.begin(), come.end(), [&](const Item* item) { return same_family(*old, *item); });
    if (match == come.end()) {
      result.push_back({KernelChange::Kind::removed, old->name, "", {}});
      continue;
    }
    result.push_back({KernelChange::Kind::changed, (*match)->name, old->name, changed(*old, **match)});
    come.erase(match);
  }
  for (const Item* item : come) result.push_back({KernelChange::Kind::added, item->name, "", {}});
  return result;
}

std::string section_line(const char* what, const KernelChange& change) {
  switch (change.kind) {
    case KernelChange::Kind::added: return fmt::format("  + {} {}\n", what, change.name);
    case KernelChange::Kind::removed: return fmt::format("  - {} {}\n", what, change.name);
    case KernelChange::Kind::changed: break;
  }
  std::string text = fmt::format("  ~ {} {}{}\n", what, change.name,
                                 !change.renamed_from.empty() ? " (was " + change.renamed_from + ")"
                                 : change.params.empty()      ? " (another source of the same parameters)"
                                                              : "");
  for (const ParamChange& p : change.params)
    text += fmt::format("      {}: {} -> {}   through {}\n", p.name, p.before, p.after, fmt::join(p.through, ", "));
  return text;
}

struct Figure {
  const char* name;
  double before, after;
  bool bytes;
  bool of_rank = false;  // that runs most
};

std::vector<Figure> figures(const Plan& a, const Plan& b) {
  const bool ranks = a.spec.parallel.world_size > 1 || b.spec.parallel.world_size > 1;
  std::vector<Figure> list = {
      {"arena", static_cast<double>(a.layout.bytes), static_cast<double>(b.layout.bytes), true},
      {"bytes moved a step", a.cost.bytes_per_step, b.cost.bytes_per_step, true, ranks},
      {"FLOP a token (model)", a.cost.model_flops_per_token, b.cost.model_flops_per_token, false},
      {"FLOP a step (done)", a.cost.hardware_flops_per_step, b.cost.hardware_flops_per_step, false, ranks},
      {"launches a step", static_cast<double>(a.cost.launches_per_step), static_cast<double>(b.cost.launches_per_step),
       false, ranks},
      {"parameters", static_cast<double>(a.parameters.logical), static_cast<double>(b.parameters.logical), false}};
  if (ranks) list.push_back({"bytes sent a step", a.cost.wire_bytes_per_step, b.cost.wire_bytes_per_step, true, true});
  return list;
}

/// Whether one trainer can run with the values of both sides. The borders of phases are compiled in.
bool of_run_time(const Side& a, const Side& b, const Difference& difference) {
  const bool phases = a.plan->spec.phase.count > 1;
  return a.plan->fingerprint == b.plan->fingerprint && std::ranges::all_of(difference.keys, [phases](const auto& key) {
           const spec::Key* known = spec::key_of(key.first);
           const bool border = phases && (key.first == "schedule.steps" || key.first == "schedule.tokens");
           return known && known->stage == spec::Stage::run_time && !border;
         });
}

/// Whether a reviewer reads the file: kernels and the step, but not tables of numbers and copies of the spec.
bool is_code(const std::string& file) { return file.rfind("kernels", 0) == 0 || file.rfind("step", 0) == 0; }

/// Drops the top comment: its run name and fingerprint differ whenever specs do, and carry no information.
std::string without_identity(const std::string& text) {
  std::size_t at = 0;
  while (text.compare(at, 2, "//") == 0) at = text.find('\n', at) + 1;
  return text.substr(at);
}

/// Adds the kernels of equal parameters whose sources differ, as those of another target.arch may.
void add_other_sources(const Plan& a, const Plan& b, Difference& difference) {
  const auto in = [](const Plan& plan, const std::string& name) {
    return std::ranges::find(plan.kernels, name, &Kernel::name) != plan.kernels.end();
  };
  for (const std::filesystem::path file : difference.files) {
    const std::string name = file.stem();
    if (file.parent_path() != "kernels" || !in(a, name) || !in(b, name)) continue;
    if (std::ranges::find(difference.kernels, name, &KernelChange::name) == difference.kernels.end())
      difference.kernels.push_back({KernelChange::Kind::changed, name, "", {}});
  }
}

}  // namespace

Difference compare(const Side& a, const Side& b, const PlanAlone& alone) {
  Difference difference;
  difference.keys = changed_keys(a.keys, b.keys);
  Causes causes(difference, alone);
  difference.kernels = compare_items<Kernel>(
      *a.plan, *b.plan, difference, causes, &Plan::kernels, [](const Kernel& k) { return k.params; },
      [](const Kernel& x, const Kernel& y) { return x.template_name == y.template_name; });
  difference.products = compare_items<Product>(*a.plan, *b.plan, difference, causes, &Plan::products, product_params,
                                               [](const Product&, const Product&) { return false; });
  std::map<std::string, std::string> all = a.sources;
  all.insert(b.sources.begin(), b.sources.end());
  for (const auto& [file, text] : all) {
    if (!is_code(file)) continue;
    const auto in_a = a.sources.find(file), in_b = b.sources.find(file);
    const bool same = in_a != a.sources.end() && in_b != b.sources.end() &&
                      without_identity(in_a->second) == without_identity(in_b->second);
    if (!same) difference.files.push_back(file);
  }
  add_other_sources(*a.plan, *b.plan, difference);
  return difference;
}

std::string diff_text(const Side& a, const Side& b, const Difference& difference, bool full) {
  if (difference.empty()) return fmt::format("{} and {} are the same run\n", a.label, b.label);
  std::string out = fmt::format("--- {}\n+++ {}\n\nspec keys\n", a.label, b.label);
  for (const auto& [key, values] : difference.keys)
    out += fmt::format("  {}: {} -> {}\n", key, values.first, values.second);
  if (of_run_time(a, b, difference))
    out +=
        difference.files.empty()
            ? "only run-time values differ: the trainers are the same, and take these as key=value\n"
            : "only run-time values differ, which either trainer takes as key=value: their sources differ in what the "
              "planner chose by these\n";
  out += "\n" + side_by_side_text(*a.plan, *b.plan);
  out += difference.kernels.empty() ? "\nkernels: the same\n" : "\nkernels\n";
  for (const KernelChange& change : difference.kernels) out += section_line("kernel", change);
  out += difference.products.empty() ? "\nmatrix products: the same\n" : "\nmatrix products\n";
  for (const KernelChange& change : difference.products) out += section_line("product", change);
  out += "\nfigures\n";
  const std::vector<Figure> list = figures(*a.plan, *b.plan);
  const int width = std::ranges::any_of(list, &Figure::of_rank) ? 29 : 22;
  for (const Figure& f : list) {
    const auto show = [&](double v) { return f.bytes ? human_bytes(v) : human_count(v); };
    const std::string name = fmt::format("{}{}", f.name, f.of_rank ? " of a rank" : "");
    out += change_row(name, width, f.before, f.after, show);
  }
  if (!difference.files.empty()) out += fmt::format("\nsources that differ: {}\n", fmt::join(difference.files, ", "));
  if (full)
    for (const std::string& file : difference.files) {
      const auto text = [&](const Side& side) {
        const auto found = side.sources.find(file);
        return found == side.sources.end() ? std::string() : found->second;
      };
      out += '\n' + unified_diff(text(a), text(b), a.label + "/" + file, b.label + "/" + file);
    }
  return out;
}

nlohmann::ordered_json diff_json(const Side& a, const Side& b, const Difference& difference) {
  using Json = nlohmann::ordered_json;
  Json j;
  j["equal"] = difference.empty();
  Json keys = Json::array();
  for (const auto& [key, values] : difference.keys)
    keys.push_back({{"key", key}, {"before", values.first}, {"after", values.second}});
  j["keys"] = keys;
  j["plans"] = side_by_side_json(*a.plan, *b.plan);
  const auto changes = [](const std::vector<KernelChange>& list) {
    Json result = Json::array();
    for (const KernelChange& c : list) {
      Json params = Json::array();
      for (const ParamChange& p : c.params)
        params.push_back({{"name", p.name}, {"before", p.before}, {"after", p.after}, {"through", p.through}});
      static constexpr const char* kKinds[] = {"added", "removed", "changed"};
      Json item = {{"name", c.name}, {"change", kKinds[static_cast<int>(c.kind)]}, {"params", params}};
      if (!c.renamed_from.empty()) item["was"] = c.renamed_from;
      result.push_back(item);
    }
    return result;
  };
  j["kernels"] = changes(difference.kernels);
  j["products"] = changes(difference.products);
  Json numbers = Json::object();
  for (const Figure& f : figures(*a.plan, *b.plan)) numbers[f.name] = {{"before", f.before}, {"after", f.after}};
  j["figures"] = numbers;
  j["files"] = difference.files;
  return j;
}

}  // namespace llmc::report
