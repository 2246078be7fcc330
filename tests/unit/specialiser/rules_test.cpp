// Each rule of the specialiser on a small template, compared with its exact output.
#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>

#include "../folder.h"
#include "error.h"
#include "sample.h"

namespace llmc::emit {
namespace {

std::vector<Param> flag(bool value) { return {{"bool", "kFlag", value ? "true" : "false"}}; }

void expect(const SpecialiseInput& input, const std::string& text) {
  const std::string result = specialise(input).text;
  EXPECT_EQ(result, text);
  EXPECT_EQ(specialise(again(input, result)).text, result) << "specialising again changed the text";
}

TEST(Fold, DirectReferencePrintsTheInitialisersText) {
  const std::vector<Param> params = {{"int", "kCols", "0x800"}, {"float", "kEps", "1e-5f"}, {"bool", "kOn", "true"}};
  expect(sample(params, "  out[0] = kOn ? in[kCols] + kEps : 0;\n  out[1] = 0;\n"),
         expected("  out[0] = true ? in[0x800] + 1e-5f : 0;\n  out[1] = 0;\n"));
}

TEST(Fold, TextOfAnotherTypeBecomesALiteralOfTheConstantsType) {
  const std::vector<Param> params = {{"float", "kEps", "1e-5"},
                                     {"long long", "kSize", "5"},
                                     {"unsigned", "kMask", "7"},
                                     {"double", "kOne", "1"},
                                     {"float", "kThird", "1.0f / 3"}};
  expect(sample(params,
                "  auto a = kSize;\n  out[a] = kEps + kThird;\n  out[n & kMask] = static_cast<float>(n * kOne);\n"),
         expected("  auto a = 5LL;\n  out[a] = 0.33334336f;\n  out[n & 7u] = static_cast<float>(n * 1.0);\n"));
}

TEST(Fold, MaximalIntegerExpressions) {
  const std::string helper = "constexpr int ceil_div(int a, int b) { return (a + b - 1) / b; }\n\n";
  expect(sample(kColumns,
                "  for (int i = n; i < kCols / 4; i += (kCols + 31) / 32) out[i] = in[i * kCols + kCols % 7];\n"
                "  out[ceil_div(kCols, 100)] = n > kCols * 2 ? in[0] : in[~kCols + 2050];\n",
                helper),
         expected("  for (int i = n; i < 512; i += 64) out[i] = in[i * 2048 + 4];\n"
                  "  out[21] = n > 4096 ? in[0] : in[1];\n"));
}

TEST(Fold, NothingIsFoldedThroughAnImplicitConversion) {
  expect(sample(kColumns,
                "  out[0] = in[0] / kCols + 1.0f / kCols;\n  out[1] = static_cast<float>(kCols) * 2.0f * in[kCols * "
                "sizeof(float)];\n"
                "  long long big = kCols * 4LL;\n  out[big] = static_cast<float>(static_cast<long long>(kCols) * "
                "3000000000);\n"),
         expected("  out[0] = in[0] / 2048 + 1.0f / 2048;\n  out[1] = 4096.0f * in[2048 * sizeof(float)];\n"
                  "  long long big = 2048 * 4LL;\n  out[big] = static_cast<float>(2048LL * 3000000000);\n"));
}

TEST(Fold, NegativeLiteralsKeepTheirMeaning) {
  const std::vector<Param> params = {{"int", "kStep", "-1"}};
  expect(
      sample(
          params,
          "  out[0] = in[n - kStep] - kStep;\n  n = kStep;\n  out[1] = in[-kStep];\n  out[n * kStep] = -n * -kStep;\n"),
      expected("  out[0] = in[n - (-1)] - (-1);\n  n = -1;\n  out[1] = in[1];\n  out[n * (-1)] = -n * 1;\n"));
}

TEST(Fold, ArrayBoundsAndTemplateArguments) {
  const std::string row = "template <int N>\nstruct Row {\n  float v[N];\n};\n\n";
  expect(sample(kColumns,
                "  float tile[kCols / 4] = {};\n  Row<kCols> row{};\n  Row<(kCols > 4 ? kCols + 1 : 2)> odd{};\n"
                "  out[0] = tile[n] + row.v[n] + odd.v[0];\n",
                row),
         expected("  float tile[512] = {};\n  Row<2048> row{};\n  Row<2049> odd{};\n"
                  "  out[0] = tile[n] + row.v[n] + odd.v[0];\n",
                  row));
}

TEST(Fold, VariableTemplatesOfParams) {
  const std::string twice = "template <int N>\nconstexpr int twice = 2 * N;\n\n";
  expect(sample(kColumns, "  out[twice<kCols>] = in[0];\n  out[1] = 0;\n", twice),
         expected("  out[twice<2048>] = in[0];\n  out[1] = 0;\n", twice));
  expect(sample(kColumns, "  out[twice<kCols> + kCols] = in[0];\n  out[1] = 0;\n", twice),
         expected("  out[6144] = in[0];\n  out[1] = 0;\n"));
  // Declared before params.h, as in a header.
  SpecialiseInput early = sample(kColumns, "  out[twice<kCols>] = in[0];\n  out[1] = 0;\n");
  early.template_text = twice + early.template_text;
  expect(early, twice + expected("  out[twice<2048>] = in[0];\n  out[1] = 0;\n"));
  early.template_text =
      twice + sample(kColumns, "  const int* p = &kCols;\n  out[twice<kCols>] = in[*p];\n").template_text;
  EXPECT_THROW(specialise(early), Failure);
}

TEST(Fold, FloatsKeepTheirBits) {
  // The sum of the floats nearest to 0.1 and 0.6 is not the float nearest to 0.7; 16777217 has no float; the last is
  // the smallest denormal.
  const std::vector<Param> params = {
      {"float", "kA", "0.1f"}, {"float", "kB", "0.6f"}, {"int", "kN", "16777217"}, {"float", "kTiny", "1e-45f"}};
  expect(sample(params,
                "  out[0] = kA + kB;\n  out[1] = static_cast<float>(kN);\n  out[2] = 1 * in[0] * (kTiny * 1.0f);\n"),
         expected("  out[0] = 0.70000005f;\n  out[1] = 16777216.0f;\n  out[2] = 1 * in[0] * 1e-45f;\n"));
}

TEST(Fold, WhatDependsOnTheMachineStays) {
  const test::Folder files;
  const std::filesystem::path folder = files.path;
  std::filesystem::create_directories(folder / "device" / "cpu");
  std::filesystem::copy_file(kRuntime / "device" / "types.h", folder / "device" / "types.h",
                             std::filesystem::copy_options::overwrite_existing);
  std::ofstream(folder / "device" / "cpu" / "width.h")
      << "#define WIDTH 16\nnamespace llmc {\nconstexpr int kLanesOfMachine = 16;\n"
         "typedef float wide __attribute__((vector_size(64)));\nconstexpr int twice(int n) { return 2 * n; }\n}\n";
  const std::string before =
      "constexpr int kTile = 4 * kLanesOfMachine;\nconstexpr int kSame = 4 * kCols;\nconstexpr int tiled(int n) { "
      "return n + "
      "kTile; }\n\n";
  const std::string body =
      "  out[0] = in[kCols / kLanesOfMachine * (kCols / 2)];\n  out[kCols / kTile] = in[kCols + WIDTH];\n"
      "  out[tiled(kCols)] = in[twice(kCols)];\n"
      "  if constexpr (kCols % kTile == 0) {\n    out[kCols] = 1;\n  } else {\n    out[kCols] = 2;\n  }\n"
      "  if constexpr (sizeof(wide) == 64) out[kCols + kSame] = 3;\n  static_assert(kCols >= kTile);\n";
  SpecialiseInput input = sample(kColumns, body, before);
  input.include_directory = folder;
  input.template_text = "#include \"device/cpu/width.h\"\n" + input.template_text;
  expect(
      input,
      "#include \"device/cpu/width.h\"\n\n" +
          expected("  out[0] = in[2048 / kLanesOfMachine * 1024];\n  out[2048 / kTile] = in[2048 + WIDTH];\n"
                   "  out[tiled(2048)] = in[twice(2048)];\n"
                   "  if constexpr (2048 % kTile == 0) {\n    out[2048] = 1;\n  } else {\n    out[2048] = 2;\n  }\n"
                   "  if constexpr (sizeof(wide) == 64) out[10240] = 3;\n  static_assert(2048 >= kTile);\n",
                   "constexpr int kTile = 4 * kLanesOfMachine;\nconstexpr int tiled(int n) { return n + kTile; }\n\n"));
  // For one instruction set its constants are numbers too; macros, types and functions stay.
  input.arch = "sapphirerapids";
  expect(input, "#include \"device/cpu/width.h\"\n\n" +
                    expected("  out[0] = in[131072];\n  out[32] = in[2048 + WIDTH];\n  out[2112] = in[twice(2048)];\n"
                             "  out[2048] = 1;\n  if constexpr (sizeof(wide) == 64) out[10240] = 3;\n",
                             "static_assert(kLanesOfMachine == 16, \"this is for sapphirerapids\");\n\n"));
}

TEST(Fold, InsideLambdasAndDependentCode) {
  expect(sample(kColumns, "  const auto f = [=](auto v) { return v * kCols + in[kCols - 1]; };\n  out[0] = f(n);\n"),
         expected("  const auto f = [=](auto v) { return v * 2048 + in[2047]; };\n  out[0] = f(n);\n"));
}

TEST(Fold, Pragmas) {
  const std::vector<Param> params = {{"int", "kWidth", "8"}};
  expect(sample(params,
                "#pragma omp simd simdlen(kWidth * 2)\n  for (int i = 0; i < kWidth; ++i) out[i] = in[i];\n"
                "#pragma GCC unroll kWidth\n  for (int i = 0; i < n; ++i) out[i] = in[i];\n"),
         expected("#pragma omp simd simdlen(16)\n  for (int i = 0; i < 8; ++i) out[i] = in[i];\n"
                  "#pragma GCC unroll 8\n  for (int i = 0; i < n; ++i) out[i] = in[i];\n"));
}

TEST(Fold, ArgumentsOfMacros) {
  SpecialiseInput input = sample(kColumns, "  out[TWICE(kCols + 1)] = in[n];\n  IGNORE(kCols)\n");
  const std::string macros = "#define TWICE(x) ((x) * 2)\n#define IGNORE(x)\n";
  input.template_text = macros + input.template_text;
  // The invocation is the largest expression.
  expect(input, macros + "\n" + expected("  out[4098] = in[n];\n  IGNORE(2048)\n"));
}

TEST(Prune, TheTakenBranchLosesItsBraces) {
  const std::string body =
      "  if constexpr (kFlag) {\n    // When set.\n    float x = in[0];\n    out[0] = x;  // set\n  } else {\n"
      "    // When clear.\n    out[1] = in[1];\n  }\n  out[2] = in[2];\n";
  expect(sample(flag(true), body),
         expected("  // When set.\n  float x = in[0];\n  out[0] = x;  // set\n  out[2] = in[2];\n"));
  expect(sample(flag(false), body), expected("  // When clear.\n  out[1] = in[1];\n  out[2] = in[2];\n"));
}

TEST(Prune, BracesStayWhereAScopeWouldChange) {
  const std::string body =
      "  if constexpr (kFlag) {\n    float x = in[0];\n    out[0] = x;\n  }\n  float x = in[1];\n  out[1] = x;\n";
  expect(sample(flag(true), body),
         expected("  {\n    float x = in[0];\n    out[0] = x;\n  }\n  float x = in[1];\n  out[1] = x;\n"));
  expect(sample(flag(false), body), expected("  float x = in[1];\n  out[1] = x;\n"));
  const std::string guard = "struct Guard {\n  ~Guard() { *p = 0; }\n  float* p;\n};\n\n";
  expect(sample(flag(true), "  if constexpr (kFlag) {\n    Guard g{out};\n  }\n  out[1] = out[0];\n", guard),
         expected("  {\n    Guard g{out};\n  }\n  out[1] = out[0];\n", guard));
}

TEST(Prune, BracesGoWhenOnlyThePrunedBranchSaysTheName) {
  const std::string body =
      "  if constexpr (kFlag) {\n    float x = in[0];\n    out[0] = x;\n  } else {\n    float x = in[1];\n    out[1] = "
      "x;\n"
      "  }\n  if constexpr (!kFlag) {\n    float x = in[2];\n    out[2] = x;\n  }\n";
  expect(sample(flag(true), body), expected("  float x = in[0];\n  out[0] = x;\n"));
}

TEST(Prune, WhatIsDroppedTakesItsCommentAlong) {
  const std::string body =
      "  out[0] = in[0];\n\n  // The second one.\n  // Two lines.\n  if constexpr (kFlag) {\n    out[1] = in[1];\n  }  "
      "// kFlag\n"
      "\n  // Stays.\n  out[2] = in[2];\n";
  expect(sample(flag(false), body), expected("  out[0] = in[0];\n\n  // Stays.\n  out[2] = in[2];\n"));
  expect(sample(flag(true), body), expected("  out[0] = in[0];\n\n  // The second one.\n  // Two lines.\n  out[1] = "
                                            "in[1];\n\n  // Stays.\n  out[2] = in[2];\n"));
}

TEST(Prune, ChainsAndBranchesWithoutBraces) {
  const std::string body =
      "  if constexpr (kMode == 0)\n    out[0] = in[0];\n  else if constexpr (kMode == 1)\n    out[1] = in[1];\n"
      "  else if (n > kMode)\n    out[2] = in[2];\n  out[3] = in[3];\n";
  const auto mode = [](const char* value) { return std::vector<Param>{{"int", "kMode", value}}; };
  expect(sample(mode("0"), body), expected("  out[0] = in[0];\n  out[3] = in[3];\n"));
  expect(sample(mode("1"), body), expected("  out[1] = in[1];\n  out[3] = in[3];\n"));
  expect(sample(mode("2"), body), expected("  if (n > 2) out[2] = in[2];\n  out[3] = in[3];\n"));
}

TEST(Prune, NestedAndAsTheBodyOfALoop) {
  const std::vector<Param> params = {{"bool", "kA", "true"}, {"bool", "kB", "false"}};
  expect(
      sample(
          params,
          "  for (int i = 0; i < n; ++i)\n    if constexpr (kA) out[i] = in[i];\n"
          "  for (int i = 0; i < n; ++i)\n    if constexpr (kB) out[i] = in[i];\n"
          "  if constexpr (kA) {\n    if constexpr (kB) {\n      out[1] = 1;\n    } else {\n      out[2] = 2;\n    }\n"
          "    if constexpr (kB) {\n      out[3] = 3;\n    }\n  }\n"),
      expected("  for (int i = 0; i < n; ++i) {\n    out[i] = in[i];\n  }\n  for (int i = 0; i < n; ++i) {\n  }\n  "
               "out[2] = 2;\n"));
}

TEST(Prune, DependentConditionsStay) {
  const std::string helper =
      "template <class T>\ninline float first(T v) {\n  if constexpr (sizeof(T) == 4) {\n    return v;\n  } else {\n"
      "    return v.x;\n  }\n}\n\n";
  expect(sample(kColumns, "  out[0] = first(in[kCols]);\n  out[1] = 0;\n", helper),
         expected("  out[0] = first(in[2048]);\n  out[1] = 0;\n", helper));
}

TEST(Drop, WhatTheEntryCannotReach) {
  const std::string before =
      "// Used through another.\ninline float deep(float v) { return v; }\n\ninline float used(float v) { return "
      "deep(v); }\n\n"
      "// Only with the flag.\ninline float flagged(float v) { return v; }\n\n"
      "constexpr int kHalf = kCols / 2;  // half\nconstexpr int kOther = kCols / 3;  // gone\n"
      "/* A table. */\nstruct Table {\n  int v[4];\n};\nusing Index = int;\nenum class Side { left, right };\n\n";
  const std::vector<Param> params = {{"int", "kCols", "2048"}, {"bool", "kFlag", "false"}};
  expect(sample(params,
                "  constexpr int kLocal = kCols * 2;  // only for the flag\n  using Local = float;\n"
                "  if constexpr (kFlag) out[kLocal] = flagged(in[0]);\n  Local v = in[kHalf];\n  out[0] = used(v);\n",
                before),
         expected("  using Local = float;\n  Local v = in[kHalf];\n  out[0] = used(v);\n",
                  "// Used through another.\ninline float deep(float v) { return v; }\n\ninline float used(float v) { "
                  "return deep(v); }\n\n"
                  "constexpr int kHalf = 1024;  // half\n\n"));
}

TEST(Drop, LocalsThatTheTemplateMarks) {
  const std::string body =
      "  // Only with the flag.\n  [[maybe_unused]] const float first = in[kCols];\n  [[maybe_unused]] float a = 1, b "
      "= "
      "2;\n  const float kept = in[1];\n  if constexpr (kFlag) out[0] = first * a;\n  out[1] = in[0];\n";
  std::vector<Param> params = {{"int", "kCols", "2048"}, {"bool", "kFlag", "false"}};
  expect(sample(params, body), expected("  const float kept = in[1];\n  out[1] = in[0];\n"));
  params[1].value = "true";
  expect(sample(params, body), expected("  // Only with the flag.\n  [[maybe_unused]] const float first = in[2048];\n"
                                        "  [[maybe_unused]] float a = 1, b = 2;\n  const float kept = in[1];\n"
                                        "  out[0] = first * a;\n  out[1] = in[0];\n"));
}

TEST(FurtherOperands, AreTheInstances) {
  SpecialiseInput input = sample({{"bool", "kFlag", "false"}},
                                 "  if constexpr (kFlag) out[0] = in[more[0]];\n  out[1] = 0;\n  out[2] = 0;\n",
                                 "constexpr const int* more = nullptr;\n\n");
  const std::string before = "void sample(float* out, const float* in, int n";
  input.template_text.insert(input.template_text.find(before) + before.size(), " LLMC_FURTHER_OPERANDS");
  Specialised without = specialise(input);
  EXPECT_EQ(without.text, expected("  out[1] = 0;\n  out[2] = 0;\n"));
  EXPECT_EQ(without.declaration, "LLMC_KERNEL sample(float* out, const float* in, int n);");
  input.params = {{"bool", "kFlag", "true"}, {"macro", kFurtherOperands, ", const int* more"}};
  const Specialised with = specialise(input);
  EXPECT_EQ(with.text,
            "namespace llmc {\n\nconstexpr const int* more = nullptr;\n\n"
            "void sample(float* out, const float* in, int n, const int* more) {\n  out[0] = in[more[0]];\n  out[1] = "
            "0;\n  out[2] = 0;\n}\n\n"
            "}  // namespace llmc\n");
  EXPECT_EQ(with.declaration, "LLMC_KERNEL sample(float* out, const float* in, int n, const int* more);");
  EXPECT_EQ(declaration(input), with.declaration);
  const std::string included = include_style(input);
  EXPECT_TRUE(
      included.starts_with("#undef LLMC_FURTHER_OPERANDS\n#define LLMC_FURTHER_OPERANDS , const int* more\n\n"
                           "#include \"device/types.h\""))
      << included;
  input.template_text = sample({}, "").template_text;
  EXPECT_THROW(specialise(input), Failure) << "the template takes none";
}

TEST(Macros, AreExpandedAndReadParams) {
  SpecialiseInput input =
      sample({{"macro", "LLMC_FIRST", "in[kFrom]"}, {"int", "kFrom", "3"}}, "  out[0] = LLMC_FIRST;\n  out[1] = 0;\n");
  EXPECT_EQ(specialise(input).text, expected("  out[0] = in[3];\n  out[1] = 0;\n"));
  EXPECT_TRUE(include_style(input).starts_with("#undef LLMC_FIRST\n#define LLMC_FIRST in[kFrom]\n\n"));
  input.params.pop_back();
  input.params.front().name = "LLMC_LAST";
  EXPECT_THROW(specialise(input), Failure) << "the template has no such macro";
}

TEST(Drop, ConstantsOfDroppedFunctionsReachNothing) {
  const std::string before =
      "constexpr int inner() { return 3; }\n\ninline int dead(int n) {\n  constexpr int kSize = inner();\n  return n * "
      "kSize;\n"
      "}\n\n";
  expect(sample(kColumns, "  constexpr int kSize = 7;\n  out[kSize] = in[kCols];\n", before),
         expected("  constexpr int kSize = 7;\n  out[kSize] = in[2048];\n"));
}

TEST(Drop, OperatorsStayBecauseTheirNamesAreNotSaid) {
  const std::string before =
      "struct Pair {\n  float a, b;\n};\n\ninline Pair operator+(Pair x, Pair y) { return {x.a + y.a, x.b + y.b}; "
      "}\n\n";
  expect(sample(kColumns, "  Pair p{in[0], in[kCols]};\n  out[0] = (p + p).a;\n", before),
         expected("  Pair p{in[0], in[2048]};\n  out[0] = (p + p).a;\n", before));
}

TEST(Drop, AssertionsAboutParams) {
  expect(sample(kColumns,
                "  static_assert(kCols % 8 == 0);\n  static_assert(sizeof(float) == 4);\n  out[0] = in[kCols];\n",
                "// Rows are read in chunks.\nstatic_assert(kCols % 4 == 0, \"chunks\");\n\n"),
         expected("  static_assert(sizeof(float) == 4);\n  out[0] = in[2048];\n"));
}

TEST(Aliases, UsedOnesArePrintedAtTheHead) {
  const std::vector<Param> params = {{"using", "Raw", "bf16"}, {"using", "Act", "Raw"}, {"using", "Sum", "double"}};
  const std::string body =
      "  Act v{1};\n  if constexpr (sizeof(Sum) == 4) out[1] = static_cast<Sum>(n);\n  out[0] = v.bits + in[n];\n";
  SpecialiseInput input = sample(params, body);
  input.template_text = "#include \"device/types.h\"\n" + input.template_text;
  expect(input, "#include \"device/types.h\"\n\n" +
                    expected("  Act v{1};\n  out[0] = v.bits + in[n];\n", "using Raw = bf16;\nusing Act = Raw;\n\n"));
}

TEST(Rename, TheEntryAndItsNameInComments) {
  SpecialiseInput input = sample(kColumns, "  out[0] = in[kCols];\n", "// sample() samples: `sample` is no sample.\n");
  input.entry = "sample_final";
  const std::string result = specialise(input).text;
  EXPECT_EQ(result,
            "namespace llmc {\n\n// sample_final() samples: `sample_final` is no sample.\n"
            "void sample_final(float* out, const float* in, int n) { out[0] = in[2048]; }\n\n}  // namespace llmc\n");
  EXPECT_EQ(specialise(again(input, result)).text, result);
}

TEST(Header, StandsOnTop) {
  SpecialiseInput input = sample(kColumns, "  out[0] = in[kCols];\n  out[1] = in[1];\n");
  input.header = {"quickstart 01234567", "", "kCols = 2048"};
  EXPECT_EQ(specialise(input).text,
            "// quickstart 01234567\n//\n// kCols = 2048\n\n" + expected("  out[0] = in[2048];\n  out[1] = in[1];\n"));
}

TEST(Whole, KernelReadsAsWrittenForThisRun) {
  const SpecialiseInput input = whole_kernel(spec::TargetKind::cuda, true, false, 2048);
  expect(input, R"(// scale_rows_final: scales each row by the reciprocal of its mean square.

namespace llmc {

using Act = float;

// Squares, kept apart so that it can be tested.
inline __device__ float square(float v) { return v * v; }

// Only the residual needs it.
template <int N>
inline __device__ float blend(float a, float b) {
  return a * (1.0f / N) + b;
}

__global__ __launch_bounds__(128) void scale_rows_final(const Act* x, const Act* residual, Act* y) {
  for (int row = 0; row < 96; ++row) {
    const Act* in = x + row * 2048;  // (kCols)
    float sum = 0;
    // A fixed order.
    for (int i = 0; i < 2048 && i < 2048; ++i) sum += square(static_cast<float>(in[i]));
    const float scale = 1.0f / (sum / 2048 + 1e-5f);
    // Residual first.
    const Act* base = residual + row * 2048;
    for (int i = 0; i < 2048; ++i) y[row * 2048 + i] = blend<512>(base[i], in[i] * scale);
  }
}

}  // namespace llmc
)");
}

}  // namespace
}  // namespace llmc::emit
