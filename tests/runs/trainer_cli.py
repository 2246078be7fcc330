"""The trainer's command line: what it accepts, and what it says when it refuses."""

import json
import os

import harness
from harness import RunTest


class TrainerCli(RunTest):
    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        cls.spec = harness.write_small(cls.folder)
        cls.trainer = cls.compile(cls.spec, "a")

    def refused(self, code, *words, trainer=None):
        done = harness.call(trainer or self.trainer, *words)
        self.assertEqual(done.code, code, f"{words}\n{done.out}{done.err}")
        self.assertTrue(done.err.startswith("error: "), done.err)
        return done.err

    def fingerprint(self, trainer):
        return json.loads(self.succeed(trainer, "--plan", "--json").out)["fingerprint"]

    def test_plan(self):
        text = self.succeed(self.trainer, "--plan").out
        plan = json.loads(self.succeed(self.trainer, "--plan", "--json").out)
        self.assertEqual(plan["name"], "small")
        self.assertIn(plan["fingerprint"], text)
        self.assertEqual(text, self.succeed(harness.LLMC, "plan", self.spec).out)

    def test_help(self):
        text = self.succeed(self.trainer, "--help").out
        for word in ("--run", "--steps", "--resume", "--plan", "--trace", "optimizer.lr=0.003", "Examples:"):
            self.assertIn(word, text)

    def test_tune_is_for_gpus(self):
        self.assertIn("tune is for GPUs", self.refused(2, "tune"))
        self.assertFalse(os.path.exists(os.path.join(os.path.dirname(self.trainer), "tuned.json")))

    def test_unknown_key(self):
        self.assertIn("optimizer.lr", self.refused(2, "optimizer.Lr=1"))
        self.refused(2, "nonsense=1")
        self.refused(2, "optimizer.lr")
        self.refused(2, "optimizer.lr=fast")
        self.refused(2, "optimizer.lr=1e-3", "optimizer.lr=2e-3")
        self.refused(2, "--nonsense")
        self.refused(2, "--steps", "0")
        self.refused(2, "--steps", "13")

    def test_compiled_in_key(self):
        """Both values are shown; the same value is no change."""
        error = self.refused(2, "model.hidden_size=48")
        self.assertIn("36", error)
        self.assertIn("48", error)
        self.assertIn("model.hidden_size", error)
        self.refused(2, "precision.compute=bf16")
        self.refused(2, "memory.recompute=full")
        self.succeed(self.trainer, "--run", self.path("same"), "--steps", 1, "model.hidden_size=36")

    def test_another_specs_run_folder(self):
        run = self.path("mine")
        self.succeed(self.trainer, "--run", run, "--steps", 2)
        other = self.compile(self.spec, "b", "model.num_hidden_layers=2")
        before = harness.tree(run)
        error = self.refused(6, "--run", run, trainer=other)
        for fingerprint in (self.fingerprint(self.trainer), self.fingerprint(other)):
            self.assertIn(fingerprint, error)
        self.assertEqual(harness.tree(run), before)

    def test_learning_rate_is_no_other_run(self):
        """A run-time value may change from one start to the next; a seed may not."""
        run = self.path("lr")
        self.succeed(self.trainer, "--run", run, "--steps", 2)
        self.succeed(self.trainer, "--run", run, "--steps", 4, "optimizer.lr=1e-4")
        self.assertIn("seed", self.refused(6, "--run", run, "seed=7"))
        self.assertIn("data.seed", self.refused(6, "--run", run, "data.seed=7"))

    def test_resume_none_overwrites_nothing(self):
        run = self.path("none")
        self.succeed(self.trainer, "--run", run, "--steps", 2)
        before = harness.tree(run)
        self.refused(6, "--run", run, "--resume", "none")
        self.assertEqual(harness.tree(run), before)
        self.assertIn("nothing to do", self.succeed(self.trainer, "--run", run, "--steps", 2).out)

    def test_data_errors(self):
        self.refused(5, "--run", self.path("x"), f"data.train.path={self.folder}/none-*.bin")
        wrong = self.path("wrong.bin")
        harness.write_shard(wrong, 500, 1, vocabulary=200)
        error = self.refused(5, "--run", self.path("x"), f"data.train.path={wrong}")
        self.assertIn("97", error)


if __name__ == "__main__":
    harness.main()
