"""A ramp: phases whose run-time values alone differ have one trainer, which passes the borders between them by itself."""

import json
import os
import re
import shutil
import signal
import subprocess
import time

import harness
from harness import LLMC
from phased import STEPS, PhasedTest
from report import Page

# Larger batches, another mixture, another rate and other guards, from steps on that no interval meets.
RAMP = """phases:
  - {until: 7}
  - {until: 13, batch: {tokens: 192}, data: {train: {second: {weight: 0.6}}}}
  - {until: 17, batch: {tokens: 192}, optimizer: {lr: 2.0e-3, clip_norm: 0.5}, guards: {window: 32}, evaluation: {every: 5}}
  - {until: 100%, batch: {tokens: 288}, checkpoint: {every: 5}}
"""
BORDERS = (7, 13, 17)
# The same phases with two trainers in turn, which give the same bits: the second one recomputes activations.
APART = RAMP.replace("until: 13,",
                     "until: 13, memory: {recompute: full},").replace("until: 100%,",
                                                                      "until: 100%, memory: {recompute: full},")


class Ramp(PhasedTest):

    phases = RAMP

    @classmethod
    def words(cls, run, ranks=1):
        return [cls.trainer_in(cls.out), "--run", run, *cls.ranks(ranks)]

    def test_borders_without_checkpoints(self):
        run = self.whole[1]
        self.assertTrue(all(line.startswith(self.trainer()) for line in self.compiled.out.splitlines()),
                        self.compiled.out)
        self.assertEqual(sorted(os.listdir(os.path.join(run, "checkpoints"))),
                         [f"step-{step:08}" for step in (4, 8, 12, 16, 20, 24)])
        self.assertEqual(self.begun(run), [(0, 1), (7, 2), (13, 3), (17, 4)])
        lines = self.history(run)
        self.assertEqual(lines[1]["changed"],
                         {"batch.tokens": ["96", "192"], "data.train.second.weight": ["0.3", "0.6"]})
        self.assertEqual(sorted(lines[3]["changed"]), [
            "batch.tokens", "checkpoint.every", "evaluation.every", "guards.window", "optimizer.clip_norm",
            "optimizer.lr"
        ])
        self.assertEqual({line["build"] for line in lines}, {lines[0]["build"]})
        metrics = self.metrics(run)
        tokens = [96] * 7 + [192] * 10 + [288] * 7
        self.assertEqual([line["tokens"] for line in metrics], [sum(tokens[:i + 1]) for i in range(STEPS)])
        # One schedule over the run: at the border only the peak changes.
        self.assertLess(metrics[13]["lr"] * 1.5, metrics[12]["lr"])
        self.assertGreater(metrics[13]["lr"] * 1.5, 0.8 * metrics[12]["lr"])
        with open(os.path.join(run, "spec.yaml")) as file:
            self.assertIn("tokens: 288", file.read())
        self.assertEqual(json.loads(self.succeed(LLMC, "runs", run, "--json").out)["runs"][0]["state"], "finished")

    def test_the_header_counts_the_batches_of_all_phases(self):
        out = self.succeed(*self.words(self.path("header")), "--steps", 20).out
        self.assertIn(f"20 steps up to step 20 are {7 * 96 + 10 * 192 + 3 * 288:,} tokens", out)
        ends = re.findall(r"(?m)^source +second: .* up to step (\d+)$", out)
        self.assertEqual(ends, ["7", "13", "17", "20"])
        last = self.metrics(self.path("header"))[-1]["epochs/second"]
        self.assertAlmostEqual(float(re.findall(r"(?m)^source +second: .* ([\d.]+) epochs", out)[-1]), last,
                               delta=0.006)

    def losses_known(self, run, step):
        with open(os.path.join(run, "checkpoints", f"step-{step:08}", "state.json")) as file:
            return len(json.load(file)["guard"]["losses"])

    def test_guards_compare_no_losses_over_other_batches(self):
        self.assertEqual([self.losses_known(self.whole[1], step) for step in (4, 8, 12, 16, 20)], [4, 1, 5, 3, 3])
        run = self.path("known")
        for steps in (7, 9):
            self.succeed(*self.words(run), "--steps", steps)
        self.assertEqual([self.losses_known(run, step) for step in (7, 9)], [7, 2])

    def test_a_plan_needs_no_checkpoint(self):
        run = self.path("moved")
        self.succeed(*self.words(run), "--steps", 8)
        os.rename(os.path.join(run, "checkpoints"), self.path("moved-away"))
        self.assertEqual(harness.call(*self.words(run)).code, 6)
        self.assertEqual(
            self.succeed(*self.words(run), "--plan").out,
            self.succeed(*self.words(run), "--plan", "phase=1").out)

    def test_plans_of_one_trainer(self):
        """Its memory is for the largest step of its phases, and --plan is of the phase that the run is at."""
        run = self.path("planned")
        plan = lambda *words: self.succeed(*self.words(run), "--plan", *words).out
        self.assertTrue(plan().startswith("phase 1 of 4, up to step 7\n"), plan())
        self.succeed(*self.words(run), "--steps", 10)
        self.assertTrue(plan().startswith("phase 2 of 4, up to step 13\n"), plan())
        self.assertIn("192 tokens", plan())
        self.assertEqual((plan(), plan("--json")), (plan("phase=2"), plan("--json", "phase=2")))
        for phase, tokens in ((1, 96), (3, 192), (4, 288)):
            self.assertIn(f"{tokens} tokens", plan(f"phase={phase}"))
        self.assertIn("phase 4 of 4", self.succeed(self.trainer(), "--plan", "--run", self.whole[1]).out)
        done = harness.call(self.trainer(), "--plan", "phase=5")
        self.assertEqual(done.code, 2)
        self.assert_facts(done.err, "no phase '5'", "1 to 4")
        gpu = ("target.kind=cuda", "target.arch=90a")
        of_run = json.loads(self.succeed(LLMC, "plan", self.spec, *gpu, "--json").out)["phases"]
        alone = json.loads(
            self.succeed(LLMC, "plan", self.write_spec("largest.yaml", ""), "batch.tokens=288", *gpu, "--json").out)
        self.assertEqual([self.slots(phase["plan"]) for phase in of_run], [self.slots(alone)] * 4)

    @staticmethod
    def slots(plan):
        (section, ) = (section for section in plan["memory"]["sections"] if section["name"] == "inputs on their way")
        return section["bytes"]

    def test_equals_separate_trainers(self):
        spec = self.write_spec("apart.yaml", APART)
        for ranks in (1, 2):
            run, out = self.path(f"apart-{ranks}"), self.path("apart")
            self.succeed(LLMC, "run", spec, "-o", out, "--", "--run", run, *self.ranks(ranks))
            # Phases 1 and 3 share a trainer with another one between them.
            self.assertEqual(sorted(os.listdir(out)), ["phase-1", "phase-2"])
            done = harness.call(self.trainer_in(out), "--plan", "phase=4")
            self.assertEqual(done.code, 2)
            self.assert_facts(done.err, "phase 4", self.trainer_in(out, 2) + " --plan")
            theirs, ours = self.files(run), self.files(self.whole[ranks])
            self.assertEqual({name: theirs[name]
                              for name in theirs if name != "spec.yaml"},
                             {name: ours[name]
                              for name in ours if name != "spec.yaml"})
            self.assertEqual(self.begun(run), [(0, 1), (7, 2), (13, 3), (17, 4)])
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
        return len(self.history(run)) if os.path.exists(os.path.join(run, "history.jsonl")) else 0

    def call_of_border(self, border):
        """The first call before which the border's line is in the history."""
        low, high = 1, 2000
        while high - low > 1:
            middle = (low + high) // 2
            try:
                begun = self.phases_begun(self.killed_before(middle)) > border
            except AssertionError:
                begun = True  # the run has fewer calls
            low, high = (low, middle) if begun else (middle, high)
        return high

    def test_kills_around_a_border(self):
        """Killed before each call that changes a file from the step before a border to the one after it."""
        for border in (1, 3):
            high = self.call_of_border(border)
            sides = set()  # saving is asynchronous: its calls and those of the steps do not always have the same order
            for call in range(high - 4, high + 6):
                run = self.killed_before(call)
                sides.add(self.phases_begun(run) > border)
                self.succeed(*self.words(run))
                self.assert_same_run(run)
                self.assertEqual([phase for _, phase in self.begun(run) if phase][-1], 4)
            self.assertEqual(sides, {False, True})

    def test_failed_calls_at_a_border(self):
        """A disk that is full for one call around the border ends no run, and the history gets its line."""
        run = self.path("full")
        border = self.call_of_border(1)
        for call in range(border - 4, border + 6):
            done = harness.call(
                *self.words(run), "--timing", self.path("timing.json"), env=harness.environment()
                | {"LD_PRELOAD": os.environ["LLMC_FAIL_SHIM"], "LLMC_FAIL_MODE": "ENOSPC", "LLMC_FAIL_CALL": str(call)})
            self.assertEqual(done.code, 0, f"call {call}: {done.out}{done.err}")
            self.assertEqual(self.files(run), self.files(self.whole[1]))
            self.assertEqual(self.begun(run), [(0, 1), (7, 2), (13, 3), (17, 4)])
            shutil.rmtree(run)

    def test_a_damaged_checkpoint_behind_a_border(self):
        """A start that falls back to the border takes the values of the phase behind it."""
        border = 16
        trainer = self.compile_spec("damaged", RAMP.replace("until: 17", f"until: {border}"))
        whole, run = self.path("damaged-whole"), self.path("damaged-run")
        self.succeed(trainer, "--run", whole)
        self.succeed(trainer, "--run", run, "--steps", border + 3)
        newest = os.path.join(run, "checkpoints", f"step-{border + 3:08}", "model.safetensors")
        with open(newest, "r+b") as file:
            file.seek(-1, os.SEEK_END)
            last = file.read(1)
            file.seek(-1, os.SEEK_END)
            file.write(bytes([last[0] ^ 1]))
        done = self.succeed(trainer, "--run", run)
        self.assert_facts(done.err, f"step-{border + 3:08}", "damaged")
        self.assertEqual(self.files(run), self.files(whole))
        self.assertEqual(self.history(run)[-1]["phase"], 4)

    @staticmethod
    def lines_of_metrics(run):
        try:
            return len(harness.read(os.path.join(run, "metrics.jsonl")).splitlines())
        except FileNotFoundError:  # a start from step 0 moves it aside
            return 0

    def test_kills_of_two_ranks(self):
        run = self.path("killed-2")
        for step in (5, 7, 8, 13, 14, 16, 17, 20):
            self.kill_when(self.words(run, 2), lambda: self.lines_of_metrics(run) >= step)
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
        self.assertEqual([line for line in self.begun(run) if line[1]], [(0, 1), (7, 2), (13, 3), (17, 4)])
        # An override holds in all phases.
        run = self.path("override")
        self.succeed(*self.words(run), "batch.tokens=144", "checkpoint.every=6", "--no-final-checkpoint")
        self.assertEqual([line["tokens"] for line in self.metrics(run)], [144 * step for step in range(1, STEPS + 1)])
        self.assertEqual(len(self.begun(run)), 4)
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

    def test_shares_of_a_budget_of_tokens(self):
        # 24 steps of 96 tokens, then 8 of 288: half of the tokens each.
        budget = (f"steps: {STEPS}", "tokens: 4608")
        ramp = "phases: [{until: 50%}, {until: 100%, batch: {tokens: 288}}]\n"
        spec = self.write_spec("budget.yaml", ramp, budget)
        self.assert_facts(self.succeed(LLMC, "check", spec).err, "schedule.tokens 4608 are 32 steps")
        run = self.path("budget")
        self.succeed(LLMC, "run", spec, "-o", self.path("budget-build"), "--", "--run", run)
        self.assertEqual([line["tokens"] for line in self.metrics(run)],
                         [96 * step for step in range(1, 25)] + [2304 + 288 * step for step in range(1, 9)])
        self.assertEqual(self.begun(run), [(0, 1), (24, 2)])
        # A word of the command line holds for both phases, which share out the same tokens.
        run = self.path("budget-of-equal-batches")
        self.succeed(LLMC, "run", spec, "batch.tokens=192", "-o", self.path("budget-build"), "--", "--run", run)
        self.assertEqual(self.metrics(run)[-1]["tokens"], 4608)
        self.assertEqual(self.begun(run), [(0, 1), (12, 2)])
        # A trainer's borders are steps.
        trainer = self.trainer_in(self.path("budget-build"))
        done = harness.call(trainer, "--run", self.path("longer"), "batch.tokens=96")
        self.assertEqual(done.code, 2)
        self.assert_facts(done.err, "schedule.tokens 4608 are 48 steps", "steps of 24", "compile the spec with it")

    def test_sharded_gradients(self):
        """Ranks reduce as often as the largest of them has micro-batches in the phase in force."""
        spec = self.write_spec("sharded.yaml",
                               RAMP.replace("192", "144") + "parallel: {shard: gradients, world_size: 2}\n")
        run = self.path("sharded")
        self.succeed(LLMC, "run", spec, "-o", self.path("sharded-build"), "--", "--run", run, "--ranks", 2)
        self.succeed(self.trainer_in(self.path("sharded-build")), "--run", self.path("one-rank"))
        ours, theirs = ([line["loss"] for line in self.metrics(self.path(of))] for of in ("sharded", "one-rank"))
        self.assertEqual(len(ours), STEPS)
        for a, b in zip(ours, theirs):  # sums in another order
            self.assertAlmostEqual(a, b, delta=1e-4)

    def test_epochs_of_all_phases(self):
        """Samples that one phase reads count in the next: the largest number of steps that fits is exact."""
        for phases in (RAMP, APART):
            spec = self.write_spec("epochs.yaml", phases, ("most_epochs: 1000", "most_epochs: 9.5"))
            run, out = self.path("epochs"), self.path("epochs-build")
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
            done = harness.call(self.trainer_in(out), "--run", run)
            self.assertEqual(done.code, 5, done.err)
            self.assertIn(f"at most {fit} steps fit", done.err)
            self.assertFalse(os.path.exists(run))
            self.succeed(LLMC, "run", spec, "-o", out, "--", "--run", run, "--steps", fit)
            last = self.metrics(run)[-1]
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
        trainer = self.compile_spec("wrong", RAMP, ("weight: 0.6}", "weight: 0.6, path: gone.bin}"))
        done = harness.call(trainer, "--run", self.path("wrong-run"))
        self.assertEqual(done.code, 5, done.err)
        self.assert_facts(done.err, "gone.bin", "data.train.second")
        self.assertFalse(os.path.exists(self.path("wrong-run")))


if __name__ == "__main__":
    harness.main()
