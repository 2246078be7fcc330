// Calls a kernel with arguments given by address, as cudaLaunchKernelExC has them: their types are read from the
// mangled name, which stands in for what nvcc registers.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace sim {

/// Arguments where the x86-64 calling convention wants them.
struct KernelArguments {
  std::uint64_t general[6] = {}, stack[18] = {};
  double vector[8] = {};
};

class Kernel {
 public:
  /// Null when `function` is no function with a name that the program exports.
  static const Kernel* find(const void* function);

  const char* mangled() const { return mangled_; }
  const std::string& name() const { return name_; }  // "rms_norm_forward"

  KernelArguments pack(void* const* addresses) const;
  void operator()(const KernelArguments& arguments) const;

 private:
  struct Parameter {
    std::size_t bytes;
    bool floating;
  };
  Kernel(const void* function, const char* mangled);

  const void* function_;
  const char* mangled_;
  std::string name_;
  std::vector<Parameter> parameters_;
};

}  // namespace sim
