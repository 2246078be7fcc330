"""A simulated trainer's steps are replayed as CUDA graphs, each captured once, with the same bits as plain launches."""

import json
import os

import harness
import timelines  # of tests/runs

STEPS = 4
REPLAY = "runtime/device/cuda/replay.cpp"
CAPTURES = "  if (!impl_->warm || eager || impl_->device.profiled()) {\n"  # once in REPLAY


class Graphs(harness.SimTest):

    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        cls.spec = harness.runs.write_small(cls.folder, harness.SMALL)
        cls.project = os.path.join(cls.folder, "replayed")
        cls.trainer = harness.compile(cls.spec, cls.project)

    def run_steps(self, trainer, name, *arguments):
        """The trace's folder, and from the log the number of graphs instantiated and launched."""
        log = self.path(name + "-log")
        self.succeed(trainer, "--run", self.path(name + "-run"), "--steps", STEPS, "--trace",
                     self.path(name + "-trace"), *arguments, "sampling.every=0", "checkpoint.every=0",
                     env=harness.runs.environment(LLMC_SIM_LOG=log))
        with open(log) as file:
            lines = [line.rstrip("\n") for line in file]
        return self.path(name + "-trace"), lines.count("instantiation of a graph"), lines.count("launch of a graph")

    def test_same_bits_as_plain_launches(self):
        sources = harness.changed_sources(self.path("plain-sources"), REPLAY, CAPTURES,
                                          "  if (impl_) {\n")  # nothing is ever captured
        plain = harness.changed(self.project, self.spec, self.path("plain"), [REPLAY], sources)
        # Micro-batches per step; graphs: the variants that run at least twice, and the optimizer's; launches: all but
        # the first run of each. The learning rate changes between steps.
        for count, variants in ((1, 1), (2, 2), (4, 3)):
            arguments = (f"batch.tokens={48 * count}", "evaluation.every=0")
            trace, graphs, launches = self.run_steps(self.trainer, f"replayed-{count}", *arguments)
            self.assertEqual(graphs, variants + 1)
            self.assertEqual(launches, STEPS * (count + 1) - graphs)
            expected, *none = self.run_steps(plain, f"plain-{count}", *arguments)
            self.assertEqual(none, [0, 0])
            self.assert_same_files(trace, expected, f"{count} micro-batches")

    def test_timeline(self):
        """Steps in a timeline run without graphs, later ones with them, and all have the bits of a run without a
        timeline."""
        plan = json.loads(self.succeed(self.trainer, "--plan", "--json").out)
        arguments, file = ("evaluation.every=0", ), self.path("timeline.json")
        expected, _, launched = self.run_steps(self.trainer, "without", *arguments)
        trace, graphs, launches = self.run_steps(self.trainer, "with", "--timeline", file, "--timeline-steps", "2:2",
                                                 *arguments)
        self.assert_same_files(trace, expected, "with a timeline")
        timelines.check(self, timelines.read(file), plan, range(2, 4))
        self.assertGreater(launched, launches)
        self.assertGreater(launches, 0)
        self.assertGreater(graphs, 0)

    def test_evaluation(self):
        """Two evaluations of two micro-batches each; variants are captured in the second one."""
        arguments = ("batch.tokens=96", "evaluation.every=2", "evaluation.sequences=4")
        _, graphs, launches = self.run_steps(self.trainer, "evaluated", *arguments)
        self.assertEqual((graphs, launches), (3 + 2, STEPS * 3 - 3 + 2))
        lines = harness.runs.json_lines(self.path("evaluated-run", "metrics.jsonl"))
        seen = [line["val_loss"] for line in lines if line.get("val_loss") is not None]
        self.assertEqual(len(seen), 2)
        self.assertLess(seen[1], seen[0])


if __name__ == "__main__":
    harness.main()
