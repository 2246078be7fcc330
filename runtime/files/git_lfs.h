// What Git leaves in place of a large file that was not fetched.
#pragma once

#include <cstddef>
#include <string_view>

namespace llmc {

/// Bytes of the largest pointer that Git LFS reads.
inline constexpr std::size_t kMaxLfsPointerBytes = 1024;

/// Whether `text`, all of a file, is a pointer to the file that is meant.
inline bool is_lfs_pointer(std::string_view text) {
  return text.size() < kMaxLfsPointerBytes && text.starts_with("version https://git-lfs.github.com/spec/");
}

inline constexpr char kIsLfsPointer[] =
    "is a Git LFS pointer, not the file that it stands for; `git lfs pull` in its repository fetches that";

}  // namespace llmc
