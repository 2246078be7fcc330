// Records of the paths of a trainer and its spec.
#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>

#include "../facts.h"
#include "../folder.h"
#include "compiler/build/compile.h"
#include "error.h"
#include "program/compiled_spec.h"

namespace llmc::build {
namespace {

namespace fs = std::filesystem;

spec::Resolved spec_in(const fs::path& folder) {
  fs::create_directories(folder);
  std::ofstream(folder / "a.yaml") << "name: a\n";
  spec::Resolved resolved;
  resolved.directory = folder;
  resolved.files = {{folder / "a.yaml", "name: a\n"}};
  return resolved;
}

/// Each line of a record is one path.
TEST(SpecNote, ALineFeedInAPathIsRefused) {
  test::Folder base;
  const fs::path odd = base.path / "new\nline", plain = base.path / "with blanks; \\ and 'quotes'";
  const spec::Resolved in_odd = spec_in(odd), in_plain = spec_in(plain);
  for (const auto& [folder, spec] : {std::pair(odd, in_plain), std::pair(plain, in_odd)}) try {
      spec_note(folder, spec);
      ADD_FAILURE() << "no error";
    } catch (const Failure& failure) {
      EXPECT_EQ(failure.code(), Exit::usage);
      EXPECT_TRUE(test::has_facts(failure.what(), {"new\nline", "line feed", "Rename"}));
    }
  write_note(plain, spec_note(plain, in_plain));
  EXPECT_EQ(default_base(plain), fs::canonical(plain));
  EXPECT_EQ(noted_spec(plain), fs::canonical(plain) / "a.yaml");
}

}  // namespace
}  // namespace llmc::build
