"""`llmc sweep`: grids are trained, killed, resumed, pruned, ranked, drawn, and written out for clusters."""

import json
import os
import re
import shutil
import signal
import stat
import subprocess

import harness
import report
from harness import LLMC, RunTest

# Runs long enough to be killed between their first checkpoint and their end.
LONG = ("schedule.steps=300", "checkpoint.every=20", "evaluation.every=0", "sampling.every=0")
RATES = "optimizer.lr=1e-3,3e-3,1e-2"


def processes_of(run):
    """Trainers of a run folder."""
    found = []
    for process in filter(str.isdigit, os.listdir("/proc")):
        try:
            words = harness.read(f"/proc/{process}/cmdline").split(b"\0")
        except OSError:  # it has ended
            continue
        if words[0].endswith(b"/trainer") and run.encode() in words:
            found.append(int(process))
    return found


class Sweep(RunTest):

    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        cls.spec = harness.write_small(cls.folder)

    def sweep(self, out, *words):
        return [LLMC, "sweep", self.spec, *words, "-o", self.path(out)]

    def record(self, out):
        with open(self.path(out, "sweep.json")) as file:
            return json.load(file)

    def states(self, out):
        return [run["state"] for run in self.record(out)["runs"]]

    def refused(self, *words, out="refused", code=2):
        done = harness.call(*self.sweep(out, *words))
        self.assertEqual(done.code, code, f"{words}\n{done.out}{done.err}")
        self.assertTrue(done.err.startswith("error: "), done.err)
        return done.err

    def test_grid_is_killed_and_goes_on(self):
        command = self.sweep("grid", RATES, "model.intermediate_size=50,60,70", "--jobs", "2", "--threads", "1", *LONG,
                             f"checkpoint.mirror={self.path('mirrors')}")
        for stop in (signal.SIGKILL, signal.SIGTERM):
            process = self.start(*command, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True)
            number = 3 if stop == signal.SIGKILL else 6
            self.until(process, lambda: harness.newest_checkpoint(self.path("grid", "runs", f"{number:04}")) >= 20)
            process.send_signal(stop)
            errors = process.communicate(timeout=harness.HANGS)[1]
            self.assertEqual(process.returncode, 75 if stop == signal.SIGTERM else -stop)
        self.assert_facts(errors, "SIGTERM", "stopped at step", "To go on", "llmc sweep", RATES, "--jobs 2")
        self.assertEqual(self.states("grid")[:4] + self.states("grid")[-1:], ["finished"] * 4 + ["waiting"])
        out = self.succeed(*command).out
        record = self.record("grid")
        self.assertEqual([run["state"] for run in record["runs"]], ["finished"] * 9)
        for run in range(1, 10):  # each in a mirror of its own
            self.assertEqual(harness.newest_checkpoint(self.path("mirrors", "grid", f"{run:04}")), 300)
        self.assertEqual([build["compiled"] for build in record["builds"]], [[
            *(w for w in LONG if not w.startswith(("schedule", "checkpoint", "evaluation", "sampling"))),
            f"model.intermediate_size={size}"
        ] for size in (50, 60, 70)])
        # Killed, stopped and resumed runs have the losses of one that nothing disturbed.
        trainer = self.path("grid", "builds", "3", "trainer")
        words = [word for word in LONG] + ["optimizer.lr=3e-3"]
        self.succeed(trainer, "--run", self.path("whole"), "--threads", 1, *words)
        metrics = [
            harness.without_timing(harness.json_lines(self.path(*run, "metrics.jsonl")))
            for run in (("whole", ), ("grid", "runs", "0006"))
        ]
        self.assertEqual(*metrics)
        # The ranking, from the numbers of the runs.
        losses = [run["loss"] for run in record["runs"]]
        best = losses.index(min(losses))
        self.assertEqual(record["best"]["runs"], [f"runs/{best + 1:04}"])
        self.assertEqual((record["best"]["of"], record["best"]["loss"]), ("loss", min(losses)))
        mean = [line["loss"] for line in harness.json_lines(self.path("grid", "runs", "0006", "metrics.jsonl"))][-15:]
        self.assertAlmostEqual(losses[5], sum(mean) / 15, delta=1e-12)
        neighbours = {(n["key"], n["value"]): n["loss"] for n in record["best"]["neighbours"]}
        row, column = divmod(best, 3)
        for key, values, place, of in (("optimizer.lr", ("1e-3", "3e-3", "1e-2"), row,
                                        lambda i: losses[3 * i + column]), ("model.intermediate_size", ("50", "60",
                                                                                                        "70"), column,
                                                                            lambda i: losses[3 * row + i])):
            for i in range(3):
                self.assertEqual(neighbours.get((key, values[i])), of(i) if abs(i - place) == 1 else None)
            self.assertEqual(key in record["best"]["at_the_edge_of"], place != 1)
        self.assertRegex(out, r"(?m)^run +optimizer\.lr +model\.intermediate_size +state +step +loss +val$")
        self.assert_facts(out, f"{best + 1:04}", "finished  300/300", "best: optimizer.lr=")
        # A finished sweep only prints its table.
        again = self.succeed(*command)
        self.assertEqual(again.out, out)
        self.assertNotIn("started", again.err)
        self.drawn(losses)
        error = self.refused("optimizer.lr=1e-3,3e-3", out="grid")
        self.assert_facts(error, "another grid", RATES, "-o")
        with open(self.spec) as file:
            text = file.read()
        self.addCleanup(harness.write_small, self.folder)
        harness.write_small(self.folder, text.replace("steps: 12", "steps: 13").replace("seed: 5", "seed: 6"))
        self.assert_facts(harness.call(*command).err, "this grid over another spec", "-o")

    def drawn(self, losses):
        """The page of `llmc report` has a line for each size, with the losses of the runs."""
        self.succeed(LLMC, "report", self.path("grid"), self.path("grid", ""), "-o", self.path("grid.html"))
        with open(self.path("grid.html")) as file:
            (sweep, ) = report.Page(file.read()).data()["sweeps"]
        (chart, ) = sweep["charts"]
        self.assertEqual((sweep["x"], sweep["of"], chart["by"]), ("optimizer.lr", "loss", "model.intermediate_size"))
        self.assertEqual([(line["name"], line["x"], line["y"]) for line in chart["lines"]],
                         [(f"model.intermediate_size={size}", [1e-3, 3e-3, 1e-2], losses[i::3])
                          for i, size in enumerate((50, 60, 70))])

    def test_runs_that_fall_behind_or_diverge_end_early(self):
        words = ("optimizer.lr=1e-2,1e-9,1000", "seed=1,2", "schedule.steps=400", "schedule.warmup_steps=1",
                 "evaluation.every=200", "--prune", "0.5@25%", "guards.limit_in_a_row=5")
        done = self.succeed(*self.sweep("pruned", *words))
        runs = self.record("pruned")["runs"]
        self.assertEqual([run["state"] for run in runs[:4]], ["finished"] * 2 + ["pruned"] * 2, done.err)
        self.assertEqual({run["state"] for run in runs[4:]} - {"pruned", "diverged"}, set(), done.err)
        for run in runs[2:4]:
            self.assertLess(run["step"], 400)
            self.assertGreaterEqual(run["step"], 100)
            self.assert_facts(run["reason"], "nats behind", "25 %")
        best = self.record("pruned")["best"]
        self.assertEqual((best["of"], best["runs"]), ("val_loss", ["runs/0001", "runs/0002"]))
        self.assertAlmostEqual(best["loss"], (runs[0]["val_loss"] + runs[1]["val_loss"]) / 2, delta=1e-12)
        self.assertAlmostEqual(best["spread"], abs(runs[0]["val_loss"] - runs[1]["val_loss"]), delta=1e-12)
        self.assert_facts(done.out, "the mean of 2 seeds")

    def test_failed_runs_are_named_and_tried_again(self):
        words = ("optimizer.lr=1e-3,3e-3", f"data.train.path={self.path('moved-*.bin')}")
        for shard in (0, 1):
            os.symlink(self.path(f"train-{shard}.bin"), self.path(f"moved-{shard}.bin"))
        process = self.start(*self.sweep("failed", *words), stdout=subprocess.DEVNULL, stderr=subprocess.PIPE,
                             text=True)
        # The shards vanish after the sweep's own check.
        self.until(process, lambda: os.path.exists(self.path("failed", "sweep.json")))
        for shard in (0, 1):
            os.remove(self.path(f"moved-{shard}.bin"))
        errors = process.communicate()[1]
        self.assertEqual(process.returncode, 5, errors)
        self.assert_facts(errors, "0001 optimizer.lr=1e-3: failed", "moved-")
        self.assertEqual(self.states("failed"), ["failed"] * 2)
        for shard in (0, 1):
            os.symlink(self.path(f"train-{shard}.bin"), self.path(f"moved-{shard}.bin"))
        self.succeed(*self.sweep("failed", *words))
        self.assertEqual(self.states("failed"), ["finished"] * 2)

    def test_an_older_error_is_not_the_reason(self):
        """Of a trainer that is killed: its log has what other starts wrote too."""
        process = self.start(*self.sweep("killed", "optimizer.lr=1e-3,3e-3", "schedule.steps=1000000", "--jobs", "1"),
                             stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True)
        for run in ("0001", "0002"):
            self.until(process, lambda: os.path.exists(self.path("killed", "runs", run, "metrics.jsonl")))
            with open(self.path("killed", "logs", "0002.txt"), "a") as file:
                file.write("error: of an older start\n" if run == "0001" else "")
            (trainer, ) = processes_of(self.path("killed", "runs", run))
            os.kill(trainer, signal.SIGKILL)
        errors = process.communicate()[1]
        self.assertEqual([run["reason"] for run in self.record("killed")["runs"]], ["ended by SIGKILL"] * 2, errors)

    def test_cluster_scripts_train_what_is_missing(self):
        """SLURM's and Kubernetes' shells run the scripts' commands, quoted, and without what a value has of a shell."""
        folder = self.path("a $(touch hacked) 'b\" `touch hacked`")
        os.makedirs(folder)
        for shard in ("train-0.bin", "train-1.bin"):
            os.symlink(self.path(shard), os.path.join(folder, shard))
        tools = self.path("tools")
        os.makedirs(tools)
        with open(os.path.join(tools, "srun"), "w") as file:
            file.write('#!/bin/sh\n[ "$1" = --kill-on-bad-exit=0 ] || exit 9\nshift\nexec "$@"\n')
        os.chmod(os.path.join(tools, "srun"), stat.S_IRWXU)
        words = ["optimizer.lr=1e-3,3e-3,1e-2", f"data.train.path={folder}/train-*.bin"]
        command = [LLMC, "sweep", self.spec, *words, "-o", self.path("cluster", "of $(touch hacked)")]
        script, manifest = self.path("array.sh"), self.path("job.yaml")
        self.succeed(*command, "--slurm", script)
        with open(script) as file:
            self.assertIn("#SBATCH --array=1-3\n", file.read())
        environment = harness.environment(SLURM_ARRAY_TASK_ID="2")
        environment["PATH"] = f"{tools}:{environment['PATH']}"
        self.succeed("sh", script, env=environment, cwd=self.folder)
        done = self.succeed(*command, "--kubernetes", manifest)
        self.assertRegex(done.out, r"(?m)^0002 +3e-3 +finished +12/12 ")
        with open(manifest) as file:
            text = file.read()
        self.assertIn("completions: 2\n", text)
        shell = re.search(r"            - \|\n((?: {14}.*\n)*)", text).group(1)
        for index in ("0", "1"):
            self.succeed("sh", "-c", re.sub("(?m)^ {14}", "", shell), cwd=self.folder,
                         env=harness.environment(JOB_COMPLETION_INDEX=index))
        os.remove(script)
        done = self.succeed(*command, "--slurm", script)
        self.assertRegex(done.out, r"(?m)^best: optimizer.lr=")
        self.assert_facts(done.err, "all runs are done")
        self.assertFalse(os.path.exists(script))
        # A run whose last evaluation was aborted is evaluated, with the same loss.
        losses = [run["val_loss"] for run in self.record("cluster/of $(touch hacked)")["runs"]]
        metrics = self.path("cluster", "of $(touch hacked)", "runs", "0001", "metrics.jsonl")
        lines = harness.json_lines(metrics)
        del lines[-1]["val_loss"]
        with open(metrics, "w") as file:
            file.writelines(json.dumps(line) + "\n" for line in lines)
        self.assert_facts(self.succeed(*command, "--slurm", script).out, "not ranked", ": 0001")
        self.assert_facts(self.succeed(*command).err, "0001", "aborted and is repeated")
        self.assertEqual([run["val_loss"] for run in self.record("cluster/of $(touch hacked)")["runs"]], losses)
        self.assertFalse(os.path.exists(self.path("hacked")))
        # Of a folder to be made the paths are absolute too.
        words = [RATES, "data.train.path=train-*.bin,train-0.bin", "data.validation.path=train-1.bin"]
        self.succeed(LLMC, "sweep", self.spec, *words, "-o", "new/sweep", "--slurm", "new.sh", cwd=self.folder)
        with open(self.path("new.sh")) as file:
            text = file.read()
        self.assertEqual(set(re.findall(r"--run (\S*)new/sweep/runs", text)), {self.folder + "/"})
        # The command in it works in every folder.
        self.succeed("sh", "-c", re.search(r"(?m)^#   (.* sweep .*)$", text).group(1), cwd="/")
        self.assert_facts(self.refused(*words[:2], out="new/sweep"), "another grid")

    def test_refusals(self):
        for facts, *words in (
            (("more than one value", ), "optimizer.lr=1e-3"),
            (("'nonsense'", "key=value"), "nonsense"),
            (("empty value", "optimizer.lr=A,B"), "optimizer.lr=1e-3,,1e-2"),
            (("optimizer.lr stands twice", "optimizer.lr=A,B"), "optimizer.lr=1e-3,1e-2", "optimizer.lr=1"),
            (("4900 runs", "4,096"), "seed=" + ",".join(map(str, range(70))),
             "data.seed=" + ",".join(map(str, range(70)))),
            (("optimizer.lr=0.001", "is the same run as optimizer.lr=1e-3"), "optimizer.lr=1e-3,0.001"),
            (("--prune 'behind'", "0.2@25%"), "optimizer.lr=1e-3,1e-2", "--prune", "behind"),
            (("--prune '0@25%'", ), "optimizer.lr=1e-3,1e-2", "--prune", "0@25%"),
            (("--devices", "target.kind is cpu", "--jobs"), "optimizer.lr=1e-3,1e-2", "--devices", "0,1"),
            (("--prune", "--slurm"), RATES, "--prune", "0.2@25%", "--slurm", "a.sh"),
            (("--devices", "--kubernetes", "--jobs"), RATES, "--devices", "0,1", "--kubernetes", "a.yaml"),
        ):
            with self.subTest(words=words[0][:40]):
                self.assert_facts(self.refused(*words), *facts)
        # Every value that `check` refuses is named, and nothing is compiled.
        error = self.refused("optimizer.lr=1e-3,-1", "model.hidden_size=36,0", code=1)
        self.assert_facts(error, "3 runs", "model.hidden_size=0", "E0205", "optimizer.lr=-1", "E0205")
        paths = f"data.train.path={self.path('train-*.bin')},{self.path('no-*.bin')}"
        error = self.refused("optimizer.lr=1e-3,3e-3", paths, code=5)
        self.assert_facts(error, "2 runs", "no-*.bin, and 1 more", "no file matches", "Give the right path")
        self.assertFalse(os.path.exists(self.path("refused")))
        # A cluster's machines have GPUs of their own.
        cuda = ("target.kind=cuda", "target.arch=[80]")
        error = self.refused(paths, *cuda, "--slurm", self.path("gpu.sh"), code=5)
        self.assert_facts(error, "1 run of the grid", "no file matches")
        hostile = self.path("a\rtouch hacked #.yaml")
        shutil.copy(self.spec, hostile)
        for kind in ("--slurm", "--kubernetes"):
            error = harness.call(LLMC, "sweep", hostile, RATES, "-o", self.path("script-of-two-lines"), kind,
                                 self.path("two-lines"))
            self.assertEqual(error.code, 2, error.err)
            self.assert_facts(error.err, "touch hacked", "a control character")
            self.assertFalse(os.path.exists(self.path("two-lines")))
        error = harness.call(LLMC, "sweep", self.spec, RATES, "-o", self.folder)
        self.assertEqual(error.code, 2)
        self.assert_facts(error.err, "other files and no sweep")

    def test_one_sweep_works_in_a_folder(self):
        command = self.sweep("locked", RATES, "schedule.steps=100000", "evaluation.every=0", "sampling.every=0")
        process = self.start(*command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        self.until(process, lambda: os.path.exists(self.path("locked", "runs", "0001", "metrics.jsonl")))
        done = harness.call(*command)
        self.assertEqual(done.code, 2)
        self.assert_facts(done.err, "another llmc sweep works in")
        process.send_signal(signal.SIGINT)
        self.assertEqual(process.wait(timeout=harness.HANGS), 75)
        self.assertEqual(self.states("locked"), ["stopped", "waiting", "waiting"])
        with open(self.path("locked", "sweep.json"), "w") as file:
            file.write('{"spec": 1}')
        self.assert_facts(harness.call(*command).err, "sweep.json", "not readable")
        # The page shows the runs nonetheless.
        page = self.succeed(LLMC, "report", self.path("locked"), "-o", self.path("locked.html"))
        self.assert_facts(page.err, "note: ", "no table of this sweep", "sweep.json", "not readable")
        with open(self.path("locked.html")) as file:
            data = report.Page(file.read()).data()
        self.assertEqual((data["sweeps"], len(data["runs"])), ([], 1))
        missing = harness.call(LLMC, "report", self.path("none"), "-o", self.path("none.html"))
        self.assertEqual(missing.code, 6, missing.err)


if __name__ == "__main__":
    harness.main()
