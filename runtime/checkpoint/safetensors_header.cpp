#include "checkpoint/safetensors_header.h"

#include <algorithm>
#include <array>
#include <limits>
#include <nlohmann/json.hpp>
#include <set>
#include <stdexcept>

namespace llmc::safetensors {
namespace {

using Json = nlohmann::json;

struct DtypeRow {
  Dtype dtype;
  std::string_view name;
  std::int64_t bytes;
};

constexpr std::array<DtypeRow, 15> kDtypes = {{{Dtype::kBool, "BOOL", 1},
                                               {Dtype::kU8, "U8", 1},
                                               {Dtype::kI8, "I8", 1},
                                               {Dtype::kF8E4M3, "F8_E4M3", 1},
                                               {Dtype::kF8E5M2, "F8_E5M2", 1},
                                               {Dtype::kU16, "U16", 2},
                                               {Dtype::kI16, "I16", 2},
                                               {Dtype::kF16, "F16", 2},
                                               {Dtype::kBF16, "BF16", 2},
                                               {Dtype::kU32, "U32", 4},
                                               {Dtype::kI32, "I32", 4},
                                               {Dtype::kF32, "F32", 4},
                                               {Dtype::kU64, "U64", 8},
                                               {Dtype::kI64, "I64", 8},
                                               {Dtype::kF64, "F64", 8}}};

[[noreturn]] void refuse(const std::string& what) { throw std::invalid_argument(what); }

/// Bytes of a tensor. Rejects products that overflow, even if a later dimension is 0.
std::uint64_t tensor_bytes(const std::string& name, Dtype dtype, const std::vector<std::int64_t>& shape) {
  std::uint64_t bytes = static_cast<std::uint64_t>(dtype_bytes(dtype));
  for (const std::int64_t extent : shape) {
    if (extent < 0 || __builtin_mul_overflow(bytes, static_cast<std::uint64_t>(extent), &bytes))
      refuse("the shape of tensor '" + name + "' overflows");
  }
  return bytes;
}

void check_name(const std::string& name) {
  if (name.size() > kMaxNameBytes) refuse("a tensor name is longer than 1024 bytes");
  for (const unsigned char c : name)
    if (c < 0x20 || c == 0x7f) refuse("a tensor name contains a control character");
}

/// Receives nlohmann's events. A DOM would keep the last of two equal keys and take 26 times the header's size.
class HeaderEvents : public nlohmann::json_sax<Json> {
 public:
  Header header;

  bool start_object(std::size_t) override {
    if (state_ == State::kStart) return enter(State::kTop);
    if (state_ == State::kTopValue) {
      if (in_metadata_) return enter(State::kMetadata);
      header.entries.emplace_back().name = key_;
      has_dtype_ = has_shape_ = has_offsets_ = false;
      return enter(State::kTensor);
    }
    refuse("an object where none is allowed");
  }
  bool end_object() override {
    if (state_ == State::kMetadata || state_ == State::kTensor) {
      if (state_ == State::kTensor && !(has_dtype_ && has_shape_ && has_offsets_))
        refuse("tensor '" + tensor().name + "' lacks dtype, shape or data_offsets");
      return enter(State::kTop);
    }
    return enter(State::kEnd);
  }
  bool key(std::string& key) override {
    if (state_ == State::kTop) {
      if (!names_.insert(key).second) refuse("'" + key + "' is listed twice");
      check_name(key);
      key_ = key;
      in_metadata_ = key == "__metadata__";
      return enter(State::kTopValue);
    }
    if (state_ == State::kMetadata) {
      if (header.metadata.count(key) != 0) refuse("metadata key '" + key + "' is listed twice");
      key_ = key;
      return enter(State::kMetadataValue);
    }
    bool* seen = nullptr;
    if (key == "dtype") seen = &has_dtype_, state_ = State::kDtype;
    if (key == "shape") seen = &has_shape_, state_ = State::kShape;
    if (key == "data_offsets") seen = &has_offsets_, state_ = State::kOffsets;
    if (seen == nullptr) refuse("tensor '" + tensor().name + "' has an unknown key '" + key + "'");
    if (*seen) refuse("'" + key + "' of tensor '" + tensor().name + "' is listed twice");
    return *seen = true;
  }
  bool string(std::string& text) override {
    if (state_ == State::kMetadataValue) {
      header.metadata[key_] = text;
      return enter(State::kMetadata);
    }
    if (state_ != State::kDtype) refuse("a string where none is allowed");
    const auto* row = std::find_if(kDtypes.begin(), kDtypes.end(), [&](const DtypeRow& d) { return d.name == text; });
    if (row == kDtypes.end()) refuse("tensor '" + tensor().name + "' has the unknown dtype '" + text + "'");
    tensor().dtype = row->dtype;
    return enter(State::kTensor);
  }
  bool start_array(std::size_t) override {
    if (in_array_ || (state_ != State::kShape && state_ != State::kOffsets)) refuse("an array where none is allowed");
    offsets_seen_ = 0;
    return in_array_ = true;
  }
  bool end_array() override {
    if (state_ == State::kOffsets && offsets_seen_ != 2) refuse("data_offsets must be two numbers");
    in_array_ = false;
    return enter(State::kTensor);
  }
  bool number_unsigned(std::uint64_t value) override {
    if (!in_array_) refuse("a number where none is allowed");
    if (value > static_cast<std::uint64_t>(std::numeric_limits<std::int64_t>::max())) refuse("a number is too large");
    if (state_ == State::kShape) {
      if (tensor().shape.size() == kMaxRank) refuse("tensor '" + tensor().name + "' has more than 16 dimensions");
      tensor().shape.push_back(static_cast<std::int64_t>(value));
    } else {
      if (offsets_seen_ == 2) refuse("data_offsets must be two numbers");
      (offsets_seen_++ == 0 ? tensor().begin : tensor().end) = value;
    }
    return true;
  }
  bool null() override { refuse("null where a value is required"); }
  bool boolean(bool) override { refuse("a boolean where none is allowed"); }
  bool number_integer(std::int64_t) override { refuse("a negative number"); }
  bool number_float(double, const std::string&) override { refuse("a number that is not an integer or is too large"); }
  bool binary(Json::binary_t&) override { refuse("binary data"); }
  bool parse_error(std::size_t position, const std::string&, const nlohmann::detail::exception&) override {
    refuse("it is not valid JSON in UTF-8 (byte " + std::to_string(position) + ")");
  }

 private:
  enum class State { kStart, kTop, kTopValue, kMetadata, kMetadataValue, kTensor, kDtype, kShape, kOffsets, kEnd };

  bool enter(State state) {
    state_ = state;
    return true;
  }
  Entry& tensor() { return header.entries.back(); }

  State state_ = State::kStart;
  std::string key_;
  std::set<std::string> names_;
  bool in_metadata_ = false, in_array_ = false;
  bool has_dtype_ = false, has_shape_ = false, has_offsets_ = false;
  int offsets_seen_ = 0;
};

}  // namespace

std::int64_t dtype_bytes(Dtype dtype) { return kDtypes[static_cast<std::size_t>(dtype)].bytes; }
std::string_view dtype_name(Dtype dtype) { return kDtypes[static_cast<std::size_t>(dtype)].name; }

Header parse_header(std::string_view json, std::uint64_t data_bytes) {
  if (json.size() > kMaxHeaderBytes) refuse("its header is larger than 16 MiB");
  // nlohmann skips white space and a byte-order mark, and treats a NUL as the end of the text.
  if (json.empty() || json.front() != '{') refuse("its header does not begin with '{'");
  if (json.find('\0') != std::string_view::npos) refuse("its header contains a NUL byte");

  HeaderEvents events;
  Json::sax_parse(json.begin(), json.end(), &events);
  Header header = std::move(events.header);
  std::sort(header.entries.begin(), header.entries.end(), [](const Entry& a, const Entry& b) {
    return std::tie(a.begin, a.end, a.name) < std::tie(b.begin, b.end, b.name);
  });
  std::uint64_t position = 0;
  for (const Entry& entry : header.entries) {
    if (entry.begin != position) refuse("tensor '" + entry.name + "' overlaps another or leaves a gap");
    if (entry.end < entry.begin || entry.bytes() != tensor_bytes(entry.name, entry.dtype, entry.shape))
      refuse("the data_offsets of tensor '" + entry.name + "' do not match its shape and dtype");
    position = entry.end;
  }
  if (position != data_bytes)
    refuse("its tensors take " + std::to_string(position) + " bytes, but the file has " + std::to_string(data_bytes));
  return header;
}

std::vector<Entry> layout(std::span<const TensorSpec> tensors) {
  std::vector<Entry> entries;
  for (const TensorSpec& tensor : tensors) {
    check_name(tensor.name);
    if (tensor.name == "__metadata__" || tensor.shape.size() > kMaxRank) refuse("tensor '" + tensor.name + "'");
    entries.push_back(
        {tensor.name, tensor.dtype, tensor.shape, 0, tensor_bytes(tensor.name, tensor.dtype, tensor.shape)});
  }
  std::sort(entries.begin(), entries.end(), [](const Entry& a, const Entry& b) {
    const std::int64_t a_align = dtype_bytes(a.dtype), b_align = dtype_bytes(b.dtype);
    return a_align != b_align ? a_align > b_align : a.name < b.name;
  });
  std::set<std::string_view> names;
  std::uint64_t position = 0;
  for (Entry& entry : entries) {
    if (!names.insert(entry.name).second) refuse("tensor '" + entry.name + "' is listed twice");
    entry.begin = position;
    if (__builtin_add_overflow(position, entry.end, &entry.end) || entry.end > std::uint64_t{1} << 62)
      refuse("the file would be too large");
    position = entry.end;
  }
  return entries;
}

std::string format_header(std::span<const Entry> entries) {
  std::string json = R"({"__metadata__":{"format":"pt"})";
  for (const Entry& entry : entries) {
    json += ',';
    json += Json(entry.name).dump();
    json += R"(:{"dtype":")" + std::string(dtype_name(entry.dtype));
    json += R"(","shape":)" + Json(entry.shape).dump();
    json += R"(,"data_offsets":)" + Json({entry.begin, entry.end}).dump() + '}';
  }
  json += "}";
  json.resize((json.size() + 7) / 8 * 8, ' ');
  if (json.size() > kMaxHeaderBytes) refuse("the header would be larger than 16 MiB");
  std::string out;
  for (int shift = 0; shift < 64; shift += 8) out += static_cast<char>(json.size() >> shift);
  return out + json;
}

}  // namespace llmc::safetensors
