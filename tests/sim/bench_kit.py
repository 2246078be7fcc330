"""The GPU's benchmark kit, from bundles to its report, on the simulated GPU."""

import json
import os
import pathlib
import shutil
import sys
import tarfile

import harness

sys.path.insert(0, os.path.join(harness.SOURCE, "tests", "bench", "gpu"))
import prepare  # noqa: E402

SPEC = prepare.SMALL  # tied and without biases, as the kit's PyTorch model is


class BenchKit(harness.SimTest):
    def unpacked(self, name):
        """A kit of the small spec: its folder."""
        archive = pathlib.Path(self.path(f"{name}.tar.gz"))
        prepare.make(harness.LLMC, SPEC, SPEC, archive, libraries=False)
        with tarfile.open(archive) as file:
            file.extractall(self.path(name))
        return pathlib.Path(self.path(name, "llmc-kit"))

    def run_kit(self, top, *arguments):
        """The process, and the folder of its report."""
        out = top.parent / "out"
        run = top / "tests" / "bench" / "gpu" / "run.py"
        done = harness.runs.call(sys.executable, run, "--simulate", harness.BUILT, "--out", out, *arguments)
        return done, out

    def test_from_bundles_to_report(self):
        top = self.unpacked("whole")
        done, out = self.run_kit(top)
        self.assertEqual(done.code, 0, done.out + done.err)
        result = json.loads((out / "gpu.json").read_text())
        self.assertTrue(result["simulated"])
        results, plan = result["results"], result["plan"]
        self.assertEqual([name for name, step in results.items() if "failed" in step], [])

        # Every launch of the plan was timed, as often as a step has it.
        for part in ("in_place", "on_end", "free"):
            self.check_launches(plan, results["pieces"][part])
        portable = json.loads((top / "bundles" / "portable" / "plan.json").read_text())
        self.check_launches(portable, results["attention"]["in_place"])
        self.assertIn("attention_backward_keys", results["attention"]["in_place"])
        comparison = results["attention"]["comparison"]
        self.assertEqual(len(comparison["losses"]), 2)
        self.assertNotEqual(comparison["training"], results["pieces"]["training"])  # each rounds in its own places
        self.assertIn("model.layers.0.self_attn.k_proj.weight", comparison["training"]["gradient_norms"])
        for name, passes in (("single", 1), ("accumulated", 2)):
            step = results["step"][name]
            self.assertEqual(step["arena_bytes"], plan["memory"]["arena_bytes"])
            self.assertEqual(step["tokens"], passes * plan["batch"]["micro_batch"] * plan["batch"]["sequence_length"])
            self.assertGreater(step["host_ms"], 0)
        tuned = results["tune"]
        self.assertEqual(set(tuned["products"]), {product["name"] for product in plan["products"]})
        self.assertGreater(tuned["first_ms"], tuned["best_ms"])
        self.assertEqual(results["tests"]["failures"], [])
        self.assertGreater(results["tests"]["ran"], 3)

        report = (out / "gpu.md").read_text()
        self.assertIn("Simulated: no time", report)
        for name in [row["name"] for row in plan["kernels"] if row["name"] in results["pieces"]["in_place"]]:
            self.assertIn(f"| {name} |", report)
        for heading in ("Ceilings", "The step", "Kernels", "Products", "Attention", "Tests"):
            self.assertIn(f"## {heading}\n", report)
        for row in ("cuDNN", "cuDNN, deterministic: false", "llmc's own, target.attention: portable"):
            self.assertRegex(report, rf"\| {row} \|( -?[\d.,]+%? \|){{8}}")
        self.assertRegex(report, r"A micro-batch's products: [\d.]+ ms by the algorithms that cuBLASLt suggests")
        self.assertRegex(report, r"losses of the first 2 steps [-\de., ]+ \(bound 1e-04\)")

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
        top = self.unpacked("broken")
        (top / "bundles" / "small" / "step.cu").unlink()
        done, out = self.run_kit(top, "--only", "build", "ceilings", "sanitizer")
        self.assertEqual(done.code, 1, done.err)
        report = (out / "gpu.md").read_text()
        self.assertRegex(report, r"\| build \| FAILED \|.*step\.cu")
        self.assertRegex(report, r"\| sanitizer \| absent \|")

    def test_attention_that_is_wrong_by_a_twentieth_is_found(self):
        top = self.unpacked("wrong")
        kernel = top / "bundles" / "portable" / "kernels" / "attention_backward_keys.cu"
        text = kernel.read_text()
        right = "scale[2] = {0.25f, 0.25f}"  # of dk
        self.assertEqual(text.count(right), 1)
        kernel.write_text(text.replace(right, "scale[2] = {0.2625f, 0.2625f}"))
        done, out = self.run_kit(top, "--only", "ceilings", "pieces", "attention")
        self.assertEqual(done.code, 1, done.err)
        report = (out / "gpu.md").read_text()
        self.assertRegex(report, r"\| attention \| FAILED \|.*self_attn\.k_proj\.weight with norms \d")
        self.assertRegex(report, r"\| llmc's own, target\.attention: portable \| \d")

    def test_a_run_that_cannot_have_another_attention_says_why(self):
        top = self.unpacked("refused")
        shutil.rmtree(top / "bundles" / "portable")
        wide = pathlib.Path(self.path("wide.yaml"))
        wide.write_text(SPEC.read_text().replace("head_dim: 16", "head_dim: 264"))
        prepare.emit_portable(harness.LLMC, wide, top / "bundles")
        done, out = self.run_kit(top, "--only", "attention")
        self.assertEqual(done.code, 0, done.err)
        self.assertRegex((out / "gpu.md").read_text(), r"\| attention \| absent \|.*error E0304: head_dim 264")


if __name__ == "__main__":
    harness.main()
