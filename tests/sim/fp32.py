"""Runs in fp32 and tf32 on the simulated GPU: they train as fp32 runs of a CPU, and `llmc verify` passes them."""

import os

import harness

WORDS = ("precision.compute=fp32", "target.attention=auto")
TF32 = (*WORDS, "precision.matmul=tf32")
STEPS = 100
TRAINS = ("--no-final-checkpoint", f"schedule.steps={STEPS}", "evaluation.every=0", "sampling.every=0",
          "checkpoint.every=0", "optimizer.lr=1e-3")


class Fp32(harness.SimTest):

    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        cls.spec = harness.runs.write_small(cls.folder, harness.SMALL)

    def losses(self, name, trainer, *words, override="1"):
        """With these variables the library would round the operands of all products of fp32."""
        variables = harness.runs.environment(NVIDIA_TF32_OVERRIDE=override, CUBLAS_EMULATE_SINGLE_PRECISION="1")
        self.succeed(trainer, "--run", self.path(name + "-run"), *TRAINS, *words, env=variables)
        return [line["loss"] for line in harness.runs.json_lines(self.path(name + "-run", "metrics.jsonl"))]

    def test_losses_are_those_of_a_cpu(self):
        """Weights and samples are equal; fp32 sums have another order, and a GPU's exp rounds differently."""
        on_cpu = self.path("cpu")
        self.succeed(harness.LLMC, "compile", self.spec, "-o", on_cpu, "precision.compute=fp32", "target.kind=cpu",
                     *harness.SHORT)
        exact = self.losses("cpu", os.path.join(on_cpu, "trainer"))
        self.assertEqual(len(exact), STEPS)
        self.assertLess(exact[-1], 0.9 * exact[0])
        # Seen: 4e-7 and 1.8e-3. In tf32 operands of products lose up to 2^-10 of themselves.
        for name, words, bound in (("fp32", WORDS, 1e-5), ("tf32", TF32, 4e-3)):
            off = [
                abs(loss / other - 1)
                for loss, other in zip(self.losses(name, self.compile(self.spec, name, *words, *harness.SHORT)), exact)
            ]
            self.assertEqual(len(off), STEPS)
            for error in off:
                self.assertLess(error, bound)
            self.assertGreater(max(off), 0)
        rounded = harness.runs.json_lines(self.path("tf32-run", "metrics.jsonl"))
        same = self.losses("not-rounded", self.path("tf32", "trainer"), "--steps", 5, override="0")
        self.assertNotEqual([line["loss"] for line in rounded[:5]], same)
        for loss, other in zip(same, exact):
            self.assertLess(abs(loss / other - 1), 1e-5)

    def test_verify(self):
        for words in (WORDS, TF32):
            arguments = ("verify", self.spec, *harness.TARGET, "-o", self.path("verify"), *words)
            self.succeed(harness.LLMC, *arguments, "--emit-only")
            trainer = harness.build(self.path("verify", "trainer"), self.spec)
            self.succeed(harness.LLMC, *arguments, "--trainer", trainer)


if __name__ == "__main__":
    harness.main()
