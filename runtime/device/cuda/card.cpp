#include "device/cuda/card.h"

#include <dlfcn.h>

#include <utility>

namespace llmc {
namespace {

// Excerpt of nvml.h, so that compiling trainers does not require it.
using Result = int;  // 0: success
constexpr int kSmClock = 1;
constexpr std::pair<unsigned long long, const char*> kReasons[] = {
    {0x2, "clocks set by nvidia-smi"}, {0x4, "power cap"},
    {0x8, "hardware slowdown"},        {0x10, "sync boost"},
    {0x20, "thermal slowdown"},        {0x40, "hardware thermal slowdown"},
    {0x80, "hardware power brake"},    {0x100, "display's clocks"},
};

template <class Function>
Function* find(void* library, const char* name) {
  return library ? reinterpret_cast<Function*>(dlsym(library, name)) : nullptr;
}

/// "GPU-01234567-89ab-cdef-0123-456789abcdef"
std::string uuid(const std::string& identity) {
  std::string text = "GPU-" + identity;
  for (const std::size_t dash : {12, 17, 22, 27})
    if (text.size() > dash) text.insert(dash, "-");
  return text;
}

}  // namespace

Card::Card(const std::string& identity) : library_(dlopen("libnvidia-ml.so.1", RTLD_NOW | RTLD_LOCAL)) {
  auto* const begin = find<Result()>(library_, "nvmlInit_v2");
  auto* const by_uuid = find<Result(const char*, void**)>(library_, "nvmlDeviceGetHandleByUUID");
  if (!begin || !by_uuid || begin() != 0) return;
  if (by_uuid(uuid(identity).c_str(), &device_) != 0) device_ = nullptr;
}

Card::~Card() {
  if (library_) dlclose(library_);
}

std::optional<CardState> Card::state() const {
  if (!device_) return {};
  CardState state;
  unsigned clock = 0, milliwatts = 0;
  unsigned long long reasons = 0;
  auto* const clock_of = find<Result(void*, int, unsigned*)>(library_, "nvmlDeviceGetClockInfo");
  auto* const power_of = find<Result(void*, unsigned*)>(library_, "nvmlDeviceGetPowerUsage");
  auto* const reasons_of =
      find<Result(void*, unsigned long long*)>(library_, "nvmlDeviceGetCurrentClocksThrottleReasons");
  if (!clock_of || !power_of || !reasons_of) return {};
  if (clock_of(device_, kSmClock, &clock) || power_of(device_, &milliwatts) || reasons_of(device_, &reasons)) return {};
  state.sm_mhz = static_cast<int>(clock);
  state.watts = milliwatts / 1000.0;
  for (const auto& [bit, name] : kReasons)
    if (reasons & bit) state.throttled += (state.throttled.empty() ? "" : ", ") + std::string(name);
  return state;
}

}  // namespace llmc
