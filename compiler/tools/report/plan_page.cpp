#include "compiler/tools/report/plan_page.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>

#include "compiler/plan/advice.h"
#include "compiler/plan/live.h"
#include "compiler/plan/price.h"
#include "compiler/plan/step_time.h"
#include "compiler/tools/page/frame.h"
#include "compiler/tools/report/advice_report.h"
#include "compiler/tools/report/choices.h"
#include "compiler/tools/report/length_report.h"
#include "compiler/tools/report/page_files.h"
#include "compiler/tools/report/plan_report.h"
#include "compiler/tools/report/time_report.h"
#include "spec/recompute.h"
#include "spec/values.h"

namespace llmc::report {

namespace {

/// Data of the page. The scripts only draw; each number and word comes from here.
class PlanPage {
 public:
  explicit PlanPage(const plan::Plan& plan)
      : plan_(plan), g_(plan.graph), live_(plan::live_bytes(plan)), choices_(choices_near(plan)), spent_(spent(plan)) {
    find_peak();
  }

  nlohmann::ordered_json data() const {
    return {{"plan", plan_object()}, {"rate", rate_points(plan_)}, {"summary", summary()}, {"memory", memory()},
            {"ops", ops()},          {"streams", streams()},       {"choices", choices()}, {"advice", advice()}};
  }

 private:
  using Object = nlohmann::ordered_json;

  struct Peak {
    plan::RegionRun run;
    std::size_t op = 0, transients = 0, bytes = 0;
  };

  void find_peak() {
    for (const plan::RegionRun& run : plan::pass_runs(plan_))
      for (std::size_t op = 0; op < plan_.layout.alive[run.region].size(); ++op) {
        const std::size_t transients = plan_.layout.alive[run.region][op];
        const std::size_t bytes = live_.fixed + run.kept + transients;
        if (bytes > peak_.bytes) peak_ = {run, op, transients, bytes};
      }
  }

  const graph::Region& region(std::size_t index) const { return g_.regions[index]; }
  bool is_layer(std::size_t index) const { return region(index).block == graph::Block::layer; }

  /// Returns "layer_backward of layer 15".
  std::string place(const plan::RegionRun& run) const {
    return region(run.region).name + (is_layer(run.region) ? fmt::format(" of layer {}", run.layer) : "");
  }
  std::string peak_op() const { return region(peak_.run.region).ops[peak_.op].label(); }

  double share(std::size_t bytes) const {
    return static_cast<double>(bytes) / static_cast<double>(std::max<std::size_t>(peak_.bytes, 1));
  }

  /// Returns the part of plan.json that the scripts read.
  Object plan_object() const {
    const Object all = plan_json(plan_);
    Object part = Object::object();
    for (const char* key : {"name", "fingerprint", "target", "compute", "batch", "parameters", "choice", "device",
                            "step_seconds", "tokens_per_second", "mfu", "run_seconds", "length"})
      part[key] = all.at(key);
    part["world_size"] = plan_.spec.parallel.world_size;
    part["arena_bytes"] = plan_.layout.bytes;
    part["process_bytes"] = plan_.process_bytes;
    part["budget_bytes"] = plan_.spec.memory.budget;
    part["peak_flops"] = plan_.device.peak(plan_.spec);
    part["copy_bytes"] = plan_.device[devices::Figure::copy];
    return part;
  }

  static Object named_bytes(const std::string& name, const std::string& what, std::size_t bytes) {
    return {{"name", name}, {"what", what}, {"bytes", bytes}};
  }

  /// Returns the live tensors at the peak, largest first.
  Object peak_tensors() const {
    std::vector<Object> list;
    for (const plan::Section& section : plan_.layout.sections)
      if (section.lasting == plan::Lasting::step)
        list.push_back(named_bytes(section.name, section.what, section.bytes));
    std::size_t kept = peak_.run.kept;
    const auto keep = [&](const graph::Tensor& tensor, std::int64_t times, const char* what) {
      const std::size_t bytes = std::min(kept, static_cast<std::size_t>(tensor.bytes() * times));
      kept -= bytes;
      if (bytes) list.push_back(named_bytes(fmt::format("{} × {}", tensor.name, times), what, bytes));
    };
    if (peak_.run.kept == all_kept()) {  // otherwise only some layers keep theirs
      keep(g_.at(g_.stream.below), g_.layers() + 1, "kept: the residual stream");
      for (const graph::Region& r : g_.regions)
        if (r.is_forward() && r.block == graph::Block::layer)
          for (const graph::TensorId id : r.saved)
            if (!plan_.layout.fixed.contains(id)) keep(g_.at(id), g_.layers_of(r), "kept by layers");
    }
    if (kept) list.push_back(named_bytes("kept activations", "of the layers until there", kept));
    const int at = plan_.layout.region_begin[peak_.run.region] + static_cast<int>(peak_.op);
    for (const plan::Transient& t : plan_.layout.transients)
      if (t.first <= at && at <= t.last) list.push_back(named_bytes(g_.at(t.tensor).name, "transient", t.bytes));
    std::ranges::stable_sort(list, std::greater{},
                             [](const Object& item) { return item.at("bytes").get<std::size_t>(); });
    return list;
  }

  std::size_t all_kept() const {
    std::size_t most = 0;
    for (const plan::RegionRun& run : plan::pass_runs(plan_)) most = std::max(most, run.kept);
    return most;
  }

  Object memory() const {
    Object sections = Object::array(), runs = Object::array(), alive = Object::object();
    for (const plan::Section& section : plan_.layout.sections)
      if (section.lasting == plan::Lasting::step)
        sections.push_back(named_bytes(section.name, section.what, section.bytes));
    for (const plan::RegionRun& run : plan::pass_runs(plan_)) {
      const std::string& name = region(run.region).name;
      runs.push_back(
          {{"region", name}, {"layer", is_layer(run.region) ? Object(run.layer) : Object()}, {"kept", run.kept}});
      if (alive.contains(name)) continue;
      alive[name] = Object::array();
      for (std::size_t op = 0; op < region(run.region).ops.size(); ++op)
        alive[name].push_back({region(run.region).ops[op].label(), plan_.layout.alive[run.region][op]});
    }
    return {{"sections", sections},
            {"fixed_bytes", live_.fixed},
            {"runs", runs},
            {"transients", alive},
            {"peak",
             {{"place", place(peak_.run)},
              {"op", peak_op()},
              {"bytes", peak_.bytes},
              {"kept_bytes", peak_.run.kept},
              {"transient_bytes", peak_.transients},
              {"tensors", peak_tensors()}}}};
  }

  /// Returns the ops by time, with the work of one launch.
  Object ops() const {
    Object list = Object::array();
    for (const Spent& item : spent_) {
      list.push_back(spent_json(item));
      list.back().update({{"bytes", item.launch->bytes}, {"flops", item.launch->flops}});
    }
    return list;
  }

  Object advice() const {
    Object json = Object::object();
    add_advice(json, plan::limits(plan_), plan::hints(plan_));
    return json;
  }

  Object streams() const {
    const std::vector<plan::StreamSpan> spans = plan::step_spans(plan_);
    const int last = spans.empty() ? 0 : std::ranges::max(spans, {}, &plan::StreamSpan::pass).pass;
    Object passes = Object::array();
    for (int pass = 0; pass <= last; ++pass) {
      Object list = Object::array();
      for (const plan::StreamSpan& span : spans)
        if (span.pass == pass) list.push_back(span_object(span));
      passes.push_back({{"name", pass_name(pass, last)}, {"spans", list}});
    }
    return {{"passes", passes},
            {"micro_batches", plan_.rank_micro_batches()},
            {"compute_seconds", plan_.cost.time.compute_seconds},
            {"exposed_seconds", plan_.cost.time.exposed_seconds}};
  }

  std::string pass_name(int pass, int last) const {
    if (pass == last) return last ? "last micro-batch and optimizer" : "the step";
    if (pass == 0) return "first micro-batch";
    return fmt::format("each of {} between", plan_.rank_micro_batches() - 2);
  }

  Object span_object(const plan::StreamSpan& span) const {
    static constexpr std::array<const char*, 3> kDoes = {"compute", "send", "wait"};
    std::string what = "waiting for other ranks";
    if (span.does != plan::StreamSpan::Does::wait) {
      what = region(span.region).name;
      if (span.does == plan::StreamSpan::Does::compute && is_layer(span.region))
        what += fmt::format(" of layer {}", span.layer);
    }
    return {{"does", kDoes[static_cast<std::size_t>(span.does)]},
            {"part", part_name(span)},
            {"what", what},
            {"begin", span.begin},
            {"end", span.end}};
  }

  const char* part_name(const plan::StreamSpan& span) const {
    if (span.does == plan::StreamSpan::Does::wait) return "wait";
    if (span.does == plan::StreamSpan::Does::send) return "send";
    const graph::Region& ran = region(span.region);
    return ran.is_forward() ? "forward" : ran.is_loss() ? "loss" : ran.is_backward() ? "backward" : "optimizer";
  }

  Object choices() const {
    Object list = Object::array();
    for (const PricedChoice& choice : choices_)
      list.push_back(
          {{"micro_batch", choice.spec.batch.micro_batch},
           {"loss_chunk", choice.spec.memory.loss_chunk},
           {"recompute", spec::recompute_text(choice.spec.memory.recompute)},
           {"shard",
            plan_.spec.parallel.world_size > 1 ? Object(spec::text_of("parallel.shard", choice.spec)) : Object()},
           {"difference", choice_difference(choices_[0].spec, choice.spec)},
           {"step_seconds", choice.seconds},
           {"arena_bytes", choice.bytes},
           {"fits", choice.fits},
           {"chosen", choice.chosen},
           {"front", choice.front}});
    return list;
  }

  Object summary() const {
    return {{{"asks", "What fills memory?"}, {"says", memory_words()}},
            {{"asks", "What bounds the step?"}, {"says", time_words()}},
            {{"asks", "Which key to change?"}, {"says", key_words()}}};
  }

  std::string memory_words() const {
    const std::size_t kept = peak_.run.kept, fixed = live_.fixed;
    std::string words = fmt::format(
        "{}{} of the {} that memory.budget allows: at the peak {:.0f}% are constant (weights, gradients, the "
        "optimizer's state, inputs), {:.0f}% is what layers keep for their backward pass, {:.0f}% are transients. The "
        "peak is in {}, at the op {}.",
        human_bytes(static_cast<double>(plan_.layout.bytes)),
        plan_.process_bytes
            ? fmt::format(", and {} of the process,", human_bytes(static_cast<double>(plan_.process_bytes)))
            : "",
        human_bytes(static_cast<double>(plan_.spec.memory.budget)), 100 * share(fixed), 100 * share(kept),
        100 * share(peak_.transients), place(peak_.run), peak_op());
    if (kept >= fixed && kept >= peak_.transients)
      words += " A smaller batch.micro_batch or more of memory.recompute reduces the largest part.";
    else if (fixed >= peak_.transients)
      words += " The largest part depends on the model, and with several ranks on parallel.shard, not on the batch.";
    else
      words += " A smaller batch.micro_batch or memory.loss_chunk reduces the largest part.";
    return words;
  }

  std::string time_words() const {
    std::array<double, 4> by_bound{};
    double all = 0;
    for (const Spent& item : spent_) {
      by_bound[static_cast<std::size_t>(item.price.bound)] += item.seconds;
      all += item.seconds;
    }
    const plan::StepTime& time = plan_.cost.time;
    const auto largest = static_cast<std::size_t>(std::ranges::max_element(by_bound) - by_bound.begin());
    static constexpr std::array<const char*, 4> kWords = {
        "arithmetic: its launches would be faster only on a faster device, or in fewer FLOPs",
        "memory traffic: its launches move bytes, and the device's arithmetic waits for them",
        "launches: most are so short that starting them takes longer, so a larger batch.micro_batch or a larger model "
        "uses the device better",
        "links: ranks wait for what others send"};
    std::string words =
        fmt::format("{} a step, {:.0f}% of the time in launches bound by {}. The largest is {}, {:.1f}%.",
                    human_seconds(time.seconds), 100 * by_bound[largest] / all, kWords[largest], spent_[0].launch->what,
                    100 * spent_[0].seconds / all);
    if (time.exposed_seconds > 0)
      words += fmt::format(" For {:.1f}% of the step it waits for other ranks with nothing left to overlap.",
                           100 * time.exposed_seconds / time.seconds);
    return words;
  }

  std::string key_words() const {
    const PricedChoice& mine = choices_[0];
    const auto change = [&](const PricedChoice& other) { return 100 * (other.seconds / mine.seconds - 1); };
    const auto changed = [&](const PricedChoice& other) {
      return fmt::format("{:.1f}% {}", std::abs(change(other)), change(other) < 0 ? "less time" : "more time");
    };
    const auto bytes = [](const PricedChoice& c) { return static_cast<double>(c.bytes); };
    // Names choices beyond memory.budget only if the device has the memory.
    const auto considered = [&](const PricedChoice& other, bool fits) {
      return other.fits == fits &&
             (fits || bytes(other) + static_cast<double>(plan_.process_bytes) <= plan_.device[devices::Figure::memory]);
    };
    // Of the choices within a negligible margin of the fastest, takes the one of fewest bytes.
    const auto fastest = [&](bool fits) {
      constexpr double kAlike = 1.002;
      double least = 0.995 * mine.seconds;
      for (const PricedChoice& other : choices_)
        if (considered(other, fits)) least = std::min(least, other.seconds);
      const PricedChoice* found = nullptr;
      for (const PricedChoice& other : choices_)
        if (considered(other, fits) && !other.chosen && other.seconds <= kAlike * least &&
            other.seconds <= 0.995 * mine.seconds && (!found || other.bytes < found->bytes))
          found = &other;
      return found;
    };
    const PricedChoice *faster = fastest(true), *beyond = fastest(false), *smaller = nullptr;
    for (const PricedChoice& other : choices_)
      if (other.fits && change(other) < 5 && bytes(other) < 0.95 * bytes(mine) &&
          (!smaller || other.bytes < smaller->bytes))
        smaller = &other;
    const auto said = [&](const PricedChoice& other) { return choice_difference(mine.spec, other.spec); };
    std::string words = faster ? fmt::format("Faster: {} takes {}, in {}.", said(*faster), changed(*faster),
                                             human_bytes(bytes(*faster)))
                               : "No planned change is faster within memory.budget.";
    if (beyond && (!faster || beyond->seconds < 0.995 * faster->seconds))
      words += fmt::format(" With memory.budget: {}, {} takes {}.",
                           plan::budget_text(static_cast<std::int64_t>(beyond->bytes + plan_.process_bytes)),
                           said(*beyond), changed(*beyond));
    if (smaller)
      words += fmt::format(" To save memory: {} needs {} less, and takes {}.", said(*smaller),
                           human_bytes(bytes(mine) - bytes(*smaller)), changed(*smaller));
    return words;
  }

  const plan::Plan& plan_;
  const graph::Graph& g_;
  const plan::Live live_;
  const std::vector<PricedChoice> choices_;
  const std::vector<Spent> spent_;
  Peak peak_;
};

}  // namespace

std::string plan_page(const plan::Plan& plan) {
  return page::frame({.title = "llmc plan",
                      .style = files::kStyle,
                      .body = files::kBody,
                      .scripts = {files::kCharts, files::kPage},
                      .data = PlanPage(plan).data()});
}

}  // namespace llmc::report
