// Prints the result of `llmc verify`: text for people, JSON for programs.
#pragma once

#include <nlohmann/json_fwd.hpp>
#include <string>
#include <vector>

#include "compiler/tools/float64/reduce.h"
#include "compiler/tools/float64/verification.h"

namespace llmc::float64 {

struct Report {
  const plan::Plan& reduced;
  const std::vector<std::string>& less;
  const Shared& shared;
  const Verdict& verdict;
  double seconds;
};

std::string as_text(const Report& report);

/// Returns {"version", "good", "reduced", "kernels", "classes", "ops", "off", "seconds"}: docs/reference/verify.md.
nlohmann::ordered_json as_json(const Report& report);

}  // namespace llmc::float64
