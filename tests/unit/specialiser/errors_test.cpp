// Errors of the specialiser, with their positions.
#include <gtest/gtest.h>

#include "../facts.h"
#include "compiler/emit/specialiser/library.h"
#include "error.h"
#include "sample.h"

namespace llmc::emit {
namespace {

using test::has_facts;

std::string message(const SpecialiseInput& input) {
  try {
    return "no error, but:\n" + specialise(input).text;
  } catch (const Failure& failure) {
    EXPECT_EQ(failure.code(), Exit::internal);
    return failure.what();
  }
}

/// sample() puts 5 lines of text before its function's body.
TEST(Errors, AnyClangDiagnosticWithFileAndLine) {
  EXPECT_EQ(message(sample(kColumns, "  out[0] = in[kCols]\n")),
            "templates/sample.cu:6: expected ';' after expression");
  EXPECT_EQ(message(sample(kColumns, "  out[0] = in[kCols + kRows];\n")),
            "templates/sample.cu:6: use of undeclared identifier 'kRows'; did you mean 'kCols'?");
  EXPECT_EQ(message(sample(kColumns, "  unsigned u = n;\n  if (n < u) out[0] = in[kCols];\n")),
            "templates/sample.cu:7: comparison of integers of different signs: 'int' and 'unsigned int'");
  EXPECT_EQ(message(sample({{"int", "kCols", "oops"}}, "  out[0] = in[kCols];\n")),
            "params.h of sample:5: use of undeclared identifier 'oops'");
}

TEST(Errors, WithoutClangsLibraryAllPlacesAreNamed) {
  try {
    load_clang({"/no/such/libllmc_clang.so", "/dev/null"});
    ADD_FAILURE() << "a library was found";
  } catch (const Failure& failure) {
    EXPECT_EQ(failure.code(), Exit::toolchain);
    EXPECT_TRUE(
        has_facts(failure.what(), {"libllmc_clang.so", "Build or install llmc again", "/no/such/", "/dev/null"}))
        << failure.what();
  }
}

TEST(Errors, UnusedNamesAreNoDiagnostic) { EXPECT_NO_THROW(specialise(sample(kColumns, "  int x = kCols;\n"))); }

TEST(Errors, ParamsNameInAMacroBody) {
  SpecialiseInput input = sample(kColumns, "  out[0] = in[COLUMN];\n");
  input.template_text = "#define COLUMN (kCols - 1)\n" + input.template_text;
  EXPECT_TRUE(has_facts(message(input), {"templates/sample.cu:1: ", "params name kCols", "cannot be replaced"}));
  input = sample(kColumns, "  out[0] = LAST(in);\n");
  input.template_text = "#define LAST(p) p[n + kCols]\n" + input.template_text;
  EXPECT_TRUE(has_facts(message(input), {"templates/sample.cu:7: ", "params name kCols", "in a macro"}));
}

TEST(Errors, ConditionsOfThePreprocessor) {
  EXPECT_TRUE(
      has_facts(message(sample(kColumns, "#ifdef __AVX512F__\n  out[1] = in[0];\n#endif\n  out[0] = in[kCols];\n")),
                {"templates/sample.cu:6: ", "#if", "runtime/device/"}));
}

TEST(Errors, AnotherDeclarationOfTheName) {
  const std::string before = "template <int kCols>\ninline int width() {\n  return kCols;\n}\n\n";
  EXPECT_TRUE(has_facts(message(sample(kColumns, "  out[width<3>()] = in[0];\n", before)),
                        {"templates/sample.cu:5: ", "params name kCols", "cannot be replaced", "another declaration"}));
}

TEST(Errors, ParamThatTheTemplateNeverReads) {
  EXPECT_TRUE(has_facts(message(sample({{"int", "kRows", "1"}}, "  out[0] = in[0];\n")),
                        {"templates/sample.cu:1: ", "never reads", "kRows of sample"}));
}

TEST(Errors, MissingEntry) {
  SpecialiseInput input = sample(kColumns, "  out[0] = in[kCols];\n");
  input.template_name = "other";
  EXPECT_TRUE(has_facts(message(input), {"templates/sample.cu:1: ", "not define other"}));
  input.template_name = "sample";
  input.entry = "a b";
  EXPECT_TRUE(has_facts(message(input), {"templates/sample.cu: ", "function name", "'a b'"}));
}

TEST(Errors, AddressOfAParam) {
  EXPECT_TRUE(has_facts(message(sample(kColumns, "  const int* p = &kCols;\n  out[*p] = in[0];\n")),
                        {"templates/sample.cu:6: ", "address", "kCols"}));
}

TEST(Errors, TypesWithoutALiteral) {
  EXPECT_TRUE(has_facts(message(sample({{"short", "kCols", "8"}}, "  out[kCols] = in[0];\n")),
                        {"params.h of sample:5: ", "no literal", "kCols"}));
}

TEST(Errors, CudaNamesAreUnknownOnTheCpu) {
  SpecialiseInput input = sample(kColumns, "  out[threadIdx.x] = in[kCols];\n");
  EXPECT_EQ(message(input), "templates/sample.cu:6: use of undeclared identifier 'threadIdx'");
}

}  // namespace
}  // namespace llmc::emit
