// Finds all damage of a checkpoint: `llmc checkpoint verify`.
#pragma once

#include <filesystem>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "checkpoint/state_access.h"
#include "spec/spec.h"

namespace llmc::checkpoints {

/// One defect.
struct Damage {
  std::string file;    // of the checkpoint
  std::string tensor;  // of that file; empty: the whole file, or unknown
  std::string what;
};

struct DamageReport {
  std::filesystem::path path;
  std::int64_t files = 0, bytes = 0, tensors = 0;  // that were read
  std::vector<Damage> damage;                      // empty: complete
  bool removed = false;                            // meanwhile: `damage` is of the part that was still to be read
  std::vector<std::string> strangers;              // files that the manifest does not list
};

/// Contents of a checkpoint of a run of this spec.
std::vector<SavedBuffer> buffers_of(const spec::Spec& spec);

/// Reads all of a checkpoint: the manifest, every file's size and checksum, headers, state and spec, and whether every
/// tensor of the spec's model is there with its shape and what the optimizer keeps of it. `buffers`: what a run of a
/// spec saves. Throws Failure(checkpoint) only where there is no such folder.
DamageReport inspect_checkpoint(const std::filesystem::path& checkpoint,
                                std::vector<SavedBuffer> (*buffers)(const spec::Spec&) = buffers_of);

/// Prints one line, and one for each defect; only the first few tensors of a file.
std::string damage_text(const DamageReport& verdict);
nlohmann::ordered_json damage_json(const DamageReport& verdict);

}  // namespace llmc::checkpoints
