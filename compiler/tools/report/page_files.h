// Files of the page of `llmc plan --html`, which the build embeds in llmc: those of page/.
#pragma once

namespace llmc::report::files {

extern const char* const kBody;
extern const char* const kStyle;
extern const char* const kCharts;
extern const char* const kPage;

}  // namespace llmc::report::files
