"""The GPU's benchmark kit, from bundles to its report, on the simulated GPU."""

import json
import os
import pathlib
import sys
import tarfile

import harness

sys.path.insert(0, os.path.join(harness.SOURCE, "tests", "bench", "gpu"))
import prepare  # noqa: E402

SPEC = prepare.SMALL  # tied and without biases, as the kit's PyTorch model is


class BenchKit(harness.SimTest):
    def test_from_bundles_to_report(self):
        archive = pathlib.Path(self.path("kit.tar.gz"))
        prepare.make(harness.LLMC, SPEC, SPEC, archive, libraries=False)
        with tarfile.open(archive) as file:
            file.extractall(self.path("there"))
        out = self.path("out")
        kit = self.path("there", "llmc-kit", "tests", "bench", "gpu", "run.py")
        self.succeed(sys.executable, kit, "--simulate", harness.BUILT, "--out", out)
        with open(os.path.join(out, "gpu.json")) as file:
            result = json.load(file)
        self.assertTrue(result["simulated"])
        results, plan = result["results"], result["plan"]
        self.assertEqual([name for name, step in results.items() if "failed" in step], [])

        # Every launch of the plan was timed, as often as a step has it.
        for part in ("in_place", "on_end", "free"):
            self.check_launches(plan, results["pieces"][part])
        for name, passes in (("single", 1), ("accumulated", 2)):
            step = results["step"][name]
            self.assertEqual(step["arena_bytes"], plan["memory"]["arena_bytes"])
            self.assertEqual(step["tokens"], passes * plan["batch"]["micro_batch"] * plan["batch"]["sequence_length"])
            self.assertGreater(step["host_ms"], 0)
        self.assertEqual(results["tests"]["failures"], [])
        self.assertGreater(results["tests"]["ran"], 3)

        report = harness.runs.read(os.path.join(out, "gpu.md")).decode()
        self.assertIn("Simulated: no time", report)
        for name in [row["name"] for row in plan["kernels"] if row["name"] in results["pieces"]["in_place"]]:
            self.assertIn(f"| {name} |", report)
        for heading in ("Ceilings", "The step", "Kernels", "Products and attention", "Tests"):
            self.assertIn(f"## {heading}", report)

    def check_launches(self, plan, measured):
        planned = {}
        for launch in plan["launches"]:
            if launch["per"] in ("micro-batch", "step") and launch["kind"] != "memset":
                name = launch["runs"]
                if launch["kind"] == "attention":
                    name = "attention.backward" if "backward" in name else "attention.forward"
                planned[name] = planned.get(name, 0) + launch["times"]
        self.assertEqual({name: row["a_step"] for name, row in measured.items()}, planned)

    def test_a_part_that_fails_is_reported_and_the_rest_runs(self):
        archive = pathlib.Path(self.path("broken.tar.gz"))
        prepare.make(harness.LLMC, SPEC, SPEC, archive, libraries=False)
        with tarfile.open(archive) as file:
            file.extractall(self.path("broken"))
        top = self.path("broken", "llmc-kit")
        os.remove(os.path.join(top, "bundles", "small", "step.cu"))
        out = self.path("broken-out")
        done = harness.runs.call(sys.executable, os.path.join(top, "tests", "bench", "gpu", "run.py"), "--simulate", harness.BUILT,
                                 "--out", out, "--only", "build", "ceilings", "sanitizer")
        self.assertEqual(done.code, 1, done.err)
        report = harness.runs.read(os.path.join(out, "gpu.md")).decode()
        self.assertRegex(report, r"\| build \| FAILED \|.*step\.cu")
        self.assertRegex(report, r"\| sanitizer \| absent \|")


if __name__ == "__main__":
    harness.main()
