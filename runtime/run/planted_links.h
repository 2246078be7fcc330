// Links in a folder that llmc writes to: nothing is written, cut or removed through one.
#pragma once

#include <filesystem>

#include "files/durable_file.h"

namespace llmc {

/// Throws Failure(writer.exit) that names a link in `folder` under any name that a run folder or a mirror has: its logs
/// and texts, state/, checkpoints/ and the checkpoints, tensorboard/, ranks/, and what lies in these. `folder` itself
/// may be a link, and other names are their owner's.
void refuse_planted_links(const std::filesystem::path& folder, const Writer& writer = kRunWriter);

}  // namespace llmc
