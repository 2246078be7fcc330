"""The host runs ahead of the simulated GPU: inputs are copied concurrently, results arrive a step late, and no bit and
no line of the metrics changes."""

import os

import harness
from harness import SimTest, runs

STEPS = 6
# Three micro-batches, so that there are first, middle and last ones; evaluation, samples and checkpoints only at step
# 4.
SPEC = (harness.SMALL.replace("tokens: 96", "tokens: 144").replace("steps: 12", f"steps: {STEPS}").replace(
    "evaluation: {every: 3,",
    "evaluation: {every: 4,").replace("sampling: {every: 3,",
                                      "sampling: {every: 4,").replace("checkpoint: {every: 3,",
                                                                      "checkpoint: {every: 4,"))


class Pipeline(SimTest):

    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        cls.spec = runs.write_small(cls.folder, SPEC)
        cls.trainer = harness.compile(cls.spec, os.path.join(cls.folder, "trainer"))

    def train(self, name, *arguments):
        """Runs to the end; returns the lines of the simulator's log."""
        log = self.path(name + ".log")
        self.succeed(self.trainer, "--run", self.path(name), *arguments, env=runs.environment(LLMC_SIM_LOG=log))
        with open(log) as file:
            return file.read().splitlines()

    def results(self, name):
        run = self.path(name)
        return (runs.without_timing(runs.json_lines(os.path.join(run, "metrics.jsonl"))),
                runs.tree(os.path.join(run, "checkpoints", f"step-{STEPS:08d}")))

    def test_one_step_ahead(self):
        """Compared with a traced run, in which each step is finished before the next one is sent."""
        log = self.train("ahead")
        self.train("alone", "--trace", self.path("trace"))
        ahead, alone = self.results("ahead"), self.results("alone")
        self.assertEqual(ahead[0], alone[0])
        self.assertEqual(ahead[1], alone[1])
        self.assertEqual([line["step"] for line in ahead[0]], list(range(1, STEPS + 1)))
        # Step 2 is sent before step 1's results are read, but step 5 only after the work due at step 4.
        sent = [i for i, line in enumerate(log) if line == "push step"]
        self.assertLess(sent[1], log.index("stream 0: copy to the host"))
        self.assertGreater(sent[4], log.index("push evaluation"))

    def test_guards_have_the_same_limits_ahead(self):
        """Limits so tight that steps exceed them: a step sent before the previous results is judged like one that is
        not."""
        words = ("schedule.steps=12", "guards.window=4", "guards.judge_after=2", "guards.loss=0.01",
                 "guards.grad_norm=0.01", "optimizer.clip_norm=0", "evaluation.every=0", "sampling.every=0")
        self.train("judged-ahead", *words, "checkpoint.every=0")
        self.train("judged-alone", *words, "checkpoint.every=1")
        metrics = [
            runs.without_timing(runs.json_lines(self.path(name, "metrics.jsonl")))
            for name in ("judged-ahead", "judged-alone")
        ]
        skipped = [line["step"] for line in metrics[0] if "skipped" in line]
        self.assertGreaterEqual(len(skipped), 2, metrics[0])
        self.assertEqual(metrics[0], metrics[1])
        ahead, alone = (runs.tree(self.path(name, "checkpoints", "step-00000012"))
                        for name in ("judged-ahead", "judged-alone"))
        self.assertEqual(ahead, alone)

    def test_profile(self):
        log = self.train("profiled", "--profile", "3:2")
        plain = self.train("plain")
        self.assertEqual(self.results("profiled"), self.results("plain"))
        self.assertEqual([plain.count(f"profiler {word}") for word in ("start", "stop")], [0, 0])
        watched = log[log.index("profiler start"):log.index("profiler stop")]
        self.assertEqual(watched.count("push step"), 2)
        self.assertNotIn("launch of a graph", watched)
        self.assertIn("launch of a graph", log)
        # Ranges have the plan's names.
        for name in ("layer_forward", "qkv_forward", "attention backward", "gate_up_wgrad", "optimizer step"):
            self.assertIn(f"push {name}", watched)

    def test_profile_outside_of_the_run(self):
        done = runs.call(self.trainer, "--run", self.path("outside"), "--profile", "6:2")
        self.assertEqual(done.code, 2)
        self.assertIn("steps 6 to 7, ", done.err)


if __name__ == "__main__":
    harness.main()
