// Files of the page of `llmc report`, which the build embeds in llmc: those of page/.
#pragma once

namespace llmc::runs::files {

extern const char* const kBody;
extern const char* const kPage;
extern const char* const kCharts;
extern const char* const kSweep;

}  // namespace llmc::runs::files
