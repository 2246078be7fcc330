// Figures of a device for the planner's time model: peaks, rates and links, each with its source.
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

/// Figures of a device file. Rates are those of one device; of a cpu, of all cores that a trainer runs on.
enum class Figure {
  memory,                  // bytes that a run may plan with
  processors,              // SMs or cores
  peak_bf16,               // FLOP/s of dense products by the data sheet: the peak that MFU refers to
  peak_fp32,               //
  product_bf16,            // FLOP/s of large matrix products, sustained within a step
  product_fp32,            //
  attention_forward_64,    // FLOP/s of causal attention at head_dim 64: two products, half of the square counted
  attention_forward_128,   // the same at head_dim 128
  attention_backward_64,   // five products; on sm_90 llmc has rates of each backward pass instead
  attention_backward_128,  //
  copy,                    // bytes/s read from and written to memory
  cache,                   // bytes of the last-level cache that hold kernels' results
  cache_copy,              // bytes/s of a working set that fits the cache
  launch,                  // seconds from one kernel to the next; cpu: of a parallel region
  link_inside,             // bytes/s in one direction between devices of a host
  latency_inside,          // seconds of one message
  link_between,            // the same between hosts, per device
  latency_between,         //
  // Optional figures.
  attention_forward_64_fp32,    // if fp32 has a rate of its own
  attention_forward_128_fp32,   //
  attention_backward_64_fp32,   //
  attention_backward_128_fp32,  //
  kernels_bf16,                 // bytes/s of a layer's kernels in their order; replaces copy and cache_copy
  kernels_fp32,                 //
  kernels_optimizer,            // the same for the optimizer's kernels
  product_fp8,                  // FLOP/s of products of e4m3 codes; bf16's if left out
  peak_tf32,                    // as peak_fp32, of fp32 operands read as tf32; on cuda half of bf16's if left out
  product_tf32,                 // the same within a step
};
constexpr std::size_t kRequiredFigures = static_cast<std::size_t>(Figure::latency_between) + 1;
constexpr std::size_t kFigures = static_cast<std::size_t>(Figure::product_tf32) + 1;
const char* name_of(Figure figure);

/// Figures with one value for each dtype of a step's operands.
enum class Rate {
  peak,
  product,
  attention_forward_64,
  attention_forward_128,
  attention_backward_64,
  attention_backward_128,
  kernels
};
/// Throws Failure(internal) if no device file has such a figure.
Figure figure_of(Rate rate, DType operand);

/// Products of a linear layer: A [m, k] times B, with B stored [n, k], B stored [k, n], and A stored [k, m].
enum class Form { forward, data_gradient, weight_gradient };
constexpr std::size_t kForms = 3;
const char* name_of(Form form);

/// Measured FLOP/s of products by form and sizes; replaces product_bf16 and product_fp32.
struct ProductRates {
  std::string from;
  std::vector<double> sizes;                                    // of m, n and k, ascending
  std::map<DType, std::array<std::vector<double>, kForms>> of;  // by operand (bf16, f32) and form: rates by m, then n,
                                                                // then k

  bool has(DType operand) const { return of.contains(operand); }
  /// Interpolates linearly in the logarithms of the sizes; beyond the measured sizes returns the nearest rate.
  double at(DType operand, Form form, double m, double n, double k) const;
};

struct SourcedValue {
  double value = 0;
  std::string from;  // "data sheet", "assumed: ...", or the measuring command and its date
};

struct Device {
  std::string name;
  std::vector<std::string> also;  // other names
  spec::TargetKind kind = spec::TargetKind::cuda;
  std::string arch;           // cuda: compute capability, "90"
  std::string reports;        // name that the driver reports
  std::int64_t per_host = 1;  // devices of a host
  std::map<Figure, SourcedValue> figures;
  ProductRates products;  // empty if not measured

  double operator[](Figure figure) const { return figures.at(figure).value; }
  bool has(Figure figure) const { return figures.contains(figure); }
  /// Returns the rate for operands of `operand`; bf16's if a file leaves out its own.
  double operator()(Rate rate, DType operand) const;
  /// Returns the peak in FLOP/s that the MFU of a run refers to.
  double peak(const spec::Spec& spec) const;
  bool is_called(const std::string& word) const;
};

/// Built-in devices, by name.
const std::vector<Device>& all();

/// Parses a device file; messages call it `name`. Throws Failure(spec) with the line, the mistake and the correction.
Device read(const std::string& text, const std::string& name);

/// Returns the text of a device file. Throws Failure(spec) if it cannot be read, or is too large for one.
std::string text_of(const std::filesystem::path& path);

/// Prints a device as a file that read() accepts.
std::string to_yaml(const Device& device);

/// Returns the folder of a user's own device files: $XDG_CONFIG_HOME/llmc/devices, or ~/.config/llmc/devices. Empty if
/// the environment sets neither.
std::filesystem::path user_folder();

/// Returns the user's own file of a device; empty if there is none. The file's name is the device's, whatever `name`
/// says in it.
std::filesystem::path user_file(const std::string& name);

/// Lists the devices that can be named: the built-in ones, replaced by the user's files of the same name, then the
/// user's other files. Throws Failure(spec) if one of these files is wrong.
std::vector<Device> listed();

/// Names of the devices of listed(), of which a file may be wrong.
std::vector<std::string> names();

/// Name of the device of listed() that has this name or other name; empty if there is none. Throws Failure(spec) if a
/// user's file that is read for it is wrong.
std::string name_of_called(const std::string& word);

/// Finds a device in the user's folder, among the built-in ones, by any of its names, or in a file. Throws
/// Failure(spec) if there is none.
Device named(const std::string& word);

/// Finds the device that times are planned for: the one of target.device, else the one of target.kind and target.arch.
/// Throws Failure(spec) if there is none of that name, or if its arch is not the target's.
Device find(const spec::Spec& spec);

}  // namespace llmc::devices
