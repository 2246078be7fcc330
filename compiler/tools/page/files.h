// Files that every page is made of, which the build puts into llmc: those of files/, and third_party/uplot.
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
