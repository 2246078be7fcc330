#include "kernel_call.h"

#include <cxxabi.h>
#include <dlfcn.h>

#include <cstdlib>
#include <cstring>
#include <map>
#include <memory>
#include <string_view>

#include "report.h"

namespace sim {
namespace {

/// A type of more than 8 bytes is passed on the stack.
struct Scalar {
  std::string_view name;
  std::size_t bytes;
  bool floating;
};
constexpr Scalar kScalars[] = {
    {"bool", 1, false},          {"char", 1, false},         {"signed char", 1, false},
    {"unsigned char", 1, false}, {"short", 2, false},        {"unsigned short", 2, false},
    {"int", 4, false},           {"unsigned int", 4, false}, {"long", 8, false},
    {"unsigned long", 8, false}, {"long long", 8, false},    {"unsigned long long", 8, false},
    {"float", 4, true},          {"double", 8, true},        {"llmc::TileMap", 128, false}};

}  // namespace

const Kernel* Kernel::find(const void* function) {
  static auto& known = *new std::map<const void*, std::unique_ptr<const Kernel>>;
  const auto at = known.find(function);
  if (at != known.end()) return at->second.get();
  Dl_info info = {};
  if (!dladdr(function, &info) || !info.dli_sname || info.dli_saddr != function) return nullptr;
  return (known[function] = std::unique_ptr<const Kernel>(new Kernel(function, info.dli_sname))).get();
}

Kernel::Kernel(const void* function, const char* mangled)
    : function_(function), mangled_(mangled), declared_(layout_of(mangled)) {
  int status = 0;
  const std::unique_ptr<char, void (*)(void*)> text(abi::__cxa_demangle(mangled, nullptr, nullptr, &status), std::free);
  if (!text) report(std::string(mangled) + " is no mangled name, so the simulator cannot call it as a kernel");
  const std::string_view whole = text.get();
  const std::size_t open = whole.find('('), colon = whole.rfind(':', open);
  name_ = whole.substr(colon == std::string_view::npos ? 0 : colon + 1,
                       open - (colon == std::string_view::npos ? 0 : colon + 1));
  std::string_view rest = whole.substr(open + 1, whole.rfind(')') - open - 1);
  while (!rest.empty()) {
    const std::size_t comma = rest.find(", ");
    const std::string_view type = rest.substr(0, comma);
    rest = comma == std::string_view::npos ? std::string_view() : rest.substr(comma + 2);
    if (type.ends_with('*')) {
      parameters_.push_back({sizeof(void*), false});
      continue;
    }
    const Scalar* found = nullptr;
    for (const Scalar& scalar : kScalars)
      if (scalar.name == type) found = &scalar;
    if (!found)
      report("kernel " + name_ + " takes a " + std::string(type) +
             ": the simulator passes pointers, numbers and maps only");
    parameters_.push_back({found->bytes, found->floating});
  }
}

KernelArguments Kernel::pack(void* const* addresses) const {
  KernelArguments packed;
  std::size_t general = 0, vector = 0, stack = 0;
  for (std::size_t i = 0; i < parameters_.size(); ++i) {
    const Parameter& parameter = parameters_[i];
    const std::size_t words = (parameter.bytes + 7) / 8;
    void* to;
    if (words == 1 && parameter.floating && vector < std::size(packed.vector))
      to = &packed.vector[vector++];
    else if (words == 1 && !parameter.floating && general < std::size(packed.general))
      to = &packed.general[general++];
    else if (stack + words <= std::size(packed.stack))
      to = &packed.stack[stack], stack += words;
    else
      report("kernel " + name_ + " has more parameters than the simulator can pass");
    std::memcpy(to, addresses[i], parameter.bytes);
  }
  return packed;
}

void Kernel::operator()(const KernelArguments& a) const {
  using G = std::uint64_t;
  using Function = void (*)(G, G, G, G, G, G, double, double, double, double, double, double, double, double, G, G, G,
                            G, G, G, G, G, G, G, G, G, G, G, G, G, G, G, G, G, G, G, G, G, G, G);
  const auto& g = a.general;
  const auto& v = a.vector;
  const auto& s = a.stack;
  reinterpret_cast<Function>(const_cast<void*>(function_))(
      g[0], g[1], g[2], g[3], g[4], g[5], v[0], v[1], v[2], v[3], v[4], v[5], v[6], v[7], s[0], s[1], s[2], s[3], s[4],
      s[5], s[6], s[7], s[8], s[9], s[10], s[11], s[12], s[13], s[14], s[15], s[16], s[17], s[18], s[19], s[20], s[21],
      s[22], s[23], s[24], s[25]);
}

}  // namespace sim
