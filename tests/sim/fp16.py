"""Runs in fp16 on the simulated GPU: losses near those of a CPU's fp32 run; a loss scale that overflows halve, which all
ranks and a resumed run have."""

import json
import os
import subprocess

import harness
import torchrun

WORDS = ("precision.compute=fp16", "target.attention=auto", "metrics.per_parameter=true")
STEPS = 100
PLAIN = ("evaluation.every=0", "sampling.every=0", "metrics.product_share=false", "optimizer.lr=1e-3")
LONG = (*PLAIN, "checkpoint.every=0", f"schedule.steps={STEPS}")
INITIAL = 65536
# Small rows in the first norm, and so large gradients of the embedding.
OVERFLOWS = ("init.linear=3", "batch.micro_batch=1", "batch.tokens=48", "memory.loss_chunk=12",
             "parallel.shard=optimizer")
FEW = (*PLAIN, "schedule.steps=10", "checkpoint.every=1", "checkpoint.keep_last=100", "parallel.compare_every=1",
       "guards.limit_in_a_row=1", "guards.limit=1")


class Fp16(harness.SimTest):

    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        cls.spec = harness.runs.write_small(cls.folder, harness.SMALL)
        cls.overflows = harness.compile(cls.spec, os.path.join(cls.folder, "overflows"), *WORDS, *OVERFLOWS)
        cls.clean = os.path.join(cls.folder, "clean")
        done = harness.runs.call(cls.overflows, "--run", cls.clean, *FEW)
        assert done.code == 0, done.out + done.err

    def metrics(self, run):
        return harness.runs.json_lines(os.path.join(run, "metrics.jsonl"))

    def saved(self, run, step, file):
        return harness.runs.read(os.path.join(run, "checkpoints", f"step-{step:08d}", file))

    def state(self, run, step):
        return json.loads(self.saved(run, step, "state.json"))

    def test_losses_are_near_those_of_a_cpu(self):
        """And of a gradient the norm, without its scale."""
        on_cpu = self.path("cpu")
        self.succeed(harness.LLMC, "compile", self.spec, "-o", on_cpu, "precision.compute=fp32", "target.kind=cpu",
                     *harness.SHORT)
        trainers = {
            "cpu": os.path.join(on_cpu, "trainer"), "fp16": self.compile(self.spec, "fp16", *WORDS, *harness.SHORT)
        }
        for name, trainer in trainers.items():
            self.succeed(trainer, "--run", self.path(name + "-run"), *LONG, "metrics.per_parameter=true")
        exact, ours = (self.metrics(self.path(name + "-run")) for name in trainers)
        self.assertEqual(len(exact), STEPS)
        self.assertEqual(len(ours), STEPS)
        self.assertLess(exact[-1]["loss"], 0.9 * exact[0]["loss"])
        off = [abs(a["loss"] / b["loss"] - 1) for a, b in zip(ours, exact)]
        for error in off:
            self.assertLess(error, 4e-3)  # seen: 1.9e-3
        self.assertGreater(max(off), 0)
        self.assertAlmostEqual(ours[0]["grad_norm"] / exact[0]["grad_norm"], 1, delta=4e-3)
        for name, norms in ours[0]["per_parameter"].items():
            self.assertAlmostEqual(norms["grad"] / exact[0]["per_parameter"][name]["grad"], 1, delta=1e-2, msg=name)
        self.assertEqual({(line["loss_scale"], "skipped" in line) for line in ours}, {(INITIAL, False)})
        self.assertEqual(
            self.state(self.path("fp16-run"), STEPS)["loss_scale"],
            {"good": STEPS, "last": INITIAL, "overflows": 0, "scale": INITIAL})

    def test_an_overflow_changes_the_scale_alone(self):
        """Which guards that would end the run at the first skipped update do not count."""
        lines = self.metrics(self.clean)
        count = sum(line.get("skip_reason") == "overflow" for line in lines)
        self.assertGreaterEqual(count, 2)
        self.assertLess(count, 8)
        for number, line in enumerate(lines):
            step, before = number + 1, number > 0 and lines[number - 1]
            skipped = line.get("skip_reason") == "overflow"
            self.assertEqual("skipped" in line, skipped, line)
            self.assertEqual(line["grad_norm"] is None, skipped, line)
            self.assertIsNotNone(line["loss"])
            halved = before and before.get("skip_reason") == "overflow"
            self.assertEqual(line["loss_scale"], before["loss_scale"] / (2 if halved else 1) if before else INITIAL)
            if before:
                for file in ("model.safetensors", "optimizer.safetensors"):
                    self.assertEqual(
                        self.saved(self.clean, step, file) == self.saved(self.clean, step - 1, file), skipped,
                        f"step {step}, {file}")
        last = self.state(self.clean, len(lines))
        self.assertEqual(last["skipped_updates"], count)
        self.assertEqual((last["loss_scale"]["overflows"], last["loss_scale"]["scale"]), (count, INITIAL / 2**count))
        self.assertEqual(last["guard"]["skipped"], [])

    def test_a_resumed_run_has_the_scale(self):
        run = self.path("resumed")
        for stop in (1, 2, 6, 10):
            self.succeed(self.overflows, "--run", run, *FEW, "--steps", stop)
        for file in ("model.safetensors", "optimizer.safetensors", "state.json"):
            self.assertEqual(self.saved(run, 10, file), self.saved(self.clean, 10, file), file)

    def test_a_rollback_brings_the_scale_back(self):
        """To that of its checkpoint, with which the step overflows again."""
        run = self.path("back")
        self.succeed(self.overflows, "--run", run, *FEW, "--steps", 1)
        rarely = [word for word in FEW if not word.startswith("checkpoint.every")]
        done = harness.runs.call(self.overflows, "--run", run, *rarely, "checkpoint.every=0", "guards.grad_norm=1e-9",
                                 "optimizer.clip_norm=1e-9", "guards.judge_after=2", "guards.rollback=true",
                                 "guards.rollbacks=1")
        self.assertEqual(done.code, 7, done.out + done.err)
        rollbacks = [line for line in harness.runs.json_lines(os.path.join(run, "history.jsonl")) if "rollback" in line]
        self.assertEqual([line["step"] for line in rollbacks], [1])
        again = self.metrics(run)[1]
        self.assertEqual((again["step"], again["loss_scale"], again.get("skip_reason")), (2, INITIAL / 2, "overflow"))

    def test_ranks_agree(self):
        """They compare their weights after each step."""
        run, port = self.path("two"), torchrun.free_port()
        processes = [
            self.start(self.overflows, "--run", run, *FEW, stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
                       env=harness.runs.environment(LLMC_SIM_GPUS="2", **torchrun.variables(rank, 2, port)))
            for rank in range(2)
        ]
        for process in processes:
            said = process.communicate(timeout=harness.runs.HANGS)[0].decode()
            self.assertEqual(process.returncode, 0, said)
        for ours, alone in zip(self.metrics(run), self.metrics(self.clean), strict=True):
            self.assertEqual((ours["loss_scale"], ours.get("skip_reason")),
                             (alone["loss_scale"], alone.get("skip_reason")))
            self.assertAlmostEqual(ours["loss"] / alone["loss"], 1, delta=1e-3)
        self.assertEqual(self.state(run, 10)["loss_scale"], self.state(self.clean, 10)["loss_scale"])

    def test_a_trace_has_gradients_without_the_scale(self):
        """The first step that is applied: the norm of what the trace has is that of metrics.jsonl."""
        trace = self.path("trace")
        self.succeed(self.overflows, "--run", self.path("traced"), *FEW, "--trace", trace)
        line = next(line for line in self.metrics(self.path("traced")) if "skipped" not in line)
        gradients = harness.runs.tensors(os.path.join(trace, f"step-{line['step'] - 1}", "gradients.safetensors"))
        norm = sum(float(x)**2 for tensor in gradients.values() for x in tensor)**0.5
        self.assertAlmostEqual(norm / line["grad_norm"], 1, delta=1e-4)

    def test_verify(self):
        """With the optimizer whose products are in fp16 too."""
        arguments = ("verify", self.spec, *harness.TARGET, "-o", self.path("verify"), *WORDS, "optimizer.kind=muon")
        self.succeed(harness.LLMC, *arguments, "--emit-only")
        trainer = harness.build(self.path("verify", "trainer"), self.spec)
        self.succeed(harness.LLMC, *arguments, "--trainer", trainer)


if __name__ == "__main__":
    harness.main()
