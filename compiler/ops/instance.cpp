#include "compiler/ops/instance.h"

#include <fmt/format.h>

#include <algorithm>

namespace llmc::ops {

Instance::Instance(const Context& context, const std::string& template_name)
    : cuda_(context.cuda()), shard_(context.spec.parallel.shard), ranks_(context.spec.parallel.world_size) {
  work_.kernel.name = work_.kernel.template_name = template_name;
  work_.kernel.source = template_name + ".cu";
  if (context.region.is_audit()) named("fp32");  // distinguishes it from the instance of another dtype
}

Instance Instance::of_target(const Context& context, const std::string& template_name) {
  Instance instance(context, template_name);
  instance.work_.kernel.source = context.cuda() ? "cuda/" + template_name + ".cu" : "cpu/" + template_name + ".cpp";
  return instance;
}

Instance& Instance::element(DType dtype, const char* name, const char* origin) {
  work_.kernel.params.push_back({"using", name, llmc::row_of(dtype).c_name, origin});
  return *this;
}

Instance& Instance::integer(const char* name, std::int64_t value, const char* origin) {
  work_.kernel.params.push_back({"int", name, std::to_string(value), origin});
  return *this;
}

Instance& Instance::real(const char* name, double value, const char* origin) {
  std::string text = fmt::format("{}", value);  // shortest text that reads back
  if (text.find_first_of(".e") == std::string::npos) text += ".0";
  work_.kernel.params.push_back({"float", name, text + "f", origin});
  return *this;
}

Instance& Instance::flag(const char* name, bool value, const char* suffix, const char* origin) {
  work_.kernel.params.push_back({"bool", name, value ? "true" : "false", origin});
  return value && *suffix ? named(suffix) : *this;
}

Instance& Instance::share(const char* name, Use use) {
  const bool shared = is_sharded(use, shard_);
  return flag(name, shared, use == Use::gradients ? "gradient_share" : "weight_share", "parallel.shard");
}

Instance& Instance::groups(GroupSet groups) {
  return integer("kGroups", static_cast<std::int32_t>(groups), "optimizer.kind").said(groups != kAllGroups);
}

Instance& Instance::said(bool said) {
  work_.kernel.params.back().said = said;
  return *this;
}

Instance& Instance::further_operands(const std::string& declared, const char* origin) {
  work_.kernel.params.push_back({"macro", "LLMC_FURTHER_OPERANDS", declared, origin, false});
  return *this;
}

Instance& Instance::mask(const std::string& initialiser, const char* origin) {
  work_.kernel.params.push_back({"macro", "LLMC_MASK", initialiser, origin, false});
  return *this;
}

Instance& Instance::resets(bool resets) {
  const char* key = "data.documents.reset_positions";
  if (!resets) return *this;
  return flag("kResets", true, "resets", key).further_operands(", const int* __restrict__ document_begin", key);
}

Instance& Instance::loss_scaled(bool scaled) {
  const char* key = "precision.compute";
  if (!scaled) return *this;
  return flag("kLossScaled", true, "scaled", key)
      .further_operands(", const LossScale* __restrict__ dynamic_scale", key);
}

Instance& Instance::collects(std::int64_t rows, std::int64_t piece) {
  const char* key = "precision.matmul";
  return named("transposed")
      .integer("kCollected", rows, key)
      .integer("kPiece", piece, key)
      .further_operands(", const float* __restrict__ shared_scale, float* __restrict__ transposed_scales", key);
}

Instance& Instance::norm_weight(spec::NormWeight weight, bool gradient) {
  const char* key = "model.norm_weight";
  if (weight == spec::NormWeight::one_plus) return flag("kOnePlus", true, "one_plus", key);
  if (weight == spec::NormWeight::none && gradient) return flag("kUnweighted", true, "unweighted", key);
  return *this;
}

Instance& Instance::named(const std::string& suffix) {
  work_.kernel.name += "_" + suffix;
  return *this;
}

Instance& Instance::matrix(const Tensor& t, std::int64_t rows, const char* cols_origin) {
  return integer("kRows", rows, kTokens).integer("kCols", t.cols, cols_origin).integer("kPitch", t.pitch, cols_origin);
}

Instance& Instance::costs(double bytes, double flops) {
  work_.kernel.bytes = work_.bytes = bytes;
  work_.kernel.flops = work_.flops = flops;
  return *this;
}

Work Instance::stream(const FlatSizes& flat, std::vector<Argument> arguments, bool in_blocks) {
  if (shard_ != Shard::none) {  // a rank's table of chunks has its shares of them
    Kernel& kernel = work_.kernel;
    kernel.ranks = ranks_;
    work_.bytes = kernel.rank_bytes();
    work_.flops = kernel.rank_flops();
  }
  return shaped(
      in_blocks ? block_stream_shape(flat.chunk_count) : stream_shape(flat.chunk_count),
      fmt::format("{} elements in {} chunks of at most {}", flat.in_buckets, flat.chunk_count, flat.chunk_elements),
      std::move(arguments));
}

Work Instance::parts(const FlatSizes& flat, std::vector<Argument> arguments) {
  std::int64_t most = 0;
  for (const Bucket& bucket : flat.buckets) most = std::max(most, bucket.elements);
  const std::int64_t groups = (most + flat.chunk_elements - 1) / flat.chunk_elements;
  integer("kPart", flat.chunk_elements, "model");
  return shaped(stream_shape(groups), fmt::format("up to {} elements in parts of {}", most, flat.chunk_elements),
                std::move(arguments));
}

Work Instance::rows(std::int64_t groups, std::int64_t width, DType dtype, std::vector<Argument> arguments,
                    std::string work) {
  if (work.empty()) work = fmt::format("{} rows of {}", groups, width);
  return shaped(launch_shape(groups, width, dtype), std::move(work), std::move(arguments));
}

Work Instance::shaped(LaunchShape shape, std::string work, std::vector<Argument> arguments) {
  Kernel& kernel = work_.kernel;
  kernel.params.push_back({"int", "kLanes", std::to_string(cuda_ ? shape.lanes : 1), "target.kind"});
  kernel.work = std::move(work);
  kernel.blocks = shape.blocks;
  kernel.threads = shape.threads;
  kernel.cluster = shape.cluster;
  kernel.shared = shape.shared;
  work_.arguments = std::move(arguments);
  return std::move(work_);
}

std::vector<Argument> all_operands(const Op& op) {
  std::vector<Argument> arguments(op.inputs.begin(), op.inputs.end());
  arguments.insert(arguments.end(), op.outputs.begin(), op.outputs.end());
  return arguments;
}

}  // namespace llmc::ops
