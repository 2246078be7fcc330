"""`llmc runs`: the state of runs that train, are done, were stopped, were killed, or are damaged."""

import json
import os
import shutil
import signal
import statistics
import subprocess
import threading

import harness
from harness import LLMC, RunTest

LONG = "schedule.steps=100000"


class Runs(RunTest):

    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        cls.trainer = cls.compile(harness.write_small(cls.folder), "trainer")
        cls.runs = os.path.join(cls.folder, "all")

    def train(self, *names):
        return [self.trainer, "--run", os.path.join(self.runs, *names)]

    def listed(self, folder=None):
        found = json.loads(self.succeed(LLMC, "runs", folder or self.runs, "--json").out)
        return {run["run"]: run for run in found["runs"]}, found["others"]

    def started(self, name):
        """A long run, past its first checkpoints."""
        process = self.start(*self.train(name), LONG, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        self.until(process, lambda: harness.newest_checkpoint(os.path.join(self.runs, name)) >= 6)
        return process

    def test_states(self):
        self.succeed(*self.train("sweep", "done"))
        self.succeed(*self.train("short"), "--steps", 4)
        self.succeed(*self.train("unsaved"), "--steps", 4, "--no-final-checkpoint")
        self.succeed(*self.train("end-unsaved"), "checkpoint.every=8", "--no-final-checkpoint")
        os.makedirs(os.path.join(self.runs, "short", "checkpoints", "step-99999999"))  # not a checkpoint: it is empty
        os.makedirs(os.path.join(self.runs, "papers", "old"))
        os.makedirs(os.path.join(self.runs, ".hidden"))
        os.symlink(self.runs, os.path.join(self.runs, "loop"))
        training = self.started("training")
        killed = self.started("killed")
        killed.send_signal(signal.SIGSTOP)  # probably between two saves
        killed.kill()
        killed.wait()
        runs, others = self.listed()
        self.assertEqual(sorted(others), ["loop", "papers"])
        # A kill may land right after a save, where nothing is lost.
        last = harness.json_lines(os.path.join(self.runs, "killed", "metrics.jsonl"))[-1]["step"]
        saved = os.path.isdir(os.path.join(self.runs, "killed", "checkpoints", f"step-{last:08d}"))
        self.assertEqual({name: run["state"]
                          for name, run in runs.items()}, {
                              "sweep/done": "finished", "short": "stopped", "unsaved": "failed", "end-unsaved":
                              "failed", "training": "running", "killed": "stopped" if saved else "failed"
                          })
        done = runs["sweep/done"]
        metrics = harness.json_lines(os.path.join(self.runs, "sweep", "done", "metrics.jsonl"))
        self.assertEqual((done["step"], done["steps"], done["loss"]), (12, 12, metrics[-1]["loss"]))
        self.assertEqual((done["val_step"], done["val_loss"]), (12, metrics[-1]["val_loss"]))
        self.assertEqual(done["tokens_per_second"], statistics.median(line["tokens_per_second"] for line in metrics))
        self.assertEqual(done["started"],
                         harness.json_lines(os.path.join(self.runs, "sweep", "done", "history.jsonl"))[-1]["time"])
        self.assertEqual((runs["short"]["step"], runs["short"]["val_step"]), (4, 4))
        self.assertEqual((runs["training"]["steps"], runs["training"]["problem"]), (100000, None))
        text = self.succeed(LLMC, "runs", self.runs).out
        self.assertRegex(text, r"(?m)^run +state +step +loss +val +tok/s +last start$")
        self.assertRegex(
            text,
            rf"(?m)^sweep/done +finished +12/12 +{metrics[-1]['loss']:.4f} +{metrics[-1]['val_loss']:.4f} +[\d,]+ +20\d\d-\d\d-\d\dT\d\d:\d\d:\d\dZ$"
        )
        self.assertRegex(text, r"(?m)^papers: .*run folder$")
        # A rollback and a border of phases are lines of a start's process, not starts.
        with open(os.path.join(self.runs, "sweep", "done", "history.jsonl"), "a") as file:
            for more in ({"rollbacks": 1, "rollback": {"from_step": 12, "why": "x"}}, {"phase": 2, "same_start": True}):
                file.write(json.dumps({"step": 8, "time": "2999-01-01T00:00:00Z", **more}) + "\n")
        self.assertEqual(self.listed()[0]["sweep/done"]["started"], done["started"])
        one = os.path.join(self.runs, "short")
        self.assertEqual(list(self.listed(one)[0]), ["short"])
        training.terminate()
        self.assertEqual(training.wait(timeout=harness.HANGS), 75)
        self.assertEqual(self.listed()[0]["training"]["state"], "stopped")

    def test_damaged_runs_are_named(self):
        whole = self.path("whole", "a")
        self.succeed(self.trainer, "--run", whole, "--steps", 4)
        for name, file, change in (("spec", "spec.yaml", lambda text: b"\xff\x00nonsense"),
                                   ("metrics", "metrics.jsonl",
                                    lambda text: text + b"[1]\n"), ("history", "history.jsonl", lambda text: b"{\n"),
                                   ("torn", "metrics.jsonl", lambda text: text + b'{"step": 5, "lo')):
            shutil.copytree(whole, self.path("whole", name))
            path = self.path("whole", name, file)
            text = harness.read(path)
            with open(path, "wb") as out:
                out.write(change(text))
        shutil.copytree(whole, self.path("whole", "none"))
        os.remove(self.path("whole", "none", "spec.yaml"))
        os.makedirs(self.path("whole", "empty\x1b[31m", "state"))
        with open(self.path("whole", "empty\x1b[31m", "state", "model"), "w") as file:
            file.write("x\n")
        os.makedirs(self.path("whole", "strange"))
        os.mkfifo(self.path("whole", "strange", "metrics.jsonl"))
        runs, others = self.listed(self.path("whole"))
        self.assertEqual(others, ["strange"])
        self.assertEqual({name: run["state"]
                          for name, run in runs.items()}, {
                              "a": "stopped", "torn": "stopped", "spec": "damaged", "metrics": "damaged", "history":
                              "damaged", "none": "damaged", "empty\x1b[31m": "failed"
                          })
        for name, facts in (("spec", ["spec.yaml"]), ("metrics", ["'metrics.jsonl'", "a line"]),
                            ("history", ["'history.jsonl'", "a line"]), ("none", ["'spec.yaml'", "not exist"])):
            self.assert_facts(runs[name]["problem"], *facts)
        self.assertEqual(runs["spec"]["loss"], runs["a"]["loss"], "what can be read is there")
        text = self.succeed(LLMC, "runs", self.path("whole")).out
        self.assertNotIn("\x1b", text)
        self.assertRegex(text, r"(?m)^none: 'spec.yaml'.* not exist$")
        done = harness.call(LLMC, "runs", self.path("nowhere"))
        self.assertEqual((done.code, done.out), (6, ""))
        self.assertIn("nowhere", done.err)
        os.makedirs(self.path("bare"))
        self.assertRegex(self.succeed(LLMC, "runs", self.path("bare")).out, r"^no runs in '.*bare'\n$")

    def test_looking_refuses_no_trainer(self):
        """A reader holds the lock for a moment: a trainer that starts then waits for it."""
        run, ended = self.path("watched", "a"), threading.Event()
        self.succeed(self.trainer, "--run", run, "--steps", 1)

        def look():
            while not ended.is_set():
                harness.call(LLMC, "runs", run)

        threads = [threading.Thread(target=look) for _ in range(2)]
        for thread in threads:
            thread.start()
        try:
            for step in range(2, 8):
                self.succeed(self.trainer, "--run", run, "--steps", step)
        finally:
            ended.set()
            for thread in threads:
                thread.join()


if __name__ == "__main__":
    harness.main()
