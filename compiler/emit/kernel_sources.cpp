#include "compiler/emit/kernel_sources.h"

#include <fmt/format.h>

#include <cerrno>
#include <cstring>
#include <exception>
#include <optional>
#include <system_error>
#include <thread>

#include "error.h"
#include "files/disk.h"

namespace llmc::emit {

std::string read_text(const std::filesystem::path& file) {
  std::optional<std::string> text = disk::text(file);
  if (!text) throw Failure(Exit::toolchain, "cannot read " + file.string() + ": " + std::strerror(errno));
  return *std::move(text);
}

namespace {

std::vector<std::string> header(const plan::Plan& plan, const plan::Kernel& kernel) {
  std::string values;
  for (const plan::KernelParam& p : kernel.params)
    if (p.said) values += fmt::format("{}{} = {}", values.empty() ? "" : ", ", p.name, p.value);
  std::vector<std::string> lines = {fmt::format("{}: from template {} for run {} ({}).", kernel.name,
                                                kernel.template_name, plan.spec.name, plan.fingerprint),
                                    "", values, ""};
  std::string work = kernel.work;
  if (kernel.bytes > 0) work += fmt::format("; moves {:.2f} MB", kernel.bytes / 1e6);
  if (kernel.flops > 0) work += fmt::format(", {:.2f} MFLOP", kernel.flops / 1e6);
  lines.push_back(work + " a launch.");
  return lines;
}

}  // namespace

SpecialiseInput specialise_input(const plan::Plan& plan, const plan::Kernel& kernel, const SourceTree& tree) {
  SpecialiseInput input;
  input.template_name = kernel.template_name;
  input.template_file = "templates/" + kernel.source;
  input.template_text = read_text(tree.templates / kernel.source);
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

std::vector<KernelSource> kernel_sources(const plan::Plan& plan, const SourceTree& tree, Style style) {
  if (style == Style::specialised) disk::working_folder(Exit::usage);  // Clang exits the process if there is none
  std::vector<KernelSource> sources(plan.kernels.size());
  std::vector<std::exception_ptr> errors(plan.kernels.size());
  std::atomic<std::size_t> next{0};
  const auto work = [&] {
    for (std::size_t i = next++; i < sources.size(); i = next++) try {
        const SpecialiseInput input = specialise_input(plan, plan.kernels[i], tree);
        const Specialised kernel =
            style == Style::specialised ? specialise(input) : Specialised{include_style(input), declaration(input)};
        sources[i] = {plan.kernels[i].name, kernel.declaration, kernel.text};
      } catch (...) {
        errors[i] = std::current_exception();
      }
  };
  std::jthread second;
  try {
    second = std::jthread(work);
  } catch (const std::system_error&) {  // the system refuses another thread: this one does all the work
  }
  work();
  if (second.joinable()) second.join();
  for (const std::exception_ptr& error : errors)
    if (error) std::rethrow_exception(error);
  return sources;
}

}  // namespace llmc::emit
