// Files that the page of `llmc plan --html` has of its own, which the build puts into llmc: those of page/.
#pragma once

namespace llmc::report::files {

extern const char* const kBody;
extern const char* const kStyle;
extern const char* const kCharts;
extern const char* const kPage;

}  // namespace llmc::report::files
