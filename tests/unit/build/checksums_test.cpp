// Detects files that were truncated, changed or replaced since the build.
#include "compiler/build/checksums.h"

#include <gtest/gtest.h>

#include <fstream>
#include <functional>

#include "files/temporary_folder.h"

namespace llmc::build {
namespace {

namespace fs = std::filesystem;

void write(const fs::path& file, const std::string& text) { std::ofstream(file, std::ios::binary) << text; }

TEST(Checksums, VouchForWhatIsAsItWasAlone) {
  const TemporaryFolder folder("checksums");
  const fs::path object = folder.path() / "a.o";
  const auto built = [&] {
    fs::remove_all(object);
    write(object, std::string(3 << 20, 'x'));
    Checksums made(folder.path());
    made.add("a.o");
    made.save();
  };
  const auto vouched = [&] { return Checksums(folder.path()).vouch_for("a.o"); };
  built();
  EXPECT_TRUE(vouched());
  EXPECT_FALSE(Checksums(folder.path()).vouch_for("b.o"));
  const std::function<void()> damages[] = {
      [&] { fs::resize_file(object, 1000); },
      [&] { fs::resize_file(object, 0); },
      [&] { write(object, std::string((3 << 20) - 1, 'x') + "y"); },  // of the same size
      [&] { fs::remove(object); },
      [&] { fs::remove(object), fs::create_directory(object); },
      [&] { fs::resize_file(folder.path() / Checksums::kFile, 5); },
      [&] { fs::remove(folder.path() / Checksums::kFile); },
  };
  for (const auto& damage : damages) {
    built();
    damage();
    EXPECT_FALSE(vouched()) << &damage - damages;
  }
}

TEST(Checksums, OfFilesThatAreGoneAreDropped) {
  const TemporaryFolder folder("checksums");
  for (const char* name : {"a.o", "b.o"}) {
    write(folder.path() / name, name);
    Checksums made(folder.path());
    made.add(name);
    made.save();
  }
  fs::remove(folder.path() / "a.o");
  Checksums(folder.path()).save();
  write(folder.path() / "a.o", "a.o");
  EXPECT_FALSE(Checksums(folder.path()).vouch_for("a.o"));
  EXPECT_TRUE(Checksums(folder.path()).vouch_for("b.o"));
}

}  // namespace
}  // namespace llmc::build
