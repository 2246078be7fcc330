// Files that the page is made of, which the build puts into llmc: those of page/, and third_party/uplot.
#pragma once

namespace llmc::runs::files {

extern const char* const kBody;
extern const char* const kStyle;
extern const char* const kPage;
extern const char* const kCharts;
extern const char* const kPlotLibrary;
extern const char* const kPlotStyle;
extern const char* const kPlotLicense;

}  // namespace llmc::runs::files
