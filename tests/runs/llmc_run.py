"""llmc run: arguments checked before compiling, and the command that resumes."""

import os
import shutil
import signal
import subprocess

import harness
from harness import TrainerTest


class LlmcRun(TrainerTest):

    def test_llmc_run_checks_the_words_first(self):
        """Arguments that the trainer would refuse are refused before compiling, with the trainer's message and code."""
        build, elsewhere = self.path("not-built"), harness.write_small(self.path("no-data"))
        os.remove(os.path.join(os.path.dirname(elsewhere), "val-0.bin"))
        for spec, code, words, said in ((self.spec, 2, ["--nonsense"], "--nonsense"), (self.spec, 2,
                                                                                       ["optimizer.lrr=1"], "mean lr?"),
                                        (self.spec, 2, ["model.hidden_size=48"],
                                         "is compiled in"), (self.spec, 2, ["--steps", "13"], "schedule.steps=13"),
                                        (self.spec, 1, ["schedule.warmup_steps=12"],
                                         "warmup_steps 12 "), (self.spec, 5, ["data.train.path=none.bin"],
                                                               "which is data.train.path of the command line"),
                                        (elsewhere, 5, [], "which is data.validation.path of the spec")):
            done = harness.call(harness.LLMC, "run", spec, "-o", build, "--", *words)
            self.assertEqual((done.code, os.path.exists(build)), (code, False), f"{words}\n{done.out}{done.err}")
            self.assertIn(said, done.err)
        # Data as the trainer would open it: a larger vocabulary, no header, too few tokens.
        wrong = self.path("wrong-words.bin")
        harness.write_shard(wrong, 500, 1, vocabulary=200)
        with open(self.path("raw.bin"), "wb") as file:
            file.write(b"\1\0" * 500)
        harness.write_shard(self.path("short.bin"), 24, 1)
        for words, said in ((["data.train.path=" + wrong], "but vocab_size is 97"),
                            (["data.train.path=" + self.path("raw.bin")],
                             "'format: nanogpt'"), (["data.train.path=" + self.path("short.bin")], "has no sample"),
                            (["data.validation.path=" + self.path("short.bin")],
                             "the validation data have 24 tokens, too few")):
            done = harness.call(harness.LLMC, "run", self.spec, "-o", build, "--", *words)
            self.assertEqual((done.code, os.path.exists(build)), (5, False), f"{words}\n{done.out}{done.err}")
            self.assertIn(said, done.err)
        # Each missing file, and the command with a placeholder for each.
        done = harness.call(harness.LLMC, "run", self.spec, "-o", build, "data.train.path=/no.bin", "optimizer.lr=1e-4",
                            "--", "--steps", "2", "data.validation.path=none.bin")
        self.assertEqual((done.code, os.path.exists(build)), (5, False), done.err)
        self.assertIn(
            "\n  llmc run " + self.spec + " optimizer.lr=1e-4 -- --steps 2 "
            "data.train.path=PATH data.validation.path=PATH\n", done.err)
        if not os.path.exists("/proc/driver/nvidia"):
            done = harness.call(harness.LLMC, "run", self.spec, "-o", build, "target.kind=cuda",
                                "precision.compute=bf16", "model.head_dim=16")
            self.assertEqual((done.code, os.path.exists(build)), (3, False), done.err)
            self.assertIn("no NVIDIA driver", done.err)
        usage = self.succeed(harness.LLMC, "run", self.spec, "-o", build, "--", "--help").out
        self.assertFalse(os.path.exists(build))
        self.assertEqual(usage, self.succeed(self.trainer, "--help").out)

    def test_seconds_are_the_trainers_own(self):
        """Compile time of llmc does not count as the run's, although one process does both."""
        tools, link = self.path("tools"), self.path("linked-at")
        os.makedirs(tools)
        compiler = shutil.which("g++")
        with open(os.path.join(tools, "g++"), "w") as file:  # compiling takes a second for certain; notes when it links
            file.write(
                f'#!/bin/sh\ncase "$*" in *program.cpp*) sleep 1;; *-fopenmp\\ -o*) cat /proc/uptime > {link};; esac\n'
                f'exec {compiler} "$@"\n')
        os.chmod(os.path.join(tools, "g++"), 0o755)
        environment = harness.environment(PATH=tools + ":" + os.environ["PATH"])
        run = self.path("timed run")
        self.succeed(harness.LLMC, "run", self.spec, "-o", self.path("with-timing"), "--", "--run", run, "--steps", 2,
                     env=environment)
        with open("/proc/uptime") as now, open(link) as then:
            most = float(now.read().split()[0]) - float(then.read().split()[0])
        seconds = [line["seconds"] for line in harness.json_lines(os.path.join(run, "metrics.jsonl"))]
        self.assertTrue(0 < seconds[0] < seconds[1] <= most, f"{seconds} of {most}")

    def test_run_time_words_of_llmc_run_belong_to_the_run(self):
        """The trainer keeps its defaults, the run its values; the printed resume command works literally."""
        folder = self.path("own")
        spec, build, run = harness.write_small(folder), self.path("own-build"), self.path("own run")
        words = ["--", "--run", run, "--steps", 2]
        self.succeed(harness.LLMC, "run", spec, "-o", build, "optimizer.lr=1e-4", "data.train.path=train-0.bin", *words,
                     cwd=folder)
        trainer = os.path.join(build, "trainer")
        self.assertIn("optimizer.lr=0.003", self.succeed(trainer, "--help").out)
        again = self.succeed(trainer, "--run", run, "--steps", 3, cwd="/").out
        self.assertRegex(again, r"(?m)^value   optimizer\.lr=0\.0001 \(.* 0\.003\)$")
        self.assertRegex(again, r"(?m)^value   .*keeps its own optimizer\.lr")
        self.assertEqual([line["step"] for line in harness.json_lines(os.path.join(run, "metrics.jsonl"))], [1, 2, 3])
        # Divisors for micro_batch: auto are known when the trainer is built.
        self.succeed(harness.LLMC, "run", spec, "-o", self.path("auto-build"), "batch.micro_batch=auto",
                     "batch.tokens=48", "--", "--run", self.path("auto run"), "--steps", 1)
        # Stopped by a signal: the printed command is run in a shell.
        process = self.start(trainer, "--run", run, "schedule.steps=1000000", "sampling.prompts=[\"4 5\"]",
                             stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True)
        self.until(process, lambda: harness.read(os.path.join(run, "metrics.jsonl")).count(b"\n") >= 5)
        process.send_signal(signal.SIGHUP)
        said = process.communicate()[1]
        self.assertEqual(process.returncode, 75, said)
        command = said.split(" with\n  ")[1].strip()
        done = self.succeed(
            "sh", "-c", command + " --steps $(($(ls " + f"'{run}/checkpoints' | tail -n 1 | sed 's/step-0*//') + 1))",
            cwd="/")
        self.assertIn("resumed at step", done.out)
        # An edited spec next to the trainer is reported; one with a byte order mark does not count as edited.
        marked = os.path.join(folder, "marked.yaml")
        with open(marked, "wb") as file:
            file.write(b"\xef\xbb\xbf" + harness.read(spec))
        self.assertEqual(
            self.succeed(self.compile(marked, "marked"), "--run", self.path("marked-run"), "--steps", 1).err, "")
        with open(spec, "a") as file:
            file.write("# edited\n")
        self.assertIn(" was edited after", self.succeed(trainer, "--run", self.path("edited"), "--steps", 1).err)

    def test_the_printed_command_builds_its_own_trainer(self):
        """The command includes compiled-in overrides, so it works even if the folder holds another trainer by then."""
        folder = self.path("overridden")
        spec, run = harness.write_small(folder), os.path.join(folder, "a run")
        words = [
            "run", spec, "model.intermediate_size=60", "schedule.steps=1000000",
            "data.train.path=" + os.path.join(folder, "train-0.bin")
        ]
        process = self.start(harness.LLMC, *words, "--", "--run", run, "--follow-spec", cwd=folder,
                             stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True)
        metrics = os.path.join(run, "metrics.jsonl")
        self.until(process, lambda: os.path.exists(metrics) and harness.read(metrics).count(b"\n") >= 3)
        process.send_signal(signal.SIGTERM)
        said = process.communicate()[1]
        self.assertEqual(process.returncode, 75, said)
        command = said.split(" with\n  ")[1].strip()
        self.assertNotIn("--follow-spec", command)
        self.succeed(harness.LLMC, "compile", spec, cwd=folder)
        step = len(harness.json_lines(metrics)) + 2
        done = self.succeed("sh", "-c", f"{command} --steps {step}", cwd="/")
        self.assertIn("resumed at step", done.out)
        history = harness.json_lines(os.path.join(run, "history.jsonl"))
        self.assertEqual([len(history), history[1]["changed"], history[1]["build"]], [2, {}, history[0]["build"]])

    def test_the_spec_of_a_run_is_no_spec_to_run(self):
        """`llmc run` of it prints how to resume; `llmc compile` makes a trainer that does."""
        folder = self.path("inside")
        spec = harness.write_small(folder)
        self.succeed(self.trainer, "--run", os.path.join(folder, "run"), "--steps", 1)
        own = os.path.join(folder, "run", "spec.yaml")
        before = harness.tree(folder)
        checkpoint = os.path.join(folder, "run", "checkpoints", "step-00000001")
        for path, how in ((own, f" --run {os.path.dirname(own)} "), (os.path.join(checkpoint, "spec.yaml"),
                                                                     f"--resume {checkpoint}. ")):
            done = harness.call(harness.LLMC, "run", path, "name=small", f"data.train.path={spec}", cwd=folder)
            self.assertEqual((done.code, done.out), (2, ""), done.err)
            self.assertIn(how, done.err)
            self.assertIn("copy the file", done.err)
        self.assertEqual(harness.tree(folder), before)
        done = self.succeed(self.compile(own, "of-a-run"), "--run", os.path.dirname(own), "--steps", 2)
        self.assertEqual((done.err, "note " in done.out), ("", False), done.out)


if __name__ == "__main__":
    harness.main()
