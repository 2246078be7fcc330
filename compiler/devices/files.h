// Device files that are built into llmc.
#pragma once

#include <vector>

namespace llmc::devices {

struct File {
  const char* name;  // "h100-sxm.yaml"
  const char* text;
};

const std::vector<File>& files();

}  // namespace llmc::devices
