// Steps of a timeline, on the CPU's clock and with a plan of one region.
#include "step/timeline.h"

#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "../folder.h"
#include "device/device.h"

namespace llmc {
namespace {

constexpr char kPlan[] = R"({
  "memory": {"live": {"fixed_bytes": 64}},
  "regions": [{"name": "layer", "opens_bytes": 8, "frees_bytes": 8, "beside": false,
               "launches": [{"op": "norm", "runs": "rms_norm", "launched_as": "kernel", "transient_bytes": 4}]}]})";

/// Sends step `step` + 1 with one launch.
void send(Timeline& timeline, Device& device, std::int64_t step) {
  timeline.begin_step(step);
  for (const char* range : {"step", "micro-batch", "layer"}) timeline.enter(range);
  timeline.begin(device.stream(), LaunchKind::kernel, nullptr);
  timeline.end(device.stream());
  for (int range = 0; range < 3; ++range) timeline.leave();
}

TEST(Timeline, ARollbackForgetsTheStepsThatItRepeats) {
  test::Folder base;
  Device device(0, 1);
  ProgramInfo info{};
  info.name = info.fingerprint = "run";
  info.plan_json = kPlan;
  Timeline timeline(base / "timeline.json", device, info, {"a CPU", 1, 1});
  for (const std::int64_t step : {2, 3, 4, 3, 4, 5}) send(timeline, device, step);  // back to step 3 after step 5
  timeline.write(0);
  const auto trace = nlohmann::json::parse(base.read("timeline.json"));
  EXPECT_EQ(trace.at("otherData").at("steps"), (std::vector<int>{3, 4, 5, 6}));
  std::vector<int> launches;
  for (const auto& event : trace.at("traceEvents"))
    if (event.at("name") == "norm") launches.push_back(event.at("args").at("step").get<int>());
  EXPECT_EQ(launches, (std::vector<int>{3, 4, 5, 6}));
}

}  // namespace
}  // namespace llmc
