// What a durable file says of itself once it is on the disk.
#include "files/durable_file.h"

#include <gtest/gtest.h>

#include "small_state.h"

namespace llmc {
namespace {

TEST(DurableFile, RecordHasSizeAndChecksum) {
  TemporaryDirectory directory;
  DurableFile file(directory.path / "a");
  file.write("one ");
  file.write("two");
  const FileRecord record = file.finish();
  Checksum expected;
  expected.update("one two", 7);
  EXPECT_EQ(record.name, "a");
  EXPECT_EQ(record.bytes, 7u);
  EXPECT_EQ(record.xxh3, expected.hex());
  EXPECT_EQ(read_all(directory.path / "a"), "one two");
}

/// The checksum is taken while bytes are written in order: of a file that was changed again it would be wrong.
TEST(DurableFile, AnOverwrittenFileHasNoChecksum) {
  TemporaryDirectory directory;
  DurableFile file(directory.path / "a");
  file.write("one two");
  file.overwrite(4, "ten");
  const FileRecord record = file.finish();
  EXPECT_EQ(record.bytes, 7u);
  EXPECT_EQ(record.xxh3, "");
  EXPECT_EQ(read_all(directory.path / "a"), "one ten");
}

}  // namespace
}  // namespace llmc
