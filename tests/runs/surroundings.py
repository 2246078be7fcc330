"""Hostile environments for llmc and a trainer: paths that cannot be accessed, output that cannot be written, empty
arguments."""

import fcntl
import json
import os
import pty
import re
import resource
import shutil
import signal
import subprocess
import sys
import sysconfig
import termios

import harness
from cli import COMMANDS
from harness import LLMC, SOURCE, RunTest

sys.path.insert(0, os.path.join(SOURCE, "tests", "bench"))
import hostile  # noqa: E402


class Surroundings(RunTest):

    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        cls.spec = harness.write_small(cls.folder)
        cls.trainer = cls.compile(cls.spec, "trainer")
        cls.loop = os.path.join(cls.folder, "loop")  # a link to itself, which not even root can follow
        os.symlink("loop", cls.loop)

    def ends(self, code, *command, says="", **how):
        done = harness.call(*command, **how)
        self.assertEqual(done.code, code, f"{command}\n{done.out}{done.err}")
        self.assertIn(says, done.err)
        self.assertNotIn("bug in llmc", done.err)
        return done

    def test_a_home_that_cannot_be_looked_up_has_no_device_files(self):
        folder = self.path("emitted")
        for variables in ({"XDG_CONFIG_HOME": self.loop}, {"XDG_CONFIG_HOME": "", "HOME":
                                                           self.loop}, {"XDG_CONFIG_HOME": self.spec}):
            env = harness.environment(**variables)
            for words in (["check", self.spec], ["plan", self.spec], ["config", self.spec],
                          ["emit", self.spec, "-o", folder], ["diff", self.spec, self.spec], ["devices"]):
                self.ends(0, LLMC, *words, env=env)
        self.ends(0, self.trainer, "--plan", env=harness.environment(XDG_CONFIG_HOME=self.loop, HOME=self.loop))

    def test_paths_that_cannot_be_looked_up(self):
        at = os.path.join(self.loop, "x")
        said = "Too many levels of symbolic links"
        for command in (("emit", self.spec, "-o", at), ("compile", self.spec, "-o", at), ("verify", self.spec, "-o", at,
                                                                                          "--emit-only")):
            self.ends(2, LLMC, *command, says=said)
        self.ends(3, LLMC, "emit", self.spec, "-o", self.path("never"), env=harness.environment(LLMC_HOME=at),
                  says=said)
        self.ends(3, LLMC, "doctor", env=harness.environment(LLMC_BUILD=at), says=said)
        missing = self.ends(3, LLMC, "compile", self.spec, "-o", self.path("without"),
                            env=harness.environment(LLMC_BUILD=self.folder), says="the runtime is not built")
        self.assertNotIn("compiling", missing.err)
        # Refused before anything is measured.
        self.ends(2, self.trainer, "calibrate", "--seconds", "3600", "-o", at, says=said)
        self.ends(6, LLMC, "runs", at)
        for words in (("--run", at), ("--resume", at, "--run", self.path("never"))):
            self.ends(6, self.trainer, *words, says=said)
        self.ends(6, self.trainer, "evaluate", "--checkpoint", at)
        self.ends(5, self.trainer, "--base", at, "--run", self.path("never"))
        # An override longer than a file name can be is no file.
        self.ends(0, LLMC, "plan", self.spec, "sampling.prompts=[" + ", ".join(["word"] * 100) + "]",
                  "sampling.every=0")
        gone = self.path("gone")
        for words in (("init", "-o", "a.yaml"), ("emit", self.spec, "-o", self.path("from-nowhere"))):
            os.makedirs(gone, exist_ok=True)
            self.ends(2, "sh", "-c", f'rmdir "{gone}" && exec "$@"', "sh", LLMC, *words, cwd=gone)

    def test_a_run_that_cannot_be_read_hides_no_other(self):
        runs = self.path("shared")
        good = os.path.join(runs, "good")
        self.succeed(self.trainer, "--run", good, "--steps", 2)
        shutil.copytree(good, os.path.join(runs, "kept"))
        shutil.rmtree(os.path.join(runs, "kept", "state"))
        os.symlink("state", os.path.join(runs, "kept", "state"))
        found = {run["run"]: run for run in json.loads(self.succeed(LLMC, "runs", runs, "--json").out)["runs"]}
        self.assertEqual({name: run["state"] for name, run in found.items()}, {"good": "stopped", "kept": "unreadable"})
        self.assertIn("Too many levels of symbolic links", found["kept"]["problem"])
        self.assertRegex(self.succeed(LLMC, "runs", runs).out, r"(?m)^kept: cannot look up ")
        self.ends(0, LLMC, "report", runs, "-o", self.path("all.html"), says="Too many levels of symbolic links")

    def test_long_lines_and_pipes_in_a_run_are_damage(self):
        runs = self.path("long")
        for name, file in (("history", "history.jsonl"), ("metrics", "metrics.jsonl"), ("pipe", "history.jsonl")):
            self.succeed(self.trainer, "--run", os.path.join(runs, name), "--steps", 1)
            path = os.path.join(runs, name, file)
            if name == "pipe":
                os.remove(path)
                os.mkfifo(path)
                continue
            with open(path, "ab") as out:
                out.write(b'{"step": 1, "more": "' + b"x" * 30_000_000 + b'"}\n')
        found = {run["run"]: run for run in json.loads(self.succeed(LLMC, "runs", runs, "--json").out)["runs"]}
        self.assertEqual({run["state"] for run in found.values()}, {"damaged"})
        self.assert_facts(found["history"]["problem"], "'history.jsonl'", "a line", "4 MiB")
        self.assertIn("not a file", found["pipe"]["problem"])
        self.ends(0, LLMC, "report", runs, "-o", self.path("long.html"), says=" 4 MiB")

    def test_files_of_others_are_not_read_without_a_limit(self):
        """Files that llmc wrote or expects, each now 64 GiB of zeros, in 3 GiB of memory."""

        def ends(code, *words, says="", cut=()):
            for path in cut:
                with open(path, "ab"):
                    os.truncate(path, 64 << 30)
            self.ends(code, "sh", "-c", 'ulimit -v 3000000 && exec "$@"', "sh", *words, says=says,
                      env=harness.environment(XDG_CONFIG_HOME=self.path("config")))

        devices, project, built = self.path("config", "llmc", "devices"), self.path("huge"), self.path("huge-set")
        os.makedirs(devices)
        for name in ("h200", "my-gpu"):
            ends(1, LLMC, "devices", name, says="File too large", cut=[os.path.join(devices, name + ".yaml")])
        self.succeed(LLMC, "emit", self.spec, "-o", project)
        kernels = harness.read(os.path.join(project, "kernels.h"))
        ends(0, LLMC, "emit", self.spec, "-o", project,
             cut=[os.path.join(project, name) for name in (".llmc-files", "kernels.h")])
        self.assertEqual(harness.read(os.path.join(project, "kernels.h")), kernels)
        shutil.copytree(os.path.dirname(self.trainer), self.path("copied"))
        ends(0, self.path("copied", "trainer"), "--run", self.path("huge-run"), "--steps", "1", "--base", self.folder,
             cut=[self.path("copied", name) for name in ("spec_directory", "spec_files")])
        partial = built + ".partial-4194305"  # no process has this number
        os.makedirs(partial)
        ends(0, LLMC, "data", "build", "--from",
             sysconfig.get_paths()["stdlib"] + "/json", "--glob", "*.py", "--vocab-size", "512", "-o", built,
             cut=[os.path.join(partial, "build.json")])

    def test_no_value_is_empty(self):
        """The parser refuses empty values for every option and argument of every command."""
        tried = 0
        for program, commands in ((LLMC, COMMANDS), (self.trainer, ("", "evaluate", "sample", "tune", "calibrate"))):
            for command in commands:
                words = [program, *command.split()]
                text = self.succeed(*words, "--help").out
                for option, value in re.findall(r"^  (?:-\w,)?(--?[\w-]+) (\S+)", text, re.MULTILINE):
                    if value in ("Excludes:", "Needs:"):
                        continue  # of a flag
                    for given in ([option, ""], [option + "="]):
                        done = harness.call(*words, *given)
                        self.assertEqual((done.code, done.out), (2, ""), f"{words} {given}\n{done.err}")
                        self.assertIn(f"{option}: is empty", done.err, f"{words} {given}")
                        tried += 1
                self.assertEqual(harness.call(*words, "").code, 2, f"{words} ''")
        self.assertGreater(tried, 120)

    def test_a_seed_is_not_negative(self):
        """CLI11 would make a large number of it."""
        for words in ((LLMC, "data", "build", "--from", self.spec, "--vocab-size", "320", "-o", self.path("seeded")),
                      (self.trainer, "sample", "--prompt", "1 2 3")):
            for seed in (("--seed", "-7"), ("--seed=-7", )):
                self.ends(2, *words, *seed, says="--seed: '-7' is negative. Write a whole number from 0 on, such as 7")

    def test_output_that_cannot_be_written(self):
        """Exit 2 and a message, whatever the command prints, and however much of it."""
        run, page = self.path("told"), self.path("told.html")
        self.succeed(self.trainer, "--run", run, "--steps", 2)
        checkpoint = os.path.join(run, "checkpoints", "step-00000002")
        commands = [[LLMC, *words]
                    for words in (["--help"], ["--version"], ["check", self.spec], ["check", self.spec, "--json"],
                                  ["check", self.spec, "seed=x", "--json"], ["config", self.spec], ["schema"],
                                  ["explain"], ["init"], ["plan", self.spec], ["plan", self.spec, "--json"],
                                  ["plan", self.spec, "--launches"], ["diff", self.spec, self.spec, "--full"],
                                  ["emit", self.spec, "-o", self.path("told-project")], ["runs", run],
                                  ["report", run, "-o", page], ["devices"], ["sizes"], ["doctor"],
                                  ["data", "info", self.path("train-0.bin")], ["checkpoint", "ls", run],
                                  ["checkpoint", "show", checkpoint], ["checkpoint", "verify", checkpoint],
                                  ["checkpoint", "diff", checkpoint, checkpoint, "--json"])]
        commands += [[self.trainer, *words]
                     for words in (["--help"], ["--version"], ["--plan"], ["--plan", "--json"],
                                   ["--run", run, "--batches", "1"], ["evaluate", "--checkpoint", run],
                                   ["sample", "--checkpoint", run, "--prompt", "1", "--tokens", "2"],
                                   ["--run", self.path("untold"), "--steps", "2"])]
        for number, command in enumerate(commands):
            full = number % 3 > 0  # closed, or full
            done = harness.call("sh", "-c", 'exec "$@" ' + (">/dev/full" if full else ">&-"), "sh", *command)
            self.assertEqual(done.code, 2, f"{command} {done.err}")
            self.assertIn(
                "standard output cannot be written: " + ("No space left on device" if full else "it is closed"),
                done.err, command)
        self.assertFalse(os.path.exists(self.path("untold", "metrics.jsonl")), "said before the first step")
        self.ends(0, "sh", "-c", 'exec "$@" >&-', "sh", self.trainer, "--run", self.path("untold"), "--steps", "2",
                  "--quiet")
        # Unread output is no failure of a training run; a command ends by the signal, as usual.
        for words, code in ((["--run", self.path("unread"), "--steps", "4"], 0), (["--run", run, "--batches",
                                                                                   "1:2"], 141)):
            done = harness.call("bash", "-c", '"$@" | true; exit ${PIPESTATUS[0]}', "bash", "sh", "-c",
                                'sleep 0.2; exec "$@"', "sh", self.trainer, *words)
            self.assertEqual(done.code, code, done.err)
        # The launcher of ranks behaves the same.
        ranks = [self.trainer, "--ranks", "2", "--steps", "4", "--run"]
        for words, code in (('"$@" >/dev/full', 2), ('"$@" | head -n 1 >/dev/null; exit ${PIPESTATUS[0]}', 0)):
            done = harness.call("bash", "-c", words, "bash", *ranks, self.path(f"ranks-{code}"))
            self.assertEqual(done.code, code, done.err)
        self.assertEqual(len(harness.json_lines(self.path("ranks-0", "metrics.jsonl"))), 4)
        # Messages that cannot be written change no exit code, and end up in no opened file.
        for closed in (">&- 2>&-", ">&- 2>&- <&-"):
            project = self.path("project" + str(len(closed)))
            self.assertEqual(
                harness.call("sh", "-c", f'exec "$@" {closed}', "sh", LLMC, "emit", self.spec, "-o", project).code, 2)
            self.assertEqual(harness.read(os.path.join(project, "spec.yaml")),
                             harness.read(self.path("told-project", "spec.yaml")))
        for code, *command in ((1, LLMC, "check", self.spec, "seed=x"), (1, LLMC, "check", self.spec, "seed=x",
                                                                         "--json"), (4, LLMC, "plan", self.spec,
                                                                                     "memory.budget=1MiB"),
                               (2, LLMC, "pan"), (6, self.trainer, "--resume", self.path("no-run")),
                               (2, self.trainer, "--steps", "x"), (0, self.trainer, "evaluate", "--checkpoint", run)):
            self.assertEqual(harness.call("sh", "-c", 'exec "$@" 2>/dev/full', "sh", *command).code, code, command)

    def test_a_stopped_run_that_can_say_nothing(self):
        """Standard error is full; or the terminal is closed, which is a signal as well."""
        for launcher in ((), ("--ranks", "2")):
            for closed in (False, True):
                run = self.path(f"mute-{len(launcher)}-{closed}")
                words = [self.trainer, *launcher, "--run", run, *harness.ENDLESS]
                terminal, end = pty.openpty()
                with open("/dev/full", "w") as full:
                    process = self.start(*words, stdin=end, stdout=end, stderr=end if closed else full,
                                         preexec_fn=lambda: fcntl.ioctl(0, termios.TIOCSCTTY, 0))
                os.close(end)
                metrics = os.path.join(run, "metrics.jsonl")
                while not os.path.exists(metrics) or harness.read(metrics).count(b"\n") < 3:
                    self.assertIsNone(process.poll())
                    os.read(terminal, 4096)
                if closed:
                    os.close(terminal)
                else:
                    process.send_signal(signal.SIGTERM)
                    harness.read_terminal(terminal)
                self.assertEqual(process.wait(timeout=harness.HANGS), 75, (launcher, closed))
                stopped = harness.json_lines(metrics)[-1]["step"]
                self.assertIn(f"step-{stopped:08d}", os.listdir(os.path.join(run, "checkpoints")))

    def test_a_file_that_may_grow_no_further(self):
        """`ulimit -f` causes a write error, not a signal."""
        done = harness.call("sh", "-c", 'ulimit -f 1 && exec "$@"', "sh", LLMC, "emit", self.spec, "-o",
                            self.path("short"))
        self.assertEqual(done.code, 2, done.err)
        done = harness.call("sh", "-c", 'ulimit -f 8 && exec "$@"', "sh", self.trainer, "--run", self.path("short-run"),
                            "--steps", "2")
        self.assertEqual(done.code, 6, done.err)

    def test_a_spec_through_a_pipe(self):
        """Relative paths are relative to the shell; functions that record a spec's location need a file."""
        read = f"<(cat '{self.spec}')"
        for words in (f"check {read}", f"config {read}", f"plan {read} optimizer.lr=1e-3",
                      f"plan {read} --device rtx-4090", f"emit {read} -o '{self.path('piped')}'"):
            self.ends(0, "bash", "-c", f"'{LLMC}' {words}", cwd=self.folder)
        self.assertEqual(harness.read(self.path("piped", "spec.yaml")),
                         harness.read(os.path.join(os.path.dirname(self.trainer), "spec.yaml")))
        self.assertNotIn("no file matches", harness.call("bash", "-c", f"'{LLMC}' check {read}", cwd=self.folder).err)
        self.assertIn("no file matches", harness.call("bash", "-c", f"'{LLMC}' check {read}", cwd="/").err)
        done = harness.call("bash", "-c", f"'{LLMC}' diff {read} <(cat '{self.spec}' | sed s/3.0e-3/1.0e-3/)",
                            cwd=self.folder)
        self.assertEqual(done.code, 1, done.err)
        self.assertIn("optimizer.lr", done.out)
        self.assertIn("(pipe):1:1: error",
                      self.ends(1, "bash", "-c", f"echo nonsense: 1 | '{LLMC}' check /dev/stdin").err)
        for command in ("compile", "run"):
            self.ends(2, "bash", "-c", f"'{LLMC}' {command} {read} -o '{self.path('piped-trainer')}'", cwd=self.folder,
                      says="through a pipe")

    def test_a_spec_without_its_base_is_not_planned(self):
        """Suggestions for a wrong value are checked against a complete spec only."""
        spec = self.path("extends.yaml")
        with open(spec, "w") as file:
            file.write("extends: none.yaml\n")
        self.ends(1, LLMC, "config", spec, "name=../x", "model.num_hidden_layers=1", says="none.yaml cannot be read")

    def test_no_more_threads(self):
        """Work of two threads falls back to one; work that needs another thread ends with 4."""
        folder = self.path("alone")
        os.makedirs(os.path.join(folder, "text"))
        with open(os.path.join(folder, "text", "a.txt"), "w") as file:
            file.write("some words\n" * 200)
        spec = harness.write_small(folder)
        os.chmod(self.folder, 0o755)
        os.chmod(folder, 0o777)
        user = {"user": 65534, "group": 65534, "extra_groups": []} if os.geteuid() == 0 else {}  # root has no limit
        for words, code in ((["emit", spec, "-o", os.path.join(folder, "out")], 0), ([
                "data", "build", "--from",
                os.path.join(folder, "text"), "--vocab-size", "320", "-o",
                os.path.join(folder, "set")
        ], 4)):
            done = subprocess.run([LLMC, *words], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
                                  env=harness.environment(), timeout=harness.HANGS,
                                  preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_NPROC, (1, 1)), **user)
            self.assertEqual(done.returncode, code, done.stderr)
            self.assertEqual("no more threads" in done.stderr, code == 4, done.stderr)
        self.assertFalse([name for name in os.listdir(folder) if "partial" in name])
        done = subprocess.run(
            [self.trainer, "--run", os.path.join(folder, "run"), "--threads", "99"], stdout=subprocess.PIPE,
            stderr=subprocess.PIPE, text=True, env=harness.environment(), timeout=harness.HANGS,
            preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_NPROC, (50, 50)), **user)
        self.assertEqual(done.returncode, 4, done.stderr)
        self.assertIn("no more threads", done.stderr)

    def test_what_may_not_be_looked_up_is_not_called_missing(self):
        folder, outside = self.path("denied"), self.path("outside")
        for path in (folder, outside):
            os.makedirs(path)
        spec = harness.write_small(outside)
        os.chmod(self.folder, 0o755)
        os.chmod(outside, 0o777)
        os.chmod(folder, 0)
        self.addCleanup(os.chmod, folder, 0o755)
        user = {"user": 65534, "group": 65534, "extra_groups": []} if os.geteuid() == 0 else {}  # root has no limit
        inside, out = os.path.join(folder, "x"), os.path.join(outside, "new")
        for words in (["checkpoint", "show", folder], ["checkpoint", "verify", inside], ["checkpoint", "ls", inside],
                      ["checkpoint", "export", inside, "-o",
                       out], ["checkpoint", "diff", folder,
                              folder], ["data", "build", "--from", inside, "--vocab-size", "320", "-o",
                                        out], ["data", "info", inside + ".bin"], ["check", inside + ".yaml"],
                      ["plan", spec, "--device", inside + ".yaml"], ["plan", spec, "--measured",
                                                                     inside], ["report", folder, "-o", out + ".html"]):
            done = subprocess.run([LLMC, *words], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
                                  env=harness.environment(), timeout=harness.HANGS, **user)
            with self.subTest(words=words):
                self.assertNotEqual(done.returncode, 0)
                self.assertIn("Permission denied", done.stderr)

    def test_hostile_surroundings(self):
        """A sample of tests/bench/hostile.py, which runs a thousand."""
        faults, codes = hostile.run(40, "suite", 2, LLMC, trainer=self.trainer)
        self.assertEqual(faults, [])
        self.assertGreaterEqual(len(codes), 3, codes)


if __name__ == "__main__":
    harness.main()
