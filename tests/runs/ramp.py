"""A ramp: phases whose run-time values alone differ have one trainer, which passes the borders between them by itself."""

import json
import os
import re
import shutil
import signal
import subprocess
import time

import harness
from harness import LLMC, RunTest
from report import Page

# Larger batches, another mixture, another rate and other guards, from steps on that no interval meets.
RAMP = """phases:
  - {until: 7}
  - {until: 13, batch: {tokens: 192}, data: {train: {second: {weight: 0.6}}}}
  - {until: 17, batch: {tokens: 192}, optimizer: {lr: 2.0e-3, clip_norm: 0.5}, guards: {window: 32}, evaluation: {every: 5}}
  - {until: 100%, batch: {tokens: 288}, checkpoint: {every: 5}}
"""
STEPS, BORDERS = 24, (7, 13, 17)
# The same phases with two trainers in turn, which give the same bits: the second one recomputes activations.
APART = RAMP.replace("until: 13,",
                     "until: 13, memory: {recompute: full},").replace("until: 100%,",
                                                                      "until: 100%, memory: {recompute: full},")


def spec_of(folder, phases):
    train = (f"train: {{first: {{path: {folder}/train-0.bin, weight: 0.7}}, second: {{path: {folder}/train-1.bin, "
             "weight: 0.3, most_epochs: 1000}}")
    text = harness.SMALL.replace("train: [{path: train-*.bin}]", train).replace("steps: 12", f"steps: {STEPS}")
    return text.replace("every: 3, keep_last: 100", "every: 4, keep_last: 100") + phases


class Ramp(RunTest):

    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        cls.spec = harness.write_small(cls.folder, spec_of(cls.folder, RAMP))
        cls.out = os.path.join(cls.folder, "build")
        done = harness.call(LLMC, "compile", cls.spec, "-o", cls.out)
        assert done.code == 0, done.err
        cls.trainer = os.path.join(cls.out, "phase-1", "trainer")
        assert done.out.splitlines() == [line for line in done.out.splitlines()
                                         if line.startswith(cls.trainer)], done.out
        cls.whole = {}
        for ranks in (1, 2):
            cls.whole[ranks] = os.path.join(cls.folder, f"whole-{ranks}")
            done = harness.call(*cls.words(cls.whole[ranks], ranks))
            assert done.code == 0, done.err

    @classmethod
    def words(cls, run, ranks=1):
        return [cls.trainer, "--run", run, *(("--ranks", str(ranks)) if ranks > 1 else ())]

    def files(self, run, step=STEPS):
        folder = os.path.join(run, "checkpoints", f"step-{step:08}")
        return {
            name: harness.read(os.path.join(folder, name))
            for name in ("model.safetensors", "optimizer.safetensors", "spec.yaml")
        }

    def metrics(self, run):
        return harness.without_timing(harness.json_lines(os.path.join(run, "metrics.jsonl")))

    def history(self, run):
        return [(line["step"], line.get("phase")) for line in harness.json_lines(os.path.join(run, "history.jsonl"))]

    def assert_same_run(self, run, ranks=1):
        self.assertEqual(self.files(run), self.files(self.whole[ranks]))
        self.assertEqual(self.metrics(run), self.metrics(self.whole[ranks]))

    def test_borders_without_checkpoints(self):
        run = self.whole[1]
        self.assertEqual(sorted(os.listdir(os.path.join(run, "checkpoints"))),
                         [f"step-{step:08}" for step in (4, 8, 12, 16, 20, 24)])
        self.assertEqual(self.history(run), [(0, 1), (7, 2), (13, 3), (17, 4)])
        lines = harness.json_lines(os.path.join(run, "history.jsonl"))
        self.assertEqual(lines[1]["changed"],
                         {"batch.tokens": ["96", "192"], "data.train.second.weight": ["0.3", "0.6"]})
        self.assertEqual(sorted(lines[3]["changed"]), [
            "batch.tokens", "checkpoint.every", "evaluation.every", "guards.window", "optimizer.clip_norm",
            "optimizer.lr"
        ])
        self.assertEqual({line["build"] for line in lines}, {lines[0]["build"]})
        metrics = harness.json_lines(os.path.join(run, "metrics.jsonl"))
        tokens = [96] * 7 + [192] * 10 + [288] * 7
        self.assertEqual([line["tokens"] for line in metrics], [sum(tokens[:i + 1]) for i in range(STEPS)])
        # One schedule over the run: at the border only the peak changes.
        self.assertLess(metrics[13]["lr"] * 1.5, metrics[12]["lr"])
        self.assertGreater(metrics[13]["lr"] * 1.5, 0.8 * metrics[12]["lr"])
        with open(os.path.join(run, "spec.yaml")) as file:
            self.assertIn("tokens: 288", file.read())
        self.assertEqual(json.loads(self.succeed(LLMC, "runs", run, "--json").out)["runs"][0]["state"], "finished")

    def test_equals_separate_trainers(self):
        spec = self.path("apart.yaml")
        with open(spec, "w") as file:
            file.write(spec_of(self.folder, APART))
        for ranks in (1, 2):
            run, out = self.path(f"apart-{ranks}"), self.path("apart")
            more = ("--ranks", ranks) if ranks > 1 else ()
            self.succeed(LLMC, "run", spec, "-o", out, "--", "--run", run, *more)
            # Phases 1 and 3 share a trainer with another one between them.
            self.assertEqual(sorted(os.listdir(out)), ["phase-1", "phase-2"])
            theirs, ours = self.files(run), self.files(self.whole[ranks])
            self.assertEqual({name: theirs[name]
                              for name in theirs if name != "spec.yaml"},
                             {name: ours[name]
                              for name in ours if name != "spec.yaml"})
            self.assertEqual(self.history(run), [(0, 1), (7, 2), (13, 3), (17, 4)])
            for border in BORDERS:
                self.assertTrue(os.path.isdir(os.path.join(run, "checkpoints", f"step-{border:08}")))

    def killed_before(self, call):
        run = self.path("call")
        shutil.rmtree(run, ignore_errors=True)
        done = harness.call(
            *self.words(run), env=harness.environment()
            | {"LD_PRELOAD": os.environ["LLMC_FAIL_SHIM"], "LLMC_FAIL_MODE": "KILL", "LLMC_FAIL_CALL": str(call)})
        self.assertEqual(done.code, -signal.SIGKILL, done.err)
        return run

    def phases_begun(self, run):
        path = os.path.join(run, "history.jsonl")
        return len(harness.json_lines(path)) if os.path.exists(path) else 0

    def test_kills_around_a_border(self):
        """Killed before each call that changes a file from the step before a border to the one after it."""
        for border in (1, 3):
            low, high = 1, 2000  # the call at which the border's line is in the history
            while high - low > 1:
                middle = (low + high) // 2
                try:
                    begun = self.phases_begun(self.killed_before(middle)) > border
                except AssertionError:
                    begun = True  # the run has fewer calls
                low, high = (low, middle) if begun else (middle, high)
            for call in range(high - 4, high + 6):
                run = self.killed_before(call)
                begun = self.phases_begun(run)
                self.assertEqual(begun > border, call >= high)
                self.succeed(*self.words(run))
                self.assert_same_run(run)
                self.assertEqual([phase for _, phase in self.history(run) if phase][-1], 4)

    def test_kills_of_two_ranks(self):
        run = self.path("killed-2")
        for step in (5, 7, 8, 13, 14, 16, 17, 20):
            process = subprocess.Popen(self.words(run, 2), stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
                                       start_new_session=True, env=harness.environment())
            self.addCleanup(process.kill)
            deadline, path = time.monotonic() + 120, os.path.join(run, "metrics.jsonl")
            while process.poll() is None:
                self.assertLess(time.monotonic(), deadline)
                if os.path.exists(path) and len(harness.read(path).splitlines()) >= step:
                    break
                time.sleep(0.001)
            try:
                os.killpg(process.pid, signal.SIGKILL)
            except ProcessLookupError:
                pass
            process.wait()
        self.succeed(*self.words(run, 2))
        self.assert_same_run(run, 2)

    def test_steps_signals_and_words(self):
        run = self.path("steps")
        for steps in (7, 7, 10, 13, 20):
            done = self.succeed(*self.words(run), "--steps", steps)
            self.assertTrue(os.path.isdir(os.path.join(run, "checkpoints", f"step-{steps:08}")), done.out)
        # `llmc run phase=3` starts the trainer that has it, which goes on where the run is.
        self.succeed(LLMC, "run", self.spec, "phase=3", "-o", self.out, "--", "--run", run)
        self.assertEqual(self.files(run), self.files(self.whole[1]))
        self.assertEqual([line for line in self.history(run) if line[1]], [(0, 1), (7, 2), (13, 3), (17, 4)])
        # An override holds in all phases.
        run = self.path("override")
        self.succeed(*self.words(run), "batch.tokens=144", "checkpoint.every=6", "--no-final-checkpoint")
        self.assertEqual([line["tokens"] for line in harness.json_lines(os.path.join(run, "metrics.jsonl"))],
                         [144 * step for step in range(1, STEPS + 1)])
        self.assertEqual(len(self.history(run)), 4)
        # Samples of steps of later phases are not known yet; those of earlier ones are.
        run = self.path("batches")
        self.succeed(*self.words(run), "--steps", 10)
        done = harness.call(*self.words(run), "--batches", "14")
        self.assertEqual(done.code, 2)
        self.assert_facts(done.err, "step 14", "at step 10, in phase 2", "when phase 2 is done")
        lines = self.succeed(*self.words(run), "--batches", "6:3", "--json").out.splitlines()
        self.assertEqual([len(json.loads(line)["samples"]) for line in lines], [4, 4, 8])
        timeline = self.path("timeline.json")
        self.succeed(*self.words(run), "--timeline", timeline, "--timeline-steps", "12:4", "--timing",
                     self.path("timing.json"))
        with open(timeline) as file:
            self.assertIn("step 15", file.read())

    def test_rollbacks_pass_borders(self):
        """In phase 2 every step is taken for an outlier: the run goes back to phase 1, with its values."""
        spec, run = self.path("back.yaml"), self.path("back")
        guards = "guards: {grad_norm: 1.0e-9, judge_after: 2, limit_in_a_row: 2, rollback: true, rollbacks: 2}"
        with open(spec, "w") as file:
            file.write(
                spec_of(
                    self.folder,
                    RAMP.replace("batch: {tokens: 192}, data",
                                 guards + ", batch: {tokens: 192}, optimizer: {clip_norm: 1.0e-9}, data")))
        self.succeed(LLMC, "compile", spec, "-o", self.path("back-build"))
        trainer = self.path("back-build", "phase-1", "trainer")
        done = harness.call(trainer, "--run", run, "checkpoint.every=6")
        self.assertEqual(done.code, 7, done.out + done.err)
        self.assertEqual(done.err.count("rolls back to step 6"), 2, done.err)
        lines = harness.json_lines(os.path.join(run, "history.jsonl"))
        self.assertEqual([(line["step"], line.get("phase"), "rollback" in line) for line in lines],
                         [(0, 1, False), (7, 2, False), *[(6, None, True), (6, None, False), (7, 2, False)] * 2])
        self.assertEqual(lines[3]["changed"]["batch.tokens"], ["192", "96"])
        metrics = harness.json_lines(os.path.join(run, "metrics.jsonl"))
        tokens = [96] * 7 + [192] * (len(metrics) - 7)
        self.assertEqual([line["tokens"] for line in metrics], [sum(tokens[:i + 1]) for i in range(len(metrics))])
        # The samples of phase 1 are not those of its first time.
        first = lambda of: json.loads(self.succeed(trainer, "--run", of, "--batches", "7", "--json").out)["samples"]
        self.assertNotEqual(
            first(run),
            json.loads(self.succeed(*self.words(self.whole[1]), "--batches", "7", "--json").out)["samples"])
        self.succeed(trainer, "--run", run, "guards.grad_norm=0", "checkpoint.every=6")
        self.assertEqual(self.history(run)[-3:], [(7, 2), (13, 3), (17, 4)])

    def test_rollbacks_to_other_data(self):
        """A position in the data of phase 2 is none in those of phase 1, which begin another epoch."""
        spec, run = self.path("other-data.yaml"), self.path("other-data")
        phases = (
            "phases: [{until: 7}, {until: 100%, optimizer: {clip_norm: 1.0e-9}, guards: {grad_norm: 1.0e-9, judge_after: 2, "
            f"limit_in_a_row: 2, rollback: true, rollbacks: 1}}, data: {{train: [{{path: {self.folder}/train-1.bin}}]}}}}]\n"
        )
        with open(spec, "w") as file:
            file.write(
                harness.SMALL.replace("train-*.bin", f"{self.folder}/train-0.bin").replace(
                    "val-*.bin", f"{self.folder}/val-0.bin").replace(
                        "every: 3, keep_last", "every: 6, keep_last").replace("steps: 12", "steps: 24") + phases)
        self.succeed(LLMC, "compile", spec, "-o", self.path("other-data-build"))
        done = harness.call(self.path("other-data-build", "phase-1", "trainer"), "--run", run)
        self.assertEqual(done.code, 7, done.out + done.err)
        lines = harness.json_lines(os.path.join(run, "history.jsonl"))
        self.assertEqual([(line["step"], "rollback" in line) for line in lines], [(0, False), (7, False), (6, True),
                                                                                  (6, False), (7, False)])
        data = [line["data"] for line in lines]
        self.assertEqual([of == data[0] for of in data], [True, False, False, True, False])
        self.assertEqual(lines[3]["order"]["epoch"], lines[2]["order"]["epoch"] + 1)

    def test_a_border_that_cannot_be_passed(self):
        """The next phase's data are gone, or its mirror cannot be made: what was trained is saved, and the run goes on
        when they are back."""
        spec, run, later = self.path("gone.yaml"), self.path("gone"), self.path("later.bin")
        mirror = self.path("mirror")
        shutil.copy(os.path.join(self.folder, "val-0.bin"), later)
        phases = f"phases: [{{until: 500}}, {{until: 100%, data: {{validation: [{{path: {later}}}]}}, checkpoint: {{mirror: {mirror}}}}}]\n"
        with open(spec, "w") as file:
            file.write(spec_of(self.folder, phases).replace(f"steps: {STEPS}", "steps: 502"))
        self.succeed(LLMC, "compile", spec, "-o", self.path("gone-build"))
        words = [
            self.path("gone-build", "phase-1", "trainer"), "--run", run, "checkpoint.every=0", "evaluation.every=600",
            "sampling.every=600", "guards.limit=10000", "guards.limit_in_a_row=10000"
        ]
        process = subprocess.Popen(words, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True)
        metrics = os.path.join(run, "metrics.jsonl")
        while process.poll() is None and not (os.path.exists(metrics) and os.path.getsize(metrics)):
            time.sleep(0.001)
        os.rename(later, later + ".away")
        error = process.communicate(timeout=harness.HANGS)[1]
        self.assertEqual((process.returncode, "later.bin" in error), (5, True), error)
        self.assertEqual(os.listdir(os.path.join(run, "checkpoints")), ["step-00000500"])
        os.rename(later + ".away", later)
        with open(mirror, "w"):
            pass
        done = harness.call(*words[:2], self.path("no-mirror"), *words[3:])
        self.assertEqual((done.code, mirror in done.err), (6, True), done.err)
        self.assertEqual(os.listdir(os.path.join(self.path("no-mirror"), "checkpoints")), ["step-00000500"])
        os.remove(mirror)
        for name in (run, self.path("no-mirror"), self.path("passes")):  # the last one for the first time
            self.succeed(*words[:2], name, *words[3:])
            self.assertEqual(len(self.metrics(name)), 502)
            self.assertIn("step-00000502", os.listdir(os.path.join(mirror, "checkpoints")))
            shutil.rmtree(mirror)

    def test_sharded_gradients(self):
        """Ranks reduce as often as the largest of them has micro-batches in the phase in force."""
        spec, run = self.path("sharded.yaml"), self.path("sharded")
        with open(spec, "w") as file:
            file.write(
                spec_of(self.folder,
                        RAMP.replace("192", "144") + "parallel: {shard: gradients, world_size: 2}\n"))
        self.succeed(LLMC, "run", spec, "-o", self.path("sharded-build"), "--", "--run", run, "--ranks", 2)
        self.succeed(self.path("sharded-build", "phase-1", "trainer"), "--run", self.path("one-rank"))
        ours, theirs = ([line["loss"] for line in harness.json_lines(os.path.join(self.path(of), "metrics.jsonl"))]
                        for of in ("sharded", "one-rank"))
        self.assertEqual(len(ours), STEPS)
        for a, b in zip(ours, theirs):  # sums in another order
            self.assertAlmostEqual(a, b, delta=1e-4)

    def test_epochs_of_all_phases(self):
        """Samples that one phase reads count in the next: the largest number of steps that fits is exact."""
        for phases in (RAMP, APART):
            spec, run, out = self.path("epochs.yaml"), self.path("epochs"), self.path("epochs-build")
            with open(spec, "w") as file:
                file.write(spec_of(self.folder, phases).replace("most_epochs: 1000", "most_epochs: 9.5"))
            checked = harness.call(LLMC, "check", spec)
            self.assertEqual(checked.code, 5, checked.out + checked.err)
            self.assert_facts(checked.err, "data.train.second", "most_epochs 9.5")
            fit = int(re.search(r"at most (\d+) steps fit", checked.err)[1])
            self.assertTrue(13 < fit < 17, checked.err)
            for words in ((), ("--steps", fit + 1)):
                done = harness.call(LLMC, "run", spec, "-o", out, "--", "--run", run, *words)
                self.assertEqual(done.code, 5, done.err)
                self.assert_facts(done.err, f"at most {fit} steps fit", f"--steps {fit},")
                self.assertFalse(os.path.exists(out))  # before anything is compiled
            self.succeed(LLMC, "compile", spec, "-o", out)
            done = harness.call(os.path.join(out, "phase-1", "trainer"), "--run", run)
            self.assertEqual(done.code, 5, done.err)
            self.assertIn(f"at most {fit} steps fit", done.err)
            self.assertFalse(os.path.exists(run))
            self.succeed(LLMC, "run", spec, "-o", out, "--", "--run", run, "--steps", fit)
            last = harness.json_lines(os.path.join(run, "metrics.jsonl"))[-1]
            self.assertEqual(last["step"], fit)
            self.assertLessEqual(last["epochs/second"], 9.5)
            more = harness.call(LLMC, "run", spec, "-o", out, "--", "--run", run, "--steps", fit + 1)
            self.assertEqual(more.code, 5, more.err)
            for folder in (run, out):
                shutil.rmtree(folder)

    def test_a_report_marks_borders(self):
        page = self.path("report.html")
        self.succeed(LLMC, "report", self.whole[1], "-o", page)
        data = Page(harness.read(page).decode()).data()
        run = data["runs"][0]
        self.assertEqual([(start["step"], start["phase"]) for start in run["starts"]], [(0, 1), (7, 2), (13, 3),
                                                                                        (17, 4)])
        self.assertEqual([start.get("same_start") for start in run["starts"]], [None, True, True, True])
        # One process has one clock.
        self.assertEqual(run["lines"]["time"], run["lines"]["seconds"])
        with open(page) as file:
            self.assertIn("`phase ${start.phase}`", file.read())

    def test_later_phases_are_checked_at_the_start(self):
        spec = self.path("wrong.yaml")
        with open(spec, "w") as file:
            file.write(spec_of(self.folder, RAMP.replace("weight: 0.6}", "weight: 0.6, path: gone.bin}")))
        self.succeed(LLMC, "compile", spec, "-o", self.path("wrong"))
        done = harness.call(self.path("wrong", "phase-1", "trainer"), "--run", self.path("wrong-run"))
        self.assertEqual(done.code, 5, done.err)
        self.assert_facts(done.err, "gone.bin", "data.train.second")
        self.assertFalse(os.path.exists(self.path("wrong-run")))


if __name__ == "__main__":
    harness.main()
