#include "spec/advice/proposals.h"

#include <fmt/format.h>

#include <algorithm>
#include <iterator>

namespace llmc::spec {

Edit write(const std::string& path, const std::string& value) { return {{{path, value}}, {}, {}, {}, false, {}}; }
Edit write(const std::string& path, std::int64_t value) { return write(path, fmt::format("{}", value)); }
Edit leave_out(const std::string& path) { return {{}, path, {}, {}, false, {}}; }

void add_multiples(const Sound& sound, const std::string& path, std::int64_t value, std::int64_t step,
                   std::vector<Edit>& edits) {
  const std::int64_t lower = value / step * step;
  for (int i = 0; i < kTries && lower - i * step > 0; ++i)
    if (const Edit edit = write(path, lower - i * step); sound(edit)) {
      edits.push_back(edit);
      break;
    }
  std::int64_t upper = lower;
  for (int i = 0; i < kTries && !__builtin_add_overflow(upper, step, &upper); ++i)
    if (const Edit edit = write(path, upper); sound(edit)) {
      edits.push_back(edit);
      break;
    }
}

void add_divisors(const Sound& sound, const std::string& path, std::int64_t number, std::int64_t value,
                  std::vector<Edit>& edits) {
  std::vector<std::int64_t> divisors;
  for (std::int64_t d = 1; d * d <= number; ++d)
    if (number % d == 0) divisors.insert(divisors.end(), {d, number / d});
  std::sort(divisors.begin(), divisors.end());
  const auto above = std::upper_bound(divisors.begin(), divisors.end(), value);
  const auto add_first = [&](auto divisor, auto end) {
    for (; divisor != end; ++divisor) {
      const Edit edit = write(path, *divisor);
      if (*divisor == value || !sound(edit)) continue;
      edits.push_back(edit);
      return;
    }
  };
  add_first(std::make_reverse_iterator(above), divisors.rend());
  add_first(above, divisors.end());
}

void add(const Sound& sound, const Edit& edit, std::vector<Edit>& edits) {
  if (sound(edit)) edits.push_back(edit);
}

void add_head_dim(const Sound& sound, std::int64_t value, std::vector<Edit>& edits) {
  for (const std::int64_t step : {8, 2}) {
    std::vector<Edit> near;
    add_multiples(sound, "model.head_dim", value, step, near);
    if (near.empty()) continue;
    edits.insert(edits.end(), near.begin(), near.end());
    return;
  }
}

}  // namespace llmc::spec
