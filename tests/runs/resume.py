"""A run stopped after any step, or killed at any moment, and restarted ends with the same bytes as an uninterrupted
one."""

import os
import random
import re
import shutil
import signal
import subprocess
import time

import events
import harness
from harness import LLMC, RunTest

STEPS = 12
LONG = 150  # steps of the killed runs: long enough for a kill to land between two saves
KILLS = int(os.environ.get("LLMC_KILLS", "25"))


class Resume(RunTest):

    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        cls.spec = harness.write_small(cls.folder)
        cls.long_runs = {}

    def finished(self, run, step):
        return os.path.join(run, "checkpoints", f"step-{step:08d}")

    def assert_same_run(self, run, clean, steps, where, stops=(), cut=()):
        """Same last checkpoint, metrics (without timing) and samples. Steps in `stops` ended a run by --steps, so it
        also evaluated and sampled there. Steps in `cut` ended with SIGTERM, which cuts evaluation and sampling
        short: a grace period is for saving."""
        self.assert_same_files(self.finished(run, steps), self.finished(clean, steps), where)
        theirs = harness.without_timing(harness.json_lines(os.path.join(clean, "metrics.jsonl")))
        ours = harness.without_timing(harness.json_lines(os.path.join(run, "metrics.jsonl")))
        self.assertEqual([line["step"] for line in ours], list(range(1, steps + 1)), where)
        for line, expected in zip(ours, theirs):
            if line["step"] in stops and "val_loss" not in expected:
                del line["val_loss"], line["val_top1"]
            if line["step"] in cut and "val_loss" not in line:
                for key in ("val_loss", "val_top1"):
                    expected.pop(key, None)
            self.assertEqual(line, expected, where)
        expected = harness.json_lines(os.path.join(clean, "samples.jsonl"))
        due = {s["step"] for s in expected}
        samples = [
            s for s in harness.json_lines(os.path.join(run, "samples.jsonl"))
            if s["step"] in due or s["step"] not in stops
        ]
        present = {s["step"] for s in samples}
        expected = [s for s in expected if s["step"] in present or s["step"] not in cut]
        self.assertEqual(samples, expected, where)
        events.assert_as_logged(self, run, where)

    def check_every_step(self, compute, *words):
        trainer = self.compile(self.spec, compute, *(words or (f"precision.compute={compute}", )))
        clean = self.path(compute + "-clean")
        self.succeed(trainer, "--run", clean)
        for stop in range(1, STEPS):
            run = self.path(f"{compute}-{stop}")
            self.succeed(trainer, "--run", run, "--steps", stop)
            self.succeed(trainer, "--run", run)
            self.assert_same_run(run, clean, STEPS, f"{compute}, stopped after step {stop}", stops={stop})
        run = self.path(compute + "-all")
        for stop in range(1, STEPS + 1):
            self.succeed(trainer, "--run", run, "--steps", stop)
        self.assert_same_run(run, clean, STEPS, f"{compute}, stopped after every step", stops=set(range(STEPS)))

    def test_every_step_fp32(self):
        self.check_every_step("fp32")

    def test_every_step_bf16(self):
        self.check_every_step("bf16")

    def test_every_step_fp8(self):
        self.check_every_step("fp8", *harness.FP8_FULL)

    def test_every_step_int8(self):
        self.check_every_step("int8", *harness.INT8)

    def test_with_another_format_of_the_optimizers_state(self):
        """Moments are converted, which is said and entered into the history; the next start has nothing to convert."""
        trainers = {
            state: self.compile(self.spec, "state-" + state, *harness.INT8[1:], "precision.optimizer_state=" + state)
            for state in ("fp32", "int8")
        }
        run = self.path("states")

        def train(state, steps):
            done = self.succeed(trainers[state], "--run", run, "--steps", steps)
            return done.out + done.err, harness.json_lines(os.path.join(run, "history.jsonl"))[-1]

        def moments(step):
            return harness.tensors(os.path.join(self.finished(run, step), "optimizer.safetensors"))

        wide, narrow = "exp_avg.model.layers.0.mlp.down_proj.weight", "exp_avg.model.layers.0.self_attn.k_proj.weight"
        train("fp32", 4)
        said, entry = train("int8", 5)
        self.assertRegex(said, r"note +32 tensors .*fp32 to int8")
        self.assertIn("fp32 to int8", entry["converted"])
        self.assertEqual(entry["changed"]["precision.optimizer_state"], ["fp32", "int8"])
        tensors = moments(5)
        self.assertEqual(len(tensors[wide]), 80 * 64)
        self.assertTrue(all(value == int(value) and 0 <= value < 256 for value in tensors[wide]))
        self.assertEqual(len(tensors[wide.replace("exp_avg", "exp_avg_scale")]), 80 * 64 // 256)
        self.assertFalse(all(value == int(value) for value in tensors[narrow]))
        self.assertNotIn(narrow.replace("exp_avg", "exp_avg_scale"), tensors)
        said, entry = train("int8", 6)
        self.assertNotIn("to int8", said)
        self.assertNotIn("converted", entry)
        done = harness.call(LLMC, "checkpoint", "diff", self.finished(run, 4), self.finished(run, 5))
        self.assertEqual(done.code, 1, "they differ")
        compared = done.out
        self.assertRegex(compared, r"\+ exp_avg_scale\.model\.layers\.0\.mlp\.down_proj\.weight\n")
        # One step lies between both, in which moments change by a part of their size.
        change = re.search(r"(\S+) +\S+ +exp_avg_sq\.model\.layers\.0\.mlp\.down_proj\.weight\n", compared)
        self.assertTrue(0.01 < float(change[1]) < 2, compared)
        said, entry = train("fp32", 7)
        self.assertRegex(said, r"note +32 tensors .*int8 to fp32")
        self.assertIn("int8 to fp32", entry["converted"])
        self.assertFalse(any("scale" in name for name in moments(7)))
        for folder in (self.finished(run, step) for step in (4, 5, 7)):
            self.assertIn("complete", self.succeed(LLMC, "checkpoint", "verify", folder).out)

    def test_from_a_named_checkpoint(self):
        trainer = self.compile(self.spec, "named")
        clean, run = self.path("named-clean"), self.path("named-run")
        self.succeed(trainer, "--run", clean)
        self.succeed(trainer, "--run", run, "--resume", self.finished(clean, 6))
        self.assert_same_files(self.finished(run, STEPS), self.finished(clean, STEPS), "from step 6 of another run")

    def test_with_other_products(self):
        """Another precision.matmul goes on, and is said; the next start has nothing to say and is exact."""
        wide = [word for word in harness.FP8 if "fp8" not in word]
        run = self.path("products")
        self.succeed(self.compile(self.spec, "products-bf16", *wide), "--run", run, "--steps", 2)
        trainer = self.compile(self.spec, "products-fp8", *harness.FP8)
        self.assertIn("precision.matmul auto -> fp8", self.succeed(trainer, "--run", run, "--steps", 4).err)
        self.assertNotIn("precision.matmul", self.succeed(trainer, "--run", run, "--steps", 6).err)
        self.assertEqual([line["step"] for line in harness.json_lines(os.path.join(run, "metrics.jsonl"))],
                         [1, 2, 3, 4, 5, 6])
        trainer = self.compile(self.spec, "products-fp8-tensor", *harness.FP8_TENSOR)
        clean, begin = self.path("products-clean"), self.finished(run, 6)
        self.succeed(trainer, "--run", clean, "--resume", begin, "--steps", 9)
        self.assertIn("precision.matmul fp8 -> fp8_tensor", self.succeed(trainer, "--run", run, "--steps", 7).err)
        self.succeed(trainer, "--run", run, "--steps", 9)
        self.assert_same_files(self.finished(run, 9), self.finished(clean, 9), "fp8_tensor, stopped after step 7")

    def test_with_other_rotary_angles(self):
        """In the same folder, at another length, with --allow alone; and from then on it is a run of that model."""
        theta, shape = ("model.rope_theta=1e6", "batch.sequence_length=12", "batch.micro_batch=2",
                        "memory.loss_chunk=12"), ("model.intermediate_size=40", )
        longer, other = self.compile(self.spec, "theta", *theta), self.compile(self.spec, "shape", *theta, *shape)
        first, run = self.compile(self.spec, "first-angles"), self.path("angles")
        self.succeed(first, "--run", run, "--steps", 4)
        before = harness.tree(run)
        refused = harness.call(longer, "--run", run, "--steps", 8)
        self.assertEqual(refused.code, 6, refused.err)
        self.assert_facts(refused.err, "model.rope_theta", "--allow model.rope_theta")
        refused = harness.call(other, "--run", run, "--steps", 8, "--allow", "model.rope_theta")
        self.assertEqual(refused.code, 6, refused.err)
        self.assertIn("model.intermediate_size", refused.err)
        self.assertNotIn("--allow", refused.err)
        self.assertEqual(harness.tree(run), before)
        foreign = harness.call(longer, "--run", self.path("foreign"), "--resume", run, "--steps", 8)
        self.assertEqual((foreign.code, "--allow model.rope_theta" in foreign.err), (6, True), foreign.err)
        # Killed before its first save, it resumes from the other model's checkpoint once more.
        self.succeed(longer, "--run", run, "--steps", 5, "--allow", "model.rope_theta", "checkpoint.every=0",
                     "--no-final-checkpoint")
        back = harness.call(first, "--run", run, "--steps", 8)
        self.assertEqual((back.code, "--allow model.rope_theta" in back.err), (6, True), back.err)
        self.succeed(longer, "--run", run, "--steps", 6)
        self.succeed(longer, "--run", run, "--steps", 8)
        self.assertEqual(harness.json_lines(os.path.join(run, "history.jsonl"))[1]["allowed"], ["model.rope_theta"])
        clean = self.path("angles-clean")
        self.succeed(longer, "--run", clean, "--resume", self.finished(run, 4), "--allow", "model.rope_theta",
                     "--steps", 8)
        self.assert_same_files(self.finished(run, 8), self.finished(clean, 8), "with and without a stop")

    def test_with_another_optimizer(self):
        """The state of the new kind begins at zero, and its bias correction with it: the first update of AdamW moves
        nearly every weight by lr. After eight updates it would be 0.44 of that."""
        trainers = {
            kind: self.compile(self.spec, f"kind-{kind}", "precision.compute=fp32", f"optimizer.kind={kind}",
                               "optimizer.weight_decay=0")
            for kind in ("adamw", "lion", "muon")
        }
        run = self.path("kinds")
        self.succeed(trainers["adamw"], "--run", run, "--steps", 4)
        refused = harness.call(trainers["lion"], "--run", run, "--steps", 8)
        self.assertEqual(refused.code, 6)
        self.assertIn("--allow optimizer.kind", refused.err)
        done = self.succeed(trainers["lion"], "--run", run, "--steps", 8, "--allow", "optimizer.kind")
        self.assertIn("optimizer.kind lion", done.out + done.err)
        kept = harness.tensors(os.path.join(self.finished(run, 8), "optimizer.safetensors"))
        self.assertEqual({name.split(".")[0] for name in kept}, {"momentum"})
        # Killed before its first save, it resumes from Lion's checkpoint once more. The run folder allows it by now.
        self.succeed(trainers["adamw"], "--run", run, "--steps", 9, "--allow", "optimizer.kind", "checkpoint.every=0",
                     "--no-final-checkpoint")
        self.succeed(trainers["adamw"], "--run", run, "--steps", 9)
        before, after = (harness.tensors(os.path.join(self.finished(run, step), "model.safetensors"))
                         for step in (8, 9))
        rate = harness.json_lines(os.path.join(run, "metrics.jsonl"))[-1]["lr"]
        moved = sorted(abs(a - b) for name in before for a, b in zip(after[name], before[name]))
        self.assertLess(abs(moved[len(moved) // 2] / rate - 1), 0.05)

        # Muon has a momentum as Lion has, and moments as AdamW has, each of other parameters.
        for before, after in (("adamw", "muon"), ("muon", "adamw"), ("lion", "muon"), ("muon", "lion")):
            run = self.path(f"{before}-{after}")
            self.succeed(trainers[before], "--run", run, "--steps", 2)
            done = self.succeed(trainers[after], "--run", run, "--steps", 3, "--allow", "optimizer.kind")
            self.assertIn(f"optimizer.kind {after}: it begins anew", done.out + done.err)
            clean = self.path(f"{before}-{after}-from-weights")
            self.succeed(trainers[after], "--run", clean, f"init.from={self.finished(run, 2)}", "--steps", 1)
            kept = [
                sorted(harness.tensors(os.path.join(self.finished(of, step), "optimizer.safetensors")))
                for of, step in ((run, 3), (clean, 1))
            ]
            self.assertEqual(*kept, f"{before}, then {after}")

    def test_metrics_say_what_happened(self):
        """The clean run itself: validation and samples when due, and a falling loss."""
        trainer = self.compile(self.spec, "clean")
        run = self.path("clean-run")
        self.succeed(trainer, "--run", run, "schedule.steps=60", "optimizer.lr=1e-2")
        metrics = harness.json_lines(os.path.join(run, "metrics.jsonl"))
        self.assertEqual([m["step"] for m in metrics if "val_loss" in m], list(range(3, 61, 3)))
        self.assertEqual([m["tokens"] for m in metrics], [96 * m["step"] for m in metrics])
        samples = harness.json_lines(os.path.join(run, "samples.jsonl"))
        self.assertEqual(sorted({s["step"] for s in samples}), list(range(3, 61, 3)))
        self.assertLess(metrics[-1]["loss"], 0.9 * metrics[0]["loss"])
        events.assert_as_logged(self, run, "one start")

    def long_run(self, compute):
        """A trainer, a clean run of it, and the duration of that run in seconds. Cached per precision: a second call
        in the same folder would find the run finished and time only that."""
        if compute not in self.long_runs:
            self.long_runs[compute] = self.timed_run(compute)
        return self.long_runs[compute]

    def timed_run(self, compute):
        trainer = self.compile(self.spec, compute + "-long", f"precision.compute={compute}", f"schedule.steps={LONG}")
        clean = self.path(compute + "-long-clean")
        begin = time.monotonic()
        self.succeed(trainer, "--run", clean)
        return trainer, clean, time.monotonic() - begin

    def signals(self, trainer, run, number, rng, seconds):
        """Starts a run repeatedly, each time with a signal at a random moment of its first `seconds`, until one ends
        by itself; yields the exit code of each that did not. After a start without a new checkpoint the next one
        gets more time, so that a machine that slows down cannot delay the run forever."""
        reach, newest = seconds, -1
        while True:
            process = self.start(trainer, "--run", run, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
            time.sleep(rng.uniform(0, reach))
            process.send_signal(number)
            code = process.wait(timeout=harness.HANGS)
            if code == 0:
                return
            yield code
            reached = harness.newest_checkpoint(run)
            reach = seconds if reached > newest else 1.5 * reach
            newest = reached

    def check_terminate(self, compute, wanted):
        """SIGTERM saves and exits with 75. Before the run has started there is nothing to save, and the signal just
        ends it."""
        trainer, clean, seconds = self.long_run(compute)
        rng = random.Random(1)
        stopped = runs = 0
        while stopped < wanted:
            cut = {LONG}  # a signal in the last step's samples cuts them, and the run is done: it exits with 0
            run = self.path(f"{compute}-terminated-{runs}")
            runs += 1
            self.assertLess(runs, 20 * wanted, "no signal hits a run: is the machine this slow?")
            before = set()
            for code in self.signals(trainer, run, signal.SIGTERM, rng, 0.9 * seconds):
                after = {name for name in harness.tree(run) if re.match(r"checkpoints/step-\d+/", name)}
                self.assertLessEqual(before, after, "a checkpoint is gone")
                before = after
                if code == 75:
                    stopped += 1
                    cut.add(harness.newest_checkpoint(run))
                else:
                    self.assertEqual(code, -signal.SIGTERM)
            self.assert_same_run(run, clean, LONG, f"{compute}, after {stopped} SIGTERM", cut=cut)
            shutil.rmtree(run)

    def test_terminate_fp32(self):
        self.check_terminate("fp32", 4)

    def test_terminate_bf16(self):
        self.check_terminate("bf16", 4)

    def test_kill(self):
        """SIGKILL anywhere: in start-up, steps, evaluation, saving. The run is resumed until it ends by itself."""
        trainer, clean, seconds = self.long_run("fp32")
        rng = random.Random(2)
        kills = runs = 0
        while kills < KILLS:
            run = self.path(f"killed-{runs}")
            runs += 1
            self.assertLess(runs, 20 * KILLS, "no kill hits a run")
            for code in self.signals(trainer, run, signal.SIGKILL, rng, seconds):
                self.assertEqual(code, -signal.SIGKILL)
                kills += 1
            self.assert_same_run(run, clean, LONG, f"after {kills} kills")
            shutil.rmtree(run)
        print(f"{kills} kills in {runs} runs of {seconds:.2f} s")

    def kept(self, run):
        """Files updated after saves: the run's checkpoints, best.json and its mirror's checkpoints; metrics without
        times."""
        files = {
            f"{name}/{path}": data
            for name, folder in (("run", run), ("mirror", run + "-mirror"))
            for path, data in harness.tree(os.path.join(folder, "checkpoints")).items()
        }
        return files, harness.without_timing(harness.json_lines(os.path.join(run, "metrics.jsonl")))

    def test_kill_before_a_call_that_changes_a_file(self):
        """Killed before the n-th such call and restarted, the whole tree equals that of an uninterrupted run.
        LLMC_EVERY_CALL=1 tries each n here; test_train's AfterKill does so in seconds with a small program."""
        trainer = self.long_run("fp32")[0]
        words = ("--steps", 8, "checkpoint.every=2", "checkpoint.keep_last=2", "checkpoint.best=validation",
                 "evaluation.every=1", "data.validation.train=" + self.path("train-*.bin"), "checkpoint.mirror_every=2",
                 *harness.mixture(self.folder))
        start = lambda run, **options: harness.call(trainer, "--run", run, *words, "checkpoint.mirror=" + run +
                                                    "-mirror", **options)
        clean = self.path("every-call-clean")
        self.assertEqual(start(clean).code, 0)
        expected = self.kept(clean)
        self.assertIn("run/best.json", expected[0])
        stride, killed = int(os.environ.get("LLMC_EVERY_CALL", "191")), 0
        while True:
            run = self.path(f"every-call-{killed}")
            done = start(
                run, env=harness.environment() | {
                    "LD_PRELOAD": os.environ["LLMC_FAIL_SHIM"], "LLMC_FAIL_MODE": "KILL", "LLMC_FAIL_CALL":
                    str(1 + killed * stride)
                })
            if done.code == 0:
                break
            self.assertEqual(done.code, -signal.SIGKILL, done.err)
            again = start(run)
            self.assertEqual(again.code, 0, again.err)
            files, metrics = self.kept(run)
            self.assertEqual(sorted(files), sorted(expected[0]), killed)
            self.assertEqual([name for name in files if files[name] != expected[0][name]], [], killed)
            self.assertEqual(metrics, expected[1], killed)
            for folder in (run, run + "-mirror"):
                shutil.rmtree(folder, ignore_errors=True)
            killed += 1
        self.assertGreater(killed * stride, 400)
        print(f"killed before {killed} calls")


if __name__ == "__main__":
    harness.main()
