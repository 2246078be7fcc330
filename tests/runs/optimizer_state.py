"""Split masters: a run has the bits of one with fp32 masters, on any number of ranks."""

import json
import os
import shutil

import harness
import ranks
from harness import LLMC

BF16 = ("precision.compute=bf16", )
SPLIT = (*BF16, "precision.master=split")
# Without clipping: shards cut the sum of squares differently.
PLAIN_MUON = ("optimizer.kind=muon", "optimizer.lr=1e-2", "optimizer.clip_norm=0", "batch.micro_batch=1",
              "batch.tokens=24", "memory.loss_chunk=12")
MUON = (*PLAIN_MUON, "optimizer.muon.normalise=neurons")
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

    def equal_samples(self):
        """The small spec with data of which all samples are equal."""
        spec = harness.write_small(self.path("equal"))
        for name in ("train-0.bin", "train-1.bin"):
            harness.write_shard(os.path.join(os.path.dirname(spec), name), 6 * 24 + 1, 1, period=24)
        return spec

    def train_equally(self, count, trainer, name, *words):
        """A micro-batch a rank. Each adds the same, divided by the number of ranks: one, two and four sum to the same
        bits, and so do three in any order."""
        self.train(count, trainer, name, f"batch.tokens={24 * count}", *words)

    def assert_same_weights(self, ours, theirs):
        for file in ("model.safetensors", "optimizer.safetensors"):
            self.assertEqual(harness.read(os.path.join(ours, file)), harness.read(os.path.join(theirs, file)), ours)

    def test_muon_has_the_same_bits_on_any_number_of_ranks(self):
        """Given equal gradients. Owners orthogonalise whole matrices and keep the moments of their rows, for each value
        of parallel.shard, with masters of both kinds."""
        spec = self.equal_samples()
        first = {}
        for masters, words in (("fp32", BF16), ("split", SPLIT)):
            for shard in ranks.SHARDS:
                trainer = self.compile(spec, f"muon-{masters}-{shard}", *words, *MUON, f"parallel.shard={shard}",
                                       "parallel.compare_every=2")
                for count in (1, 2, 3, 4) if masters == "fp32" else (1, 3):
                    name = f"muon-{masters}-{shard}-{count}"
                    self.train_equally(count, trainer, name, "--steps", 4)
                    saved = self.checkpoint(name, 4)
                    self.assert_same_weights(saved, first.setdefault(count == 3, saved))
        kept = harness.tensors(os.path.join(first[False], "optimizer.safetensors"))
        self.assertIn("momentum.model.layers.0.mlp.up_proj.weight", kept)
        self.assertIn("exp_avg_sq.model.embed_tokens.weight", kept)
        rows = kept["neuron_avg_sq.model.layers.1.mlp.up_proj.weight"]
        self.assertTrue(rows and all(value > 0 for value in rows))
        self.assertNotIn("exp_avg.model.layers.0.mlp.up_proj.weight", kept)

    def test_muon_resumes(self):
        """On another number of ranks, with skipped steps. A trace has the gradients of its step, not what stands in
        their place after it."""
        trainer = self.compile(self.equal_samples(), "muon-resumes", *BF16, *MUON, "parallel.shard=gradients",
                               "metrics.per_parameter=true")
        words = ("guards.judge_after=1", "guards.grad_norm=1.0e-3", "guards.limit=100", "guards.limit_in_a_row=100")
        self.train_equally(1, trainer, "muon-clean", *words, "--steps", 6)
        self.train_equally(2, trainer, "muon-broken", *words, "--steps", 3)
        self.train_equally(4, trainer, "muon-broken", *words, "--steps", 6, "--trace", self.path("muon-trace"))
        self.assert_same_weights(self.checkpoint("muon-broken", 6), self.checkpoint("muon-clean", 6))
        lines = harness.json_lines(os.path.join(self.path("muon-broken"), "metrics.jsonl"))
        self.assertTrue(any("skipped" in line for line in lines), lines)
        gradients = harness.tensors(os.path.join(self.path("muon-trace"), "step-4", "gradients.safetensors"))
        total = sum(value * value for values in gradients.values() for value in values)**0.5
        self.assertAlmostEqual(total / lines[4]["grad_norm"], 1, delta=1e-5)
        # Without the moments of neurons, and with them again.
        plain = self.compile(self.equal_samples(), "muon-plain", *BF16, *PLAIN_MUON)
        left = self.train(1, plain, "muon-clean", *words, "--steps", 7)
        self.assertIn("neuron_avg_sq of the checkpoint is left out", left.out + left.err)
        self.assertNotIn(
            "neuron_avg_sq",
            str(list(harness.tensors(os.path.join(self.checkpoint("muon-clean", 7), "optimizer.safetensors")))))
        again = self.train(1, trainer, "muon-clean", *words, "--steps", 8)
        self.assertIn("neuron_avg_sq begins at 0", again.out + again.err)

    def test_the_plan_has_their_memory(self):
        plan = json.loads(self.succeed(LLMC, "plan", self.spec, *SPLIT, "--json").out)
        sections = {section["name"]: section["bytes"] for section in plan["memory"]["sections"]}
        copies = sections["weight copies"]
        self.assertEqual(sections["rest of masters"], copies)
        self.assertLess(sections["ties of masters"], copies / 16 + 256)
        self.assertLess(sections["master weights"], copies / 4, "of norms and biases")


if __name__ == "__main__":
    harness.main()
