// Specialises a kernel template for its params by editing the text: readable source with the numbers in place.
#pragma once

#include <filesystem>
#include <string>
#include <vector>

#include "spec/spec.h"

namespace llmc::emit {

/// One line of params.h: `constexpr type name = value;`, or `using name = value;` where type is "using". Constants are
/// int, unsigned, (unsigned) long, (unsigned) long long, bool, float or double. Where type is "macro", value is the
/// expansion of that macro, whose definition precedes the namespace.
struct Param {
  std::string type;
  std::string name;
  std::string value;
  bool operator==(const Param&) const = default;
};

/// Macro at the end of an entry's parameter list, for the operands that only some instances have (device/types.h).
inline constexpr char kFurtherOperands[] = "LLMC_FURTHER_OPERANDS";

/// Prints the declarations of a params.h in namespace llmc, one per line, in order; the stable text form of params.
std::string params_text(const std::vector<Param>& params);

/// Prints the definitions of the params that are macros. They have to precede the template's text.
std::string macros_text(const std::vector<Param>& params);

/// Returns the names among `known` that the template's text reads, in the order of `known`.
std::vector<std::string> params_read(const std::string& template_text, const std::vector<Param>& known);

/// Returns the text followed by the params' values: a param may be read by another one alone.
std::string with_values(std::string text, const std::vector<Param>& params);

struct SpecialiseInput {
  std::string template_name;  // the entry function that template_text defines
  std::string template_file;  // file name in diagnostics and in the #include of include_style()
  std::string template_text;
  std::vector<Param> params;
  spec::TargetKind target = spec::TargetKind::cpu;
  std::string arch;                         // "sm_90a"; on cpu a value of -march, or empty: the text is for any
  std::string entry;                        // name of the instance; may equal template_name
  std::filesystem::path include_directory;  // holds device/group.h
  std::vector<std::string> header;          // lines of the comment at the top, without "//"
};

struct Specialised {
  std::string text;
  std::string declaration;  // result of declaration()
};

/// Returns the instance as source text, and its declaration from the same parse. Branches that are not taken and
/// declarations that the entry cannot reach are dropped. Params are numbers, the entry has its name, comments stay, and
/// the text is formatted. Safe to call from several threads. Specialising the output again, without params and header,
/// gives the same text. Throws Failure(internal) with file:line on any Clang diagnostic, on overlapping edits, for a
/// param that the template does not read, and for a params name that cannot be replaced: in a macro body, in a header,
/// in code that the preprocessor skips.
Specialised specialise(const SpecialiseInput& input);

/// Returns the declaration of the instance's entry with aliases of the params spelled out. Throws as specialise() does,
/// and if the template has no such function.
std::string declaration(const SpecialiseInput& input);

/// Returns the instance for --style=include: the params, the instance's name as a macro, and an #include of
/// template_file. It compiles with three include directories: include_directory, the folder that template_file is
/// relative to, and that of the template's own params.h, which must be empty if LLMC_PARAMS_GIVEN is defined. Checks
/// the params' names, not the template.
std::string include_style(const SpecialiseInput& input);

/// Formats the text in the project's style.
std::string format(const std::string& text);

}  // namespace llmc::emit
