// Prints generated text from named variables.
#include "compiler/emit/printer.h"

#include <gtest/gtest.h>

#include "error.h"

namespace llmc::emit {
namespace {

TEST(Printer, NamesAreReplaced) {
  EXPECT_EQ(fill("int $name$ = $value$;", {{"name", "n"}, {"value", "3"}}), "int n = 3;");
  EXPECT_EQ(fill("nothing", {}), "nothing");
}

TEST(Printer, AValueIsNotReadAgain) { EXPECT_EQ(fill("$a$", {{"a", "$b$"}, {"b", "x"}}), "$b$"); }

TEST(Printer, AMissingValueAndALoneMarkAreErrors) {
  EXPECT_THROW(fill("$name$", {}), Failure);
  EXPECT_THROW(fill("5 $", {}), Failure);
}

TEST(Printer, BracesIndent) {
  SourceWriter out;
  out.open("if ($c$)", {{"c", "x"}});
  out.line("a();");
  out.middle("} else {");
  out.open("for (;;)");
  out.line("b();");
  out.close();
  out.close();
  out.blank();
  EXPECT_EQ(out.take(), "if (x) {\n  a();\n} else {\n  for (;;) {\n    b();\n  }\n}\n\n");
}

}  // namespace
}  // namespace llmc::emit
