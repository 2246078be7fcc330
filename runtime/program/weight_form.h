// How the files of a model type of transformers store weights, where that differs from llmc's own files.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace llmc {

/// Part of a tensor's name.
struct NamePart {
  const char *own, *theirs;
};

struct WeightForm {
  std::vector<NamePart> names = {};  // of their parts a name has at most one
  bool fused_mlp = false;            // gate and up are rows of one tensor, mlp.gate_up_proj
  /// head_dim of a model that rotates by minus the angle, otherwise 0. Its q and k have the second half of each head
  /// with the other sign: a score stays the same, because a rotation by minus the angle mirrors these elements.
  std::int64_t mirrored_head = 0;

  std::string name_of(std::string own) const {
    for (const NamePart& part : names)
      if (const auto at = own.find(part.own); at != std::string::npos)
        return own.replace(at, std::string_view(part.own).size(), part.theirs);
    return own;
  }

  /// Whether rows of the tensor have the other sign, and which. A vector's elements count as rows.
  bool mirrors(std::string_view own) const {
    return mirrored_head && (own.find(".self_attn.q_proj.") != own.npos || own.find(".self_attn.k_proj.") != own.npos);
  }
  bool mirrors_row(std::int64_t row) const { return row % mirrored_head >= mirrored_head / 2; }
};

}  // namespace llmc
