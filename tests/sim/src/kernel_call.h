// Calls a kernel with arguments given by address, as in cudaLaunchKernelExC. Their types are parsed from the mangled
// name, in place of nvcc's registration.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "shared_layout.h"

namespace sim {

/// Arguments as the x86-64 calling convention places them.
struct KernelArguments {
  std::uint64_t general[6] = {}, stack[26] = {};
  double vector[8] = {};
};

class Kernel {
 public:
  /// Null if `function` is no function with an exported name.
  static const Kernel* find(const void* function);

  const char* mangled() const { return mangled_; }
  const std::string& name() const { return name_; }  // "rms_norm_forward"
  const SharedLayout& declared() const { return declared_; }

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
  SharedLayout declared_;
  std::vector<Parameter> parameters_;
};

}  // namespace sim
