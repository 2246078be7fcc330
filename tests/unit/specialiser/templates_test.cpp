// Every template of the repository, with several sets of params: specialises, is stable, and compiles to the same code.
#include <gtest/gtest.h>

#include <algorithm>
#include <chrono>
#include <fstream>
#include <iterator>
#include <optional>
#include <string_view>
#include <thread>

#include "error.h"
#include "params_file.h"
#include "proof.h"
#include "sample.h"

namespace llmc::emit {
namespace {

namespace fs = std::filesystem;
const fs::path kTemplates = fs::path(LLMC_SOURCE_DIR) / "templates";

std::string read(const fs::path& file) {
  std::ifstream stream(file, std::ios::binary);
  return {std::istreambuf_iterator<char>(stream), {}};
}

const Param kCausal = {"macro", "LLMC_MASK", "{kSequence, 0}"};
const Param kRowsOfDocuments = {"macro", kFurtherOperands,
                                ", const int* __restrict__ document_begin, const int* __restrict__ document_end"};

/// Template with its default params; empty name if the target has no such template.
SpecialiseInput load(const fs::path& file, spec::TargetKind target) {
  SpecialiseInput input;
  input.template_name = file.stem().string();
  input.template_file = fs::relative(file, LLMC_SOURCE_DIR).string();
  input.template_text = read(file);
  input.target = target;
  input.entry = input.template_name + "_test";
  input.include_directory = kRuntime;
  const std::vector<Param> all = parse_params(read(file.parent_path() / "params.h"), "params.h");
  const std::vector<std::string> names = params_read(input.template_text, all);
  for (const Param& param : all) {
    // The default number of lanes depends on the target, under #if.
    if (param.name == "kLanes" || std::find(names.begin(), names.end(), param.name) == names.end()) continue;
    input.params.push_back(param);
  }
  if (!params_read(input.template_text, {kCausal}).empty()) input.params.push_back(kCausal);
  input.params.push_back({"int", "kLanes", target == spec::TargetKind::cpu ? "1" : "32"});
  return input;
}

std::vector<SpecialiseInput> all_templates() {
  std::vector<SpecialiseInput> all;
  for (const spec::TargetKind target : {spec::TargetKind::cpu, spec::TargetKind::cuda}) {
    std::vector<fs::path> folders = {kTemplates};
    folders.push_back(kTemplates / (target == spec::TargetKind::cpu ? "cpu" : "cuda"));
    for (const fs::path& folder : folders) {
      if (!fs::exists(folder / "params.h")) continue;
      for (const fs::directory_entry& entry : fs::directory_iterator(folder)) {
        const std::string extension = entry.path().extension();
        if (extension == ".cu" || extension == ".cpp") all.push_back(load(entry.path(), target));
      }
    }
  }
  std::sort(all.begin(), all.end(), [](const auto& a, const auto& b) { return a.template_file < b.template_file; });
  return all;
}

/// Flips all flags and the activation type, but not the param `kept`, and sets a width that no vector divides.
/// Attention on tensor cores has no fp32.
std::vector<Param> flipped(std::vector<Param> params, std::string_view kept = "") {
  const auto reads = [&](std::string_view name) {
    return std::ranges::any_of(params, [&](const Param& param) { return param.name == name; });
  };
  const bool attention = reads("kScale") && reads("kKvHeads");
  for (Param& param : params) {
    if (param.name == kept) continue;
    if (param.type == "bool") param.value = param.value == "true" ? "false" : "true";
    if (param.name == "Act") param.value = param.value != "bf16" ? "bf16" : attention ? "fp16" : "float";
    if (param.name == "kCols") param.value = "1000";
    if (param.name == "kPitch") param.value = "1008";
  }
  return params;
}

/// All flipped together. Split masters have copies in bf16, so templates that may have them get two sets.
std::vector<std::vector<Param>> all_flipped(const std::vector<Param>& defaults) {
  const auto splits = [](const Param& param) { return param.name == "kSplit"; };
  if (std::none_of(defaults.begin(), defaults.end(), splits)) return {flipped(defaults)};
  return {flipped(defaults, "kSplit"), flipped(defaults, "Act")};
}

/// The defaults, each param flipped alone, and all together.
std::vector<std::vector<Param>> variants(const std::vector<Param>& defaults) {
  std::vector<std::vector<Param>> all = {defaults};
  const std::vector<Param> turned = flipped(defaults);
  for (std::size_t i = 0; i < defaults.size(); ++i) {
    if (turned[i] == defaults[i] || turned[i].name == "kCols") continue;  // kCols must change together with kPitch
    all.push_back(defaults);
    all.back()[i] = turned[i];
  }
  for (const std::vector<Param>& params : all_flipped(defaults)) all.push_back(params);
  return all;
}

TEST(Templates, EverySetOfParamsIsStable) {
  for (SpecialiseInput input : all_templates()) {
    std::vector<std::vector<Param>> sets = variants(input.params);
    if (!params_read(input.template_text, {kRowsOfDocuments}).empty()) {
      sets.push_back(input.params);
      std::erase(sets.back(), kCausal);
      const Param mask = {"macro", kCausal.name,
                          "Mask{kSequence, 70}.with_documents(document_begin, document_end, batch)"};
      for (const Param& param :
           std::vector<Param>{mask, {"bool", "kBounded", "true"}, {"bool", "kResets", "true"}, kRowsOfDocuments})
        if (!params_read(input.template_text, {param}).empty()) sets.back().push_back(param);
    }
    for (const std::vector<Param>& params : sets) {
      input.params = params;
      SCOPED_TRACE(input.template_file + "\n" + params_text(params));
      std::string text;
      EXPECT_NO_THROW(text = specialise(input).text);
      if (text.empty()) continue;
      for (const Param& param : params) {
        if (param.type == "using") continue;
        // Comments may mention it.
        EXPECT_TRUE(params_read(text, {param}).empty()) << param.name << " stays in\n" << text;
      }
      EXPECT_EQ(specialise(again(input, text)).text, text);
    }
  }
}

TEST(Templates, CompileToTheSameCode) {
  for (SpecialiseInput input : all_templates()) {
    std::vector<std::vector<Param>> sets = all_flipped(input.params);
    sets.push_back(input.params);
    for (const std::vector<Param>& params : sets) {
      input.params = params;
      SCOPED_TRACE(input.template_file + "\n" + params_text(params));
      const bool cpu = input.target == spec::TargetKind::cpu;
      std::optional<std::string> difference;
      EXPECT_NO_THROW(
          difference = first_difference(input, specialise(input).text, {cpu ? "x86-64-v4" : "sm_90a"}, ProofTools{}));
      EXPECT_EQ(difference, std::nullopt) << *difference;
    }
  }
}

TEST(Templates, IncludeStyleCompilesToTheSameCode) {
  for (SpecialiseInput input : all_templates()) {
    if (input.target != spec::TargetKind::cpu) continue;
    SCOPED_TRACE(input.template_file);
    input.params = all_flipped(input.params).back();
    const auto difference = first_difference(input, include_style(input), {"x86-64-v4"}, ProofTools{});
    EXPECT_EQ(difference, std::nullopt) << *difference;
  }
}

TEST(Templates, TwoThreadsGiveTheSameText) {
  std::vector<SpecialiseInput> inputs;
  for (int i = 0; i < 10; ++i) {
    inputs.push_back(whole_kernel(i % 2 ? spec::TargetKind::cpu : spec::TargetKind::cuda, i & 2, i & 4, 1000 + i));
  }
  std::vector<std::string> alone, one(inputs.size()), other(inputs.size());
  for (const SpecialiseInput& input : inputs) alone.push_back(specialise(input).text);
  const auto run = [&](std::vector<std::string>& texts) {
    for (std::size_t i = 0; i < inputs.size(); ++i) texts[i] = specialise(inputs[i]).text;
  };
  std::thread second([&] { run(other); });
  run(one);
  second.join();
  EXPECT_EQ(one, alone);
  EXPECT_EQ(other, alone);
}

}  // namespace
}  // namespace llmc::emit
