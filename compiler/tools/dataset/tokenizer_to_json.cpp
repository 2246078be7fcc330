#include "compiler/tools/dataset/tokenizer_to_json.h"

#include <fmt/format.h>
#include <sentencepiece_processor.h>

#include <algorithm>
#include <nlohmann/json.hpp>
#include <tuple>
#include <unordered_map>
#include <vector>

#include "error.h"
#include "text/utf8.h"

namespace llmc::data {

namespace {

using Json = nlohmann::ordered_json;

constexpr char kMarker[] = "\xe2\x96\x81";  // U+2581, in place of a blank

Json replace(const char* from, const char* to) {
  return {{"type", "Replace"}, {"pattern", {{"String", from}}}, {"content", to}};
}

Json special(int id, const std::string& piece) {
  return {{"id", id},        {"content", piece},    {"single_word", false}, {"lstrip", false},
          {"rstrip", false}, {"normalized", false}, {"special", true}};
}

/// Returns [left, right] of all merges in the order of their ranks.
Json merges_of(const sentencepiece::SentencePieceProcessor& pieces) {
  std::unordered_map<std::string, int> normal;
  for (int id = 0; id < pieces.GetPieceSize(); ++id)
    if (!pieces.IsByte(id) && !pieces.IsControl(id) && !pieces.IsUnknown(id) && !pieces.IsUnused(id))
      normal.emplace(pieces.IdToPiece(id), id);
  struct Merge {
    float score;
    int left, right;
    std::string left_piece, right_piece;
  };
  std::vector<Merge> merges;
  for (const auto& [piece, id] : normal)
    for (std::size_t cut = utf8_length(piece); cut > 0 && cut < piece.size();
         cut += std::max<std::size_t>(1, utf8_length(std::string_view(piece).substr(cut)))) {
      const auto left = normal.find(piece.substr(0, cut)), right = normal.find(piece.substr(cut));
      if (left != normal.end() && right != normal.end())
        merges.push_back({pieces.GetScore(id), left->second, right->second, left->first, right->first});
    }
  std::ranges::sort(merges, [](const Merge& a, const Merge& b) {
    return std::tuple(-a.score, a.left, a.right) < std::tuple(-b.score, b.left, b.right);
  });
  Json list = Json::array();
  for (const Merge& merge : merges) list.push_back({merge.left_piece, merge.right_piece});
  return list;
}

}  // namespace

std::string tokenizer_to_json(std::string_view model) {
  sentencepiece::SentencePieceProcessor pieces;
  if (const auto status = pieces.LoadFromSerializedProto(model); !status.ok())
    throw Failure(Exit::data, fmt::format("sentencepiece cannot read its model: {}", status.message()));
  Json vocabulary = Json::object(), added = Json::array();
  for (int id = 0; id < pieces.GetPieceSize(); ++id) {
    vocabulary[pieces.IdToPiece(id)] = id;
    if (pieces.IsControl(id) || pieces.IsUnknown(id)) added.push_back(special(id, pieces.IdToPiece(id)));
  }
  const Json decoders = {replace(kMarker, " "), {{"type", "ByteFallback"}}, {{"type", "Fuse"}}};
  const Json document = {{"version", "1.0"},
                         {"truncation", nullptr},
                         {"padding", nullptr},
                         {"added_tokens", added},
                         {"normalizer", replace(" ", kMarker)},
                         {"pre_tokenizer", nullptr},
                         {"post_processor", nullptr},
                         {"decoder", {{"type", "Sequence"}, {"decoders", decoders}}},
                         {"model",
                          {{"type", "BPE"},
                           {"dropout", nullptr},
                           {"unk_token", pieces.IdToPiece(pieces.unk_id())},
                           {"continuing_subword_prefix", nullptr},
                           {"end_of_word_suffix", nullptr},
                           {"fuse_unk", true},
                           {"byte_fallback", true},
                           {"ignore_merges", false},
                           {"vocab", vocabulary},
                           {"merges", merges_of(pieces)}}}};
  return document.dump(2) + "\n";
}

}  // namespace llmc::data
