#include "compiler/tools/sweep/numbers.h"

#include <algorithm>
#include <numeric>

#include "spec/scalars.h"
#include "spec/schema/schema.h"

namespace llmc::sweep {

namespace {

/// Whether the value is a multiple, such as 20x, which does not compare with numbers.
bool is_multiple(const std::string& value) { return value.ends_with('x'); }

}  // namespace

std::optional<double> number_of(const std::string& path, const std::string& value) {
  const spec::Key* const key = spec::key_of(path);
  if (!key || (key->type != spec::Type::integer && key->type != spec::Type::bytes))
    return spec::parse_number(value).value;
  if (key->or_times && is_multiple(value)) return spec::parse_times(value).value;
  return key->type == spec::Type::bytes ? spec::parse_bytes(value).value : spec::parse_integer(value).value;
}

bool is_numeric(const Axis& axis) {
  const auto multiples = static_cast<std::size_t>(std::ranges::count_if(axis.values, is_multiple));
  return (multiples == 0 || multiples == axis.values.size()) &&
         std::ranges::all_of(axis.values,
                             [&](const std::string& value) { return number_of(axis.key, value).has_value(); });
}

std::vector<std::size_t> ascending(const Axis& axis) {
  std::vector<std::size_t> order(axis.values.size());
  std::iota(order.begin(), order.end(), std::size_t{0});
  if (is_numeric(axis))
    std::ranges::stable_sort(order, {}, [&](std::size_t i) { return *number_of(axis.key, axis.values[i]); });
  return order;
}

}  // namespace llmc::sweep
