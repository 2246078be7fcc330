"""Shared by the tests of phases: a small spec of two sources with phases, and its run that nothing disturbs."""

import hashlib
import os
import subprocess
import time

import harness
from harness import LLMC, RunTest
from processes import kill_session

STEPS = 24


def spec_of(folder, phases, keep_last=100):
    """SMALL with the two shards of `folder` as sources, and these phases."""
    train = (f"train: {{first: {{path: {folder}/train-0.bin, weight: 0.7}}, second: {{path: {folder}/train-1.bin, "
             "weight: 0.3, most_epochs: 1000}}")
    text = harness.SMALL.replace("train: [{path: train-*.bin}]", train).replace("steps: 12", f"steps: {STEPS}")
    return text.replace("every: 3, keep_last: 100", f"every: 4, keep_last: {keep_last}") + phases


class PhasedSpecs(RunTest):
    """Specs of the two sources with phases, and what their runs write."""

    keep_last = 100

    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        harness.write_small(cls.folder)

    def write(self, name, text):
        path = self.path(name)
        with open(path, "w") as file:
            file.write(text)
        return path

    def write_spec(self, name, phases, *changes):
        """Another spec of the same sources; `changes`: pairs of text and its replacement."""
        text = spec_of(self.folder, phases, self.keep_last)
        for old, new in changes:
            self.assertIn(old, text)
            text = text.replace(old, new)
        return self.write(name, text)

    @staticmethod
    def trainer_in(out, phase=1):
        return os.path.join(out, f"phase-{phase}", "trainer")

    def files(self, run, step=STEPS):
        """Digests, because a message with the difference of megabytes would take hours."""
        folder = os.path.join(run, "checkpoints", f"step-{step:08}")
        return {
            name: hashlib.sha256(harness.read(os.path.join(folder, name))).hexdigest()
            for name in ("model.safetensors", "optimizer.safetensors", "spec.yaml")
        }

    @staticmethod
    def metrics(run):
        return harness.json_lines(os.path.join(run, "metrics.jsonl"))

    @staticmethod
    def history(run):
        return harness.json_lines(os.path.join(run, "history.jsonl"))

    def begun(self, run):
        """The step and the phase of each line of the history."""
        return [(line["step"], line.get("phase")) for line in self.history(run)]

    def compile_spec(self, name, phases, *changes):
        """Compiles another spec; returns the trainer of its first phase."""
        out = self.path(name + "-build")
        self.succeed(LLMC, "compile", self.write_spec(name + ".yaml", phases, *changes), "-o", out)
        return self.trainer_in(out)

    def kill_when(self, command, reached):
        """Starts the command, and kills all its processes once `reached` holds, unless it has ended."""
        process = self.start(*command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        deadline = time.monotonic() + harness.HANGS
        while process.poll() is None and not reached():
            self.assertLess(time.monotonic(), deadline)
            time.sleep(0.001)
        kill_session(process.pid)
        process.wait()


class PhasedTest(PhasedSpecs):
    """Compiles the spec with `phases`, and runs it with one rank and with two."""

    phases = ""

    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        cls.spec = os.path.join(cls.folder, "phases.yaml")
        with open(cls.spec, "w") as file:
            file.write(spec_of(cls.folder, cls.phases, cls.keep_last))
        cls.out = os.path.join(cls.folder, "build")
        cls.compiled = harness.call(LLMC, "compile", cls.spec, "-o", cls.out)
        assert cls.compiled.code == 0, cls.compiled.err
        cls.whole = {}
        for ranks in (1, 2):
            cls.whole[ranks] = os.path.join(cls.folder, f"whole-{ranks}")
            done = harness.call(*cls.words(cls.whole[ranks], ranks))
            assert done.code == 0, done.err

    @classmethod
    def words(cls, run, ranks=1):
        """The command that trains all phases in the folder `run`."""
        return [LLMC, "run", cls.spec, "-o", cls.out, "--", "--run", run, *cls.ranks(ranks)]

    @staticmethod
    def ranks(ranks):
        return ("--ranks", str(ranks)) if ranks > 1 else ()

    def trainer(self, phase=1):
        return self.trainer_in(self.out, phase)

    def assert_same_run(self, run, ranks=1):
        self.assertEqual(self.files(run), self.files(self.whole[ranks]))
        ours, theirs = (harness.without_timing(self.metrics(of)) for of in (run, self.whole[ranks]))
        self.assertEqual(ours, theirs)
