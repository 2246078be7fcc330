// TensorBoard's events: the few fields of its protobuf messages that a trainer writes, and the records they lie in.
#pragma once

#include <cstddef>
#include <cstdint>
#include <iosfwd>
#include <optional>
#include <span>
#include <string>
#include <string_view>

namespace llmc {

struct Scalar {
  std::string tag;  // "train/loss"
  float value;
};

/// A TFRecord: length, its checksum, `data`, its checksum; both CRC-32C, rotated and shifted as TFRecord wants it.
std::string event_record(std::string_view data);

inline constexpr std::size_t kRecordHead = 12, kRecordTail = 4;
/// Bytes of data that a record's head announces; nothing where its checksum is wrong.
std::optional<std::uint64_t> record_length(std::string_view head);
/// Whether a record's tail is the checksum of its data.
bool record_matches(std::string_view data, std::string_view tail);

/// Messages `Event`. Wall times are seconds since 1970.
/// What a file begins with.
std::string version_event(double wall_time);
/// A reader forgets what it has read of `step` and later.
std::string restart_event(double wall_time, std::int64_t step);
std::string scalars_event(double wall_time, std::int64_t step, std::span<const Scalar> scalars);
/// `text`: UTF-8, which TensorBoard shows as Markdown.
std::string text_event(double wall_time, std::int64_t step, std::string_view tag, std::string_view text);

/// What the cutting of a file needs of an Event.
struct EventHead {
  std::int64_t step = 0;
  bool has_values = false;  // scalars or text
};
/// Nothing where `data` is no such message.
std::optional<EventHead> read_event(std::string_view data);

/// What of a file stays when a run goes back: its first `bytes`, whole records all.
struct KeptEvents {
  std::uint64_t bytes = 0;
  bool has_values = false;  // scalars or text
  bool damaged = false;     // what follows is no record and no message; one that only ends too early is torn
};
/// Of a file of `size` bytes, and a run that goes on behind `step`: within a file steps only grow, so that what is kept
/// is its beginning.
KeptEvents kept_events(std::istream& in, std::uint64_t size, std::int64_t step);

}  // namespace llmc
