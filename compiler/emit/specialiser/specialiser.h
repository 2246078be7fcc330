// The specialiser: turns a kernel template and its params into readable source with the numbers in place, editing the
// text.
#pragma once

#include <filesystem>
#include <string>
#include <vector>

#include "spec/spec.h"

namespace llmc::emit {

/// One line of params.h: `constexpr type name = value;`, or `using name = value;` where type is "using".
/// Constants are int, unsigned, (unsigned) long, (unsigned) long long, bool, float or double.
struct Param {
  std::string type;
  std::string name;
  std::string value;
  bool operator==(const Param&) const = default;
};

/// The declarations of a params.h: one a line, in order, in namespace llmc. One line of text a param is their stable
/// form.
std::string params_text(const std::vector<Param>& params);

/// Reads the declarations back from the text of a params.h. Throws Failure(internal) with file:line on anything else
/// than comments, directives, `namespace llmc { }`, `constexpr` and `using` declarations.
std::vector<Param> parse_params(const std::string& text, const std::string& file);

/// The names among `known` that the template's text reads, in the order of `known`.
std::vector<std::string> params_read(const std::string& template_text, const std::vector<Param>& known);

struct SpecialiseInput {
  std::string template_name;  // the entry function that template_text defines
  std::string template_file;  // how diagnostics name the file, and what include_style() includes
  std::string template_text;
  std::vector<Param> params;
  spec::TargetKind target = spec::TargetKind::cpu;
  std::string arch;                         // "sm_90a"; on cpu as -march names it, or empty: the text is for any
  std::string entry;                        // name of the instance; may equal template_name
  std::filesystem::path include_directory;  // holds device/group.h
  std::vector<std::string> header;          // lines of the comment on top, without "//"
};

/// The instance as source text: branches that are not taken are gone, params are numbers, what the entry cannot reach
/// is dropped, the entry has its name, comments survive, and the text is formatted. Safe to call from several threads.
/// Specialising the output again, without params and header, gives the same text.
/// Throws Failure(internal) with file:line on any Clang diagnostic, a params name that cannot be replaced (in a macro
/// body, in a header, in code that the preprocessor skips), a param that the template does not read, or overlapping
/// edits.
std::string specialise(const SpecialiseInput& input);

struct Specialised {
  std::string text;         // as specialise() gives it
  std::string declaration;  // as declaration() gives it
};

/// Both, of one look at the template.
Specialised specialise_and_declare(const SpecialiseInput& input);

/// The declaration of the instance's entry, as Clang knows it: aliases of the params spelled out. Throws as
/// specialise(), and where the template has no such function.
std::string declaration(const SpecialiseInput& input);

/// The instance for --style=include: the params, the instance's name as a macro, and an #include of template_file.
/// It compiles with three include directories: include_directory, the folder that template_file is relative to, and
/// that of the template's own params.h, which must be empty where LLMC_PARAMS_GIVEN is defined. Checks the params'
/// names, not the template.
std::string include_style(const SpecialiseInput& input);

/// The text in the project's style.
std::string format(const std::string& text);

}  // namespace llmc::emit
