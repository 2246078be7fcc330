"""Settings that must not change a bit of a simulated trainer's gradients: recomputation, --style, the order of lanes
and blocks."""

import os

import harness

RECOMPUTE = ["full", "{layers: {0: full, 2: [norms, attention]}}", "[norms, swiglu]"]


class SimBitEquality(harness.SimTest):

    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        cls.spec = harness.runs.write_small(cls.folder, harness.SMALL)

    def trace(self, name, *arguments):
        """Runs two steps; returns the folder of the trace."""
        return self.run_of(self.compile(self.spec, name, *arguments), name)

    def run_of(self, trainer, name, **environment):
        trace = self.path(name + "-trace")
        self.succeed(trainer, "--run", self.path(name + "-run"), "--steps", 2, "--trace", trace,
                     env=harness.runs.environment(**environment))
        return trace

    def test_same_bits(self):
        reference = self.trace("none", "memory.recompute=none")
        gradients = harness.runs.tensors(os.path.join(reference, "step-0", "gradients.safetensors"))
        self.assertEqual(len(gradients), 3 + 3 * 13)
        reversed_order = self.run_of(self.path("none", "trainer"), "reversed", LLMC_SIM_REVERSED="1")
        self.assert_same_files(reversed_order, reference, "the last lanes and blocks first")
        for number, setting in enumerate(RECOMPUTE):
            self.assert_same_files(self.trace(f"recompute-{number}", f"memory.recompute={setting}"), reference, setting)
        self.assert_same_files(self.trace("include", "--style", "include", "memory.recompute=none"), reference,
                               "--style=include")

    def test_same_bits_of_codes(self):
        for name, words, settings in (("rows", harness.runs.FP8_FULL, RECOMPUTE), ("tensors", harness.runs.FP8_TENSOR,
                                                                                   RECOMPUTE[2:])):
            reference = self.trace(name, "memory.recompute=none", *words)
            reversed_order = self.run_of(self.path(name, "trainer"), name + "-reversed", LLMC_SIM_REVERSED="1")
            self.assert_same_files(reversed_order, reference, "the last lanes and blocks first")
            gathered = self.trace(name + "-gathered", "parallel.shard=parameters", "memory.recompute=none", *words)
            self.assert_same_files(gathered, reference, "weights that are rounded in each micro-batch")
            for number, setting in enumerate(settings):
                self.assert_same_files(self.trace(f"{name}-{number}", f"memory.recompute={setting}", *words), reference,
                                       f"{name}, {setting}")


if __name__ == "__main__":
    harness.main()
