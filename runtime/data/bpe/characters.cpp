#include "data/bpe/characters.h"

#include <utf8proc.h>

#include <algorithm>
#include <array>
#include <cstddef>
#include <iterator>
#include <span>
#include <vector>

#include "error.h"

namespace llmc {
namespace {

struct Range {
  char32_t first, last;
};
/// Letters and numbers of Unicode 15.1 and 16, which utf8proc 2.8 has as unassigned (DerivedGeneralCategory.txt).
constexpr std::array<Range, 22> kNewLetters = {{
    {0x1c89, 0x1c8a},   {0xa7cb, 0xa7cd},   {0xa7da, 0xa7dc},   {0x105c0, 0x105f3}, {0x10d4a, 0x10d65},
    {0x10d6f, 0x10d85}, {0x10ec2, 0x10ec4}, {0x11380, 0x11389}, {0x1138b, 0x1138b}, {0x1138e, 0x1138e},
    {0x11390, 0x113b5}, {0x113b7, 0x113b7}, {0x113d1, 0x113d1}, {0x113d3, 0x113d3}, {0x11bc0, 0x11be0},
    {0x13460, 0x143fa}, {0x16100, 0x1611d}, {0x16d40, 0x16d6c}, {0x18cff, 0x18cff}, {0x1e5d0, 0x1e5ed},
    {0x1e5f0, 0x1e5f0}, {0x2ebf0, 0x2ee5d},
}};
constexpr std::array<Range, 7> kNewNumbers = {{
    {0x10d40, 0x10d49},
    {0x116d0, 0x116e3},
    {0x11bf0, 0x11bf9},
    {0x16130, 0x16139},
    {0x16d70, 0x16d79},
    {0x1ccf0, 0x1ccf9},
    {0x1e5f1, 0x1e5fa},
}};

/// Characters that are not reordered or composed with others. The package's tables are of Unicode 9, and the combining
/// marks of later versions are other characters to it. utf8proc 2.8 takes U+11A7 after a syllable of Hangul as a final
/// consonant of index 0 and drops it.
constexpr std::array<Range, 37> kBarriers = {
    {{0x7fd, 0x7fd},     {0x898, 0x89f},     {0x8ca, 0x8d3},     {0x9fe, 0x9fe},     {0xc3c, 0xc3c},
     {0xd3b, 0xd3c},     {0xeba, 0xeba},     {0x11a7, 0x11a7},   {0x1715, 0x1715},   {0x1abf, 0x1ace},
     {0x1df6, 0x1dfa},   {0xa82c, 0xa82c},   {0x10d24, 0x10d27}, {0x10eab, 0x10eac}, {0x10efd, 0x10eff},
     {0x10f46, 0x10f50}, {0x10f82, 0x10f85}, {0x11070, 0x11070}, {0x1133b, 0x1133b}, {0x1145e, 0x1145e},
     {0x11839, 0x1183a}, {0x1193d, 0x1193e}, {0x11943, 0x11943}, {0x119e0, 0x119e0}, {0x11a34, 0x11a34},
     {0x11a47, 0x11a47}, {0x11a99, 0x11a99}, {0x11d42, 0x11d42}, {0x11d44, 0x11d45}, {0x11d97, 0x11d97},
     {0x11f41, 0x11f42}, {0x16ff0, 0x16ff1}, {0x1e08f, 0x1e08f}, {0x1e130, 0x1e136}, {0x1e2ae, 0x1e2ae},
     {0x1e2ec, 0x1e2ef}, {0x1e4ec, 0x1e4ef}}};

bool is_barrier(char32_t point) {
  const auto after = std::ranges::upper_bound(kBarriers, point, {}, &Range::first);
  return after != kBarriers.begin() && point <= std::prev(after)->last;
}

CharacterClass from_utf8proc(char32_t point) {
  switch (utf8proc_category(static_cast<utf8proc_int32_t>(point))) {
    case UTF8PROC_CATEGORY_LU:
    case UTF8PROC_CATEGORY_LL:
    case UTF8PROC_CATEGORY_LT:
    case UTF8PROC_CATEGORY_LM:
    case UTF8PROC_CATEGORY_LO: return CharacterClass::letter;
    case UTF8PROC_CATEGORY_ND:
    case UTF8PROC_CATEGORY_NL:
    case UTF8PROC_CATEGORY_NO: return CharacterClass::number;
    case UTF8PROC_CATEGORY_ZS:
    case UTF8PROC_CATEGORY_ZL:
    case UTF8PROC_CATEGORY_ZP: return CharacterClass::space;
    default: return (point >= 0x9 && point <= 0xd) || point == 0x85 ? CharacterClass::space : CharacterClass::other;
  }
}

/// utf8proc's own function orders marks by adjacent swaps, which takes quadratic time.
void append_nfc(std::string_view text, std::string& normal) {
  constexpr auto kOptions = static_cast<utf8proc_option_t>(UTF8PROC_STABLE | UTF8PROC_COMPOSE);
  const auto combining = [](utf8proc_int32_t point) { return utf8proc_get_property(point)->combining_class; };
  std::vector<utf8proc_int32_t> points;
  points.reserve(text.size() + 1);
  std::size_t run = 0;  // start of the marks at the end
  const auto sort_run = [&] {
    std::ranges::stable_sort(points.begin() + static_cast<std::ptrdiff_t>(run), points.end(), {}, combining);
  };
  while (!text.empty()) {
    const Character next = first_character(text);
    text.remove_prefix(next.bytes);
    std::array<utf8proc_int32_t, 32> parts;
    int unused = 0;
    const utf8proc_ssize_t count = utf8proc_decompose_char(static_cast<utf8proc_int32_t>(next.point), parts.data(),
                                                           parts.size(), kOptions, &unused);
    if (count < 0 || count > static_cast<utf8proc_ssize_t>(parts.size()))
      throw Failure(Exit::internal, "utf8proc refuses text that is valid UTF-8");
    for (const utf8proc_int32_t point : std::span(parts).first(static_cast<std::size_t>(count))) {
      const bool starter = combining(point) == 0;
      if (starter) sort_run();
      points.push_back(point);
      if (starter) run = points.size();
    }
  }
  sort_run();
  const auto count = static_cast<utf8proc_ssize_t>(points.size());
  points.push_back(0);  // utf8proc_reencode() writes a zero byte after the text
  const utf8proc_ssize_t bytes = utf8proc_reencode(points.data(), count, kOptions);
  if (bytes < 0) throw Failure(Exit::internal, "utf8proc refuses text that is valid UTF-8");
  normal.append(reinterpret_cast<const char*>(points.data()), static_cast<std::size_t>(bytes));
}

}  // namespace

CharacterClass class_of(char32_t point) {
  // A byte each: a query of utf8proc for each character takes longer than the rest of splitting.
  static const std::vector<CharacterClass> table = [] {
    std::vector<CharacterClass> classes(0x110000);
    for (char32_t point = 0; point < classes.size(); ++point) classes[point] = from_utf8proc(point);
    for (const Range& range : kNewLetters)
      for (char32_t point = range.first; point <= range.last; ++point) classes[point] = CharacterClass::letter;
    for (const Range& range : kNewNumbers)
      for (char32_t point = range.first; point <= range.last; ++point) classes[point] = CharacterClass::number;
    return classes;
  }();
  return table[point];
}

Character first_character(std::string_view text) {
  const auto byte = [&](std::size_t i) { return static_cast<char32_t>(static_cast<unsigned char>(text[i])); };
  const char32_t first = byte(0);
  if (first < 0x80) return {first, 1};
  if (first < 0xe0) return {(first & 0x1f) << 6 | (byte(1) & 0x3f), 2};
  if (first < 0xf0) return {(first & 0xf) << 12 | (byte(1) & 0x3f) << 6 | (byte(2) & 0x3f), 3};
  return {(first & 7) << 18 | (byte(1) & 0x3f) << 12 | (byte(2) & 0x3f) << 6 | (byte(3) & 0x3f), 4};
}

std::string to_nfc(std::string_view text) {
  std::string normal;
  std::size_t start = 0;
  for (std::size_t at = 0; at < text.size();) {
    const Character next = first_character(text.substr(at));
    if (next.point >= kBarriers.front().first && is_barrier(next.point)) {
      append_nfc(text.substr(start, at - start), normal);
      normal += text.substr(at, next.bytes);
      start = at + next.bytes;
    }
    at += next.bytes;
  }
  append_nfc(text.substr(start), normal);
  return normal;
}

}  // namespace llmc
