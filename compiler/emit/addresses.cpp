#include "compiler/emit/addresses.h"

#include <fmt/format.h>

#include "error.h"

namespace llmc::emit {

using namespace graph;

std::string Addresses::name(TensorId id) const {
  const Tensor& t = g_.at(id);
  // Of split masters an op reads several parts.
  const bool alone = t.role == Role::copy && copies_use(t.dtype) == Use::copies;
  return g_.at(alone ? t.partner : id).name;
}

std::string Addresses::area_address(std::size_t area) {
  const bool shared = plan_.layout.areas[area].shared >= 0;
  (shared ? shared_ : used_).insert(area);
  return shared ? "s.places[" + area_name(area) + "]" : area_name(area);
}

std::string Addresses::address(std::size_t r, TensorId id) {
  const Tensor& t = g_.at(id);
  if (t.role == Role::wire) return window(id, "");
  if (t.role == Role::parameter || t.role == Role::copy || t.role == Role::gradient || t.role == Role::bucket)
    return in_flat(id);
  const plan::Placement& place = plan_.layout.find(g_, r, id);
  const plan::Area& area = plan_.layout.areas[place.area];
  std::string text = area_address(place.area);
  if (area.shared >= 0) return text;
  const std::size_t inside = place.offset - area.offset;
  const std::string stride = area_name(place.area) + "Stride";
  const bool boundary = area.stride && t.scope == Scope::boundary;  // then `inside` is a multiple of the stride
  if (inside && !boundary) text += fmt::format(" + {}", inside);
  const std::string layer = t.scope == Scope::layer && g_.variant_count() > 1 ? "kSlab[layer]" : "layer";
  if (boundary && place.layer_stride && inside)
    text += fmt::format(" + ({} + {}) * {}", layer, inside / area.stride, stride);
  else if (boundary && inside)
    text += fmt::format(" + {} * {}", inside / area.stride, stride);
  else if (place.layer_stride)
    text += fmt::format(" + {} * {}", layer, stride);
  // This chunk's rows of a tensor with one row (or one element) a token.
  if (const std::int64_t step = g_.chunk_step(g_.regions[r], t)) text += fmt::format(" + chunk * {}", step);
  return text;
}

/// Returns the flat buffer that holds a parameter, its copy, its gradient, or a bucket of any of these.
TensorId Addresses::flat_of(TensorId id) const {
  const Tensor& t = g_.at(id);
  if (t.role == Role::bucket) return t.partner;
  const Use use = t.role == Role::gradient ? Use::gradients : t.role == Role::copy ? copies_use(t.dtype) : Use::masters;
  for (const auto& [flat, place] : plan_.layout.fixed)
    if (g_.at(flat).use == use && g_.at(flat).dtype == t.dtype) return flat;
  throw Failure(Exit::internal, "no flat buffer holds %" + t.name);
}

TensorId Addresses::bucket_in(TensorId flat, Block block) const {
  for (const auto& [bucket, window] : plan_.layout.windows)
    if (g_.at(bucket).role == Role::bucket && g_.at(bucket).partner == flat && g_.at(bucket).block == block)
      return bucket;
  throw Failure(Exit::internal, "no gather buffer holds the blocks of %" + g_.at(flat).name);
}

std::string Addresses::window(TensorId bucket, const std::string& inside) {
  const plan::GatherBuffer& window = plan_.layout.windows.at(bucket);
  windows_ = true;
  std::string text = "s.places[kWindows]";
  if (window.offset) text += fmt::format(" + {}", window.offset);
  if (window.stride) text += fmt::format(" + layer % {} * {}", plan::kLayerSlots, window.stride);
  return text + inside;
}

/// Returns the address of a tensor inside its flat buffer. With one rank, sharded buffers are whole there; several
/// ranks read the gather buffer, at the tensor's offset in its bucket.
std::string Addresses::in_flat(TensorId id) {
  const Tensor& t = g_.at(id);
  const plan::ParameterLayout& layout = plan_.parameters;
  const TensorId owner = t.role == Role::parameter ? id : t.partner, flat = flat_of(id);
  const Block block = t.role == Role::bucket ? t.block : bucket_of(g_.at(owner));
  const std::int64_t bucket = layout.buckets[layout.first_bucket.at(block)].offset;
  const std::int64_t offset = t.role == Role::bucket ? bucket : layout.offset.at(owner);
  const int bits = row_of(t.dtype).bits;
  const bool vector = t.role != Role::bucket && block == Block::none;
  const std::string strides = std::string("layer * ") + (vector ? "kLayerVectors" : "kLayerMatrices");
  const auto bytes = [&](std::int64_t elements, bool of_layer) {
    // The first factor keeps the type size_t; a product of literals would be an int.
    if (!of_layer) return elements ? fmt::format(" + {}", bytes_of(t.dtype, elements)) : std::string();
    const std::string count = elements ? fmt::format("({} + {})", elements, strides) : strides;
    return bits % 8 == 0 ? fmt::format(" + {} * {}", bits / 8, count) : fmt::format(" + {} / {}", count, 8 / bits);
  };
  const bool layer = t.scope == Scope::layer;
  const std::string there = area_address(plan_.layout.fixed.at(flat).area) + bytes(offset, layer);
  if (!is_sharded(g_.at(flat).use, plan_.spec.parallel.shard)) return there;
  whole_ = true;
  // A layer's gather buffer begins with the layer.
  const std::string here = window(bucket_in(flat, block), bytes(offset - bucket, layer && vector));
  return fmt::format("s.whole({}, {})", there, here);
}

void Addresses::print_places(SourceWriter& out) const {
  const auto number = [](const char* type, const std::string& name, std::size_t value, const std::string& note = "") {
    return fmt::format("constexpr {} {} = {};{}\n", type, name, value, note.empty() ? "" : "  // " + note);
  };
  const plan::ArenaLayout& layout = plan_.layout;
  out.line("namespace {");
  out.blank();
  out.line("// Byte offsets in the arena of $bytes$ bytes, and byte strides from one layer to the next.",
           {{"bytes", std::to_string(layout.bytes)}});
  for (const std::size_t i : used_) {
    const plan::Area& area = layout.areas[i];
    out.raw(number("std::size_t", area_name(i), area.offset));
    if (area.stride) out.raw(number("std::size_t", area_name(i) + "Stride", area.stride));
  }
  if (has_shared()) {
    out.blank();
    out.line("// Indices into Step::places of offsets that depend on the number of ranks.");
  }
  std::size_t count = 0;
  for (const plan::Area& area : layout.areas) count += area.shared >= 0;
  for (const std::size_t i : shared_)
    out.raw(number("std::size_t", area_name(i), static_cast<std::size_t>(layout.areas[i].shared)));
  if (windows_) out.raw(number("std::size_t", "kWindows", count));
  out.blank();
  out.raw(number("std::size_t", "kLayerMatrices", static_cast<std::size_t>(plan_.parameters.layer_stride),
                 "elements from a layer's matrices to the next layer's"));
  out.raw(number("std::size_t", "kLayerVectors", static_cast<std::size_t>(plan_.parameters.vector_stride),
                 "the same for its vectors"));
  out.raw(
      number("int", "kChunkCount", static_cast<std::size_t>(plan_.parameters.chunk_count),
             fmt::format("of at most {} elements: the optimizer's units of work", plan_.parameters.chunk_elements)));
  if (g_.variant_count() > 1) {
    std::string variants, ranks;
    std::vector<int> counts(static_cast<std::size_t>(g_.variant_count()));
    for (const int variant : g_.variants) {
      variants += (variants.empty() ? "" : ", ") + std::to_string(variant);
      ranks += (ranks.empty() ? "" : ", ") + std::to_string(counts[static_cast<std::size_t>(variant)]++);
    }
    out.line("constexpr int kVariant[] = {$variants$};  // variant of each layer's functions",
             {{"variants", variants}});
    out.line("constexpr std::size_t kSlab[] = {$ranks$};  // a layer's index among the layers of its variant",
             {{"ranks", ranks}});
  }
  out.blank();
  out.line("}  // namespace");
  out.blank();
}

}  // namespace llmc::emit
