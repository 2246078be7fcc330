// Reports a plan to people and programs.
#pragma once

#include <cstddef>
#include <nlohmann/json.hpp>
#include <string>

#include "compiler/plan/plan.h"

namespace llmc::report {

/// Prints "12.34 GiB", "480.00 MiB" or "96 B".
std::string human_bytes(double bytes);
/// Prints the same with its sign: "+12.34 GiB".
std::string signed_bytes(double bytes);
/// Prints "7.85 G" or "372 k".
std::string human_count(double count);

/// Returns plan.json: the whole plan under stable keys.
nlohmann::ordered_json plan_json(const plan::Plan& plan);

/// Prints memory.recompute for a line of text: for more than kListedRanges ranges of layers the number of layers by
/// value, "[norms, swiglu] in 11 layers, full in 1 layer".
std::string recompute_summary(const spec::Recompute& recompute);
constexpr std::size_t kListedRanges = 3;

/// Prints the page of `llmc plan` and `trainer --plan`: model, memory by section, work by launch.
std::string plan_text(const plan::Plan& plan);

/// Prints a page in Markdown: every launch of a micro-batch and of an optimizer step, in order, with its bytes and
/// FLOPs.
std::string launches_markdown(const plan::Plan& plan);

}  // namespace llmc::report
