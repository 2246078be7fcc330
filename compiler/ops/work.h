// Describes the launches of an op: kernels, matrix products or a library's attention, each with its operands, bytes and
// FLOPs.
#pragma once

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "compiler/graph/graph.h"
#include "error.h"
#include "math/gemm.h"

namespace llmc::ops {

struct KernelParam {
  std::string type;  // "int", "float", "bool", "using", "macro"
  std::string name;
  std::string value;
  std::string origin;  // the spec key it comes from, for `llmc diff`
  bool said = true;    // false: has the value that it has in nearly every run, which texts leave out
};

/// One instance of a template.
struct Kernel {
  std::string name;           // "rms_norm_backward_residual"
  std::string template_name;  // "rms_norm_backward"
  std::string source;         // of the template: "rms_norm_backward.cu", "cpu/attention_forward.cpp"
  std::vector<KernelParam> params;
  std::string work;                                               // the work of one launch: "32768 rows of 2048"
  std::int64_t blocks = 1, threads = 1, cluster = 1, shared = 0;  // cuda launch; shared: bytes of a block
  double bytes = 0, flops = 0;                                    // of one launch, by one rank alone
  std::int64_t ranks = 1;                                         // that share these at parallel.world_size

  double rank_bytes() const { return bytes / static_cast<double>(ranks); }
  double rank_flops() const { return flops / static_cast<double>(ranks); }
  std::string key() const;                     // text form: name and params on one line
  bool is_same_as(const Kernel& other) const;  // whether their keys are equal
};

/// One matrix product.
struct Product {
  std::string name;  // "qkv_forward"
  GemmShape shape;
  double bytes = 0, flops = 0;

  std::string key() const;  // text form: name, and all of its shape, on one line
  bool is_same_as(const Product& other) const;
};

/// `expression` with `text` in place of its '$'.
inline std::string in_place_of_dollar(std::string expression, const std::string& text) {
  const std::size_t at = expression.find('$');
  if (at == std::string::npos) throw Failure(Exit::internal, "the argument " + expression + " has no '$'");
  return expression.replace(at, 1, text);
}

/// An argument of a launch: a tensor of the graph, an expression of the emitted step, or an expression of a tensor,
/// whose name it has in place of '$'.
struct Argument {
  graph::TensorId tensor = graph::kNone;
  std::string text;
  const char* member = nullptr;  // of GemmOperands

  Argument(graph::TensorId id) : tensor(id) {}
  Argument(std::string expression) : text(std::move(expression)) {}
  Argument(const char* expression) : text(expression) {}
  /// This argument in `expression`, in place of '$'.
  Argument in(std::string expression) const {
    if (tensor == graph::kNone) return in_place_of_dollar(std::move(expression), text);
    Argument argument = tensor;
    argument.text = std::move(expression);
    return argument;
  }
  Argument as(const char* name) && {
    member = name;
    return std::move(*this);
  }
};

/// The function that a launch calls.
enum class Call { kernel, product, attention_forward, attention_backward, own_backward, rotate_back, zero, collective };

/// Whether class Attention makes the launch, of a kernel in a function of the emitted step: own_attention_backward() in
/// place of cuDNN's pass, or rotate_gradients_back() after it.
constexpr bool is_in_attention(Call call) { return call == Call::own_backward || call == Call::rotate_back; }

/// One launch of an op. By `call`: of `kernel`, of `product`, of class Attention, a memset of the first argument, or
/// `function` of class Communicator.
struct Work {
  Call call = Call::kernel;
  std::vector<Argument> arguments = {};
  Kernel kernel = {};
  Product product = {};
  const char* function = nullptr;  // of a collective
  double bytes = 0, flops = 0;
  double wire = 0;    // bytes that a rank sends to others, at parallel.world_size
  bool taken = true;  // false: another variant in the trainer is predicted to be faster, or there is nothing to send
  bool adds = false;  // to the result of earlier micro-batches of the step; the first one writes
};

}  // namespace llmc::ops
