"""The audit of the loss in whole runs: its values, that it changes no bit of training, and that it detects a loss in
too few bits."""

import os
import shutil

import harness
from harness import RunTest

NARROW = harness.SMALL.replace("compute: fp32", "compute: bf16")
KINDS = ("logits", "forward")
# Sum of a softmax in bf16, element by element, as in a kernel without a wider accumulator.
EXACT = "    const auto powers = lanes.softmax(in);\n"
IN_BF16 = """    auto powers = lanes.softmax(in);
    float narrow = 0.0f;
    for (int c = 0; c < kCols; ++c) narrow = to_float(from_float<bf16>(narrow + exp(to_float(out.data[c]) - powers.highest)));
    powers.total = narrow;
"""


class Audit(RunTest):

    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        cls.spec = harness.write_small(cls.folder, NARROW)
        cls.plain = cls.compile(cls.spec, "plain")
        cls.trainers = {kind: cls.compile(cls.spec, kind, f"audit.compute={kind}", "audit.every=4") for kind in KINDS}

    def run_of(self, trainer, name, *words):
        """Trains in a new folder; returns it and the standard error."""
        run = self.path("runs", name)
        return run, self.succeed(trainer, "--run", run, *words).err

    def metrics(self, run):
        return harness.json_lines(os.path.join(run, "metrics.jsonl"))

    def audits(self, run):
        return {line["step"]: line for line in self.metrics(run) if "audit_loss" in line}

    def test_training_has_the_same_bits(self):
        plain, _ = self.run_of(self.plain, "without")
        audited = {}
        for kind in KINDS:
            run, errors = self.run_of(self.trainers[kind], kind)
            self.assertNotIn("audit.compute", errors)
            self.assert_same_files(os.path.join(run, "checkpoints"), os.path.join(plain, "checkpoints"), kind)
            audited[kind] = self.audits(run)
            self.assertEqual(list(audited[kind]), [1, 4, 8, 12])
            for line in audited[kind].values():
                self.assertAlmostEqual(line["audit_difference"], line["loss"] - line["audit_loss"], delta=1e-12)
                # 97 logits below 8 are rounded by 2^-9 of themselves; the mean of 96 losses moves by far less than
                # that.
                self.assertLess(abs(line["audit_difference"]), 2e-3)
                self.assertNotEqual(line["audit_difference"], 0)
            keys = ("audit_loss", "audit_difference", "audit_seconds")
            without = [{key: value for key, value in line.items() if key not in keys} for line in self.metrics(run)]
            theirs = harness.without_timing(self.metrics(plain))
            for line in without + theirs:
                line.pop("memory", None)  # an audit needs memory
            self.assertEqual(harness.without_timing(without), theirs)
        for step in audited["logits"]:
            self.assertNotEqual(audited["logits"][step]["audit_loss"], audited["forward"][step]["audit_loss"])

    def test_a_whole_pass_is_that_of_an_fp32_trainer(self):
        exact = self.compile(self.spec, "exact", "precision.compute=fp32")
        losses = [
            self.metrics(self.run_of(exact, f"exact-{kind}", "--steps", 1, *words)[0])[0]["loss"]
            for kind, words in (("fresh", ()), ("trained", ("init.from=" + self.trained(), "batch.tokens=96")))
        ]
        fresh = self.audits(self.run_of(self.trainers["forward"], "fresh", "--steps", 1)[0])[1]
        later = self.audits(
            self.run_of(self.trainers["forward"], "later", "--steps", 1, "init.from=" + self.trained())[0])[1]
        # Same weights and samples, and fp32 sums in another order: 1e-6 of the loss.
        self.assertAlmostEqual(fresh["audit_loss"], losses[0], delta=5e-6)
        self.assertAlmostEqual(later["audit_loss"], losses[1], delta=5e-6)
        self.assertGreater(abs(fresh["audit_difference"]), 5e-6)

    def trained(self):
        run = self.path("runs", "trained")
        if not os.path.exists(run):
            self.run_of(self.plain, "trained")
        return os.path.join(run, "checkpoints", "step-00000012")

    def test_a_loss_in_bf16_is_found(self):
        home = self.path("home")
        shutil.copytree(os.path.join(harness.SOURCE, "templates"), os.path.join(home, "templates"))
        os.symlink(os.path.join(harness.SOURCE, "runtime"), os.path.join(home, "runtime"))
        template = os.path.join(home, "templates", "cross_entropy.cu")
        text = harness.read(template).decode()
        self.assertEqual(text.count(EXACT), 1)
        with open(template, "w") as file:
            file.write(text.replace(EXACT, IN_BF16))
        out = self.path("faulty")
        self.succeed(harness.LLMC, "compile", self.spec, "-o", out, "audit.compute=logits", "audit.every=4",
                     "model.vocab_size=1000", env=harness.environment(LLMC_HOME=home))
        run, errors = self.run_of(os.path.join(out, "trainer"), "faulty")
        said = [line for line in errors.splitlines() if "audit.compute" in line]
        self.assertEqual(len(said), 1, errors)  # one crossing of the bound
        self.assertIn("step 1: the loss is ", said[0])
        audits = self.audits(run)
        # A sum of numbers below 1 in bf16 stops at 256. 1,000 powers sum to more than 400, so the loss is too low.
        self.assertLess(audits[1]["audit_difference"], -0.5)
        for line in audits.values():
            self.assertGreater(abs(line["audit_difference"]), 0.02)

    def test_a_bound_is_a_run_time_value(self):
        _, errors = self.run_of(self.trainers["logits"], "bound", "audit.bound=0", "audit.every=5", "--steps", 6)
        self.assertEqual(errors.count("audit.compute: logits"), 1)
        run, errors = self.run_of(self.trainers["logits"], "never", "audit.bound=0", "audit.every=0", "--steps", 6)
        self.assertNotIn("audit.compute", errors)
        self.assertEqual(self.audits(run), {})

    def test_a_resumed_run_has_the_same_audits(self):
        for kind in KINDS:
            whole, _ = self.run_of(self.trainers[kind], f"whole-{kind}")
            run, _ = self.run_of(self.trainers[kind], f"parts-{kind}", "--steps", 7)
            self.run_of(self.trainers[kind], f"parts-{kind}")
            audits = [{
                step: (line["audit_loss"], line["audit_difference"])
                for step, line in self.audits(folder).items()
            } for folder in (whole, run)]
            self.assertEqual(*audits)
            self.assert_same_files(os.path.join(run, "checkpoints", "step-00000012"),
                                   os.path.join(whole, "checkpoints", "step-00000012"), kind)

    def test_ranks_audit_their_parts(self):
        """Also if ranks hold other shards' master weights from before their updates, and if all run each pass
        together."""
        together = self.compile(self.spec, "together", "parallel.shard=parameters", "audit.compute=logits",
                                "audit.every=4")
        without, _ = self.run_of(self.plain, "two-without", "--ranks", 2)
        for kind, trainer in (*self.trainers.items(), ("together", together)):
            alone, _ = self.run_of(self.trainers.get(kind, self.trainers["logits"]), f"alone-{kind}")
            two, errors = self.run_of(trainer, f"two-{kind}", "--ranks", 2)
            self.assertNotIn("audit.compute", errors)
            for name in ("model.safetensors", "optimizer.safetensors"):  # spec.yaml contains parallel.shard
                files = [os.path.join(run, "checkpoints", "step-00000012", name) for run in (two, without)]
                self.assertTrue(harness.read(files[0]) == harness.read(files[1]), f"{kind}: {name}")
            ours, theirs = self.audits(two), self.audits(alone)
            self.assertEqual(list(ours), [1, 4, 8, 12])
            self.assertAlmostEqual(ours[1]["audit_loss"], theirs[1]["audit_loss"], delta=1e-12)
            # The weights differ by the order of the gradients' sums, and by later roundings of their bf16 copies:
            # 1.2e-4 of a loss with GEMMs in AMX tiles.
            for step, line in ours.items():
                self.assertAlmostEqual(line["audit_loss"], theirs[step]["audit_loss"], delta=5e-4)
                self.assertLess(abs(line["audit_difference"]), 2e-3)


if __name__ == "__main__":
    harness.main()
