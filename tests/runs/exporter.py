"""exporter/llmc_export.py: CSV of a run, and the calls to W&B and MLflow, recorded by stand-ins for their packages.
The packages themselves are not installed by the tests."""

import contextlib
import csv
import io
import json
import math
import os
import signal
import stat
import subprocess
import sys
import tempfile
import types
import unittest
from unittest import mock

import harness
from events import expected_scalars
from harness import SOURCE, RunTest

EXPORTER = os.path.join(SOURCE, "exporter", "llmc_export.py")
sys.path.insert(0, os.path.dirname(EXPORTER))
import llmc_export  # noqa: E402

WANDB = '''
import json, os
def say(*words):
    with open(os.environ["CALLS"], "a") as file:
        file.write(json.dumps(words) + "\\n")
class Run:
    def __init__(self, id):
        self.id = id
    def log(self, numbers, step):
        say("log", self.id, step, numbers)
    def finish(self):
        say("finish", self.id)
def init(project, entity, name, group, config, id, resume):
    id = id or "run-" + name.replace(" ", "-")
    say("init", id, project, name, config.get("model.hidden_size"), resume)
    return Run(id)
'''
MLFLOW = '''
import json, os
def say(*words):
    with open(os.environ["CALLS"], "a") as file:
        file.write(json.dumps(words) + "\\n")
class Thing:
    def __init__(self, **values):
        self.__dict__.update(values)
class MlflowClient:
    def __init__(self, tracking_uri):
        say("client", tracking_uri)
    def get_experiment_by_name(self, name):
        return None
    def create_experiment(self, name):
        return name
    def create_run(self, experiment, run_name, tags):
        say("create", experiment, run_name)
        return Thing(info=Thing(run_id=run_name))
    def log_batch(self, run, metrics=(), params=()):
        say("batch", run, [[m.key, m.value, m.step] for m in metrics], [[p.key, p.value] for p in params])
    def set_terminated(self, run):
        say("end", run)
'''
ENTITIES = '''
class Metric:
    def __init__(self, key, value, timestamp, step):
        self.key, self.value, self.step = key, value, step
class Param:
    def __init__(self, key, value):
        self.key, self.value = key, value
'''
YAML = '''
def safe_load(file):
    return {"name": "small", "model": {"hidden_size": 36}} if "hidden_size" in file.read() else None
'''


class Names(unittest.TestCase):

    def test_names_are_those_of_tensorboard(self):
        line = {
            "step": 3, "loss": 2.5, "tokens/web": 8, "val_loss/web": 1.5, "audit_loss": 2.25, "audit_difference": 0.25,
            "audit_seconds": 4, "task/arc": 0.5, "task/arc/norm": 0.75, "skipped": [4, 5], "skip_reason": "loss",
            "per_parameter": {"a.weight": {"grad": 0.125, "ratio": None}}
        }
        shown = {tag: value for tag, _, value in expected_scalars([line]) if value is not None}
        self.assertEqual(llmc_export.flatten(line), shown)
        self.assertEqual(shown["task/arc/norm"], 0.75)


class Written(unittest.TestCase):

    def test_links_pipes_and_modes_stay(self):
        with tempfile.TemporaryDirectory() as folder:
            new, link, pipe = (os.path.join(folder, name) for name in ("new", "link", "pipe"))
            mask = os.umask(0o027)
            try:
                llmc_export.write(new, "one\r\n")
            finally:
                os.umask(mask)
            self.assertEqual(stat.S_IMODE(os.stat(new).st_mode), 0o640)
            os.chmod(new, 0o604)
            os.symlink("new", link)
            llmc_export.write(link, "two\r\n")
            self.assertTrue(os.path.islink(link))
            self.assertEqual((harness.read(new), stat.S_IMODE(os.stat(new).st_mode)), (b"two\r\n", 0o604))
            os.mkfifo(pipe)
            reader = os.open(pipe, os.O_RDWR)
            llmc_export.write(pipe, "three\r\n")
            self.assertTrue(stat.S_ISFIFO(os.stat(pipe).st_mode))
            self.assertEqual(os.read(reader, 100), b"three\r\n")
            os.close(reader)
            self.assertEqual(sorted(os.listdir(folder)), ["link", "new", "pipe"])


class Failing:
    """A service whose calls raise while `failures` has something for them."""

    def __init__(self, **failures):
        self.failures, self.begun, self.logged = failures, [], []

    def fail(self, call):
        if self.failures.get(call, 0) > 0:
            self.failures[call] -= 1
            raise OSError("the service is away")

    def begin(self, name, group, config, identity):
        self.fail("begin")
        self.begun.append(identity)
        return identity or "first"

    def describe(self, config):
        self.fail("describe")

    def log(self, step, numbers):
        self.fail(f"log{step}")
        self.logged.append(step)

    def end(self):
        self.fail("end")


class FailingServices(unittest.TestCase):

    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.run_folder = folder.name
        os.mkdir(os.path.join(folder.name, "state"))
        self.write(3)

    def write(self, steps):
        with open(os.path.join(self.run_folder, "metrics.jsonl"), "w") as file:
            file.writelines(json.dumps({"step": step, "loss": 1 / step}) + "\n" for step in range(1, steps + 1))

    def follow(self, service, wait=None):
        """Calls follow(), with --follow if there is a function to call instead of each wait."""
        time_module = types.SimpleNamespace(sleep=wait)
        with mock.patch.object(llmc_export, "config_of", lambda run: {}), mock.patch.object(
                llmc_export, "time", time_module), contextlib.redirect_stderr(io.StringIO()):
            llmc_export.follow(self.run_folder, service, "wandb",
                               types.SimpleNamespace(name=None, follow=wait is not None))

    def test_the_next_call_continues(self):
        for call in ("begin", "describe", "log2", "end"):
            self.write(3)
            service = Failing(**{call: 1})
            with self.assertRaises(OSError):
                self.follow(service)
            self.write(4)
            self.follow(service)
            self.assertEqual(service.begun, [None] if call == "begin" else [None, "first"], call)
            self.assertEqual(service.logged, [1, 2, 3, 4], call)
            os.remove(os.path.join(self.run_folder, "state", "export-wandb.json"))

    def test_the_record_precedes_the_points(self):
        service, record = Failing(), os.path.join(self.run_folder, "state", "export-wandb.json")
        service.log = lambda step, numbers: self.assertIn("first", harness.read(record).decode())
        self.follow(service)

    def test_follow_tries_again(self):
        service, waits = Failing(log5=7), []
        record = os.path.join(self.run_folder, "state", "export-wandb.json")

        def wait(seconds):
            waits.append(seconds)
            sent = json.loads(harness.read(record))["losses"]
            self.assertEqual(max(map(int, sent)), service.logged[-1], "SIGKILL may come while it waits")
            self.write(5)
            if service.logged[-1] == 5:
                raise KeyboardInterrupt

        self.follow(service, wait)
        self.assertEqual((service.begun, service.logged), ([None], [1, 2, 3, 4, 5]))
        self.assertEqual(waits, [2, 4, 8, 16, 32, 60, 60, 60, 2])

    def test_follow_gives_up(self):
        service = Failing(log4=1000)
        with self.assertRaises(OSError):
            self.follow(service, lambda seconds: self.write(4))
        self.assertEqual(1000 - service.failures["log4"], llmc_export.MOST_FAILURES + 1)
        with self.assertRaises(OSError):  # one that has never worked
            self.follow(Failing(begin=1), lambda seconds: None)


class Exporter(RunTest):

    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        cls.spec = harness.write_small(os.path.join(cls.folder, "small"))

    def setUp(self):
        super().setUp()
        self.trainer = self.compile(self.spec, "trainer")
        self.folder_of_run = self.path(self.id().rsplit(".", 1)[-1])
        self.succeed(self.trainer, "--run", self.folder_of_run, "--steps", 6)
        self.calls = self.folder_of_run + "-calls"
        stand_ins = self.folder_of_run + "-packages"
        for name, text in (("wandb.py", WANDB), ("yaml.py", YAML), ("mlflow/__init__.py", ""),
                           ("mlflow/entities.py", ENTITIES), ("mlflow/tracking.py", MLFLOW)):
            os.makedirs(os.path.dirname(os.path.join(stand_ins, name)), exist_ok=True)
            with open(os.path.join(stand_ins, name), "w") as file:
                file.write(text)
        self.environment = harness.environment(PYTHONPATH=stand_ins, CALLS=self.calls)

    def export(self, *words):
        return harness.call(sys.executable, EXPORTER, *words, env=self.environment)

    def said(self):
        return harness.json_lines(self.calls)

    def lines(self):
        return harness.json_lines(os.path.join(self.folder_of_run, "metrics.jsonl"))

    def train_again(self, step, **values):
        """Simulates a resume from `step`: later lines belong to another training."""
        lines = [line for line in self.lines() if line["step"] <= step]
        later = [dict(line, **values) for line in self.lines() if line["step"] > step]
        with open(os.path.join(self.folder_of_run, "metrics.jsonl"), "w") as file:
            file.writelines(json.dumps(line) + "\n" for line in lines + later)

    def test_csv(self):
        """A row per step with the numbers of metrics.jsonl, per-parameter norms on request, no incomplete rows."""
        for more in ([], ["--per-parameter"]):
            done = self.export("csv", self.folder_of_run, *more)
            self.assertEqual(done.code, 0, done.err)
            rows = list(csv.DictReader(io.StringIO(done.out)))
            self.assertEqual([int(row["step"]) for row in rows], [1, 2, 3, 4, 5, 6])
            for row, line in zip(rows, self.lines()):
                self.assertEqual(float(row["train/loss"]), line["loss"])
                self.assertEqual(float(row["train/lr"]), line["lr"])
                self.assertEqual(row["validation/loss"], str(line["val_loss"]) if "val_loss" in line else "")
                name = "weight/model.norm.weight"
                self.assertEqual(name in row, bool(more))
                if more:
                    self.assertEqual(float(row[name]), line["per_parameter"]["model.norm.weight"]["weight"])
        table = self.path("table.csv")
        self.assertEqual(self.export("csv", self.folder_of_run, "-o", table, "--per-parameter").code, 0)
        self.assertEqual(harness.read(table).decode(), done.out.replace("\n", "\r\n"))
        missing = self.path("missing", "table.csv")
        unwritten = self.export("csv", self.folder_of_run, "-o", missing)
        self.assertEqual(unwritten.code, 1)
        self.assertIn(f"'{missing}'", unwritten.err)
        self.assertNotIn(".tmp-", unwritten.err)
        with open(os.path.join(self.folder_of_run, "metrics.jsonl"), "a") as file:
            file.write('{"step": 7, "lo')  # a trainer is writing
        self.assertEqual(self.export("csv", self.folder_of_run, "--per-parameter").out, done.out)
        with open(os.path.join(self.folder_of_run, "metrics.jsonl"), "a") as file:
            file.write("\n")
        refused = self.export("csv", self.folder_of_run, "-o", table)
        self.assertEqual((refused.code, refused.err.count("damaged")), (1, 1), refused.err)
        self.assertEqual(harness.read(table).decode(), done.out.replace("\n", "\r\n"))
        nowhere = self.export("csv", self.path("nowhere"))
        self.assertEqual(nowhere.code, 1)
        self.assert_facts(nowhere.err, self.path("nowhere"), "run")

    def test_wandb_has_no_point_twice(self):
        """Each step once, over several calls, an exact resume and one that trains to other losses."""
        self.assertEqual(self.export("wandb", self.folder_of_run, "--project", "p", "--name", "n").code, 0)
        first = self.said()
        self.assertEqual(first[0], ["init", "run-n", "p", "n", 36, "allow"])
        self.assertEqual(first[-1], ["finish", "run-n"])
        logged = [call for call in first if call[0] == "log"]
        self.assertEqual([call[2] for call in logged], [1, 2, 3, 4, 5, 6])
        for call, line in zip(logged, self.lines()):
            self.assertEqual(call[3]["train/loss"], line["loss"])
            self.assertEqual(call[3].get("validation/loss"), line.get("val_loss"))
            self.assertTrue(all(math.isfinite(number) for number in call[3].values()))
        self.train_again(3)
        self.succeed(self.trainer, "--run", self.folder_of_run, "--steps", 9)
        self.assertEqual(self.export("wandb", self.folder_of_run, "--project", "p", "--name", "n").code, 0)
        second = self.said()[len(first):]
        self.assertEqual([call[2] for call in second if call[0] == "log"], [7, 8, 9])
        self.assertEqual(second[0][1], "run-n")
        self.train_again(7, loss=1.5)
        done = self.export("wandb", self.folder_of_run, "--project", "p", "--name", "n")
        self.assertRegex(done.err, r"steps from 8 on .*again")
        third = self.said()[len(first) + len(second):]
        self.assertEqual(third[0][:4], ["init", "run-n-from-step-7", "p", "n from step 7"])
        self.assertEqual([call[2] for call in third if call[0] == "log"], [8, 9])

    def test_mlflow(self):
        done = self.export("mlflow", self.folder_of_run, "--experiment", "e", "--tracking-uri", "http://there")
        self.assertEqual(done.code, 0, done.err)
        said = self.said()
        self.assertEqual(said[0], ["client", "http://there"])
        self.assertEqual(said[1][:2], ["create", "e"])
        self.assertIn(["model.hidden_size", "36"], said[2][3])
        batches = [call for call in said if call[0] == "batch" and call[2]]
        self.assertEqual([sorted({step for _, _, step in call[2]}) for call in batches], [[1], [2], [3], [4], [5], [6]])
        for call, line in zip(batches, self.lines()):
            self.assertIn(["train/loss", line["loss"], line["step"]], call[2])
        self.assertEqual(said[-1][0], "end")

    def test_follow_sends_what_the_run_adds(self):
        process = self.start(sys.executable, EXPORTER, "wandb", self.folder_of_run, "--project", "p", "--follow",
                             env=self.environment, stderr=subprocess.PIPE)
        self.succeed(self.trainer, "--run", self.folder_of_run, "--steps", 8)
        self.until(
            process,
            lambda: os.path.exists(self.calls) and any(call[0] == "log" and call[2] == 8 for call in self.said()))
        process.send_signal(signal.SIGINT)
        process.communicate(timeout=harness.HANGS)
        self.assertEqual([call[2] for call in self.said() if call[0] == "log"], list(range(1, 9)))
        self.assertEqual(self.said()[-1][0], "finish")
        self.assertEqual(process.returncode, 0)

    def test_what_is_missing_is_named(self):
        os.remove(os.path.join(self.folder_of_run + "-packages", "wandb.py"))
        # -S: without packages installed on this machine
        done = harness.call(sys.executable, "-S", EXPORTER, "wandb", self.folder_of_run, "--project", "p",
                            env=self.environment)
        self.assertEqual(done.code, 1)
        self.assertIn("wandb is not installed", done.err)
        self.assertIn("requirements.txt", done.err)


if __name__ == "__main__":
    harness.main()
