// What llmc tells people and programs about a plan.
#pragma once

#include <nlohmann/json.hpp>
#include <string>

#include "compiler/plan/plan.h"

namespace llmc::report {

/// "12.34 GiB", "480.00 MiB", "96 B".
std::string human_bytes(double bytes);
/// The same with its sign: "+12.34 GiB".
std::string signed_bytes(double bytes);
/// "7.85 G", "372 k".
std::string human_count(double count);

/// plan.json: stable keys, everything in it.
nlohmann::ordered_json plan_json(const plan::Plan& plan);

/// The page that `llmc plan` and `trainer --plan` print: model, memory by section, work by launch.
std::string plan_text(const plan::Plan& plan);

/// A page in Markdown: every launch of a micro-batch and of an optimizer step, in order, with the bytes and FLOPs of
/// one.
std::string launches_markdown(const plan::Plan& plan);

}  // namespace llmc::report
