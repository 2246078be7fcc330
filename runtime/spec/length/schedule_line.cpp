#include "spec/length/schedule_line.h"

#include <langinfo.h>
#include <locale.h>

#include <algorithm>
#include <cmath>
#include <string_view>

#include "spec/length/schedule.h"

namespace llmc {

bool prints_utf8() {
  const locale_t locale = newlocale(LC_CTYPE_MASK, "", nullptr);
  if (!locale) return false;
  const bool utf8 = std::string_view(nl_langinfo_l(CODESET, locale)) == "UTF-8";
  freelocale(locale);
  return utf8;
}

std::string schedule_line(const spec::Schedule& schedule, double peak, int columns, bool utf8) {
  constexpr std::string_view kBlocks[] = {"▁", "▂", "▃", "▄", "▅", "▆", "▇", "█"};
  constexpr std::string_view kLetters[] = {"_", ".", "-", "~", "=", "+", "*", "#"};
  std::string line;
  for (int i = 0; i < columns; ++i) {
    const double middle = (i + 0.5) / columns * static_cast<double>(schedule.steps - schedule.from_step);
    const double rate = learning_rate(schedule, peak, schedule.from_step + static_cast<std::int64_t>(middle));
    const double part = peak > 0 ? rate / peak : 0;
    const int level = std::clamp(static_cast<int>(std::ceil(8 * part)) - 1, 0, 7);
    line += utf8 ? kBlocks[level] : kLetters[level];
  }
  return line;
}

}  // namespace llmc
