#include "run/event.h"

#include <array>
#include <bit>
#include <cstring>
#include <istream>

namespace llmc {
namespace {

static_assert(std::endian::native == std::endian::little, "records and protobuf's fixed fields are little-endian");

constexpr std::array<std::uint32_t, 256> crc_table() {
  std::array<std::uint32_t, 256> table{};
  for (std::uint32_t byte = 0; byte < 256; ++byte) {
    std::uint32_t crc = byte;
    for (int bit = 0; bit < 8; ++bit) crc = crc & 1 ? 0x82f63b78u ^ (crc >> 1) : crc >> 1;
    table[byte] = crc;
  }
  return table;
}

/// CRC-32C (Castagnoli), masked as TFRecord does: a checksum over data that contains checksums would be weak.
std::uint32_t masked_crc(std::string_view bytes) {
  static constexpr std::array<std::uint32_t, 256> kTable = crc_table();
  std::uint32_t crc = 0xffffffffu;
  for (const char c : bytes) crc = kTable[(crc ^ static_cast<unsigned char>(c)) & 0xff] ^ (crc >> 8);
  return std::rotr(~crc, 15) + 0xa282ead8u;
}

template <typename T>
void put(std::string& out, T value) {
  char bytes[sizeof value];
  std::memcpy(bytes, &value, sizeof value);
  out.append(bytes, sizeof value);
}

template <typename T>
T get(std::string_view bytes, std::size_t at) {
  T value;
  std::memcpy(&value, bytes.data() + at, sizeof value);
  return value;
}

enum Wire : std::uint32_t { kVarint = 0, kFixed64 = 1, kBytes = 2, kFixed32 = 5 };

// Field numbers of tensorboard/compat/proto.
namespace event {
constexpr std::uint32_t kWallTime = 1, kStep = 2, kFileVersion = 3, kSummary = 5, kSessionLog = 7;
}
namespace session_log {
constexpr std::uint32_t kStatus = 1;
constexpr std::uint64_t kStart = 1;
}  // namespace session_log
namespace summary {
constexpr std::uint32_t kValue = 1;
}
namespace value {
constexpr std::uint32_t kTag = 1, kSimpleValue = 2, kTensor = 8, kMetadata = 9;
}
namespace metadata {
constexpr std::uint32_t kPluginData = 1, kDataClass = 4;
constexpr std::uint64_t kDataClassTensor = 2;
}  // namespace metadata
namespace plugin_data {
constexpr std::uint32_t kPluginName = 1;
}
namespace tensor {
constexpr std::uint32_t kDtype = 1, kShape = 2, kStringVal = 8;
constexpr std::uint64_t kString = 7;
}  // namespace tensor
namespace shape {
constexpr std::uint32_t kDim = 2, kSize = 1;
}

void put_varint(std::string& out, std::uint64_t value) {
  for (; value >= 0x80; value >>= 7) out += static_cast<char>(value | 0x80);
  out += static_cast<char>(value);
}

void put_key(std::string& out, std::uint32_t field, Wire wire) { put_varint(out, field << 3 | wire); }

void put_number(std::string& out, std::uint32_t field, std::uint64_t value) {
  put_key(out, field, kVarint);
  put_varint(out, value);
}

void put_bytes(std::string& out, std::uint32_t field, std::string_view bytes) {
  put_key(out, field, kBytes);
  put_varint(out, bytes.size());
  out += bytes;
}

std::string begin_event(double wall_time, std::int64_t step) {
  std::string out;
  put_key(out, event::kWallTime, kFixed64);
  put(out, wall_time);
  if (step != 0) put_number(out, event::kStep, static_cast<std::uint64_t>(step));
  return out;
}

/// Removes a varint from the front of `bytes`.
std::optional<std::uint64_t> take_varint(std::string_view& bytes) {
  std::uint64_t value = 0;
  for (std::size_t i = 0; i < bytes.size() && i < 10; ++i) {
    const auto byte = static_cast<unsigned char>(bytes[i]);
    value |= static_cast<std::uint64_t>(byte & 0x7f) << (7 * i);
    if (byte < 0x80) {
      bytes.remove_prefix(i + 1);
      return value;
    }
  }
  return std::nullopt;
}

}  // namespace

std::string event_record(std::string_view data) {
  std::string out;
  put(out, std::uint64_t{data.size()});
  put(out, masked_crc(out));
  out += data;
  put(out, masked_crc(data));
  return out;
}

std::optional<std::uint64_t> record_length(std::string_view head) {
  constexpr std::size_t kLength = 8;
  if (get<std::uint32_t>(head, kLength) != masked_crc(head.substr(0, kLength))) return std::nullopt;
  return get<std::uint64_t>(head, 0);
}

bool record_matches(std::string_view data, std::string_view tail) {
  return get<std::uint32_t>(tail, 0) == masked_crc(data);
}

std::string version_event(double wall_time) {
  std::string out = begin_event(wall_time, 0);
  put_bytes(out, event::kFileVersion, "brain.Event:2");
  return out;
}

std::string restart_event(double wall_time, std::int64_t step) {
  std::string log, out = begin_event(wall_time, step);
  put_number(log, session_log::kStatus, session_log::kStart);
  put_bytes(out, event::kSessionLog, log);
  return out;
}

std::string scalars_event(double wall_time, std::int64_t step, std::span<const Scalar> scalars) {
  std::string values, out = begin_event(wall_time, step);
  for (const Scalar& scalar : scalars) {
    std::string one;
    put_bytes(one, value::kTag, scalar.tag);
    put_key(one, value::kSimpleValue, kFixed32);
    put(one, scalar.value);
    put_bytes(values, summary::kValue, one);
  }
  put_bytes(out, event::kSummary, values);
  return out;
}

std::string text_event(double wall_time, std::int64_t step, std::string_view tag, std::string_view text) {
  std::string plugin, about, dim, size, content, one, values, out = begin_event(wall_time, step);
  put_bytes(plugin, plugin_data::kPluginName, "text");
  put_bytes(about, metadata::kPluginData, plugin);
  put_number(about, metadata::kDataClass, metadata::kDataClassTensor);
  put_number(size, shape::kSize, 1);
  put_bytes(dim, shape::kDim, size);
  put_number(content, tensor::kDtype, tensor::kString);
  put_bytes(content, tensor::kShape, dim);
  put_bytes(content, tensor::kStringVal, text);
  put_bytes(one, value::kTag, tag);
  put_bytes(one, value::kTensor, content);
  put_bytes(one, value::kMetadata, about);
  put_bytes(values, summary::kValue, one);
  put_bytes(out, event::kSummary, values);
  return out;
}

std::optional<EventHead> read_event(std::string_view data) {
  EventHead head;
  while (!data.empty()) {
    const std::optional<std::uint64_t> key = take_varint(data);
    if (!key) return std::nullopt;
    const std::uint64_t field = *key >> 3;
    std::uint64_t skipped = 0;
    switch (*key & 7) {
      case kVarint: {
        const std::optional<std::uint64_t> number = take_varint(data);
        if (!number) return std::nullopt;
        if (field == event::kStep) head.step = static_cast<std::int64_t>(*number);
        break;
      }
      case kFixed64: skipped = 8; break;
      case kFixed32: skipped = 4; break;
      case kBytes: {
        const std::optional<std::uint64_t> length = take_varint(data);
        if (!length) return std::nullopt;
        skipped = *length;
        head.has_values |= field == event::kSummary;
        break;
      }
      default: return std::nullopt;
    }
    if (skipped > data.size()) return std::nullopt;
    data.remove_prefix(skipped);
  }
  return head;
}

KeptEvents kept_events(std::istream& in, std::uint64_t size, std::int64_t step) {
  KeptEvents kept;
  std::string head(kRecordHead, '\0'), data, tail(kRecordTail, '\0');
  while (size - kept.bytes >= kRecordHead) {
    in.read(head.data(), kRecordHead);
    const std::optional<std::uint64_t> length = record_length(head);
    const std::uint64_t left = size - kept.bytes - kRecordHead;
    if (length && (left < kRecordTail || *length > left - kRecordTail)) break;  // torn by a kill
    data.resize(length.value_or(0));
    in.read(data.data(), static_cast<std::streamsize>(data.size()));
    in.read(tail.data(), kRecordTail);
    const std::optional<EventHead> event = length && in && record_matches(data, tail) ? read_event(data) : std::nullopt;
    kept.damaged = !event;
    if (!event || event->step > step) break;
    kept.bytes += kRecordHead + data.size() + kRecordTail;
    kept.has_values |= event->has_values;
  }
  return kept;
}

}  // namespace llmc
