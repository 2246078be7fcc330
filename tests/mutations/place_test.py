"""Finding a fault's tokens and its tests, and the messages if they are not found."""

import os
import tempfile
import unittest

from known import Known
from place import OutOfDate, Sources

ONE = """#include <map>
namespace llmc {
namespace {
constexpr int kSteps[] = {1, 2};  // { in a comment
template <typename T = std::function<void(int)>>
T twice(T value) { return value + value; }
}  // namespace
struct Run {
  explicit Run(int at) : at_(at), end_{at} { check(); }
  bool operator==(const Run&) const = default;
  int next(const std::map<int, int>& by = {}) const noexcept { return at_ + 1; }

 private:
  const char* text_ = "}";
  int at_, end_;
};
"""
TWO = """LLMC_BOUNDS(kLanes)
LLMC_KERNEL scale(float* data,
                  int count) {
  for (int i = 0;  // all of them
       i < count; ++i) data[i] *= 2;
}
int Run::next() { return 1; }
int Walk::next() { return 1; }
}
"""


class Places(unittest.TestCase):

    def sources(self, **files):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        for name, text in files.items():
            os.makedirs(os.path.join(folder.name, "runtime", name))
            with open(os.path.join(folder.name, "runtime", name, "file.cu"), "w") as file:
                file.write(text)
        return Sources(folder.name)

    def test_each_kind_of_declaration(self):
        sources = self.sources(one=ONE, two=TWO)
        for anchor, old, line in (("kSteps", "{1,2}", 4), ("twice", "return value", 6), ("Run::Run", "check()", 9),
                                  ("Run", "end_{at}", 9), ("Run::operator==", "default",
                                                           10), ("Run::next", "return at_ + 1", 11), ("text_", "=", 14),
                                  ("scale", "int i=0; i<count", 4), ("llmc::Run::next", "at_", 11), ("Walk::next", "1",
                                                                                                     8)):
            with self.subTest(anchor):
                file, begin, _ = sources.place(anchor, old)
                self.assertEqual(sources.at(file, begin).rpartition(":")[2], str(line))

    def test_new_text_takes_the_place(self):
        file, before, after = self.sources(two=TWO).with_fault("scale", "0; i < count", "1; i <= count")
        self.assertEqual(file, "runtime/two/file.cu")
        self.assertEqual(after, before.replace("0;  // all of them\n       i < count", "1; i <= count"))

    def test_a_moved_file_is_found(self):
        self.assertEqual(self.sources(three=TWO).place("scale", "*= 2")[0], "runtime/three/file.cu")

    def test_what_is_not_one_place(self):
        sources = self.sources(one=ONE, two=TWO)
        for anchor, old, said in (("next", "return 1", "two/file.cu:7, runtime/two/file.cu:8; name more of it"),
                                  ("scale", "data[i] *= 3", "scale has no 'data\\[i\\] \\*= 3'; it stands nowhere"),
                                  ("twice", "data[i] *= 2", "stands in runtime/two/file.cu:5"),
                                  ("thrice", "value", "nothing is called thrice"), ("scale in one", "*= 2",
                                                                                    "nothing is called scale in one"),
                                  ("scale", "dat", "has no"), ("scale", "ata[i]", "has no")):
            with self.subTest(anchor), self.assertRaisesRegex(OutOfDate, said):
                sources.place(anchor, old)


CMAKE = """add_executable(test_one one_test.cpp)  # add_executable(test_two two_test.cpp)
add_executable(test_two two_test.cpp)
run_test(ramp 1)
function(run_test name)
  add_test(NAME run_${name} COMMAND ${name})
endfunction()
foreach(ranks RANGE 1 5)
  add_test(NAME ranks_${ranks} COMMAND ranks)
endforeach()
"""
TESTS = """TEST(Tiles, Multiply) {}
TEST_P(Sums, OfAll) {}
TYPED_TEST(Rows, AreEqual) {}
#define CASE(name, size) \\
  TEST(Cases, name##_is_right) { check(size); }
"""


class Tests(unittest.TestCase):

    def test_names(self):
        with tempfile.TemporaryDirectory() as folder:
            os.mkdir(os.path.join(folder, "tests"))
            for name, text in (("CMakeLists.txt", CMAKE), ("one_test.cpp", TESTS), ("two_test.cpp", "TEST(A, B) {}\n")):
                with open(os.path.join(folder, "tests", name), "w") as file:
                    file.write(text)
            known = Known(folder)
            for good in ("test_one Tiles.Multiply", "test_one Tiles*", "test_one *Multi*",
                         "test_one Sizes/Sums.OfAll/*", "test_one *Sums.*bf16*", "test_one Rows/0.AreEqual",
                         "test_one *.AreEqual", "test_one Cases.small_is_right", "test_one *_is_right", "test_two A.B",
                         "run_ramp", "ranks_3", "test_one Tiles.Multiply:Rows*"):
                self.assertTrue(known.has(good), good)
            for bad in ("test_one Tiles.Divide", "test_one A.B", "test_two Tiles.Multiply", "test_three A.B",
                        "run_border", "test_one Sizes/Sums.OfSome*", "test_one Cases.small",
                        "test_one Tiles.Multiply:Rows.Differ", "test_one Rows/0.Differ", "ramp"):
                self.assertFalse(known.has(bad), bad)


unittest.main()
