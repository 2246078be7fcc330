// The version of llmc and of the trainers that it makes. CMakeLists.txt reads it here.
#pragma once

namespace llmc {

inline constexpr char kVersion[] = "0.1.0";

}  // namespace llmc
