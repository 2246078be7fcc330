"""The plan's bytes are the trainer's bytes."""

import json
import os
import re
import sys

import harness
from harness import LLMC, SOURCE, RunTest

DATASET = os.environ.get("LLMC_DATASET", "/tmp/llmc-dataset")
MIB = 1 << 20


def run_measured(command, log):
    """Runs a program; its exit code and peak resident bytes, by wait4."""
    pid = os.fork()
    if pid == 0:
        out = os.open(log, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
        os.dup2(out, 1)
        os.dup2(out, 2)
        os.execve(command[0], command, harness.environment())
    _, status, usage = os.wait4(pid, 0)
    return os.WEXITSTATUS(status) if os.WIFEXITED(status) else -os.WTERMSIG(status), usage.ru_maxrss * 1024


class Memory(RunTest):
    def test_arena_is_the_plan(self):
        """Any spec: what llmc plan says, what trainer --plan says, what the trainer allocates."""
        spec = harness.write_small(self.path("small"))
        variants = [[], ["precision.compute=bf16"], ["precision.compute=bf16", "precision.residual=bf16"], ["memory.recompute=full"], ["memory.recompute={layers: {0: full, 2: [norms, attention]}}"],
                    ["model.tie_word_embeddings=true", "memory.loss_chunk=1"], ["metrics.per_parameter=true"]]
        plain = json.loads(self.succeed(LLMC, "plan", spec, "--json").out)
        # What a budget that the plain run does not fit makes of everything that can be left open.
        variants.append([f"memory.budget={plain['memory']['arena_bytes'] * 9 // 10}", "memory.recompute=auto", "memory.loss_chunk=auto"])
        for overrides in variants:
            plan = json.loads(self.succeed(LLMC, "plan", spec, "--json", *overrides).out)
            arena = plan["memory"]["arena_bytes"]
            sections = plan["memory"]["sections"]
            self.assertEqual(arena, sum(section["bytes"] for section in sections), overrides)
            end = 0
            for section in sections:
                self.assertEqual(section["offset"], end, section["name"])
                end += section["bytes"]
            trainer = self.compile(spec, "trainer", *overrides)
            self.assertEqual(json.loads(self.succeed(trainer, "--plan", "--json").out), plan, overrides)
            self.assertIn(str(arena), self.succeed(trainer, "--plan").out)
            run = self.path("run-" + str(variants.index(overrides)))
            self.assertEqual(harness.allocated_bytes(self.succeed(trainer, "--run", run, "--steps", 1).out), arena, overrides)
            self.assertEqual(harness.json_lines(os.path.join(run, "history.jsonl"))[0]["memory"], arena, overrides)

    def test_peak_of_the_quick_start(self):
        """Peak resident memory of the quick-start trainer, with evaluation, samples and a save beside training, against the plan's total."""
        data = [f"data.tokenizer={DATASET}/tokenizer.model", f"data.train.path={DATASET}/train-*.bin",
                f"data.validation.path={DATASET}/val-*.bin"]
        for compute in ("fp32", "bf16"):
            spec = os.path.join(SOURCE, "specs", "quickstart.yaml")
            trainer = self.compile(spec, compute, f"precision.compute={compute}")
            memory = json.loads(self.succeed(LLMC, "plan", spec, "--json", f"precision.compute={compute}").out)["memory"]
            self.assertGreater(memory["snapshot_bytes"], 0)
            total = memory["arena_bytes"] + memory["snapshot_bytes"]
            log = self.path(compute + ".log")
            code, peak = run_measured([trainer, "--run", self.path(compute + "-run"), "--steps", "4", "evaluation.sequences=8",
                                       "evaluation.every=2", "sampling.every=2", "sampling.tokens=3", "checkpoint.every=2", *data], log)
            output = harness.read(log).decode()
            self.assertEqual(code, 0, output)
            self.assertEqual(harness.allocated_bytes(output), memory["arena_bytes"])
            limit = 1.1 * total + 64 * MIB
            print(f"{compute}: plan {total / MIB:.1f} MiB, peak {peak / MIB:.1f} MiB, at most {limit / MIB:.1f} MiB")
            self.assertLessEqual(peak, limit)
            # The whole arena is used: a peak far below it would mean that the plan counts too much.
            self.assertGreaterEqual(peak, 0.8 * total)


if __name__ == "__main__":
    harness.main()
