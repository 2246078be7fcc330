"""llmc plan --kernels: ptxas reports, stored next to their objects."""

import glob
import json
import os

import harness
from harness import LLMC, SOURCE, RunTest

SPEC = os.path.join(SOURCE, "specs", "tiny.yaml")
TARGET = [
    "target.kind=cuda", "target.arch=[80, 90a]", "precision.compute=bf16", "model.head_dim=16",
    "target.attention=portable"
]


class Kernels(RunTest):

    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        cls.out = os.path.join(cls.folder, "build")
        cls.first = harness.call(LLMC, "plan", SPEC, *TARGET, "--kernels", "--json", "-o", cls.out)

    def plan(self, *words):
        return self.succeed(LLMC, "plan", SPEC, *TARGET, "--kernels", "-o", self.out, *words)

    def test_every_kernel_has_its_report(self):
        self.assertEqual(self.first.code, 0, self.first.err)
        kernels = json.loads(self.first.out)["kernels"]
        emitted = {os.path.basename(path)[:-3] for path in glob.glob(os.path.join(self.out, "kernels", "*.cu"))}
        self.assertEqual({kernel["name"] for kernel in kernels}, emitted)
        for kernel in kernels:
            self.assertEqual([use["arch"] for use in kernel["ptxas"]], ["80", "90a"], kernel["name"])
            for use in kernel["ptxas"]:
                self.assertEqual((use["spill_store_bytes"], use["spill_load_bytes"]), (0, 0), kernel["name"])
                self.assertTrue(8 <= use["registers"] <= 255, kernel)
                self.assertGreaterEqual(use["blocks_per_sm"], 1, kernel)
        self.assertTrue(os.path.exists(os.path.join(self.out, "trainer")))

    def test_only_what_lacks_its_report_is_compiled_again(self):
        self.assertNotIn("compiling", self.plan().err)
        reports = sorted(glob.glob(os.path.join(self.out, "objects", "*.ptxas")))
        with open(reports[0]) as file:
            text = file.read()
        os.remove(reports[0])
        self.assertIn("compiling 1 of ", self.plan().err)
        with open(reports[0]) as file:  # except times and the names of temporary files
            self.assertEqual(text.count("registers"), file.read().count("registers"))
        self.assertEqual(sorted(glob.glob(os.path.join(self.out, "objects", "*.ptxas"))), reports)
        done = self.succeed(LLMC, "compile", SPEC, *TARGET, "-o", self.out)
        self.assertNotIn("compiling", done.err)

    def test_the_table(self):
        lines = self.plan().out.split("\n")
        self.assertRegex(
            lines[0],
            r"^kernel +a step +bytes +FLOP +blocks x threads +sm +registers +spills +shared +blocks/SM +occupancy$")
        self.assertRegex(lines[1], r"^embedding_forward +\d+ .* x 128 +80 +\d+ +0 +\d+ +\d+ +\d+%$")

    def test_a_damaged_report_is_made_again(self):
        report = sorted(glob.glob(os.path.join(self.out, "objects", "*.ptxas")))[0]
        with open(report, "r+") as file:
            text = file.read()
            file.truncate(0)
        self.assertIn("compiling 1 of ", self.plan().err)
        with open(report) as file:
            self.assertEqual(text.count("registers"), file.read().count("registers"))


if __name__ == "__main__":
    harness.main()
