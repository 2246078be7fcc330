// The device files that llmc has within itself.
#pragma once

#include <vector>

namespace llmc::devices {

struct File {
  const char* name;  // "h100-sxm.yaml"
  const char* text;
};

const std::vector<File>& files();

}  // namespace llmc::devices
