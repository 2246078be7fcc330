// TensorBoard events: the protobuf fields that a trainer writes, and the TFRecords that contain them.
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

/// Encodes a TFRecord: length, its checksum, `data`, its checksum. Both are masked CRC-32C.
std::string event_record(std::string_view data);

inline constexpr std::size_t kRecordHead = 12, kRecordTail = 4;
/// Bytes of data that a record's header announces; nothing if its checksum is wrong.
std::optional<std::uint64_t> record_length(std::string_view head);
/// Returns whether a record's footer matches the checksum of its data.
bool record_matches(std::string_view data, std::string_view tail);

/// Encode messages `Event`. Wall times are seconds since 1970. version_event() is the first record of a file.
std::string version_event(double wall_time);
/// Makes readers drop everything from `step` on.
std::string restart_event(double wall_time, std::int64_t step);
std::string scalars_event(double wall_time, std::int64_t step, std::span<const Scalar> scalars);
/// `text`: UTF-8, rendered by TensorBoard as Markdown.
std::string text_event(double wall_time, std::int64_t step, std::string_view tag, std::string_view text);

/// Fields of an Event that truncation needs.
struct EventHead {
  std::int64_t step = 0;
  bool has_values = false;  // scalars or text
};
/// Nothing if `data` is no Event.
std::optional<EventHead> read_event(std::string_view data);

/// Prefix of a file that remains when a run goes back: `bytes` bytes of whole records.
struct KeptEvents {
  std::uint64_t bytes = 0;
  bool has_values = false;  // scalars or text
  bool damaged = false;     // the rest is not a record or not an Event; a rest that only ends early counts as torn
};
/// Finds the prefix of a file of `size` bytes for a run that resumes after `step`. Steps only grow within a file.
KeptEvents kept_events(std::istream& in, std::uint64_t size, std::int64_t step);

}  // namespace llmc
