"""Split masters: a run has the bits of one with fp32 masters, on any number of ranks."""

import json
import os
import shutil

import harness
import ranks
from harness import LLMC

BF16 = ("precision.compute=bf16", )
SPLIT = (*BF16, "precision.master=split")
STEPS = 1000
# A long run of SMALL. Its loss spikes at times, and guards skip some of the steps.
LONG = (f"schedule.steps={STEPS}", "evaluation.every=250", "sampling.every=500", "checkpoint.every=250",
        "audit.every=400", "guards.judge_after=20", "guards.limit=10000", "guards.limit_in_a_row=10000")


class OptimizerState(ranks.RanksTest):

    def assert_same_bits(self, ours, theirs, where):
        """The state of two runs, whose specs differ."""
        for file in ("model.safetensors", "optimizer.safetensors", "state.json", "config.json"):
            self.assertEqual(harness.read(os.path.join(ours, file)), harness.read(os.path.join(theirs, file)),
                             f"{where}, {file}")

    def assert_same_metrics(self, ours, theirs, where):
        both = [
            harness.without_timing(harness.json_lines(os.path.join(self.path(name), "metrics.jsonl")))
            for name in (ours, theirs)
        ]
        for line in both[0] + both[1]:  # masters in fewer bytes take less memory
            line.pop("memory", None)
        self.assertEqual(*both, where)

    def test_a_thousand_steps(self):
        """With audits in fp32, skipped steps, and a resume in each direction."""
        trainers = {
            name: self.compile(self.spec, "trainer-" + name, *words, "audit.compute=forward")
            for name, words in (("fp32", BF16), ("split", SPLIT))
        }
        for name, trainer in trainers.items():
            self.succeed(trainer, "--run", self.path(name), *LONG)
        self.assert_same_metrics("split", "fp32", "1,000 steps")
        for step in range(250, STEPS + 1, 250):
            self.assert_same_bits(self.checkpoint("split", step), self.checkpoint("fp32", step), f"step {step}")
        # A checkpoint is of neither format; what a trace shows is what was saved.
        run, trace = self.path("resumed"), self.path("resumed-trace")
        self.succeed(trainers["split"], "--run", run, *LONG, "--resume", self.checkpoint("fp32", 750), "--steps", 752,
                     "--trace", trace)
        self.assertEqual(harness.read(os.path.join(trace, "step-750", "weights.safetensors")),
                         harness.read(os.path.join(self.checkpoint("fp32", 750), "model.safetensors")))
        self.succeed(trainers["fp32"], "--run", run, *LONG)
        self.assert_same_bits(self.checkpoint("resumed", STEPS), self.checkpoint("fp32", STEPS), "split, then fp32")
        # From weights of which an eighth are ties of the rounding.
        saved, ties = self.checkpoint("fp32", 250), self.path("ties")
        shutil.copytree(saved, ties)
        os.remove(os.path.join(ties, "manifest.json"))
        os.remove(os.path.join(ties, "state.json"))
        harness.round_to_fp16(os.path.join(ties, "model.safetensors"))
        for name, trainer in trainers.items():
            self.succeed(trainer, "--run", self.path("ties-" + name), f"init.from={ties}", "schedule.steps=20")
        self.assert_same_bits(self.checkpoint("ties-split", 20), self.checkpoint("ties-fp32", 20), "from ties")

    def test_any_number_of_ranks(self):
        """On the same number of ranks both formats have equal bits. Lion and 8-bit states too."""
        for shard, optimizer in (("none", ()), ("optimizer", harness.INT8), ("gradients", ("optimizer.kind=lion", )),
                                 ("parameters", ())):
            words = (*optimizer, f"parallel.shard={shard}", *ranks.UNEVEN, "parallel.compare_every=3")
            trainers = {
                name: self.compile(self.spec, f"trainer-{name}-{shard}", *masters, *words)
                for name, masters in (("fp32", BF16), ("split", SPLIT))
            }
            for count in (1, 2, 3, 4):
                names = {name: f"{name}-{shard}-{count}" for name in trainers}
                for name, trainer in trainers.items():
                    self.train(count, trainer, names[name], "--steps", 4)
                where = f"shard {shard}, {count} ranks"
                self.assert_same_bits(self.checkpoint(names["split"], 4), self.checkpoint(names["fp32"], 4), where)
                self.assert_same_metrics(names["split"], names["fp32"], where)

    def test_the_plan_has_their_memory(self):
        plan = json.loads(self.succeed(LLMC, "plan", self.spec, *SPLIT, "--json").out)
        sections = {section["name"]: section["bytes"] for section in plan["memory"]["sections"]}
        copies = sections["weight copies"]
        self.assertEqual(sections["rest of masters"], copies)
        self.assertLess(sections["ties of masters"], copies / 16 + 256)
        self.assertLess(sections["master weights"], copies / 4, "of norms and biases")


if __name__ == "__main__":
    harness.main()
