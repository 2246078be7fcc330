// Files that the page of `llmc report` has of its own, which the build puts into llmc: those of page/.
#pragma once

namespace llmc::runs::files {

extern const char* const kBody;
extern const char* const kPage;
extern const char* const kCharts;

}  // namespace llmc::runs::files
