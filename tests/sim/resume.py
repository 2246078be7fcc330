"""A simulated trainer stopped by --steps or SIGTERM and restarted ends with the same bytes as an uninterrupted one."""

import importlib.util
import os
import shutil
import signal
import subprocess
import sys
import time

import harness

sys.modules["harness"] = harness.runs  # the module that tests/runs/resume.py imports by this name
_spec = importlib.util.spec_from_file_location("runs_resume", os.path.join(harness.SOURCE, "tests", "runs",
                                                                           "resume.py"))
runs_resume = importlib.util.module_from_spec(_spec)
_spec.loader.exec_module(runs_resume)

STEPS = 10  # evaluation, sampling and saving fall on steps 3, 6 and 9


class SimResume(harness.SimTest):
    finished = runs_resume.Resume.finished
    assert_same_run = runs_resume.Resume.assert_same_run

    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        cls.spec = harness.runs.write_small(cls.folder, harness.SMALL)
        cls.trainer = harness.compile(cls.spec, os.path.join(cls.folder, "build"), f"schedule.steps={STEPS}")
        cls.clean = os.path.join(cls.folder, "clean")
        done = harness.runs.call(cls.trainer, "--run", cls.clean)
        assert done.code == 0, done.out + done.err

    def test_stopped_by_steps(self):
        for stop in (1, 3, 5):
            run = self.path(f"stopped-{stop}")
            self.succeed(self.trainer, "--run", run, "--steps", stop)
            self.succeed(self.trainer, "--run", run)
            self.assert_same_run(run, self.clean, STEPS, f"stopped after step {stop}", stops={stop})

    def test_stopped_by_sigterm(self):
        """Twice in one run, each time as soon as its metrics have another step."""
        run, cut, codes = self.path("terminated"), set(), []
        for _ in range(2):
            begin = self.lines(run)
            process = self.start(self.trainer, "--run", run, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE)
            while self.lines(run) <= begin and process.poll() is None:
                time.sleep(0.01)
            process.send_signal(signal.SIGTERM)
            errors = process.communicate(timeout=harness.runs.HANGS)[1]
            codes.append(process.returncode)
            self.assertEqual(codes[-1], 75, errors)
            cut.add(harness.runs.newest_checkpoint(run))
        self.succeed(self.trainer, "--run", run)
        self.assertLess(min(cut), STEPS - 1)
        self.assert_same_run(run, self.clean, STEPS, f"terminated at {cut}", cut=cut)

    def test_moves_to_portable_attention(self):
        """Another kernel from step 4 on: the losses agree within bf16's rounding, and the history records it."""
        run = self.path("moving")
        self.succeed(self.trainer, "--run", run, "--steps", 3)
        portable = harness.compile(self.spec, self.path("portable"), f"schedule.steps={STEPS}",
                                   "target.attention=portable")
        self.assertIn("target.attention", self.succeed(portable, "--run", run).err)
        losses = [[line["loss"] for line in harness.runs.json_lines(os.path.join(folder, "metrics.jsonl"))]
                  for folder in (self.clean, run)]
        self.assertEqual([len(of) for of in losses], [STEPS, STEPS])
        self.assertEqual(losses[0][:3], losses[1][:3])
        for undisturbed, moved in zip(*losses):
            self.assertAlmostEqual(moved, undisturbed,
                                   delta=2e-3)  # a bf16 value's half step is 2^-9 of it; the loss averages thousands
        told = [start["changed"] for start in harness.runs.json_lines(os.path.join(run, "history.jsonl"))]
        self.assertEqual(told, [{}, {"target.attention": ["cudnn", "portable"]}])

    def test_the_loss_falls(self):
        run = self.path("falling")
        self.succeed(self.trainer, "--run", run, "schedule.steps=25", "optimizer.lr=1e-2", "sampling.every=0",
                     "evaluation.every=0")
        metrics = harness.runs.json_lines(os.path.join(run, "metrics.jsonl"))
        self.assertLess(metrics[-1]["loss"], 0.9 * metrics[0]["loss"])
        shutil.rmtree(run)

    def lines(self, run):
        path = os.path.join(run, "metrics.jsonl")
        return len(harness.runs.read(path).splitlines()) if os.path.exists(path) else 0


if __name__ == "__main__":
    harness.main()
