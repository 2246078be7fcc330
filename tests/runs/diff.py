"""llmc diff: golden texts of pairs, exit codes, and JSON that names the keys. LLMC_UPDATE_GOLDEN=1 rewrites the texts.
"""

import json
import os
import re

import harness
from harness import LLMC, SOURCE, RunTest

GOLDEN = os.path.join(SOURCE, "tests", "golden", "diff")
UPDATE = os.environ.get("LLMC_UPDATE_GOLDEN") == "1"
# Changes to specs/tiny.yaml, and the minimum that the texts must contain: keys, and kernels or products with a
# "through".
CASES = {
    "hidden_size": (["model.hidden_size=80", "model.head_dim=16"], ["model.hidden_size"]),
    "precision": (["precision.compute=fp32"], ["precision.compute"]),
    "residual": (["precision.residual=bf16"], ["precision.residual"]),
    "recompute": (["memory.recompute=[norms, swiglu]"], ["memory.recompute"]),
    "tie": (["model.tie_word_embeddings=true"], ["model.tie_word_embeddings"]),
    "lr": (["optimizer.lr=1e-3"], ["optimizer.lr"]),
    "micro_batch": (["batch.micro_batch=2"], ["batch.micro_batch"]),
    "norms": (["metrics.per_parameter=false"], ["metrics.per_parameter"]),
}


class Diff(RunTest):

    def diff(self, *words, spec="specs/tiny.yaml"):
        return harness.call(LLMC, "diff", spec, spec, *words, cwd=SOURCE)

    def test_golden(self):
        for name, (overrides, _) in CASES.items():
            done = self.diff(*overrides)
            self.assertEqual((done.code, done.err), (1, ""), name)
            path = os.path.join(GOLDEN, name + ".txt")
            if UPDATE:
                with open(path, "w") as file:
                    file.write(done.out)
            self.assertTrue(os.path.exists(path), f"no {path}: run with LLMC_UPDATE_GOLDEN=1")
            with open(path) as file:
                self.assertEqual(done.out, file.read(),
                                 f"{name}: if this is intended, run again with LLMC_UPDATE_GOLDEN=1")

    def test_run_time_values_alone(self):
        said = "only run-time values"
        self.assertIn(said, self.diff("optimizer.lr=1e-5", "schedule.steps=77").out)
        self.assertNotIn(said, self.diff("optimizer.lr=1e-5", "metrics.per_parameter=false").out)
        # With one micro-batch a step, codes of weights are not kept from one to the next.
        spec = self.path("tensor.yaml")
        with open(spec, "w") as file:
            file.write(f"extends: {os.path.relpath(os.path.join(SOURCE, 'specs', 'llama-1b.yaml'), self.folder)}\n"
                       "precision: {matmul: fp8_tensor}\n")
        done = self.diff("batch.tokens=32768", spec=spec)
        self.assert_facts(done.out, said, "their sources differ", "sources that differ: step.cu")

    def test_another_source_of_the_same_parameters(self):
        """Tiles follow the instruction set."""
        spec = self.path("haswell.yaml")
        with open(spec, "w") as file:
            tiny = os.path.relpath(os.path.join(SOURCE, "specs", "tiny.yaml"), self.folder)
            file.write(f"extends: {tiny}\ntarget: {{arch: [haswell]}}\n")
        done = self.diff("target.arch=skylake-avx512", spec=spec)
        self.assertIn("  ~ kernel attention_forward (another source of the same parameters)\n", done.out)
        changed = json.loads(self.diff("target.arch=skylake-avx512", "--json", spec=spec).out)["kernels"]
        self.assertIn("attention_forward", [change["name"] for change in changed])

    def test_a_derived_value_without_use_is_not_named(self):
        """A tied head has no weight decay of its own."""
        for name, tied in (("quickstart", True), ("tiny", False)):
            spec = f"specs/{name}.yaml"
            done = harness.call(LLMC, "diff", spec, spec, "optimizer.weight_decay=0.2", cwd=SOURCE)
            self.assertIn("optimizer.weight_decay_of.matrices: 0.1 -> 0.2", done.out)
            self.assertEqual("optimizer.weight_decay_of.head" in done.out, not tied, done.out)

    def test_identical(self):
        for spec in ("specs/tiny.yaml", "specs/quickstart.yaml", "specs/llama-1b.yaml"):
            done = self.diff(spec=spec)
            self.assertEqual((done.code, done.err), (0, ""))
            self.assertIn("same run", done.out)
            report = json.loads(self.diff("--json", spec=spec).out)
            self.assertTrue(report["equal"])
            self.assertEqual([report[part] for part in ("keys", "kernels", "products", "files")], [[], [], [], []])
            figures = report["figures"].values()
            self.assertTrue(all(figure["before"] == figure["after"] for figure in figures))
        # The other spec is the same file under another name.
        copy = self.path("copy.yaml")
        with open(copy, "wb") as file:
            file.write(harness.read(os.path.join(SOURCE, "specs", "tiny.yaml")))
        self.assertEqual(harness.call(LLMC, "diff", "specs/tiny.yaml", copy, cwd=SOURCE).code, 0)

    def test_spelled_otherwise(self):
        """A run's own spec.yaml has numbers for `auto` and other relative paths; `native` may be resolved. It is the
        same trainer with the same fingerprint."""
        folder = self.path("spelled")
        spec = harness.write_small(
            folder,
            harness.SMALL.replace("micro_batch: 2, ", "micro_batch: auto, ").replace(", loss_chunk: 16", ""))
        trainer = self.compile(spec, "spelled/trainer")
        self.succeed(trainer, "--steps", 1)
        own = os.path.join(folder, "runs", "small", "spec.yaml")
        with open(own) as file:
            text = file.read()
        self.assertRegex(text, r"micro_batch: 4\n")
        self.assertRegex(text, r"path: \"?\.\./\.\./train-")
        self.assertRegex(text, r"arch: \[native\]\n")
        done = harness.call(LLMC, "diff", spec, own)
        self.assertEqual((done.code, done.err), (0, ""), done.out)
        machine = self.succeed(trainer, "--version").out.split()[2]
        done = harness.call(LLMC, "diff", spec, own, f"target.arch={machine}")
        self.assertEqual(done.code, 0, done.out)
        version = self.succeed(trainer, "--version").out
        self.assertEqual(self.succeed(self.compile(own, "spelled/again"), "--version").out, version)
        self.assertIn(version.split()[1], self.succeed(LLMC, "check", own).out)
        done = self.succeed(self.path("spelled", "again", "trainer"), "--run", os.path.dirname(own), "--steps", 2)
        self.assertEqual(done.err, "", "the bits are the same")

    def test_json_names_keys(self):
        for name, (overrides, keys) in CASES.items():
            done = self.diff("--json", *overrides)
            self.assertEqual(done.code, 1)
            report = json.loads(done.out)
            self.assertFalse(report["equal"])
            changed = [entry["key"] for entry in report["keys"]]
            for key in keys:
                self.assertIn(key, changed)
            for part in ("kernels", "products"):
                for entry in report[part]:
                    if entry["change"] == "changed":
                        self.assertTrue(entry["params"] or "was" in entry, f"{name}: {entry}")
                    for param in entry["params"]:
                        self.assertTrue(param["through"], f"{name}: {entry['name']} {param}: through no key")
                        self.assertLessEqual(set(param["through"]), set(changed), f"{name}: {entry['name']} {param}")

    def test_products_in_bf16x3_are_named(self):
        text = harness.SMALL.replace("arch: native", "arch: sapphirerapids")
        spec = self.path("bf16x3.yaml")
        wide = [word for word in harness.BF16X3 if not word.startswith("precision.matmul")]
        with open(spec, "w") as file:
            file.write(text)
        with open(self.path("wide.yaml"), "w") as file:
            file.write(self.succeed(LLMC, "config", spec, *wide).out)
        done = harness.call(LLMC, "diff", self.path("wide.yaml"), self.path("wide.yaml"), "precision.matmul=bf16x3",
                            "--json")
        self.assertEqual((done.code, done.err), (1, ""))
        report = json.loads(done.out)
        self.assertEqual(report["keys"], [{"key": "precision.matmul", "before": '"auto"', "after": '"bf16x3"'}])
        self.assertEqual(report["kernels"], [])
        self.assertIn("qkv_wgrad", [product["name"] for product in report["products"]])
        for product in report["products"]:
            self.assertEqual(product["params"],
                             [{"name": "tiles", "before": "false", "after": "true", "through": ["precision.matmul"]}])

    def test_products_in_tf32_are_named(self):
        words = ("target.kind=cuda", "target.arch=[90a]", "precision.compute=fp32")
        specs = [self.path(f"{matmul}.yaml") for matmul in ("auto", "tf32")]
        for matmul, spec in zip(("auto", "tf32"), specs):
            with open(spec, "w") as file:
                file.write(
                    self.succeed(LLMC, "config", "specs/tiny.yaml", *words, f"precision.matmul={matmul}",
                                 cwd=SOURCE).out)
        done = harness.call(LLMC, "diff", *specs, "--json", cwd=SOURCE)
        self.assertEqual((done.code, done.err), (1, ""))
        report = json.loads(done.out)
        self.assertEqual(report["kernels"], [])
        self.assertIn("qkv_wgrad", [product["name"] for product in report["products"]])
        for product in report["products"]:
            self.assertEqual(product["params"],
                             [{"name": "tf32", "before": "false", "after": "true", "through": ["precision.matmul"]}])

    def test_causes_are_what_changes_a_value(self):
        """If two keys changed, a GEMM's size names the one that changes it alone."""
        report = json.loads(
            self.diff("--json", "model.rope_scaling={type: llama3}", "batch.micro_batch=2",
                      "model.intermediate_size=96").out)
        product = {entry["name"]: {p["name"]: p["through"] for p in entry["params"]} for entry in report["products"]}
        self.assertEqual(product["down_forward"], {"m": ["batch.micro_batch"], "k": ["model.intermediate_size"]})
        self.assertEqual(product["qkv_forward"], {"m": ["batch.micro_batch"]})

    def emitted(self, name, *overrides):
        """Emitted files: each kernel and the step without its header comment, and the plan."""
        folder = self.path(name)
        if not os.path.exists(folder):
            self.succeed(LLMC, "emit", "specs/tiny.yaml", "-o", folder, *overrides, cwd=SOURCE)
        sources = {
            path: re.sub(r"\A(//.*\n)*", "", content.decode())
            for path, content in harness.tree(folder).items() if path.startswith(("kernels", "step"))
        }
        with open(os.path.join(folder, "plan.json")) as file:
            return sources, json.load(file)

    def test_names_what_differs_in_content(self):
        """Compares two emitted projects: the files that differ, and for kernels with equal names the params that
        differ."""
        before, plan = self.emitted("tiny")
        equal_names = 0
        for name, (overrides, _) in CASES.items():
            after, other = self.emitted(name, *overrides)
            report = json.loads(self.diff("--json", *overrides).out)
            differ = sorted(path for path in before.keys() | after.keys() if before.get(path) != after.get(path))
            self.assertEqual(sorted(report["files"]), differ, name)
            equal_names += sum(path in before and path in after for path in differ)
            kernels = [{kernel["name"]: kernel["params"] for kernel in which["kernels"]} for which in (plan, other)]
            changed = {
                kernel: {
                    key: (kernels[0][kernel].get(key, "(none)"), kernels[1][kernel].get(key, "(none)"))
                    for key in kernels[0][kernel].keys() | kernels[1][kernel].keys()
                    if kernels[0][kernel].get(key) != kernels[1][kernel].get(key)
                }
                for kernel in kernels[0].keys() & kernels[1].keys() if kernels[0][kernel] != kernels[1][kernel]
            }
            said = {
                entry["name"]: {param["name"]: (param["before"], param["after"])
                                for param in entry["params"]}
                for entry in report["kernels"] if entry["change"] == "changed" and "was" not in entry
            }
            self.assertEqual(said, changed, name)
        self.assertGreater(equal_names, 20)

    def test_run_time_value_changes_no_kernel(self):
        report = json.loads(self.diff("--json", "optimizer.lr=1e-3", "schedule.steps=50").out)
        self.assertEqual((report["kernels"], report["products"], report["files"]), ([], [], []))

    def test_removed_and_added_kernels(self):

        def names(overrides, change):
            report = json.loads(self.diff("--json", *overrides).out)
            return [entry["name"] for entry in report["kernels"] if entry["change"] == change]

        self.assertTrue(names(["model.attention_bias=true"], "added"))
        self.assertTrue(names(["precision.compute=fp32"], "removed"))

    def test_full(self):
        done = self.diff("--full", "model.rms_norm_eps=1e-6")
        self.assertEqual(done.code, 1)
        for word in ("@@ -", "-", "1e-06f", "kernels/rms_norm_forward.cpp"):
            self.assertIn(word, done.out)

    def test_bad_spec(self):
        self.assertEqual(self.diff("model.hidden_size=0").code, 1)
        self.assertEqual(harness.call(LLMC, "diff", "specs/tiny.yaml", cwd=SOURCE).code, 2)


if __name__ == "__main__":
    harness.main()
