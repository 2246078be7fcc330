// Recognises the pointer files that Git LFS leaves in place of large files not fetched.
#pragma once

#include <cstddef>
#include <string_view>

namespace llmc {

/// Git LFS reads no larger pointer than this, in bytes.
inline constexpr std::size_t kMaxLfsPointerBytes = 1024;

/// Returns whether `text`, the whole content of a file, is a Git LFS pointer.
inline bool is_lfs_pointer(std::string_view text) {
  return text.size() < kMaxLfsPointerBytes && text.starts_with("version https://git-lfs.github.com/spec/");
}

inline constexpr char kIsLfsPointer[] =
    "is a Git LFS pointer, not the file itself. Run `git lfs pull` in its repository to fetch the file";

}  // namespace llmc
