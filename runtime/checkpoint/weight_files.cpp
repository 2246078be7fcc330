#include "checkpoint/weight_files.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <map>
#include <optional>
#include <set>
#include <utility>

#include "checkpoint/manifest.h"
#include "checkpoint/parameter_stream.h"
#include "checkpoint/shards.h"
#include "checkpoint/stored_numbers.h"
#include "error.h"
#include "text/plural.h"

namespace llmc {

namespace fs = std::filesystem;

namespace {

constexpr std::string_view kBody = "model.", kEmbedding = "embed_tokens.weight", kHead = "lm_head.weight";

/// Tensors that some writers store fused, stacked by rows.
struct Fused {
  const char* name;
  std::vector<const char*> parts;  // in order
};

const std::vector<Fused>& fused_tensors() {
  static const std::vector<Fused> table = {
      {"self_attn.qkv_proj.", {"self_attn.q_proj.", "self_attn.k_proj.", "self_attn.v_proj."}},
      {"mlp.gate_up_proj.", {"mlp.gate_proj.", "mlp.up_proj."}}};
  return table;
}

[[noreturn]] void refuse(const std::string& what) { throw Failure(Exit::checkpoint, what); }

struct Place {
  const safetensors::Reader* reader;
  const safetensors::Entry* entry;
};
using Places = std::map<std::string, Place>;

/// Where the tensors of the language model are, among those of a model with several parts.
struct LanguageModel {
  std::string body{kBody};  // prefix of all its tensors but the head, such as "language_model.model."
  std::string part{};       // prefix of the head too, such as "language_model."
  bool alone = true;        // all tensors are of the language model

  std::string head() const { return part + std::string(kHead); }
  std::string embedding() const { return body + std::string(kEmbedding); }
  /// Name of a tensor that a model of one part has under `name`.
  std::string name_of(const std::string& name) const {
    if (name == kHead) return head();
    return name.starts_with(kBody) ? body + name.substr(kBody.size()) : name;
  }
  bool has(const std::string& name) const {
    return alone || name == head() || name.starts_with(part.empty() ? body : part);
  }
};

/// Finds the language model by its embedding. Without one, or with several, names are those of a model of one part.
LanguageModel find_language_model(const Places& places) {
  LanguageModel usual;
  if (places.contains(usual.embedding())) return usual;
  const std::string* embedding = nullptr;
  for (const auto& [name, place] : places) {
    if (!name.ends_with("." + std::string(kEmbedding))) continue;
    if (embedding) return usual;
    embedding = &name;
  }
  if (!embedding) return usual;
  LanguageModel found{embedding->substr(0, embedding->size() - kEmbedding.size()), "", false};
  const bool whole = found.body.ends_with("." + std::string(kBody));
  if (whole) found.part = found.body.substr(0, found.body.size() - kBody.size());
  if (!places.contains(found.head()) && places.contains(std::string(kHead))) found.part.clear();
  return found;
}

std::string with(std::string name, const char* part, const char* other) {
  return name.replace(name.find(part), std::char_traits<char>::length(part), other);
}

/// Part of a fused tensor that holds a parameter.
struct Slice {
  std::string name;          // of the fused tensor
  std::int64_t first, rows;  // of the parameter, and of all parts together
};

/// `rows`: of each parameter's tensor, by name; a vector's elements count as rows.
std::optional<Slice> slice_of(const std::string& name, const std::map<std::string, std::int64_t>& rows) {
  for (const Fused& fused : fused_tensors())
    for (const char* part : fused.parts) {
      if (name.find(part) == std::string::npos) continue;
      Slice slice{with(name, part, fused.name), 0, 0};
      for (const char* each : fused.parts) {
        const auto sibling = rows.find(with(name, part, each));
        if (sibling == rows.end()) return std::nullopt;
        if (each == part) slice.first = slice.rows;
        slice.rows += sibling->second;
      }
      return slice;
    }
  return std::nullopt;
}

bool is_float(safetensors::Dtype dtype) {
  return dtype == safetensors::Dtype::kF32 || dtype == safetensors::Dtype::kF16 || dtype == safetensors::Dtype::kBF16;
}

/// Returns whether two tensors hold the same numbers, in types that may differ.
bool same_values(const Place& a, const Place& b) {
  constexpr std::uint64_t kBlock = 1u << 20;  // elements
  if (a.entry->shape != b.entry->shape || !is_float(a.entry->dtype) || !is_float(b.entry->dtype)) return false;
  const auto read = [&](const Place& place, std::uint64_t first, std::vector<std::byte>& stored,
                        std::vector<float>& values) {
    const auto size = static_cast<std::uint64_t>(safetensors::dtype_bytes(place.entry->dtype));
    values.resize(std::min(kBlock, place.entry->bytes() / size - first));
    stored.resize(values.size() * size);
    place.reader->read(*place.entry, first * size, stored.data(), stored.size());
    widen(place.entry->dtype, stored, values);
  };
  const std::uint64_t elements =
      a.entry->bytes() / static_cast<std::uint64_t>(safetensors::dtype_bytes(a.entry->dtype));
  std::vector<std::byte> stored;
  std::vector<float> left, right;
  for (std::uint64_t at = 0; at < elements; at += kBlock) {
    read(a, at, stored, left), read(b, at, stored, right);
    // Equal NaNs are equal: read() names the tensor that has them.
    if (std::memcmp(left.data(), right.data(), left.size() * sizeof(float)) != 0) return false;
  }
  return true;
}

/// Checks the checksums of a checkpoint's model files. Other files in its manifest may be missing.
void check_sums(const fs::path& folder, const std::set<std::string>& files) {
  std::error_code error;
  if (!has_manifest(folder) || !fs::exists(folder / "state.json", error)) return;
  std::size_t known = 0;
  for (const FileRecord& record : read_manifest(folder)) {
    if (!files.contains(record.name)) continue;
    ++known;
    if (const auto damage = find_file_damage(folder, record, Depth::checksums))
      refuse(fmt::format("checkpoint '{}' is damaged: {} {}. Use an older one", folder.string(), record.name, *damage));
  }
  if (known != files.size())
    refuse(fmt::format("checkpoint '{}' is damaged: its manifest.json does not list all model files", folder.string()));
}

/// Values of q or k as llmc has them. `offset`: of the first one in a flat buffer.
std::vector<float> mirrored(const ParameterInfo& p, const WeightForm& form, std::int64_t offset,
                            std::span<const float> values) {
  std::vector<float> result(values.begin(), values.end());
  for (std::size_t i = 0; i < result.size(); ++i) {
    const std::int64_t at = offset - p.offset + static_cast<std::int64_t>(i), column = at % p.pitch;
    if (column < p.cols && form.mirrors_row(p.matrix ? at / p.pitch : column)) result[i] = -result[i];
  }
  return result;
}

}  // namespace

WeightFiles::WeightFiles(const fs::path& folder, std::span<const ParameterInfo> parameters, WeightForm form)
    : form_(std::move(form)) {
  open(folder);
  match(folder, parameters);
}

void WeightFiles::open(const fs::path& folder) {
  std::error_code error;
  const fs::path index = folder / kModelIndex;
  std::map<std::string, std::string> file_of;
  std::set<std::string> files;
  // Of both transformers takes the one file too: a model saved in fewer files leaves the old index.
  if (!fs::exists(folder / "model.safetensors", error) && fs::exists(index, error)) {
    file_of = read_model_index(index);
    for (const auto& [tensor, file] : file_of) files.insert(file);
  } else {
    files.insert("model.safetensors");
  }
  check_sums(folder, files);
  std::map<std::string, const safetensors::Reader*> by_name;
  for (const std::string& file : files) {
    readers_.push_back(std::make_unique<safetensors::Reader>(folder / file));
    by_name[file] = readers_.back().get();
  }
  for (const auto& [tensor, file] : file_of)
    if (!by_name.at(file)->find(tensor))
      refuse(fmt::format("'{}' lists tensor '{}' in {}, which does not have it", index.string(), tensor, file));
}

void WeightFiles::match(const fs::path& folder, std::span<const ParameterInfo> parameters) {
  Places places;
  for (const auto& reader : readers_)
    for (const safetensors::Entry& entry : reader->entries())
      if (!places.emplace(entry.name, Place{reader.get(), &entry}).second)
        refuse(fmt::format("{} is in two files", reader->tensor(entry.name)));

  const LanguageModel model = find_language_model(places);
  const std::vector<ParameterInfo> stored = stored_parameters(parameters);
  std::map<std::string, std::int64_t> rows;
  for (const ParameterInfo& p : stored) rows[model.name_of(form_.name_of(p.name))] = p.matrix ? p.rows : p.cols;

  std::set<std::string> dtypes, used;
  for (const ParameterInfo& p : stored) {
    safetensors::TensorSpec wanted = tensor_spec(p);
    wanted.name = model.name_of(form_.name_of(wanted.name));
    std::int64_t first = 0;
    auto place = places.find(wanted.name);
    if (const auto slice = slice_of(wanted.name, rows); slice && place == places.end()) {
      place = places.find(slice->name);
      if (place == places.end())
        refuse(fmt::format("no file of '{}' has tensor '{}', by itself or as part of '{}'", folder.string(),
                           wanted.name, slice->name));
      wanted = {slice->name, wanted.dtype, wanted.shape};
      wanted.shape[0] = slice->rows;
      first = slice->first * (p.matrix ? p.cols : 1);
    }
    if (place == places.end()) refuse(fmt::format("no file of '{}' has tensor '{}'", folder.string(), wanted.name));
    const auto [reader, entry] = place->second;
    const std::string where = reader->tensor(wanted.name);
    if (!is_float(entry->dtype))
      refuse(fmt::format("{} is {}, but only F32, F16 and BF16 can be read", where,
                         safetensors::dtype_name(entry->dtype)));
    if (entry->shape != wanted.shape)
      refuse(fmt::format("{} is {}, but the model has {}", where, shape_text(entry->shape), shape_text(wanted.shape)));
    dtypes.emplace(safetensors::dtype_name(entry->dtype));
    used.insert(wanted.name);
    found_.push_back({reader, entry, p, first});
  }

  std::int64_t others = 0;
  for (const auto& [name, place] : places) {
    if (used.contains(name) || name.ends_with(".rotary_emb.inv_freq")) continue;
    if (!model.has(name)) {
      ++others;
      continue;
    }
    const std::string where = place.reader->tensor(name);
    if (name != model.head() || !used.contains(model.embedding()))
      refuse(
          fmt::format("{} is not a tensor of the model. Remove it if it changes nothing in the forward pass", where));
    if (!same_values(places.at(model.embedding()), place))
      refuse(fmt::format("{} differs from '{}', but model.tie_word_embeddings: true makes them one tensor. Write false",
                         where, model.embedding()));
  }
  const auto count = static_cast<std::int64_t>(used.size());
  description_ =
      fmt::format("{} tensor{} of '{}' ({})", count, plural(count), folder.string(), fmt::join(dtypes, ", "));
  if (!model.alone) description_ += fmt::format(" under {}*; {} of other parts not used", model.body, others);
}

void WeightFiles::read(const Take& take) const {
  for (const Found& found : found_)
    read_weights(*found.reader, *found.entry, found.parameter, found.first,
                 [&](std::int64_t offset, std::span<const float> values) {
                   if (!std::ranges::all_of(values, [](float value) { return std::isfinite(value); }))
                     refuse(fmt::format("{} has a weight that is not finite", found.reader->tensor(found.entry->name)));
                   if (form_.mirrors(found.parameter.name))
                     take(offset, mirrored(found.parameter, form_, offset, values));
                   else
                     take(offset, values);
                 });
}

void WeightFiles::check() const {
  read([](std::int64_t, std::span<const float>) {});
}

void WeightFiles::load(StateAccess& access) const {
  read([&](std::int64_t offset, std::span<const float> values) {
    access.write(kWeights, offset, static_cast<std::int64_t>(values.size()), std::as_bytes(values).data());
  });
}

}  // namespace llmc
