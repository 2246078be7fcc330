#include "compiler/emit/kernel_sources.h"

#include <fmt/format.h>

#include <exception>
#include <fstream>
#include <regex>
#include <sstream>
#include <thread>

#include "error.h"

namespace llmc::emit {

std::string read_text(const std::filesystem::path& file) {
  std::ifstream in(file, std::ios::binary);
  if (!in) throw Failure(Exit::internal, "cannot read " + file.string());
  std::ostringstream text;
  text << in.rdbuf();
  return text.str();
}

namespace {

/// Templates that only one target has lie in a folder of its own.
std::string template_path(const plan::Kernel& kernel, const plan::Plan& plan, const SourceTree& tree) {
  const std::string portable = kernel.template_name + ".cu";
  if (std::filesystem::exists(tree.templates / portable)) return portable;
  return plan.spec.target.kind == spec::TargetKind::cuda ? "cuda/" + portable : "cpu/" + kernel.template_name + ".cpp";
}

std::vector<std::string> header(const plan::Plan& plan, const plan::Kernel& kernel) {
  std::string values;
  for (const plan::KernelParam& p : kernel.params)
    values += fmt::format("{}{} = {}", values.empty() ? "" : ", ", p.name, p.value);
  std::vector<std::string> lines = {fmt::format("{}: from template {} for run {} ({}).", kernel.name,
                                                kernel.template_name, plan.spec.name, plan.fingerprint),
                                    "", values, ""};
  std::string work = fmt::format("{} rows of {}", kernel.rows, kernel.cols);
  if (kernel.bytes > 0) work += fmt::format("; moves {:.2f} MB", kernel.bytes / 1e6);
  if (kernel.flops > 0) work += fmt::format(", {:.2f} MFLOP", kernel.flops / 1e6);
  lines.push_back(work + " a launch.");
  return lines;
}

}  // namespace

SpecialiseInput specialise_input(const plan::Plan& plan, const plan::Kernel& kernel, const SourceTree& tree) {
  SpecialiseInput input;
  input.template_name = kernel.template_name;
  input.template_file = "templates/" + template_path(kernel, plan, tree);
  input.template_text = read_text(tree.templates / template_path(kernel, plan, tree));
  for (const plan::KernelParam& p : kernel.params) input.params.push_back({p.type, p.name, p.value});
  input.target = plan.spec.target.kind;
  const std::vector<std::string>& archs = plan.spec.target.arch;
  if (input.target == spec::TargetKind::cuda)
    input.arch = "sm_" + archs.front();
  else if (!archs.empty() && archs.front() != "native")
    input.arch = archs.front();
  input.entry = kernel.name;
  input.include_directory = tree.runtime;
  input.header = header(plan, kernel);
  return input;
}

std::string declaration(const SpecialiseInput& input) {
  const std::string start = "LLMC_KERNEL " + input.template_name + "(";
  const std::size_t begin = input.template_text.find(start);
  const std::size_t end = input.template_text.find(')', begin);
  if (begin == std::string::npos || end == std::string::npos)
    throw Failure(Exit::internal, input.template_file + ": no line starts the kernel with `" + start + "`");
  std::string arguments = input.template_text.substr(begin + start.size(), end - begin - start.size());
  for (const Param& p : input.params)
    if (p.type == "using") arguments = std::regex_replace(arguments, std::regex("\\b" + p.name + "\\b"), p.value);
  arguments = std::regex_replace(arguments, std::regex("\\s+"), " ");
  return "LLMC_KERNEL " + input.entry + "(" + arguments + ");";
}

std::vector<KernelSource> kernel_sources(const plan::Plan& plan, const SourceTree& tree, Style style) {
  std::vector<KernelSource> sources(plan.kernels.size());
  std::vector<std::exception_ptr> errors(plan.kernels.size());
  std::atomic<std::size_t> next{0};
  const auto work = [&] {
    for (std::size_t i = next++; i < sources.size(); i = next++) try {
        const SpecialiseInput input = specialise_input(plan, plan.kernels[i], tree);
        sources[i] = {plan.kernels[i].name, declaration(input),
                      style == Style::specialised ? specialise(input) : include_style(input)};
      } catch (...) {
        errors[i] = std::current_exception();
      }
  };
  std::thread second(work);
  work();
  second.join();
  for (const std::exception_ptr& error : errors)
    if (error) std::rethrow_exception(error);
  return sources;
}

}  // namespace llmc::emit
