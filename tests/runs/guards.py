"""Guards in whole runs: garbage text, a far too high learning rate, non-finite weights of one rank."""

import array
import json
import os
import random
import re
import struct

import harness
from harness import RunTest

NUMERICS = 7
STEPS, SPOILT = 120, 90
SAMPLES, LENGTH = 4 * STEPS + 8, 24  # less than an epoch: each sample occurs once
WATCHED = ["guards.window=40", "guards.judge_after=30"]


class Guards(RunTest):

    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        spec = harness.write_small(cls.folder)
        cls.shard = os.path.join(cls.folder, "train-0.bin")
        os.remove(os.path.join(cls.folder, "train-1.bin"))
        cls.write_shard()
        # Moments in 8 bits, and split masters: a skipped step touches none of them, a rollback loads all.
        cls.trainer = cls.compile(spec, "trainer", f"schedule.steps={STEPS}", "evaluation.every=0", "sampling.every=0",
                                  "optimizer.lr=1e-2", "precision.compute=bf16", "precision.master=split",
                                  *harness.INT8)

    @classmethod
    def write_shard(cls, garbage=()):
        """Repeats a few tokens, which is soon learned; samples at the positions in `garbage` are random."""
        tokens = array.array("H", [(2 * i + i // 7) % 5 for i in range(SAMPLES * LENGTH + 1)])
        rng = random.Random(3)
        for begin in garbage:
            for i in range(begin, begin + LENGTH):
                tokens[i] = rng.randrange(harness.VOCABULARY)
        with open(cls.shard, "wb") as file:
            file.write(struct.pack("<256i", 20240520, 1, len(tokens), *([0] * 253)))
            file.write(tokens.tobytes())

    def batch(self, step, *words):
        return json.loads(self.succeed(self.trainer, "--batches", step, "--json", *words).out)

    def skipped(self, run):
        return {
            line["step"]: line["skip_reason"]
            for line in harness.json_lines(os.path.join(run, "metrics.jsonl")) if "skipped" in line
        }

    def test_garbage_text_is_found(self):
        samples = self.batch(SPOILT)["samples"]
        self.write_shard([sample["token"] for sample in samples])
        self.addCleanup(self.write_shard)
        run = self.path("garbage")
        done = self.succeed(self.trainer, "--run", run, "guards.log_text=true", "checkpoint.every=1", *WATCHED)
        self.assertEqual(self.skipped(run), {SPOILT: "loss"})
        ids = [sample["id"] for sample in samples]
        line = harness.json_lines(os.path.join(run, "metrics.jsonl"))[SPOILT - 1]
        self.assertEqual(line["skipped"], ids)
        self.assertIn(f"step {SPOILT}: loss ", done.err)
        self.assertIn(f"samples {', '.join(map(str, ids))} ", done.err)
        for text, number in zip(self.batch(SPOILT, "--text")["samples"], ids):
            self.assertIn(f"step {SPOILT}, sample {number}: {text['text']}", done.err)
        for file in ("model.safetensors", "optimizer.safetensors"):
            state = [
                harness.read(os.path.join(run, "checkpoints", f"step-{step:08d}", file))
                for step in (SPOILT - 1, SPOILT, SPOILT + 1)
            ]
            self.assertEqual(state[0], state[1])
            self.assertNotEqual(state[1], state[2])
        # Stopped within the window's range and restarted, it gives the same bytes.
        again = self.path("garbage-again")
        self.succeed(self.trainer, "--run", again, "--steps", SPOILT - 1, "guards.log_text=true", "checkpoint.every=1",
                     *WATCHED)
        self.succeed(self.trainer, "--run", again)
        self.assert_same_files(*(os.path.join(r, "checkpoints", f"step-{STEPS:08d}") for r in (again, run)),
                               "stopped before the garbage")

    def test_a_learning_rate_that_is_far_too_high_is_found(self):
        run = self.path("steep")
        self.succeed(self.trainer, "--run", run, "--steps", 80, "checkpoint.every=40", *WATCHED)
        done = harness.call(self.trainer, "--run", run, "optimizer.lr=30")
        self.assertEqual(done.code, NUMERICS, done.out + done.err)
        self.assertRegex(done.err, r"error: 10 updates .* of step \d+\. .*optimizer\.lr")
        self.assertLessEqual(set(self.skipped(run).values()), {"loss", "grad_norm"})
        back = harness.call(self.trainer, "--run", run, "guards.rollback=true", "guards.rollbacks=2")
        self.assertEqual(back.code, NUMERICS, back.out + back.err)
        self.assertEqual(len(re.findall(r" to step 80 .*\(rollback \d of 2\)", back.err)), 2, back.err)
        self.assertIn("after 2 rollbacks (guards.rollbacks)", back.err)
        good = self.succeed(self.trainer, "--run", run, "optimizer.lr=1e-2")
        self.assertEqual(good.err, "")
        self.assertEqual(self.skipped(run), {})

    def test_a_loss_that_stands_still_is_said(self):
        few = self.path("few.bin")
        harness.write_shard(few, 4 * LENGTH + 1, 1)  # a step's four samples are all that there are
        done = self.succeed(self.trainer, "--run", self.path("frozen"), f"data.train.path={few}", "optimizer.lr=0",
                            "guards.frozen_steps=20", "--steps", 30)
        self.assertEqual(done.err.count("guards.frozen_steps"), 1)
        self.assertRegex(done.err, r"step 20: .*guards\.frozen_steps")

    def test_a_plateau_is_said_once_and_changes_no_weights(self):
        """In a run without stop, and in one that is stopped before the warning and after it."""
        few = self.path("few.bin")
        harness.write_shard(few, 4 * LENGTH + 1, 1)
        words = [f"data.train.path={few}", "optimizer.lr=0", "checkpoint.every=0"]
        watched = ["guards.plateau=20", *words]  # blocks of 3 steps: 24
        straight = self.succeed(self.trainer, "--run", self.path("flat"), *watched, "--steps", 40)
        self.assertEqual(straight.err.count("guards.plateau"), 1)
        self.assert_facts(straight.err, "step 24: ", "24 steps", "0.00e+00")
        said = ""
        for steps in (11, 30, 40):
            said += self.succeed(self.trainer, "--run", self.path("parts"), *watched, "--steps", steps).err
        self.assertEqual(said.count("guards.plateau"), 1)
        self.assertIn("step 24: ", said)
        self.succeed(self.trainer, "--run", self.path("unwatched"), *words, "--steps", 40)
        last = {
            run: harness.tree(self.path(run, "checkpoints", "step-00000040"))
            for run in ("flat", "parts", "unwatched")
        }
        self.assertEqual(last["flat"], last["parts"])
        state = json.loads(last["unwatched"].pop("state.json"))
        self.assertNotIn("plateau", state["guard"])
        self.assertEqual(json.loads(last["flat"]["state.json"])["guard"].pop("plateau")["told"], True)
        for name, content in last["unwatched"].items():
            if name.endswith(".safetensors"):
                self.assertEqual(content, last["flat"][name], name)


if __name__ == "__main__":
    harness.main()
