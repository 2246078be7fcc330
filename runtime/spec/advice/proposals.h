// Proposes edits that may fix an error: valid values near the user's.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "spec/diagnostics.h"

namespace llmc::spec {

/// Candidates tried on each side of a value.
inline constexpr int kTries = 256;

/// Edit that sets a key to a value, given as YAML.
Edit write(const std::string& path, const std::string& value);
Edit write(const std::string& path, std::int64_t value);
Edit leave_out(const std::string& path);

/// Adds the edit if it is sound.
void add(const Sound& sound, const Edit& edit, std::vector<Edit>& edits);

/// Adds the nearest sound values below and above `value` among the multiples of `step`.
void add_multiples(const Sound& sound, const std::string& path, std::int64_t value, std::int64_t step,
                   std::vector<Edit>& edits);

/// Adds the nearest sound values below and above `value` among the divisors of `number`.
void add_divisors(const Sound& sound, const std::string& path, std::int64_t number, std::int64_t value,
                  std::vector<Edit>& edits);

/// Adds even head widths near `value`, preferably multiples of 8.
void add_head_dim(const Sound& sound, std::int64_t value, std::vector<Edit>& edits);

}  // namespace llmc::spec
