"""A bundle builds where llmc is not: plain CMake in an empty folder, and the same trainer."""

import os
import shutil

import harness
from harness import LLMC, SOURCE, RunTest


class Bundle(RunTest):
    def test_builds_and_trains(self):
        spec = harness.write_small(self.path("small"))
        self.succeed(LLMC, "emit", spec, "-o", self.path("emitted"), "--bundle")
        # Elsewhere, so that nothing of this checkout is found by chance.
        bundle = self.path("elsewhere")
        shutil.move(self.path("emitted"), bundle)
        for name, content in harness.tree(bundle).items():
            self.assertNotIn(SOURCE.encode(), content, name)
            self.assertNotIn(self.folder.encode(), content, name)
        self.succeed("cmake", "-G", "Ninja", "-S", bundle, "-B", os.path.join(bundle, "build"))
        self.succeed("cmake", "--build", os.path.join(bundle, "build"), "-j", 2, timeout=560)
        theirs = os.path.join(bundle, "build", "trainer")
        ours = self.compile(spec, "ours")
        base = os.path.dirname(spec)
        for trainer, run in ((theirs, "their-run"), (ours, "our-run")):
            self.succeed(trainer, "--base", base, "--run", self.path(run), "--steps", 3)
        self.assert_same_files(self.path("their-run", "checkpoints"), self.path("our-run", "checkpoints"), "bundle and llmc compile")

    def test_same_bytes_everywhere(self):
        """Emitting again, into another folder, from another directory, gives the same bytes."""
        spec = harness.write_small(self.path("bytes"))
        for style in ("specialised", "include"):
            self.succeed(LLMC, "emit", spec, "-o", self.path("one-" + style), "--style", style)
            self.succeed(LLMC, "emit", os.path.basename(spec), "-o", self.path("two", style), "--style", style, cwd=os.path.dirname(spec))
            self.assert_same_files(self.path("one-" + style), self.path("two", style), style)

    def test_foreign_folder(self):
        """A folder with files that llmc did not write is left alone."""
        spec = harness.write_small(self.path("foreign"))
        before = harness.tree(self.path("foreign"))
        done = harness.call(LLMC, "emit", spec, "-o", self.path("foreign"))
        self.assertEqual(done.code, 2)
        self.assertEqual(harness.tree(self.path("foreign")), before)

    def test_stale_files_go(self):
        """A kernel that the new spec does not need is removed; a file that someone put beside it stays."""
        spec = harness.write_small(self.path("stale"))
        out = self.path("stale-out")
        self.succeed(LLMC, "emit", spec, "-o", out)
        with open(os.path.join(out, "notes.md"), "w") as file:
            file.write("mine\n")
        first = set(harness.tree(out))
        self.succeed(LLMC, "emit", spec, "-o", out, "model.attention_bias=false")
        second = set(harness.tree(out))
        self.assertIn("notes.md", second)
        self.assertTrue(any(name.startswith("kernels/column_sum") for name in first - second), first - second)


if __name__ == "__main__":
    harness.main()
