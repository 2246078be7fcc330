#include "compiler/tools/float64/host_values.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>
#include <numbers>
#include <numeric>

#include "device/types.h"

namespace llmc::float64 {

using namespace graph;
using spec::RopeType;

namespace {

constexpr double kAny = std::numeric_limits<double>::quiet_NaN();
constexpr double kAngles = 1e-9;  // what two computations in double differ by, at a million positions

/// Radians per position of each pair. `dim`: rotated elements of a head.
std::vector<double> frequencies(double theta, const spec::RopeScaling& scaling, std::int64_t dim) {
  const auto context = static_cast<double>(scaling.original_max_position_embeddings), width = static_cast<double>(dim);
  // yarn: the pair that turns so often in the original context, and the ends of the ramp from unscaled to scaled ones.
  const auto pair_with = [&](double turns) {
    return width / 2 * std::log(context / (2 * std::numbers::pi * turns)) / std::log(theta);
  };
  double first = pair_with(scaling.beta_fast), last = pair_with(scaling.beta_slow);
  if (scaling.truncate) first = std::floor(first), last = std::ceil(last);
  first = std::max(first, 0.0), last = std::min(last, width - 1);
  if (first == last) last += 0.001;
  std::vector<double> all;
  for (std::int64_t pair = 0; pair < dim / 2; ++pair) {
    const double wavelength = 2 * std::numbers::pi * std::pow(theta, 2 * static_cast<double>(pair) / width);
    double scaled = 0;  // 1: the wavelength is `factor` times as long
    if (scaling.type == RopeType::linear) scaled = 1;
    if (scaling.type == RopeType::llama3)
      scaled = std::clamp(
          (scaling.high_freq_factor - context / wavelength) / (scaling.high_freq_factor - scaling.low_freq_factor), 0.0,
          1.0);
    if (scaling.type == RopeType::yarn)
      scaled = std::clamp((static_cast<double>(pair) - first) / (last - first), 0.0, 1.0);
    const double plain = 2 * std::numbers::pi / wavelength;
    all.push_back(scaled == 0 ? plain : plain * (1 - scaled) + plain / scaling.factor * scaled);
  }
  return all;
}

}  // namespace

std::vector<double> rope_angles(const spec::Model& model, std::int64_t sequence, bool local) {
  const std::int64_t dim = model.rotary_dim();
  const std::vector<double> each =
      local ? frequencies(model.rope_local_theta, {}, dim) : frequencies(model.rope_theta, model.rope_scaling, dim);
  const double size = !local && model.rope_scaling.type == RopeType::yarn ? model.rope_scaling.attention_factor : 1;
  std::vector<double> table;
  for (std::int64_t position = 0; position < sequence; ++position)
    for (std::int64_t at = 0; at < dim; ++at) {
      const std::int64_t pair = model.rope_interleaved ? at / 2 : at % (dim / 2);
      const bool is_sine = model.rope_interleaved ? at % 2 == 1 : at >= dim / 2;
      const double angle = static_cast<double>(position) * each[static_cast<std::size_t>(pair)];
      table.push_back(size * (is_sine ? std::sin(angle) : std::cos(angle)));
    }
  return table;
}

std::vector<double> HostValues::targets() const {
  const spec::Documents& documents = plan_.spec.data.documents;
  std::vector<double> all;
  for (std::size_t i = 0; i < tokens_.size(); ++i) {
    const bool last = (static_cast<std::int64_t>(i) + 1) % plan_.graph.sequence == 0;
    const bool masked = documents.mask_first && tokens_[i] == documents.separator;
    all.push_back(masked ? -1 : last ? kAny : static_cast<double>(tokens_[i + 1]));
  }
  return all;
}

std::vector<double> HostValues::borders(bool ends) const {
  const auto count = static_cast<std::int64_t>(tokens_.size()), length = plan_.graph.sequence;
  const auto is_end = [&](std::int64_t i) {
    return (i + 1) % length == 0 || tokens_[static_cast<std::size_t>(i)] == plan_.spec.data.documents.separator;
  };
  std::vector<double> all(tokens_.size());
  for (std::int64_t begin = 0, end = 0; begin < count; begin = end + 1) {
    for (end = begin; !is_end(end);) ++end;
    for (std::int64_t i = begin; i <= end; ++i)
      all[static_cast<std::size_t>(i)] = static_cast<double>((ends ? end : begin) % length);
  }
  return all;
}

/// Returns positions sorted by token, stable.
std::vector<std::int64_t> HostValues::by_token() const {
  std::vector<std::int64_t> order(tokens_.size());
  std::iota(order.begin(), order.end(), 0);
  std::ranges::stable_sort(order, {}, [&](std::int64_t i) { return tokens_[static_cast<std::size_t>(i)]; });
  return order;
}

/// Returns the runs of equal tokens in that order: begins and past the last one its end, tokens and then zeros, or
/// their number.
std::vector<double> HostValues::runs(Use use) const {
  std::vector<double> begins, tokens;
  const std::vector<std::int64_t> order = by_token();
  for (std::size_t i = 0; i < order.size(); ++i) {
    const auto token = static_cast<double>(tokens_[static_cast<std::size_t>(order[i])]);
    if (!tokens.empty() && tokens.back() == token) continue;
    begins.push_back(static_cast<double>(i));
    tokens.push_back(token);
  }
  if (use == Use::run_count) return {static_cast<double>(tokens.size())};
  begins.resize(order.size() + 1, static_cast<double>(order.size()));
  tokens.resize(order.size());
  return use == Use::run_begin ? begins : tokens;
}

namespace {

/// Compares the fields of a record, number `row` of its table.
std::optional<Worst> compare_fields(std::int64_t row, std::initializer_list<std::pair<double, double>> fields) {
  std::int64_t column = 0;
  for (const auto& [exact, found] : fields) {
    if (found != exact) return Worst{std::numeric_limits<double>::infinity(), exact, found, row, column};
    ++column;
  }
  return {};
}

template <class Record>
std::vector<Record> records_of(std::span<const std::byte> bytes) {
  std::vector<Record> records(bytes.size() / sizeof(Record));
  std::memcpy(records.data(), bytes.data(), records.size() * sizeof(Record));
  return records;
}

}  // namespace

/// Chunks hold each element of each parameter once, in order.
std::optional<Worst> HostValues::check_chunks(std::span<const std::byte> records) const {
  const std::vector<Chunk> chunks = records_of<Chunk>(records);
  const auto count = static_cast<std::int64_t>(chunks.size());
  std::int64_t row = 0;
  for (std::size_t p = 0; p < plan_.parameters.slices.size(); ++p) {
    const plan::Slice& slice = plan_.parameters.slices[p];
    const std::int64_t all = slice.rows * slice.pitch;
    for (std::int64_t done = 0; done < all; ++row) {
      const Chunk chunk = row < count ? chunks[static_cast<std::size_t>(row)] : Chunk{};
      const auto at = static_cast<double>(slice.offset + done),
                 length = static_cast<double>(std::min(all - done, plan_.parameters.chunk_elements));
      const auto worst = compare_fields(row, {{at, static_cast<double>(chunk.offset)},
                                              {at, static_cast<double>(chunk.state)},
                                              {length, chunk.length},
                                              {static_cast<double>(p), chunk.parameter},
                                              {slice.group, chunk.group}});
      if (worst) return worst;
      done += chunk.length;
    }
  }
  return compare_fields(row, {{static_cast<double>(row), static_cast<double>(count)}});
}

std::vector<double> HostValues::first_chunks() const {
  std::vector<double> first = {0};
  const std::int64_t most = plan_.parameters.chunk_elements;
  for (const plan::Slice& slice : plan_.parameters.slices)
    first.push_back(first.back() + static_cast<double>((slice.rows * slice.pitch + most - 1) / most));
  return first;
}

/// Standard deviation of a tensor's random weights; 0: they are not random.
double HostValues::deviation(const plan::Slice& slice) const {
  const spec::Init& init = plan_.spec.init;
  if (!slice.matrix) return 0;
  const auto is = [&](const char* name) { return slice.name.find(name) != std::string::npos; };
  if (is("embed_tokens") || is("lm_head")) return init.embedding_std;
  for (const std::string& zero : init.zero)
    if (is(zero.c_str())) return 0;
  const spec::InitStd& rule = is("o_proj") || is("down_proj") ? init.residual : init.linear;
  const spec::Model& m = plan_.spec.model;
  switch (rule.kind) {
    case spec::InitStd::Kind::value: return rule.value;
    case spec::InitStd::Kind::fan_in: return std::pow(static_cast<double>(slice.cols), -0.5);
    case spec::InitStd::Kind::depth_scaled: break;
  }
  return std::pow(2.0 * static_cast<double>(m.hidden_size * m.num_hidden_layers), -0.5);
}

std::optional<Worst> HostValues::check_init_rules(std::span<const std::byte> records) const {
  const std::vector<InitRule> rules = records_of<InitRule>(records);
  for (std::size_t p = 0; p < plan_.parameters.slices.size(); ++p) {
    const plan::Slice& slice = plan_.parameters.slices[p];
    const InitRule rule = p < rules.size() ? rules[p] : InitRule{};
    const bool ones = slice.name.find("norm") != std::string::npos && slice.name.ends_with(".weight") &&
                      plan_.spec.model.norm_weight == spec::NormWeight::plain;
    const double std = deviation(slice), given = rule.std;
    const auto number = [](std::int64_t i) { return static_cast<double>(i); };
    const auto worst =
        compare_fields(static_cast<std::int64_t>(p), {{number(slice.offset), number(rule.offset)},
                                                      {number(slice.rows), number(rule.rows)},
                                                      {number(slice.cols), number(rule.cols)},
                                                      {number(slice.pitch), number(rule.pitch)},
                                                      {std, std::abs(given - std) <= 2 * kFp32 * std ? std : given},
                                                      {ones ? 1 : 0, rule.value}});
    if (worst) return worst;
  }
  return {};
}

std::optional<Worst> HostValues::check(const ScheduledOp& launch, TensorId id, const OpValue& found) {
  const Use use = plan_.graph.at(id).use;
  if (use == Use::tokens) tokens_.assign(found.matrix.data, found.matrix.data + found.matrix.cols);
  if (use == Use::chunks) return check_chunks(found.records);
  if (use == Use::init_rules) return check_init_rules(found.records);
  return check_elements(launch, id, found.matrix);
}

std::optional<Worst> HostValues::check_elements(const ScheduledOp& launch, TensorId id, const Matrix& found) const {
  const Tensor& t = plan_.graph.at(id);
  OpValue value;
  value.exact = true;
  std::vector<double> elements;
  switch (t.use) {
    case Use::targets: elements = targets(); break;
    case Use::document_begin: elements = borders(false); break;
    case Use::document_end: elements = borders(true); break;
    case Use::embedding_order: {
      const std::vector<std::int64_t> order = by_token();
      elements.assign(order.begin(), order.end());
      break;
    }
    case Use::run_begin:
    case Use::run_token:
    case Use::run_count: elements = runs(t.use); break;
    case Use::first_chunk: elements = first_chunks(); break;
    case Use::ones: elements.assign(static_cast<std::size_t>(t.cols), 1); break;
    case Use::rope_table:
    case Use::local_rope_table:
      elements = rope_angles(plan_.spec.model, t.rows, t.use == Use::local_rope_table);
      value.exact = false;
      value.relative = 0;
      value.noise = kAngles;
      break;
    default: return {};
  }
  const Place place = place_of(plan_, launch, id);
  value.matrix = {elements.data() + place.row * t.cols + place.column, found.rows, found.cols, t.cols};
  for (std::int64_t i = 0; i < found.rows; ++i)
    for (std::int64_t j = 0; j < found.cols; ++j)
      if (std::isnan(value.matrix.at(i, j))) value.matrix.at(i, j) = found.at(i, j);
  std::ranges::fill(value.scales(), 1);  // an angle's error is independent of its cosine
  return compare(value, found, t.dtype);
}

}  // namespace llmc::float64
