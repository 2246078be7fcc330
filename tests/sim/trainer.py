"""Behaviour of a simulated trainer apart from its numbers: it launches what the plan lists, and refuses unsuitable GPUs.
"""

import collections
import json
import os
import re

import harness


class Trainer(harness.SimTest):

    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        cls.spec = spec = harness.runs.write_small(cls.folder, harness.SMALL + "audit: {compute: logits, every: 2}\n")
        cls.trainer = harness.compile(spec, os.path.join(cls.folder, "build"))

    def operations(self, steps):
        """Operations run on the device in `steps` steps: name -> times; all GEMMs under one name."""
        log = self.path(f"log-{steps}")
        self.succeed(self.trainer, "--run", self.path(f"run-{steps}"), "--steps", steps, "evaluation.every=0",
                     "sampling.every=0", "checkpoint.every=0", "audit.every=0", "metrics.product_share=false",
                     env=harness.runs.environment(LLMC_SIM_LOG=log))
        with open(log) as file:
            lines = [line.rstrip("\n") for line in file]
        names = [match.group(1) for match in map(re.compile(r"stream \d+: (.*)").match, lines) if match]
        return collections.Counter("product" if name.startswith("product") else name for name in names)

    def test_a_step_launches_what_the_plan_says(self):
        ran = self.operations(3)
        ran.subtract(self.operations(2))
        for copies in ("copy to the device", "copy on the device", "copy to the host"):  # inputs and results
            del ran[copies]
        with open(self.path("build", "plan.json")) as file:
            plan = json.load(file)
        planned = collections.Counter()
        for launch in plan["launches"]:
            if launch["per"] not in ("micro-batch", "step"):
                continue
            name = {"gemm": "product", "memset": "memset", "attention":
                    launch["runs"].removesuffix(" (cuDNN)")}.get(launch["kind"], launch["runs"])
            planned[name] += launch["times"] * (plan["batch"]["micro_batches"] if launch["per"] == "micro-batch" else 1)
        self.assertEqual({name: times for name, times in ran.items() if times}, dict(planned))
        self.assertEqual(sum(planned.values()), plan["launches_per_step"])

    def test_one_rank_calls_no_collective_library(self):
        # NCCL is linked (src/nccl.cpp logs each call): with one rank its start-up would cost seconds and its
        # collectives do nothing.
        self.operations(1)
        with open(self.path("log-1")) as file:
            lines = file.read().split("\n")
        self.assertGreater(len(lines), 10)
        self.assertEqual([line for line in lines if "nccl" in line or "broadcast" in line or "all-reduce" in line], [])

    def test_an_audit_is_near_the_loss_and_changes_no_bit(self):
        """By a CUDA graph from the third audit on; audited steps are not sent ahead."""
        words = ("--steps", 8, "evaluation.every=0", "sampling.every=0", "checkpoint.every=0")
        self.succeed(self.trainer, "--run", self.path("audited"), *words)
        self.succeed(self.trainer, "--run", self.path("not-audited"), *words, "audit.every=0")
        saved = os.path.join("checkpoints", "step-00000008")
        self.assert_same_files(self.path("audited", saved), self.path("not-audited", saved), "with audits and without")
        audits = {
            line["step"]: line
            for line in harness.runs.json_lines(self.path("audited", "metrics.jsonl")) if "audit_loss" in line
        }
        self.assertEqual(list(audits), [1, 2, 4, 6, 8])
        for line in audits.values():
            self.assertLess(abs(line["audit_difference"]), 2e-3)  # of bf16 logits: tests/runs/audit.py
            self.assertNotEqual(line["audit_difference"], 0)

    def test_an_audit_of_the_whole_pass_is_that_of_an_fp32_trainer(self):
        """Compared with the CPU, which starts from the same weights."""
        audited = self.compile(self.spec, "forward", "audit.compute=forward")
        exact = self.path("exact")
        spec = harness.runs.write_small(self.path("cpu"), harness.runs.SMALL.replace("head_dim: 10", "head_dim: 8"))
        self.succeed(harness.LLMC, "compile", spec, "-o", exact)
        lines = []
        for name, trainer in (("forward-run", audited), ("exact-run", os.path.join(exact, "trainer"))):
            self.succeed(trainer, "--run", self.path(name), "--steps", 1, "--no-final-checkpoint")
            lines += harness.runs.json_lines(self.path(name, "metrics.jsonl"))
        # Weights and samples are equal, fp32 sums have another order, and a GPU's exp rounds differently.
        self.assertAlmostEqual(lines[0]["audit_loss"], lines[1]["loss"], delta=5e-6)
        self.assertGreater(abs(lines[0]["audit_difference"]), 5e-6)

    def refused(self, **environment):
        done = harness.runs.call(self.trainer, "--run", self.path("refused"),
                                 env=harness.runs.environment(**environment))
        return done.code, done.err

    def test_a_full_gpu_is_named_with_both_sizes(self):
        code, errors = self.refused(LLMC_SIM_MEMORY_MIB="16")
        self.assertEqual(code, 4, errors)
        self.assertRegex(errors, r"the run needs \d+\.\d\d GiB of GPU memory.* 0\.02 GiB of 0\.02 GiB are free")

    def test_another_gpu_is_named(self):
        code, errors = self.refused(LLMC_SIM_CAPABILITY="80")
        self.assertEqual(code, 3, errors)
        self.assertRegex(errors, r'compiled for sm_90a\b.* GPU 0 is sm_80\b.*"80" to target.arch')


if __name__ == "__main__":
    harness.main()
