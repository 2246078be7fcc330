#include "data/foreign_format.h"

#include <fmt/format.h>

#include <algorithm>
#include <string_view>

#include "text/utf8.h"

namespace llmc {

namespace {

constexpr std::string_view kConvert = ". See docs/how-to/data-from-hugging-face.md to make shards of it";
constexpr std::string_view kUnpack = ". Unpack it first";

struct Kind {
  Foreign kind;
  std::string_view magic, name, advice;
};
constexpr Kind kKinds[] = {
    {Foreign::parquet, "PAR1", "a Parquet file", kConvert},
    {Foreign::arrow, "ARROW1", "an Arrow file", kConvert},
    {Foreign::hdf5, "\x89HDF\r\n", "an HDF5 file", kConvert},
    {Foreign::zip, "PK\x03\x04", "a ZIP archive (.zip, .npz)", kUnpack},
    {Foreign::gzip, "\x1f\x8b\x08", "a gzip file", kUnpack},
    {Foreign::zstd, "\x28\xb5\x2f\xfd", "a zstd file", kUnpack},
    {Foreign::xz, "\xfd\x37zXZ", "an xz file", kUnpack},
};

std::string_view text_of(std::span<const std::byte> file) {
  return {reinterpret_cast<const char*>(file.data()), file.size()};
}

const Kind* find_kind(std::string_view text) {
  const auto* kind = std::ranges::find_if(kKinds, [&](const Kind& k) { return text.starts_with(k.magic); });
  return kind == std::end(kKinds) ? nullptr : kind;
}

/// Describes a file of numpy.save: magic, version, length of a Python literal, and in that 'descr': '<u2'.
std::string of_numpy(std::string_view text) {
  const std::string_view header = text.substr(0, 256);
  constexpr std::string_view kKey = "'descr': '";
  std::string type;
  if (const std::size_t at = header.find(kKey); at != std::string_view::npos)
    for (const char c : header.substr(at + kKey.size(), 8)) {
      if (c == '\'') break;
      if (c >= ' ' && c < '\x7f') type += c;
    }
  const bool narrow = type == "<u2" || type == "|u1" || type == "<i2";
  const bool as_it_is = type == "<u2" || type == "<u4";
  return fmt::format(
      "is a NumPy .npy file{}, which has a header. Write its numbers without the header with "
      "numpy.load(FILE){}.tofile(NEW), and set 'format: {}'",
      type.empty() ? "" : fmt::format(" ({})", type),
      as_it_is ? "" : fmt::format(".astype('{}')", narrow ? "uint16" : "uint32"), narrow ? "nanogpt" : "nanogpt32");
}

constexpr std::size_t kSeen = 4096, kFewest = 256;  // bytes: so many tokens have a control character or no UTF-8

/// Returns whether the first bytes of a file are text. `seen` may end inside a character.
bool is_text(std::string_view seen) {
  const auto control = [](char c) {
    return static_cast<unsigned char>(c) < ' ' && c != '\n' && c != '\r' && c != '\t';
  };
  return seen.size() >= kFewest && std::ranges::none_of(seen, control) &&
         is_utf8(seen.substr(0, seen.size() - utf8_unfinished(seen)));
}

}  // namespace

Foreign foreign_kind(std::span<const std::byte> file) {
  const Kind* kind = find_kind(text_of(file));
  return kind ? kind->kind : Foreign::none;
}

std::string foreign_format(std::span<const std::byte> file) {
  const std::string_view text = text_of(file);
  if (text.starts_with("\x93NUMPY")) return of_numpy(text);
  if (const Kind* kind = find_kind(text)) return fmt::format("is {}, not token shards{}", kind->name, kind->advice);
  return is_text(text.substr(0, kSeen)) ? "is text, not token shards: make them with 'llmc data build --from'" : "";
}

}  // namespace llmc
