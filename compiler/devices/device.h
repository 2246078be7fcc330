// What a device can do, as the planner's time model takes it: peaks, rates, links, each figure with its origin.
#pragma once

#include <array>
#include <cstdint>
#include <filesystem>
#include <map>
#include <string>
#include <vector>

#include "program/dtype.h"
#include "spec/spec.h"

namespace llmc::devices {

/// What a device file states. Rates are those of one device; of a cpu, of all the cores that a trainer runs on.
enum class Figure {
  memory,                  // bytes that a run may plan with
  processors,              // SMs, or cores
  peak_bf16,               // FLOP/s of dense products, by the data sheet: what MFU is relative to
  peak_fp32,               //
  product_bf16,            // FLOP/s of large matrix products, sustained within a step
  product_fp32,            //
  attention_forward_64,    // FLOP/s of causal attention at head_dim 64, half of the square counted, two products
  attention_forward_128,   // the same at 128
  attention_backward_64,   // five products; where llmc has rates of each backward pass (sm_90), those count
  attention_backward_128,  //
  copy,                    // bytes/s read and written from and to memory
  cache,                   // bytes of the last cache before memory that kernels leave their results in
  cache_copy,              // bytes/s of a working set that fits there
  launch,                  // seconds from a kernel to the next one; cpu: of a parallel region
  link_inside,             // bytes/s in one direction between devices of a host
  latency_inside,          // seconds of one message
  link_between,            // the same between hosts, for each device
  latency_between,         //
  // What a file may leave out.
  attention_forward_64_fp32,    // where fp32 has a rate of its own
  attention_forward_128_fp32,   //
  attention_backward_64_fp32,   //
  attention_backward_128_fp32,  //
  kernels_bf16,                 // bytes/s of a layer's kernels in their order, in place of copy and cache_copy
  kernels_fp32,                 //
  kernels_optimizer,            // the same of the optimizer's
};
constexpr std::size_t kRequiredFigures = static_cast<std::size_t>(Figure::latency_between) + 1;
constexpr std::size_t kFigures = static_cast<std::size_t>(Figure::kernels_optimizer) + 1;
const char* name_of(Figure figure);

/// Figures of which a device has one for each dtype of a step's operands.
enum class Rate {
  peak,
  product,
  attention_forward_64,
  attention_forward_128,
  attention_backward_64,
  attention_backward_128,
  kernels
};
/// Throws Failure(internal) where no device file has such a figure.
Figure figure_of(Rate rate, DType operand);

/// The three products of a linear layer: A [m, k] times B, which is stored [n, k], [k, n], and with A stored [k, m].
enum class Form { forward, data_gradient, weight_gradient };
constexpr std::size_t kForms = 3;
const char* name_of(Form form);

/// FLOP/s of products by their form and sizes, measured: in place of product_bf16 and product_fp32.
struct ProductRates {
  std::string from;
  std::vector<double> sizes;                                    // of m, of n and of k, ascending
  std::map<DType, std::array<std::vector<double>, kForms>> of;  // bf16, f32: rates by m, then n, then k

  bool has(DType operand) const { return of.contains(operand); }
  /// Between the sizes a line in their logarithms; beyond them the nearest one's rate.
  double at(DType operand, Form form, double m, double n, double k) const;
};

struct Value {
  double value = 0;
  std::string from;  // "data sheet", "assumed: ...", what measured it and when
};

struct Device {
  std::string name;
  std::vector<std::string> also;  // other names
  spec::TargetKind kind = spec::TargetKind::cuda;
  std::string arch;           // cuda: compute capability, "90"
  std::string reports;        // what the driver calls it
  std::int64_t per_host = 1;  // how many of them a host has
  std::map<Figure, Value> figures;
  ProductRates products;  // empty where nobody measured them

  double operator[](Figure figure) const { return figures.at(figure).value; }
  bool has(Figure figure) const { return figures.contains(figure); }
  /// The rate for operands of `operand`; bf16's where a file leaves out its own.
  double operator()(Rate rate, DType operand) const;
  bool is_called(const std::string& word) const;
};

/// Those that are built in, by name.
const std::vector<Device>& all();

/// `name`: of the file in messages. Throws Failure(spec) with the line, what is wrong and what to write instead.
Device read(const std::string& text, const std::string& name);

/// The file of a device, as read() takes it.
std::string to_yaml(const Device& device);

/// Where a user's own device files lie: $XDG_CONFIG_HOME/llmc/devices,
/// or ~/.config/llmc/devices. Empty where the environment names neither.
std::filesystem::path user_folder();

/// The user's own file of a device; empty where there is none of that name.
std::filesystem::path user_file(const std::string& name);

/// Those that can be named: the built-in ones, each as the user's folder has it where it does, then the rest of that
/// folder. Throws Failure(spec) where a file there is wrong.
std::vector<Device> listed();

/// The device of the user's folder, built in, or in a file. Throws Failure(spec) where there is none.
Device named(const std::string& name);

/// The device whose times are planned: what target.device names, of the user's folder, built in, or a file; else by
/// target.kind and target.arch. Throws Failure(spec) where there is none of that name, or of another arch than the
/// target.
Device find(const spec::Spec& spec);

}  // namespace llmc::devices
