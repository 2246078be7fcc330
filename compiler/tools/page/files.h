// Files shared by all pages, which the build embeds in llmc: those of files/ and third_party/uplot.
#pragma once

namespace llmc::page::files {

extern const char* const kStyle;
extern const char* const kElements;
extern const char* const kNumbers;
extern const char* const kAxes;
extern const char* const kPlotLibrary;
extern const char* const kPlotStyle;
extern const char* const kPlotLicense;

}  // namespace llmc::page::files
