"""Settings that must not change a bit of a gradient (recomputation, --style), and those that may change it by rounding
only."""

import os

import harness
from harness import LLMC, RunTest

RECOMPUTE = [
    "none", "full", "{every: 2}", "{every: 3}", "{layers: {0: [norms, qkv, gate_up], 1: full}}", "[norms, swiglu]",
    "[attention]", "[qkv, residual, gate_up]", "[norms, qkv, attention, residual, gate_up, swiglu]"
]
# fp32 sums in another order. One rounding is 6e-8; three layers of sums over up to 96 rows stay below 100 of them.
ROUNDING = 5e-6


class BitEquality(RunTest):

    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        cls.spec = harness.write_small(cls.folder)

    def trace(self, name, *overrides, trainer_arguments=(), style="specialised"):
        """Runs two steps with the given overrides; returns the folder of the trace."""
        trainer = self.compile(self.spec, name, "--style", style, *overrides)
        trace = self.path(name + "-trace")
        self.succeed(trainer, "--run", self.path(name + "-run"), "--steps", 2, "--trace", trace, *trainer_arguments)
        return trace

    def check_same_bits(self, compute, *words, settings=RECOMPUTE[1:], included=("none", "full")):
        mine = words or (f"precision.compute={compute}", )
        reference = self.trace(compute, *mine)
        self.assertEqual(len(harness.tensors(os.path.join(reference, "step-0", "gradients.safetensors"))), 3 + 3 * 13)
        for number, setting in enumerate(settings):
            trace = self.trace(f"{compute}-{number}", *mine, f"memory.recompute={setting}")
            self.assert_same_files(trace, reference, f"{compute}, memory.recompute={setting}")
        for setting in included:
            trace = self.trace(f"{compute}-include-{setting}", *mine, f"memory.recompute={setting}", style="include")
            self.assert_same_files(trace, reference, f"{compute}, --style=include, memory.recompute={setting}")

    def test_same_bits_fp32(self):
        self.check_same_bits("fp32")

    def test_same_bits_bf16(self):
        self.check_same_bits("bf16")

    def test_same_bits_fp8(self):
        self.check_same_bits("fp8", *harness.FP8_FULL)

    def test_same_bits_fp8_tensor(self):
        self.check_same_bits("fp8_tensor", *harness.FP8_TENSOR, settings=("[norms, swiglu]", ), included=("none", ))

    def test_same_bits_mxfp8(self):
        self.check_same_bits("mxfp8", *harness.MXFP8, settings=("[norms, swiglu]", ), included=())

    def test_same_bits_of_weights_rounded_once_a_step(self):
        """A step's micro-batches and an evaluation's passes share them, unless every pass gathers weights."""
        for name, words in (("rows", harness.FP8_FULL), ("tensors", harness.FP8_TENSOR), ("blocks", harness.MXFP8)):
            results = []
            for shard in ("optimizer", "parameters"):
                run = self.path(f"{name}-{shard}-run")
                self.succeed(self.compile(self.spec, f"{name}-{shard}", *words, f"parallel.shard={shard}"), "--run",
                             run)
                results.append([{key: line.get(key)
                                 for key in ("loss", "grad_norm", "val_loss")}
                                for line in harness.json_lines(os.path.join(run, "metrics.jsonl"))])
            self.assertEqual(len(results[0]), 12)
            self.assertEqual(*results, name)

    def test_same_bits_documents(self):
        """Kernels with further operands, also as --style=include."""
        self.check_same_bits("documents", "precision.compute=bf16", "model.sliding_window=10",
                             "data.documents.mask=true", "data.documents.separator=5", settings=("full", ),
                             included=("none", ))

    def test_only_rounding(self):
        """Thread counts, loss chunks and micro-batches: gradients of the same weights within rounding."""
        reference = self.gradients(self.trace("one", "batch.micro_batch=4", "memory.loss_chunk=96"))
        changes = {
            "micro-batches of 2": (["batch.micro_batch=2", "memory.loss_chunk=48"], []),
            "micro-batches of 1": (["batch.micro_batch=1", "memory.loss_chunk=24"], []),
            "chunks of 32 rows": (["batch.micro_batch=4", "memory.loss_chunk=32"], []),
            "chunks of 1 row": (["batch.micro_batch=4", "memory.loss_chunk=1"], []),
            "1 thread": (["batch.micro_batch=4", "memory.loss_chunk=96"], ["--threads", 1]),
            "2 threads": (["batch.micro_batch=4", "memory.loss_chunk=96"], ["--threads", 2]),
            "5 threads": (["batch.micro_batch=4", "memory.loss_chunk=96"], ["--threads", 5]),
        }
        for number, (what, (overrides, arguments)) in enumerate(changes.items()):
            trace = self.trace(f"rounding-{number}", *overrides, trainer_arguments=arguments)
            error, where = harness.relative_difference(self.gradients(trace), reference)
            print(f"{what}: {error:.1e} {where}")
            self.assertLessEqual(error, ROUNDING, f"{what}: {where}")

    def gradients(self, trace):
        return harness.tensors(os.path.join(trace, "step-0", "gradients.safetensors"))


if __name__ == "__main__":
    harness.main()
