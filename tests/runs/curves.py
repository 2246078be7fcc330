"""Loss curves of tests/bench in a short form: products in fp8 beside bf16, and moments in int8 beside fp32."""

import csv
import os
import sys

import harness

BENCH = os.path.join(harness.SOURCE, "tests", "bench")
STEPS, EVERY = 56, 4
# Widths are multiples of 16. At this rate the standard error of two seeds is about 0.002 nats, at three times the rate
# 0.01, which is the bound.
OVERRIDES = ("model.hidden_size=96", "model.head_dim=16", "model.intermediate_size=80", "optimizer.lr=1.0e-3",
             "evaluation.sequences=40")


class Curves(harness.RunTest):

    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        cls.spec = harness.write_small(cls.folder)
        for name, samples, seed in (("train-0", 500, 1), ("val-0", 40, 3)):
            harness.write_shard(cls.folder + f"/{name}.bin", samples * 24 + 1, seed)

    def compare(self, script, baseline, others, *words):
        """Two seeds of each run. The command itself fails only if a mean is 0.01 nats above the baseline's."""
        out = self.path(script)
        os.makedirs(out, exist_ok=True)
        command = (sys.executable, os.path.join(BENCH, script), *OVERRIDES, "--spec", self.spec, "--models",
                   "quickstart", "--seeds", 2, "--steps", STEPS, "--threads", 1, "-o", out, *words)
        printed = self.succeed(*command, cwd=out).out
        with open(os.path.join(out, "curves.csv"), newline="") as file:
            header, *rows = csv.reader(file)
        self.assertEqual(header, ["model", "run", "seed", "step", "validation_loss"])
        first, last = ({(run, seed): float(loss)
                        for _, run, seed, step, loss in rows if int(step) == wanted} for wanted in (EVERY, STEPS))
        self.assertEqual(sorted(last), sorted((run, seed) for run in (baseline, *others) for seed in "12"))
        self.assertEqual(len(rows), len(last) * STEPS // EVERY)
        self.assertTrue(all(last[key] < first[key] - 0.1 for key in last), "they learn")
        for run in others:
            differences = [last[run, seed] - last[baseline, seed] for seed in "12"]
            self.assertTrue(all(differences), "the same bits as the baseline's")
            self.assertLess(abs(sum(differences) / 2), 0.01,
                            "a lower loss would be another optimizer's, or arithmetic's")
            self.assertIn(f"{run}: mean difference {sum(differences) / 2:+.4f} nats", printed)
        self.assertEqual(self.succeed(*command, cwd=out).out, printed, "of complete runs")

    def test_fp8(self):
        self.compare("fp8_curves.py", "bf16", ("fp8", "fp8_full"), "--matmul", "fp8", "fp8_full")

    def test_int8(self):
        self.compare("state_curves.py", "fp32", ("int8", ))


if __name__ == "__main__":
    harness.main()
