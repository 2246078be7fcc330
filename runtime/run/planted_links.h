// Refuses links in a folder that llmc writes to: nothing is written, cut or removed through one.
#pragma once

#include <filesystem>

#include "files/durable_file.h"

namespace llmc {

/// Throws Failure(writer.exit) naming a link in `folder` under a name that a run folder or a mirror uses: its logs and
/// text files, state/, checkpoints/ and the checkpoints, tensorboard/, ranks/, and their content. `folder` itself may
/// be a link. Other names belong to the user.
void refuse_planted_links(const std::filesystem::path& folder, const Writer& writer);

}  // namespace llmc
