"""A plan's bytes are those of its trainer."""

import os

import harness
import planned
from harness import SOURCE, RunTest
from planned import MIB

DATASET = os.environ.get("LLMC_DATASET", "/tmp/llmc-dataset")
# Two of the random specs of tests/bench/random_memory.py: four micro-batches of three layers in fp32; two chunks of the
# loss with padded rows of logits, in bf16. Both recompute different ops in different layers.
SEEDS = (27, 51)


class Memory(RunTest):

    def test_arena_is_the_plan(self):
        """Output of llmc plan, output of trainer --plan, and the trainer's allocation."""
        spec = harness.write_small(self.path("small"))
        variants = ([], ["memory.recompute=full"], ["memory.recompute={layers: {0: full, 2: [norms, attention]}}"],
                    ["model.tie_word_embeddings=true", "memory.loss_chunk=1"], ["metrics.per_parameter=true"])
        for number, overrides in enumerate(variants):
            with self.subTest(overrides=overrides):
                planned.compare(planned.plan_of(spec, *overrides), self.compile(spec, "trainer", *overrides),
                                self.path(f"run-{number}"), *self.saves(number))

    def saves(self, name):
        """Arguments that enable everything a save does."""
        return "checkpoint.verify=true", "checkpoint.mirror=" + self.path(f"mirror-{name}")

    def test_arena_is_the_plan_with_everything_open(self):
        """Same for random specs, whose budgets require recomputation, several micro-batches and chunks."""
        for seed in SEEDS:
            with self.subTest(seed=seed):
                spec = planned.write_random(seed, self.path(f"seed-{seed}"))
                planned.compare(planned.plan_of(spec), self.compile(spec, "trainer"), self.path(f"run-seed-{seed}"),
                                *self.saves(seed))

    def test_peak_of_the_quick_start(self):
        """Peak resident memory of the quick-start trainer, with evaluation, samples and a concurrent save, against the
        plan's total."""
        data = [
            f"data.tokenizer={DATASET}/tokenizer.model", f"data.train.path={DATASET}/train-*.bin",
            f"data.validation.path={DATASET}/val-*.bin"
        ]
        for compute in ("fp32", "bf16"):
            spec = os.path.join(SOURCE, "specs", "quickstart.yaml")
            trainer = self.compile(spec, compute, f"precision.compute={compute}")
            memory = planned.plan_of(spec, f"precision.compute={compute}")["memory"]
            self.assertGreater(memory["snapshot_bytes"], 0)
            total = memory["arena_bytes"] + memory["snapshot_bytes"]
            log = self.path(compute + ".log")
            code, peak = harness.run_measured([
                trainer, "--run",
                self.path(compute + "-run"), "--steps", "4", "evaluation.sequences=8", "evaluation.every=2",
                "sampling.every=2", "sampling.tokens=3", "checkpoint.every=2", *data
            ], log)
            output = harness.read(log).decode()
            self.assertEqual(code, 0, output)
            self.assertEqual(harness.allocated_bytes(output), memory["arena_bytes"])
            limit = planned.most_resident(memory)
            print(f"{compute}: plan {total / MIB:.1f} MiB, peak {peak / MIB:.1f} MiB, at most {limit / MIB:.1f} MiB")
            self.assertLessEqual(peak, limit)
            # The whole arena is used: a peak far below it would mean that the plan counts too much.
            self.assertGreaterEqual(peak, 0.8 * total)


if __name__ == "__main__":
    harness.main()
