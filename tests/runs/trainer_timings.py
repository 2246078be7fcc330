"""Times that a trainer writes: --trace, --timing and --timeline."""

import json
import os

import harness
import timelines
from harness import QUIET, TrainerTest


class TrainerTimings(TrainerTest):

    def test_a_trace_that_cannot_be_written_is_the_option_s_error(self):
        file = self.path("no-folder-for-a-trace")
        with open(file, "w", encoding="utf-8"):
            pass
        said = self.refused(2, "--run", self.path("traces-nothing"), *QUIET, "--trace", os.path.join(file, "trace"))
        self.assertIn(file, said)
        self.assertFalse(os.path.exists(self.path("traces-nothing", "metrics.jsonl")))

    def test_timing_is_tried_before_training(self):
        self.assertIn(
            "mkdir -p",
            self.refused(2, "--run", self.path("times-nothing"), *QUIET, "--timing",
                         self.path("nowhere", "timing.json")))
        self.assertFalse(os.path.exists(self.path("times-nothing", "metrics.jsonl")))
        self.succeed(self.trainer, "--run", self.path("writes-timing"), *QUIET, "--timing", self.path("timing.json"))
        self.assertIn("steps", json.loads(harness.read(self.path("timing.json"))))

    def test_timeline(self):
        """Each launch by its plan's name, with the arena's live bytes; the run trains to the same bits as one without.
        """
        quiet = ("--no-final-checkpoint", "--steps", 6, "evaluation.every=2")
        plan = json.loads(self.succeed(self.trainer, "--plan", "--json").out)
        file, chosen = self.path("timeline.json"), self.path("chosen.json")
        self.succeed(self.trainer, "--run", self.path("with-timeline"), "--timeline", file, *quiet)
        self.succeed(self.trainer, "--run", self.path("without-timeline"), *quiet)
        timelines.check(self, timelines.read(file), plan, range(3, 6))
        steps = [harness.json_lines(self.path(run, "metrics.jsonl")) for run in ("with-timeline", "without-timeline")]
        for timed, untimed in zip(*steps):
            self.assertEqual([timed[key] for key in ("step", "loss", "grad_norm")],
                             [untimed[key] for key in ("step", "loss", "grad_norm")])
        self.assert_same_files(self.path("with-timeline", "checkpoints", "step-00000003"),
                               self.path("without-timeline", "checkpoints", "step-00000003"), "step 3")
        self.succeed(self.trainer, "--run", self.path("chosen-timeline"), "--timeline", chosen, "--timeline-steps",
                     "1:2", "--steps", 2, "--no-final-checkpoint")
        timelines.check(self, timelines.read(chosen), plan, range(1, 3))
        self.assertEqual([name for name in os.listdir(self.folder) if name.startswith(".tmp-")], [])

        # Unwritable output is reported before the run starts.
        for words, said in (([self.path("no-such-folder", "t.json")],
                             "mkdir -p"), ([self.folder], "is a folder"), ([file, "--steps", "4"], "steps 1 to 4"),
                            ([file, "--timeline-steps",
                              "12:2"], "would write steps 12 to 13"), ([file, "--timeline-steps", "5"], "as in 20:5")):
            self.assertIn(said, self.refused(2, "--run", self.path("refused-timeline"), "--timeline", *words))
        self.assertIn("--timeline", self.refused(2, "--timeline-steps", "1:2"))
        self.assertFalse(os.path.exists(self.path("refused-timeline", "metrics.jsonl")))
        self.check_measured(file, plan)

    def check_measured(self, file, plan):
        """llmc plan --measured: a timeline's seconds next to the plan's, op by op; those of another plan are refused.
        """
        timeline = timelines.read(file)
        text = self.succeed(harness.LLMC, "plan", self.spec, "--measured", file).out
        self.assertIn("steps 3 to 5", text)
        measured = json.loads(self.succeed(harness.LLMC, "plan", self.spec, "--measured", file,
                                           "--json").out)["measured"]
        spent = {}
        for event in timelines.launches(timeline):
            key = event["args"]["region"], event["name"]
            spent[key] = spent.get(key, 0) + 1e-6 * event["dur"] / 3
        self.assertEqual({(op["region"], op["op"]) for op in measured["ops"]}, set(spent))
        predicted = {}
        for launch in plan["time"]["launches"]:
            predicted[launch["region"], launch["op"]] = launch["seconds_a_step"]
        for op in measured["ops"]:
            self.assertAlmostEqual(op["measured_seconds"], spent[op["region"], op["op"]], delta=1e-12)
        self.assertAlmostEqual(sum(op["predicted_seconds"] for op in measured["ops"]), sum(predicted.values()),
                               delta=1e-9)
        self.assertAlmostEqual(measured["step_seconds"], sum(timeline["otherData"]["step_seconds"]) / 3, delta=1e-12)
        self.assertAlmostEqual(measured["launches_share"] * measured["step_seconds"], sum(spent.values()), delta=1e-9)
        apart = [abs(op["measured_seconds"] - op["predicted_seconds"]) for op in measured["ops"]]
        self.assertEqual(apart, sorted(apart, reverse=True))

        changed = self.path("changed.json")

        def write(changes):
            other = json.loads(json.dumps(timeline))
            for key, value in changes.items():
                other["otherData" if key in other["otherData"] else "traceEvents"][key if key in
                                                                                   other["otherData"] else -1] = value
            with open(changed, "w") as out:
                json.dump(other, out)

        write({"device": "\x1b[31mred"})
        text = self.succeed(harness.LLMC, "plan", self.spec, "--measured", changed).out
        self.assertNotIn("\x1b", text)
        self.assertIn("measured on ", text)

        def refused(said, *words, **changes):
            write(changes)
            done = harness.call(harness.LLMC, "plan", self.spec, "--measured", changed, *words)
            self.assertEqual(done.code, 2, done.out)
            self.assertIn(said, done.err)

        refused("plan has fingerprint", "model.hidden_size=40")
        refused(" times a step", "batch.tokens=192")
        refused(" times a step", world_size=2)  # with two ranks, each has one of the two micro-batches
        done = harness.call("bash", "-c", 'cd "$3"; "$0" plan <(cat "$1") --measured "$2"', harness.LLMC, self.spec,
                            changed, os.path.dirname(self.spec))
        self.assertIn(" times a step", done.err, "a pipe is read once")
        refused("it has version 2", version=2)
        refused(
            'a launch "x" of "y"',
            last={"ph": "X", "tid": 1, "cat": "kernel", "name": "x", "dur": 1, "args": {"region": "y", "runs": "z"}})
        with open(self.path("no-timeline.json"), "w") as out:
            out.write("[1]")
        for name, said in (("no-timeline.json", "trainer --timeline FILE"), ("nowhere.json",
                                                                             "No such file or directory")):
            done = harness.call(harness.LLMC, "plan", self.spec, "--measured", self.path(name))
            self.assertEqual(done.code, 2, done.out)
            self.assertIn(said, done.err)


if __name__ == "__main__":
    harness.main()
