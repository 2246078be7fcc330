"""Borders that a trainer passes by itself: what holds over them, what a rollback over one finds, and what stops there."""

import json
import os
import re
import shlex
import shutil
import subprocess
import time

import harness
from harness import LLMC
from phased import STEPS, PhasedSpecs
from ranks import environment, mpirun_each

# From its second phase on every step is taken for an outlier, and the run goes back to a step of the first.
SPIKES = """phases:
  - {until: 7}
  - {until: 13, guards: {grad_norm: 1.0e-9, judge_after: 2, limit_in_a_row: 2, rollback: true, rollbacks: 2}, batch: {tokens: 192}, optimizer: {clip_norm: 1.0e-9}, data: {train: {second: {weight: 0.6}}}}
  - {until: 17, batch: {tokens: 192}, optimizer: {lr: 2.0e-3, clip_norm: 0.5}, guards: {window: 32}, evaluation: {every: 5}}
  - {until: 100%, batch: {tokens: 288}, checkpoint: {every: 5}}
"""

ENDS_AT = "phases: [{{until: {}}}, {{until: 100%, optimizer: {{lr: 1.0e-3}}}}]\n"


class Borders(PhasedSpecs):

    @staticmethod
    def wait_until_it_trains(process, run):
        metrics = os.path.join(run, "metrics.jsonl")
        while process.poll() is None and not (os.path.exists(metrics) and os.path.getsize(metrics)):
            time.sleep(0.001)

    def test_rollbacks_pass_borders(self):
        """In phase 2 every step is taken for an outlier: the run goes back to phase 1, with its values."""
        run, trainer = self.path("back"), self.compile_spec("back", SPIKES)
        done = harness.call(trainer, "--run", run, "checkpoint.every=6")
        self.assertEqual(done.code, 7, done.out + done.err)
        self.assertEqual(done.err.count("rolls back to step 6"), 2, done.err)
        lines = self.history(run)
        self.assertEqual([(line["step"], line.get("phase"), "rollback" in line) for line in lines],
                         [(0, 1, False), (7, 2, False), *[(6, None, True), (6, None, False), (7, 2, False)] * 2])
        self.assertEqual(lines[3]["changed"]["batch.tokens"], ["192", "96"])
        metrics = self.metrics(run)
        tokens = [96] * 7 + [192] * (len(metrics) - 7)
        self.assertEqual([line["tokens"] for line in metrics], [sum(tokens[:i + 1]) for i in range(len(metrics))])
        # The samples of phase 1 are not those of its first time.
        first = lambda of: json.loads(self.succeed(trainer, "--run", of, "--batches", "7", "--json").out)["samples"]
        self.assertNotEqual(first(run), first(self.path("begins")))
        self.succeed(trainer, "--run", run, "guards.grad_norm=0", "checkpoint.every=6")
        self.assertEqual(self.begun(run)[-3:], [(7, 2), (13, 3), (17, 4)])

    def test_rollbacks_to_other_data(self):
        """A position in the data of phase 2 is none in those of phase 1, which begin another epoch."""
        spec, run = self.path("other-data.yaml"), self.path("other-data")
        phases = (
            "phases: [{until: 7}, {until: 100%, optimizer: {clip_norm: 1.0e-9}, guards: {grad_norm: 1.0e-9, judge_after: 2, "
            f"limit_in_a_row: 2, rollback: true, rollbacks: 1}}, data: {{train: [{{path: {self.folder}/train-1.bin}}]}}}}]\n"
        )
        text = harness.SMALL.replace("train-*.bin", f"{self.folder}/train-0.bin")
        text = text.replace("val-*.bin", f"{self.folder}/val-0.bin").replace("steps: 12", "steps: 24")
        self.write("other-data.yaml", text.replace("every: 3, keep_last", "every: 6, keep_last") + phases)
        self.succeed(LLMC, "compile", spec, "-o", self.path("other-data-build"))
        done = harness.call(self.trainer_in(self.path("other-data-build")), "--run", run)
        self.assertEqual(done.code, 7, done.out + done.err)
        lines = self.history(run)
        self.assertEqual([(line["step"], "rollback" in line) for line in lines], [(0, False), (7, False), (6, True),
                                                                                  (6, False), (7, False)])
        data = [line["data"] for line in lines]
        self.assertEqual([of == data[0] for of in data], [True, False, False, True, False])
        self.assertEqual(lines[3]["order"]["epoch"], lines[2]["order"]["epoch"] + 1)
        self.assertEqual([len(line["order"]["visited"]) for line in lines], [1] * 5)
        # Samples of phase 2, whose data begin at its border, stay known.
        self.succeed(self.trainer_in(self.path("other-data-build")), "--run", run, "guards.grad_norm=0")
        samples = self.succeed(self.trainer_in(self.path("other-data-build")), "--run", run, "--batches", "8").out
        self.assertRegex(samples, r"(?s)^step 8, epoch 1.*train-1\.bin")

    def test_the_best_checkpoint_stays_over_a_border(self):
        """Nothing is learned in phase 2. A start that resumed from a checkpoint with a best one found a better one."""
        trainer = self.compile_spec("best", "phases: [{until: 14}, {until: 100%, optimizer: {lr: 0}}]\n")
        words = (trainer, "--run", self.path("best"), "checkpoint.best=validation", "checkpoint.keep_last=1",
                 "checkpoint.every=7", "evaluation.every=7")
        for steps in (7, STEPS):
            self.succeed(*words, "--steps", steps)
        with open(self.path("best", "checkpoints", "best.json")) as file:
            self.assertEqual(json.load(file)["step"], 14)
        self.assertEqual(sorted(os.listdir(self.path("best", "checkpoints"))),
                         ["best.json", "step-00000014", f"step-{STEPS:08}"])

    def test_ranks_that_differ_in_the_next_phase(self):
        """The steps before are saved. A start finds the difference before it trains."""
        folders = [self.path(f"node-{rank}") for rank in (0, 1)]
        for folder in folders:
            os.mkdir(folder)
            shutil.copy(self.path("train-1.bin"), os.path.join(folder, "second.bin"))
        phases = "phases: [{until: 500}, {until: 100%, data: {train: {second: {path: /proc/self/cwd/second.bin}}}}]\n"
        trainer, run = self.compile_spec("differ", phases, (f"steps: {STEPS}", "steps: 502")), self.path("differ")
        words = ("--run", run, "checkpoint.every=0", "evaluation.every=0", "sampling.every=0", "guards.limit=10000",
                 "guards.limit_in_a_row=10000")
        command = lambda: mpirun_each((trainer, *words), (trainer, *words), folders=folders)
        process = self.start(*command(), stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True,
                             env=environment())
        self.wait_until_it_trains(process, run)
        shutil.copy(self.path("train-0.bin"), self.path("other.bin"))
        os.replace(self.path("other.bin"), self.path("node-1", "second.bin"))
        errors = process.communicate(timeout=harness.HANGS)[1]
        self.assertEqual(process.returncode, 2, errors)
        self.assert_facts(errors, "the ranks of a run differ", "training data is ", " on rank 0 ", " on rank 1 ")
        self.assertEqual(os.listdir(os.path.join(run, "checkpoints")), ["step-00000500"])
        words = ("--run", self.path("differ-again"))
        done = harness.call(*command(), env=environment())
        self.assertEqual(done.code, 2, done.out + done.err)
        self.assertIn("training data of phase 2 is ", done.err)
        self.assertFalse(os.path.exists(self.path("differ-again")))

    def test_a_border_that_cannot_be_passed(self):
        """The next phase's data are gone, or its mirror cannot be made: what was trained is saved, and the run goes on
        when they are back."""
        run, later = self.path("gone"), self.path("later.bin")
        mirror = self.path("mirror")
        shutil.copy(os.path.join(self.folder, "val-0.bin"), later)
        phases = f"phases: [{{until: 500}}, {{until: 100%, data: {{validation: [{{path: {later}}}]}}, checkpoint: {{mirror: {mirror}}}}}]\n"
        words = [
            self.compile_spec("gone", phases, (f"steps: {STEPS}", "steps: 502")), "--run", run, "checkpoint.every=0",
            "evaluation.every=600", "sampling.every=600", "guards.limit=10000", "guards.limit_in_a_row=10000"
        ]
        process = self.start(*words, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True)
        self.wait_until_it_trains(process, run)
        os.rename(later, later + ".away")
        error = process.communicate(timeout=harness.HANGS)[1]
        self.assertEqual((process.returncode, "later.bin" in error), (5, True), error)
        self.assertEqual(os.listdir(os.path.join(run, "checkpoints")), ["step-00000500"])
        os.rename(later + ".away", later)
        self.write("mirror", "")
        done = harness.call(*words[:2], self.path("no-mirror"), *words[3:])
        self.assertEqual((done.code, mirror in done.err), (6, True), done.err)
        self.assertEqual(os.listdir(os.path.join(self.path("no-mirror"), "checkpoints")), ["step-00000500"])
        os.remove(mirror)
        for name in (run, self.path("no-mirror"), self.path("passes")):  # the last one for the first time
            self.succeed(*words[:2], name, *words[3:])
            self.assertEqual(len(self.metrics(name)), 502)
            self.assertIn("step-00000502", os.listdir(os.path.join(mirror, "checkpoints")))
            shutil.rmtree(mirror)

    def test_a_rollback_to_another_trainer(self):
        """It does not go back there by itself, but names the checkpoint and its phase."""
        run = self.path("stranded")
        trainer = self.compile_spec("stranded", "phases: [{until: 8}, {until: 100%, memory: {recompute: full}}]\n")
        # With a rate of 0, about half of the norms are above the median.
        words = ("--run", run, "guards.grad_norm=1.0e-9", "optimizer.clip_norm=1.0e-9", "guards.judge_after=1",
                 "guards.rollback=true", "optimizer.lr=0", "checkpoint.every=1", "guards.limit_in_a_row=100")
        self.assertEqual(harness.call(trainer, *words).code, 75)
        done = harness.call(self.trainer_in(self.path("stranded-build"), 2), *words, "guards.limit=2")
        self.assertEqual(done.code, 7, done.out + done.err)
        first, kept = map(int, re.search(r"before step (\d+) is step-(\d+), of phase 1", done.err).groups())
        self.assertEqual((kept, kept < 8), (first - 1, True))
        self.assertIn("remove the newer checkpoints", done.err)
        self.assertIn("step-00000008", os.listdir(os.path.join(run, "checkpoints")))

    def test_rollbacks_find_the_values_of_their_checkpoint(self):
        """A start of phase 2 goes back to phase 1, which an earlier start began with a rate of its own."""
        run, ahead = self.path("rates"), self.path("rates-ahead")
        words = [self.compile_spec("rates", SPIKES), "checkpoint.every=6", "guards.rollbacks=1", "--run"]
        self.succeed(*words, run, "optimizer.lr=1.0e-3", "--steps", 6)
        shutil.copytree(run, ahead)
        errors = harness.call(*words, ahead).err
        skipped = int(re.search(r"step (\d+): gradient norm.*\(2 in a row", errors)[1])
        self.assertLess(skipped, 13)
        self.succeed(*words, run, "--steps", skipped - 1)  # keeps that rate up to the border
        rates = [line["lr"] for line in self.metrics(run)]
        self.assertLess(rates[7], rates[6])
        done = harness.call(*words, run)
        self.assertEqual(done.code, 7, done.out + done.err)
        self.assertIn("rolls back to step 6", done.err)
        self.assertEqual(self.begun(run)[-3:], [(6, None), (6, None), (7, 2)])
        self.assertEqual([line["lr"] for line in self.metrics(run)][6:8], rates[6:8])

    def test_a_restarted_schedule_passes_a_border(self):
        run, trainer = self.path("restarted"), self.compile_spec("border-12", ENDS_AT.format(12))
        self.succeed(trainer, "--run", run, "--steps", 8)
        said = self.succeed(trainer, "--run", run, "--steps", 10, "schedule.from_step=8", "schedule.warmup_steps=2")
        self.assertRegex(said.out, r"(?m)^lr .*: 1\.50e-03 at step 9, at most 3\.00e-03")
        self.succeed(trainer, "--run", run, "--steps", 14)
        self.assertEqual(self.history(run)[-1]["changed"], {"optimizer.lr": ["0.003", "0.001"]})
        rates = [line["lr"] for line in self.metrics(run)]
        self.assertAlmostEqual(rates[12] * 3, rates[11], delta=0.25 * rates[11])

        said = self.succeed(trainer, "--run", run, "--steps", 15, "schedule.kind=linear", "optimizer.lr=1.0e-4").err
        self.assertIn("optimizer.lr 0.001 -> 0.0001", said)
        self.assertAlmostEqual(float(re.search(r"but was ([-\d.e]+) in", said)[1]), rates[13], delta=0.2 * rates[13])

    def test_borders_that_have_moved(self):
        """A run goes on with the values of the phase that is due by the new borders, and its history says so."""
        run = self.path("moved")
        late, early = (self.compile_spec(f"border-{step}", ENDS_AT.format(step)) for step in (12, 8))
        self.succeed(late, "--run", run, "--steps", 10)
        ends = ("guards.grad_norm=1.0e-9", "optimizer.clip_norm=1.0e-9", "guards.judge_after=1", "guards.limit=1")
        done = harness.call(early, "--run", run, "checkpoint.every=0", *ends)  # before it has saved
        self.assertEqual(done.code, 7, done.out + done.err)
        for trainer, steps in ((early, 11), (early, 11), (late, 14)):
            self.succeed(trainer, "--run", run, "--steps", steps)
        self.assertEqual(self.begun(run), [(0, 1), (10, 2), (10, 2), (11, 1), (12, 2)])
        rates = [line["lr"] for line in self.metrics(run)]
        self.assertAlmostEqual(rates[10] * 3, rates[9], delta=0.25 * rates[9])
        self.assertAlmostEqual(rates[11], rates[9], delta=0.25 * rates[9])
        self.assertAlmostEqual(rates[12] * 3, rates[11], delta=0.25 * rates[11])

    def test_a_deadline_counts_on_earlier_phases(self):
        """The save at the border takes 3 s, and phase 2 reserves twice as much. Before the save only 5 s are reserved,
        and after it 6 more."""
        run = self.path("deadline")
        trainer = self.compile_spec("deadline", "phases: [{until: 7}, {until: 100%, optimizer: {lr: 1.0e-3}}]\n")
        env = harness.environment() | {
            "LD_PRELOAD": os.environ["LLMC_FAIL_SHIM"], "LLMC_FAIL_SLOW_SAVE": "/step-00000007",
            "LLMC_FAIL_SLOW_SECONDS": "3"
        }
        done = harness.call(trainer, "--run", run, "checkpoint.every=7", "--deadline", "13s", env=env)
        self.assertEqual(done.code, 75, done.out + done.err)
        self.assert_facts(done.err, "--deadline", "step 8 of 24")

    def test_each_phase_says_whether_it_reports_products(self):
        run = self.path("products")
        trainer = self.compile_spec(
            "products", "metrics: {product_share: false}\nphases: [{until: 7}, "
            "{until: 13, metrics: {product_share: true}}, {until: 100%}]\n", ("metrics: {every: 1}\n", ""))
        self.succeed(trainer, "--run", run, "metrics.every=1")
        self.assertEqual([line["step"] for line in self.metrics(run) if "product_share" in line], list(range(8, 14)))

    def test_later_phases_know_what_was_read(self):
        """A pattern that matches the files of the phase before names no other data, at a start and at a resume."""
        phases = "phases: [{until: 8}, {until: 100%, data: {train: {second: {path: PATTERN}}}}]\n"
        trainer = self.compile_spec("patterns", phases.replace("PATTERN", f"{self.folder}/train-1*.bin"))
        self.succeed(trainer, "--run", self.path("unbounded"))
        read = [line["epochs/second"] for line in self.metrics(self.path("unbounded"))]
        rest = 1 - read[7] % 1  # of the epoch at the border, which other data would not have
        self.assertLess(rest, 1)
        for name, steps in (("at-once", STEPS), ("resumed", 5), ("resumed", STEPS)):
            self.succeed(trainer, "--run", self.path(name), "--steps", steps,
                         f"data.train.second.most_epochs={read[-1] + rest / 2}")
            self.assertEqual(self.metrics(self.path(name))[-1]["epochs/second"], read[steps - 1])
        done = harness.call(trainer, "--run", self.path("bounded"), f"data.train.second.most_epochs={read[-1] - 0.1}")
        self.assertEqual(done.code, 5, done.out + done.err)
        self.assert_facts(done.err, "data.train.second", "steps fit")

    def test_a_selected_phase_is_resumed_alone(self):
        """The command that resumes compiles no other trainer than the one that was selected."""
        spec = self.write_spec("alone.yaml",
                               "phases: [{until: 50%}, {until: 75%, memory: {recompute: full}}, {until: 100%}]\n")
        run, out = self.path("alone"), self.path("alone-build")
        done = harness.call(LLMC, "run", spec, "phase=1", "-o", out, "--", "--run", run, "--deadline", "1s")
        self.assertEqual(done.code, 75, done.out + done.err)
        command = shlex.split(re.search(r"(?m)^  (.+)$", done.err)[1])
        self.assertIn("phase=1", command)
        done = harness.call(*command[:-2], "--steps", 3)
        self.assertEqual((done.code, os.listdir(out)), (0, ["phase-1"]), done.out + done.err)
        self.assertEqual(len(self.metrics(run)), 3)

    def test_trainers_with_other_borders(self):
        """One of two trainers is compiled again after an edit of the spec: neither passes the run back to the other."""
        apart = "phases: [{until: 8}, {until: 100%, memory: {recompute: full}}]\n"
        spec, out, run = self.write_spec("edited.yaml", apart), self.path("edited-build"), self.path("edited")
        self.succeed(LLMC, "run", spec, "-o", out, "--", "--run", run, "--steps", 10)
        self.write_spec("edited.yaml", apart.replace("until: 8", "until: 12"))
        done = harness.call(LLMC, "run", spec, "phase=2", "-o", out, "--", "--run", run)
        self.assertEqual(done.code, 2, done.out + done.err)
        self.assert_facts(done.err, self.trainer_in(out), "steps 8, 24", "steps 12, 24", "Compile all phases")
        self.succeed(LLMC, "run", spec, "-o", out, "--", "--run", run)
        self.assertEqual(self.begun(run), [(0, 1), (8, 2), (10, 1), (12, 2)])


if __name__ == "__main__":
    harness.main()
