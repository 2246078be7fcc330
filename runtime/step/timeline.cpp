#include "step/timeline.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <nlohmann/json.hpp>

#include "error.h"
#include "files/durable_file.h"

namespace llmc {

namespace {

using Json = nlohmann::ordered_json;

constexpr std::size_t kRegion = 3;  // depth of ranges within a region: step, micro-batch, the region
constexpr double kMicroseconds = 1e6;
constexpr int kPasses = 1, kRanks = 2;  // tracks

/// In the order of LaunchKind, named as in the plan.
constexpr const char* kKinds[] = {"kernel", "product", "attention", "memset", "collective"};

struct PlanLaunch {
  std::string op, runs, launched_as;
  std::int64_t transients;
};

/// A region of the plan that the trainer was compiled from.
struct PlanRegion {
  std::int64_t opens = 0, frees = 0;
  bool beside = false;
  std::vector<PlanLaunch> launches;
};

std::map<std::string, PlanRegion> regions_of(const Json& plan) {
  std::map<std::string, PlanRegion> regions;
  for (const Json& of : plan.at("regions")) {
    PlanRegion& region = regions[of.at("name").get<std::string>()];
    region.opens = of.at("opens_bytes").get<std::int64_t>();
    region.frees = of.at("frees_bytes").get<std::int64_t>();
    region.beside = of.at("beside").get<bool>();
    for (const Json& launch : of.at("launches"))
      region.launches.push_back({launch.at("op").get<std::string>(), launch.at("runs").get<std::string>(),
                                 launch.at("launched_as").get<std::string>(),
                                 launch.at("transient_bytes").get<std::int64_t>()});
  }
  return regions;
}

/// Finds the plan's launch that was timed, searching from `at`, and moves `at` past it. A step omits only collectives,
/// with a single rank, and zeroing, in later micro-batches.
const PlanLaunch& match(const PlanRegion& region, std::size_t& at, LaunchKind kind, const char* product,
                        const char* name) {
  const std::string launched_as = kKinds[static_cast<std::size_t>(kind)];
  while (at < region.launches.size()) {
    const PlanLaunch& launch = region.launches[at++];
    if (launch.launched_as == launched_as && (!product || launch.runs == product)) {
      // One call of an attention pass may launch several kernels.
      while (kind == LaunchKind::attention && at < region.launches.size() && region.launches[at].op == launch.op) ++at;
      return launch;
    }
    if (launch.launched_as != kKinds[static_cast<std::size_t>(LaunchKind::memset)] &&
        launch.launched_as != kKinds[static_cast<std::size_t>(LaunchKind::collective)])
      break;
  }
  throw Failure(Exit::internal, fmt::format("{} ran a {}{}{} that its plan does not have there", name, launched_as,
                                            product ? " " : "", product ? product : ""));
}

}  // namespace

Timeline::Timeline(const std::filesystem::path& file, Device& device, const ProgramInfo& info, Machine machine)
    : file_(file), device_(device), info_(info), machine_(std::move(machine)) {
  check_can_write(file_, {Exit::usage, "--timeline"});
}

void Timeline::begin_step(std::int64_t step) {
  while (!steps_.empty() && steps_.back().number > step) steps_.pop_back();
  while (!calls_.empty() && calls_.back().step >= steps_.size()) calls_.pop_back();
  while (!launches_.empty() && launches_.back().call >= calls_.size()) launches_.pop_back();
  steps_.push_back({step + 1, 0, 0});
}

void Timeline::enter(const char* name) {
  if (++ranges_ == 1) steps_.back().begin = marks_.set(device_.stream());
  if (ranges_ == kRegion) calls_.push_back({steps_.size() - 1, name});
}

void Timeline::leave() {
  if (--ranges_ == 0) steps_.back().end = marks_.set(device_.stream());
}

void Timeline::begin(Stream& stream, LaunchKind kind, const char* product) {
  if (calling_++ > 0 || ranges_ < kRegion) return;
  launches_.push_back({calls_.size() - 1, kind, product, &stream != &device_.stream(), marks_.set(stream), 0});
}

void Timeline::end(Stream& stream) {
  if (--calling_ > 0 || ranges_ < kRegion) return;
  launches_.back().end = marks_.set(stream);
}

void Timeline::write(std::size_t arena_bytes) {
  if (written_ || steps_.empty()) return;
  written_ = true;
  write_file_atomically(file_, text(arena_bytes), {Exit::checkpoint, "--timeline"});
}

std::string Timeline::text(std::size_t arena_bytes) const {
  const Json plan = Json::parse(info_.plan_json);
  const std::map<std::string, PlanRegion> regions = regions_of(plan);
  // The plan's bytes, adjusted to this number of ranks: its shards differ in size from those the plan was made for.
  const std::int64_t fixed = plan.at("memory").at("live").at("fixed_bytes").get<std::int64_t>() +
                             static_cast<std::int64_t>(arena_bytes) - static_cast<std::int64_t>(info_.arena_bytes);
  const auto at = [this](std::size_t mark) { return kMicroseconds * marks_.seconds(mark); };

  Json events = Json::array(), numbers = Json::array(), seconds = Json::array();
  const auto name = [&](const char* what, int track, const std::string& text) {
    Json event = {{"ph", "M"}, {"pid", 0}, {"tid", track}, {"name", what}, {"args", {{"name", text}}}};
    events.push_back(std::move(event));
  };
  const auto slice = [&](int track, const std::string& text, const char* kind, double begin, double end, Json args) {
    events.push_back({{"ph", "X"},
                      {"pid", 0},
                      {"tid", track},
                      {"name", text},
                      {"cat", kind},
                      {"ts", begin},
                      {"dur", end - begin},
                      {"args", std::move(args)}});
  };
  name("process_name", 0, info_.name);
  name("thread_name", kPasses, "passes");
  if (std::ranges::any_of(launches_, &Timed::beside)) name("thread_name", kRanks, "ranks, overlapped");

  for (const Step& step : steps_) {
    numbers.push_back(step.number);
    seconds.push_back(marks_.seconds(step.end) - marks_.seconds(step.begin));
    slice(kPasses, fmt::format("step {}", step.number), "step", at(step.begin), at(step.end), Json::object());
  }
  std::int64_t kept = 0;
  for (std::size_t i = 0, call = 0; call < calls_.size(); ++call) {
    const PlanRegion& region = regions.at(calls_[call].region);
    const std::int64_t step = steps_[calls_[call].step].number;
    kept += region.opens;
    double begin = 0, end = 0;
    int track = kPasses;
    std::size_t next = 0;  // index into the region's launches
    const std::size_t first = i;
    for (; i < launches_.size() && launches_[i].call == call; ++i) {
      const Timed& timed = launches_[i];
      const PlanLaunch& launch = match(region, next, timed.kind, timed.product, calls_[call].region);
      const double from = at(timed.begin), to = at(timed.end);
      if (i == first) begin = from;
      end = to;
      track = timed.beside ? kRanks : kPasses;
      slice(track, launch.op, kKinds[static_cast<std::size_t>(timed.kind)], from, to,
            {{"region", calls_[call].region}, {"runs", launch.runs}, {"step", step}});
      if (!region.beside)
        events.push_back({{"ph", "C"},
                          {"pid", 0},
                          {"name", "live bytes"},
                          {"ts", from},
                          {"args", {{"fixed", fixed}, {"kept", kept}, {"transients", launch.transients}}}});
    }
    if (i > first) slice(track, calls_[call].region, "region", begin, end, {{"step", step}});
    kept -= region.frees;
  }
  const Json trace = {{"traceEvents", events},
                      {"displayTimeUnit", "ms"},
                      {"otherData",
                       {{"version", 1},
                        {"name", info_.name},
                        {"fingerprint", info_.fingerprint},
                        {"device", machine_.device},
                        {"threads", machine_.threads},
                        {"world_size", machine_.world_size},
                        {"graphs", false},
                        {"steps", numbers},
                        {"step_seconds", seconds}}}};
  return trace.dump() + "\n";
}

}  // namespace llmc
