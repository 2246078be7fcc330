#include "step/replicas.h"

#include <fmt/format.h>

#include <algorithm>
#include <string_view>

#include "comm/rendezvous.h"
#include "comm/together.h"
#include "files/durable_file.h"
#include "step/session.h"

namespace llmc {

namespace {

constexpr std::size_t kBlock = std::size_t{16} << 20;  // bytes on the host at once

std::string checksum(Session& session, const Replica& replica, std::vector<std::byte>& block) {
  Checksum checksum;
  for (const auto& [offset, bytes] : replica.intervals)
    for (std::size_t done = 0; done < bytes; done += block.size()) {
      block.resize(std::min(kBlock, bytes - done));
      session.read(offset + done, block);
      checksum.update(block.data(), block.size());
    }
  return checksum.hex();
}

}  // namespace

std::vector<Replica> replicas(const ProgramInfo& info) {
  std::vector<Replica> list;
  for (const Buffer& buffer : info.buffers) {
    Replica replica{buffer.name, {}};
    const bool saved = buffer.use == Use::masters || buffer.use == Use::copies || buffer.use == Use::rest ||
                       buffer.use == Use::ties || buffer.use == Use::state;
    const bool whole = saved && info.shard == Shard::none;
    if (whole || buffer.use == Use::row_state) replica.intervals.push_back({buffer.offset, buffer.bytes()});
    for (const Gathered& gathered : info.gathered)
      if (std::string_view(gathered.buffer) == buffer.name)
        replica.intervals.push_back({buffer.offset + static_cast<std::size_t>(bytes_of(buffer.dtype, gathered.offset)),
                                     static_cast<std::size_t>(bytes_of(buffer.dtype, gathered.elements))});
    if (!replica.intervals.empty()) list.push_back(std::move(replica));
  }
  return list;
}

void compare_replicas(Session& session, Rendezvous& ranks, std::int64_t step) {
  session.gather_weights();
  Rendezvous::Facts checksums;
  std::vector<std::byte> block;
  for (const Replica& replica : replicas(session.info()))
    checksums.emplace_back(replica.name, checksum(session, replica, block));
  const Rendezvous::Difference difference = ranks.compare(checksums);
  if (difference.text.empty()) return;
  const std::string who = difference.alone.empty()
                              ? "the ranks have diverged, and no majority of them agrees"
                              : fmt::format("{} diverged from the others", ranks.names(difference.alone));
  throw SharedFailure(
      Exit::numerics,
      fmt::format(
          "{}: after step {} the checksums of replicated values differ: {}. This step is not saved. The memory or "
          "arithmetic of such a machine failed. Test it or leave it out, and resume from the newest checkpoint",
          who, step, difference.text));
}

}  // namespace llmc
