"""The trainer's command line: accepted arguments, and messages for refused ones."""

import json
import os
import re
import shutil
import subprocess

import harness
from harness import TrainerTest


class TrainerCli(TrainerTest):

    def test_plan(self):
        text = self.succeed(self.trainer, "--plan").out
        plan = json.loads(self.succeed(self.trainer, "--plan", "--json").out)
        self.assertEqual(plan["name"], "small")
        self.assertIn(plan["fingerprint"], text)
        planned = self.succeed(harness.LLMC, "plan", self.spec).out
        self.assertEqual((text, planned[len(text):][:16]),
                         (planned[:len(text)], "\nmost that fits:"))  # not planned by a trainer

    def test_a_shard_that_changes_ends_the_run(self):
        """Cut short (it is mapped, so a missing page would end the process by SIGBUS), overwritten, or replaced by
        another file. With the shard restored the same command resumes, and ends with the weights of a run that nothing
        interrupted."""
        shard, spare = self.path("cut.bin"), self.path("spare.bin")
        harness.write_shard(spare, 4000 * 24 + 1, 9)

        def cut():
            os.truncate(shard, 1024)

        def overwrite():
            with open(shard, "r+b") as file:
                file.seek(1024)
                file.write(b"\1\0" * 5000)

        def replace():
            os.replace(shutil.copy(spare, self.path("new.bin")), shard)

        for number, (change, said, ranks) in enumerate(
            ((cut, r"\d+ to 1024 bytes ", ()), (cut, r"\d+ to 1024 bytes ", ("--ranks", 2)),
             (overwrite, "was written to ", ()), (replace, "was replaced by another file ", ("--ranks", 2)))):
            shutil.copy(spare, shard)
            run = self.path(f"cut-{number}")
            command = [
                self.trainer, "--run", run, f"data.train.path={shard}", *harness.ENDLESS, "checkpoint.every=5",
                "--threads", 1, *ranks
            ]
            process = self.start(*command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
            next(line for line in process.stdout if re.search(r"step +[1-9]\d/", line))  # the tenth or later
            change()
            out, err = process.communicate(timeout=harness.HANGS)
            self.assertEqual(process.returncode, 5, out + err)
            self.assertRegex(err, rf"'\S*cut\.bin': .*{said}.*sample \d+")
            shutil.copy(spare, shard)
            last = 2 + harness.newest_checkpoint(run)
            self.succeed(*command, "--steps", last)
            clean = self.path(f"clean-{number}")
            self.succeed(*(clean if word == run else word for word in command), "--steps", last)
            for name in ("model.safetensors", "state.json"):
                files = [os.path.join(folder, "checkpoints", f"step-{last:08}", name) for folder in (run, clean)]
                self.assertEqual(*map(harness.read, files), f"{change.__name__}: {name}")

    def test_help(self):
        text = self.succeed(self.trainer, "--help").out
        self.assertEqual(self.succeed(self.trainer, "help").out, text)
        self.assertEqual(
            self.succeed(self.trainer, "help", "sample").out,
            self.succeed(self.trainer, "sample", "--help").out)
        self.assertEqual(self.succeed(self.trainer, "version").out, self.succeed(self.trainer, "--version").out)
        self.assert_facts(harness.call(self.trainer, "help", "sampl").err, "no command 'sampl'", "Did you mean sample?")
        for word in ("--run", "--steps", "--resume", "--plan", "--trace", "optimizer.lr=0.003", "Examples:"):
            self.assertIn(word, text)

    def test_tune_is_for_gpus(self):
        self.assertIn("tune", self.refused(2, "tune"))
        self.assertFalse(os.path.exists(os.path.join(os.path.dirname(self.trainer), "tuned.json")))

    def test_unknown_key(self):
        self.assert_facts(self.refused(2, "optimizer.Lr=1"), "no key", '"Lr"', "optimizer", "lr?")
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
        named = (f"'{run}'", "another model", "model.num_hidden_layers 3 -> 2")
        self.assert_facts(self.refused(6, "--run", run, trainer=other), *named)
        # llmc run reports the same before it writes or compiles anything.
        build = self.path("never-built")
        done = harness.call(harness.LLMC, "run", self.spec, "-o", build, "model.num_hidden_layers=2", "--", "--run",
                            run)
        self.assertEqual((done.code, os.path.exists(build)), (6, False), done.err)
        self.assert_facts(done.err, *named)
        self.assertEqual(harness.tree(run), before)

    def test_a_copied_project_does_not_train_into_the_originals_run(self):
        """A copy of the folder built by llmc compile without the spec is refused; a copied tree has its own data and
        run."""
        tree = self.path("tree")
        spec = harness.write_small(os.path.join(tree, "specs"))
        self.succeed(harness.LLMC, "compile", spec, cwd=tree)
        self.succeed(os.path.join(tree, "build", "small", "trainer"), "--steps", 1)
        before = harness.tree(tree)
        shutil.copytree(os.path.join(tree, "build", "small"), self.path("copy"))
        error = self.refused(2, "--steps", 2, trainer=self.path("copy", "trainer"))
        for word in ("--base DIR", self.path("copy"), os.path.join(tree, "specs")):
            self.assertIn(os.path.realpath(word) if os.path.isabs(word) else word, error)
        shutil.copytree(tree, self.path("further", "tree"))
        done = self.succeed(self.path("further", "tree", "build", "small", "trainer"), "--steps", 2)
        self.assertIn(f"run     {self.path('further', 'tree', 'specs', 'runs', 'small')}, resumed at step 1", done.out)
        self.assertEqual(harness.tree(tree), before)
        self.assertEqual(done.err, "")

    def test_learning_rate_is_no_other_run(self):
        """A run-time value may change between starts; a seed may not."""
        run = self.path("lr")
        self.succeed(self.trainer, "--run", run, "--steps", 2)
        self.succeed(self.trainer, "--run", run, "--steps", 4, "optimizer.lr=1e-4")
        self.assertIn("seed", self.refused(6, "--run", run, "seed=7"))
        self.assertIn("data.seed", self.refused(6, "--run", run, "data.seed=7"))

    def test_a_derived_value_follows_its_keys(self):
        """The warm-up of 2 % of the steps: the same number from llmc and from the trainer."""
        spec = harness.write_small(self.path("derived"), harness.SMALL.replace(", warmup_steps: 3", ""))
        trainer = self.compile(spec, "derived-trainer")
        self.succeed(trainer, "--run", self.path("derived-run"), "--steps", 1, "schedule.steps=1000")
        with open(self.path("derived-run", "spec.yaml")) as file:
            self.assertRegex(file.read(), r"warmup_steps: 20 +# default: 2 % .*\n")
        rows = json.loads(self.succeed(harness.LLMC, "config", spec, "schedule.steps=1000", "--json").out)
        self.assertEqual({row["key"]: row["value"] for row in rows}["schedule.warmup_steps"], 20)

    def test_tokens_in_place_of_steps(self):
        """A run of as many steps as contain them, which a resume keeps until the command line says otherwise."""
        run = self.path("tokens")
        spec = os.path.join(run, "spec.yaml")
        metrics = os.path.join(run, "metrics.jsonl")

        def steps(*words):
            self.succeed(self.trainer, "--run", run, *words)
            return harness.json_lines(metrics)[-1]["step"]

        self.assertEqual(steps("schedule.tokens=500", "metrics.every=1"), 6)  # 5.2 steps of 96
        self.assert_facts(open(spec).read(), "tokens: 500", "steps: 6", "schedule.tokens over batch.tokens")
        self.assertEqual(steps(), 6)
        self.assertEqual(steps("schedule.tokens=700"), 8)
        self.assertEqual(steps("schedule.steps=9"), 9)
        self.assertNotIn("tokens: 700", open(spec).read())
        both = harness.call(self.trainer, "--run", self.path("both"), "schedule.steps=9", "schedule.tokens=3x")
        self.assertEqual(both.code, 1, both.err)
        self.assert_facts(both.err, "schedule.tokens", "schedule.steps")

    def test_moves(self):
        """From micro-batch 2 to 1, to recompute: full, to sequences twice as long: losses continue, and the history
        records it."""
        clean, run = self.path("clean"), self.path("moving")
        self.succeed(self.trainer, "--run", clean)
        self.succeed(self.trainer, "--run", run, "--steps", 3)
        moves = [("micro", 6, ["batch.micro_batch=1", "memory.loss_chunk=24"]),
                 ("recomputing", 9, ["batch.micro_batch=1", "memory.loss_chunk=24", "memory.recompute=full"])]
        for name, stop, overrides in moves:
            done = self.succeed(self.compile(self.spec, name, *overrides), "--run", run, "--steps", stop)
            self.assertRegex(done.err, "build .* -> .*: the run resumes")
        losses = {line["step"]: line["loss"] for line in harness.json_lines(os.path.join(clean, "metrics.jsonl"))}
        for line in harness.json_lines(os.path.join(run, "metrics.jsonl")):
            self.assertAlmostEqual(line["loss"], losses[line["step"]], delta=0 if line["step"] <= 3 else 2e-5)
        done = self.succeed(
            self.compile(self.spec, "longer", "batch.sequence_length=48", "batch.micro_batch=1",
                         "memory.loss_chunk=24"), "--run", run)
        self.assertIn("batch.sequence_length 24 -> 48", done.err)
        metrics = harness.json_lines(os.path.join(run, "metrics.jsonl"))
        self.assertEqual(len(metrics), 12)
        # Other samples with longer contexts; the held-out ones are the same tokens.
        clean_val = harness.json_lines(os.path.join(clean, "metrics.jsonl"))[-1]["val_loss"]
        self.assertAlmostEqual(metrics[-1]["val_loss"], clean_val, delta=0.1)  # 0.06 on this data
        told = [start["changed"] for start in harness.json_lines(os.path.join(run, "history.jsonl"))]
        self.assertEqual([sorted(changed) for changed in told],
                         [[], ["batch.micro_batch", "memory.loss_chunk"], ["memory.recompute"],
                          ["batch.sequence_length", "memory.recompute"]])
        self.assertEqual(told[3]["batch.sequence_length"], ["24", "48"])

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
