"""The trainer's command line: accepted arguments, and messages for refused ones."""

import json
import os
import re
import shutil
import signal
import struct
import subprocess
import time

import harness
import timelines
from harness import RunTest

QUIET = ("--no-final-checkpoint", "--steps", 3, "checkpoint.every=0", "evaluation.every=0", "sampling.every=0")


class TrainerCli(RunTest):

    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        cls.spec = harness.write_small(cls.folder)
        cls.trainer = cls.compile(cls.spec, "a")

    def refused(self, code, *words, trainer=None):
        done = harness.call(trainer or self.trainer, *words)
        self.assertEqual(done.code, code, f"{words}\n{done.out}{done.err}")
        self.assertTrue(done.err.startswith("error: "), done.err)
        return done.err

    def test_plan(self):
        text = self.succeed(self.trainer, "--plan").out
        plan = json.loads(self.succeed(self.trainer, "--plan", "--json").out)
        self.assertEqual(plan["name"], "small")
        self.assertIn(plan["fingerprint"], text)
        planned = self.succeed(harness.LLMC, "plan", self.spec).out
        self.assertEqual((text, planned[len(text):][:16]),
                         (planned[:len(text)], "\nmost that fits:"))  # not planned by a trainer

    def wanting(self, name, instructions):
        """A copy of the trainer that claims its kernels may use `instructions`, numbered as in
        runtime/device/cpu/instructions.h."""
        copy = self.path(name)
        shutil.copy(self.trainer, copy)
        address = next(
            int(line.split()[0], 16) for line in self.succeed("nm", copy).out.splitlines()
            if line.endswith("kInstructionsE"))
        with open(copy, "r+b") as file:
            head = file.read(64)
            table, (size, count) = struct.unpack_from("<Q", head, 32)[0], struct.unpack_from("<HH", head, 54)
            for number in range(count):
                file.seek(table + number * size)
                kind, _, offset, begin, _, bytes_, _, _ = struct.unpack("<IIQQQQQQ", file.read(56))
                if kind == 1 and begin <= address < begin + bytes_:  # PT_LOAD
                    file.seek(offset + address - begin)
                    file.write(struct.pack("<Q", instructions))
        return copy

    def test_a_processor_without_the_instructions_is_refused(self):
        xop, avx512fp16 = 1 << 14, 1 << 28  # of two vendors: no processor has both
        trainer = self.wanting("elsewhere", xop | avx512fp16)
        run = self.path("elsewhere-run")
        for words in ([], ["--ranks", 2], ["calibrate"], ["sample", "--checkpoint", run, "--prompt",
                                                          "1"], ["evaluate", "--checkpoint", run]):
            said = self.refused(3, *(["--run", run, *words] if not words or words[0] == "--ranks" else words),
                                trainer=trainer)
            self.assertRegex(
                said,
                r"^error: this trainer is built for \S+, and this processor \(\S+\) has no [a-z0-9., -]+; compile it with target\.arch: \S+, or run it "
            )
        self.assertFalse(os.path.exists(run))
        for words in (["--version"], ["--help"], ["--plan"]):
            self.succeed(trainer, *words)

    def test_what_is_compiled_for_one_arch_has_no_code_that_others_share(self):
        """The linker keeps one copy of an inline function: one from a kernel's source would run before the processor
        is checked."""
        objects = os.path.join(os.path.dirname(self.trainer), "objects")
        shared = {}
        for name in os.listdir(objects):
            if name.endswith(".o"):
                symbols = [line.split() for line in self.succeed("nm", os.path.join(objects, name)).out.splitlines()]
                if not any(symbol[-1] == "main" for symbol in symbols):
                    shared[name] = [
                        symbol[-1] for symbol in symbols if symbol[-2] in "WV" and not symbol[-1].startswith("DW.ref.")
                    ]
        self.assertGreater(len(shared), 5)
        self.assertEqual([names for names in shared.values() if names], [])

    def test_a_shard_that_is_cut_short_ends_the_run(self):
        """The shard is mapped, so a missing page would end the process by SIGBUS."""
        shard, spare = self.path("cut.bin"), self.path("spare.bin")
        harness.write_shard(spare, 4000 * 24 + 1, 9)
        for number, ranks in enumerate(((), ("--ranks", 2))):
            shutil.copy(spare, shard)
            run = self.path(f"cut-{number}")
            command = [
                self.trainer, "--run", run, f"data.train.path={shard}", *harness.ENDLESS, "checkpoint.every=5",
                "--threads", 1, *ranks
            ]
            process = subprocess.Popen([str(word) for word in command], stdout=subprocess.PIPE, stderr=subprocess.PIPE,
                                       env=harness.environment(), text=True)
            try:
                next(line for line in process.stdout if re.search(r"step +[1-9]\d/", line))  # the tenth or later
                os.truncate(shard, 1024)
                out, err = process.communicate(timeout=harness.HANGS)
            finally:
                process.kill()
            self.assertEqual(process.returncode, 5, out + err)
            self.assertRegex(err, r"'\S*cut\.bin': was cut short from \d+ to 1024 bytes while sample \d+ was read")
            shutil.copy(spare, shard)
            last = max(
                int(name.split("-")[1]) for name in os.listdir(os.path.join(run, "checkpoints"))
                if name.startswith("step-"))
            self.succeed(*command, "--steps", last + 2)

    def test_help(self):
        text = self.succeed(self.trainer, "--help").out
        for word in ("--run", "--steps", "--resume", "--plan", "--trace", "optimizer.lr=0.003", "Examples:"):
            self.assertIn(word, text)

    def test_threads_that_are_bound_have_a_processor_each(self):
        """With OMP_PROC_BIND libgomp binds the first thread before main, which counts processors and may restart
        itself."""
        env = harness.environment(OMP_PROC_BIND="true")
        for key in ("OMP_NUM_THREADS", "OMP_WAIT_POLICY", "GOMP_SPINCOUNT"):
            env.pop(key, None)
        processors = os.sched_getaffinity(0)
        command = [self.trainer, "--run", self.path("bound"), *harness.ENDLESS, "checkpoint.every=0"]
        process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, env=env, text=True)
        try:
            said = next(line for line in process.stdout if line.startswith("device"))
            self.assertIn(f" {len(processors)} thread", said)
            next(line for line in process.stdout if line.startswith("step"))
            tasks = [int(task) for task in os.listdir(f"/proc/{process.pid}/task")]
            self.assertEqual(set().union(*(os.sched_getaffinity(task) for task in tasks)), processors)
        finally:
            process.kill()
            process.communicate()

    def test_threads_are_those_that_openmp_gives(self):
        """Fewer threads than requested would leave the missing threads' part undone."""

        def environment(**variables):
            return {
                key: value
                for key, value in harness.environment(**variables).items()
                if key != "OMP_NUM_THREADS" or key in variables
            }

        one = (*QUIET, "--threads", 1)
        self.succeed(self.trainer, "--run", self.path("one-thread"), *one)
        expected = [line["loss"] for line in harness.json_lines(self.path("one-thread", "metrics.jsonl"))]
        for name, variables in (("limit", {"OMP_THREAD_LIMIT": "1"}), ("levels", {"OMP_MAX_ACTIVE_LEVELS": "0"}),
                                ("both", {"OMP_NUM_THREADS": "4", "OMP_THREAD_LIMIT": "1"})):
            done = self.succeed(self.trainer, "--run", self.path(name), *QUIET, env=environment(**variables))
            self.assertRegex(done.out, r"(?m)^device .*, 1 thread,")
            self.assertEqual([line["loss"] for line in harness.json_lines(self.path(name, "metrics.jsonl"))], expected,
                             name)
        for words, variables, said in ((("--threads", 2), {"OMP_THREAD_LIMIT": "1"}, "OpenMP gives 1"),
                                       ((), {"OMP_NUM_THREADS": "99999"}, "write at most 4096")):
            done = harness.call(self.trainer, "--run", self.path("never"), *QUIET, *words, env=environment(**variables))
            self.assertEqual(done.code, 2, done.err)
            self.assertIn(said, done.err)

    def test_a_trace_that_cannot_be_written_is_the_option_s_error(self):
        file = self.path("no-folder-for-a-trace")
        with open(file, "w", encoding="utf-8"):
            pass
        said = self.refused(2, "--run", self.path("traces-nothing"), *QUIET, "--trace", os.path.join(file, "trace"))
        self.assertIn("cannot create", said)
        self.assertFalse(os.path.exists(self.path("traces-nothing", "metrics.jsonl")))

    def test_timing_is_tried_before_training(self):
        self.assertIn(
            "cannot create",
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
        for words, said in (([self.path("no-such-folder", "t.json")], "cannot create"),
                            ([self.folder], "name a file in it"), ([file, "--steps",
                                                                    "4"], "this run trains steps 1 to 4"),
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

        def refused(said, *words, **changes):
            changed, other = self.path("changed.json"), json.loads(json.dumps(timeline))
            for key, value in changes.items():
                other["otherData" if key in other["otherData"] else "traceEvents"][key if key in
                                                                                   other["otherData"] else -1] = value
            with open(changed, "w") as out:
                json.dump(other, out)
            done = harness.call(harness.LLMC, "plan", self.spec, "--measured", changed, *words)
            self.assertEqual(done.code, 2, done.out)
            self.assertIn(said, done.err)

        refused("this plan has fingerprint", "model.hidden_size=40")
        refused("give the run's own values", "batch.tokens=192")
        refused("in this plan it runs", world_size=2)  # with two ranks, each has one of the two micro-batches
        refused("it has version 2", version=2)
        refused(
            "which the plan has not",
            last={"ph": "X", "tid": 1, "cat": "kernel", "name": "x", "dur": 1, "args": {"region": "y", "runs": "z"}})
        with open(self.path("no-timeline.json"), "w") as out:
            out.write("[1]")
        for name, said in (("no-timeline.json", "this is no timeline"), ("nowhere.json", "no such file")):
            done = harness.call(harness.LLMC, "plan", self.spec, "--measured", self.path(name))
            self.assertEqual(done.code, 2, done.out)
            self.assertIn(said, done.err)

    def test_tune_is_for_gpus(self):
        self.assertIn("tune is for GPUs", self.refused(2, "tune"))
        self.assertFalse(os.path.exists(os.path.join(os.path.dirname(self.trainer), "tuned.json")))

    def test_unknown_key(self):
        self.assertIn('there is no key "Lr" in optimizer; did you mean lr?', self.refused(2, "optimizer.Lr=1"))
        self.refused(2, "nonsense=1")
        self.refused(2, "optimizer.lr")
        self.refused(2, "optimizer.lr=fast")
        self.refused(2, "optimizer.lr=1e-3", "optimizer.lr=2e-3")
        self.refused(2, "--nonsense")
        self.refused(2, "--steps", "0")
        self.refused(2, "--steps", "13")

    def test_compiled_in_key(self):
        """Both values are shown; the same value is no change."""
        error = self.refused(2, "model.hidden_size=48")
        self.assertIn("36", error)
        self.assertIn("48", error)
        self.assertIn("model.hidden_size", error)
        self.refused(2, "precision.compute=bf16")
        self.refused(2, "memory.recompute=full")
        self.succeed(self.trainer, "--run", self.path("same"), "--steps", 1, "model.hidden_size=36")

    def test_another_specs_run_folder(self):
        run = self.path("mine")
        self.succeed(self.trainer, "--run", run, "--steps", 2)
        other = self.compile(self.spec, "b", "model.num_hidden_layers=2")
        before = harness.tree(run)
        named = "holds a run of another model: model.num_hidden_layers 3 -> 2; choose another --run"
        self.assertIn(named, self.refused(6, "--run", run, trainer=other))
        # llmc run reports the same before it writes or compiles anything.
        build = self.path("never-built")
        done = harness.call(harness.LLMC, "run", self.spec, "-o", build, "model.num_hidden_layers=2", "--", "--run",
                            run)
        self.assertEqual((done.code, os.path.exists(build)), (6, False), done.err)
        self.assertIn(named, done.err)
        self.assertEqual(harness.tree(run), before)

    def test_llmc_run_checks_the_words_first(self):
        """Arguments that the trainer would refuse are refused before compiling, with the trainer's message and code."""
        build, elsewhere = self.path("not-built"), harness.write_small(self.path("no-data"))
        os.remove(os.path.join(os.path.dirname(elsewhere), "val-0.bin"))
        for spec, code, words, said in ((self.spec, 2, ["--nonsense"],
                                         "--nonsense"), (self.spec, 2, ["optimizer.lrr=1"], "did you mean lr?"),
                                        (self.spec, 2, ["model.hidden_size=48"],
                                         "is compiled in"), (self.spec, 2, ["--steps",
                                                                            "13"], "goes past schedule.steps 12"),
                                        (self.spec, 1, ["schedule.warmup_steps=12"], "leaves nothing of 12 steps"),
                                        (self.spec, 5, ["data.train.path=none.bin"],
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
                            (["data.train.path=" + self.path("raw.bin")], "say 'format: nanogpt'"),
                            (["data.train.path=" + self.path("short.bin")],
                             "holds no sample"), (["data.validation.path=" + self.path("short.bin")],
                                                  "the validation data hold 24 tokens, too few")):
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

    def test_a_copied_project_does_not_train_into_the_originals_run(self):
        """A copy of the folder built by llmc compile without the spec is refused; a copied tree has its own data and
        run."""
        tree = self.path("tree")
        spec = harness.write_small(os.path.join(tree, "specs"))
        self.succeed(harness.LLMC, "compile", spec, cwd=tree)
        self.succeed(os.path.join(tree, "build", "small", "trainer"), "--steps", 1)
        before = harness.tree(tree)
        shutil.copytree(os.path.join(tree, "build", "small"), self.path("copy"))
        error = self.refused(2, "--steps", 2, trainer=self.path("copy", "trainer"))
        for word in ("--base DIR", self.path("copy"), os.path.join(tree, "specs")):
            self.assertIn(os.path.realpath(word) if os.path.isabs(word) else word, error)
        shutil.copytree(tree, self.path("further", "tree"))
        done = self.succeed(self.path("further", "tree", "build", "small", "trainer"), "--steps", 2)
        self.assertIn(f"run     {self.path('further', 'tree', 'specs', 'runs', 'small')}, resumed at step 1", done.out)
        self.assertEqual(harness.tree(tree), before)
        self.assertEqual(done.err, "")

    def test_learning_rate_is_no_other_run(self):
        """A run-time value may change between starts; a seed may not."""
        run = self.path("lr")
        self.succeed(self.trainer, "--run", run, "--steps", 2)
        self.succeed(self.trainer, "--run", run, "--steps", 4, "optimizer.lr=1e-4")
        self.assertIn("seed", self.refused(6, "--run", run, "seed=7"))
        self.assertIn("data.seed", self.refused(6, "--run", run, "data.seed=7"))

    def test_a_derived_value_follows_its_keys(self):
        """The warm-up of 2 % of the steps: the same number from llmc and from the trainer."""
        spec = harness.write_small(self.path("derived"), harness.SMALL.replace(", warmup_steps: 3", ""))
        trainer = self.compile(spec, "derived-trainer")
        self.succeed(trainer, "--run", self.path("derived-run"), "--steps", 1, "schedule.steps=1000")
        with open(self.path("derived-run", "spec.yaml")) as file:
            self.assertRegex(file.read(), r"warmup_steps: 20 +# default: 2 % of steps, rounded down\n")
        rows = json.loads(self.succeed(harness.LLMC, "config", spec, "schedule.steps=1000", "--json").out)
        self.assertEqual({row["key"]: row["value"] for row in rows}["schedule.warmup_steps"], 20)

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
        self.assertIn("value   optimizer.lr=0.0001 (the trainer was built with 0.003)\n", again)
        self.assertIn("value   the run keeps its own optimizer.lr", again)
        self.assertEqual([line["step"] for line in harness.json_lines(os.path.join(run, "metrics.jsonl"))], [1, 2, 3])
        # Divisors for micro_batch: auto are known when the trainer is built.
        self.succeed(harness.LLMC, "run", spec, "-o", self.path("auto-build"), "batch.micro_batch=auto",
                     "batch.tokens=48", "--", "--run", self.path("auto run"), "--steps", 1)
        # Stopped by a signal: the printed command is run in a shell.
        process = subprocess.Popen([trainer, "--run", run, "schedule.steps=3000", "sampling.prompts=[\"4 5\"]"],
                                   stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, universal_newlines=True)
        while harness.read(os.path.join(run, "metrics.jsonl")).count(b"\n") < 5:
            time.sleep(0.01)
        process.send_signal(signal.SIGHUP)
        said = process.communicate()[1]
        self.assertEqual(process.returncode, 75, said)
        command = said.split("resume with\n  ")[1].strip()
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
        self.assertIn("was edited after this trainer was compiled",
                      self.succeed(trainer, "--run", self.path("edited"), "--steps", 1).err)

    def test_the_printed_command_builds_its_own_trainer(self):
        """The command includes compiled-in overrides, so it works even if the folder holds another trainer by then."""
        folder = self.path("overridden")
        spec, run = harness.write_small(folder), os.path.join(folder, "a run")
        words = [
            "run", spec, "model.intermediate_size=60", "schedule.steps=3000",
            "data.train.path=" + os.path.join(folder, "train-0.bin")
        ]
        process = subprocess.Popen([harness.LLMC, *words, "--", "--run", run, "--follow-spec"], cwd=folder,
                                   env=harness.environment(), stdout=subprocess.DEVNULL, stderr=subprocess.PIPE,
                                   universal_newlines=True)
        metrics = os.path.join(run, "metrics.jsonl")
        while not os.path.exists(metrics) or len(harness.json_lines(metrics)) < 3:
            self.assertIsNone(process.poll())
            time.sleep(0.01)
        process.send_signal(signal.SIGTERM)
        said = process.communicate()[1]
        self.assertEqual(process.returncode, 75, said)
        command = said.split("resume with\n  ")[1].strip()
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
        for path, how in ((own, f"start its trainer with --run {os.path.dirname(own)} "),
                          (os.path.join(checkpoint, "spec.yaml"), f"--resume {checkpoint};")):
            done = harness.call(harness.LLMC, "run", path, "name=small", f"data.train.path={spec}", cwd=folder)
            self.assertEqual((done.code, done.out), (2, ""), done.err)
            self.assertIn(how, done.err)
            self.assertIn("copy the file", done.err)
        self.assertEqual(harness.tree(folder), before)
        done = self.succeed(self.compile(own, "of-a-run"), "--run", os.path.dirname(own), "--steps", 2)
        self.assertEqual((done.err, "note " in done.out), ("", False), done.out)

    def test_moves(self):
        """From micro-batch 2 to 1, to recompute: full, to sequences twice as long: losses continue, and the history
        records it."""
        clean, run = self.path("clean"), self.path("moving")
        self.succeed(self.trainer, "--run", clean)
        self.succeed(self.trainer, "--run", run, "--steps", 3)
        moves = [("micro", 6, ["batch.micro_batch=1", "memory.loss_chunk=24"]),
                 ("recomputing", 9, ["batch.micro_batch=1", "memory.loss_chunk=24", "memory.recompute=full"])]
        for name, stop, overrides in moves:
            done = self.succeed(self.compile(self.spec, name, *overrides), "--run", run, "--steps", stop)
            self.assertIn("its bits differ", done.err)
        losses = {line["step"]: line["loss"] for line in harness.json_lines(os.path.join(clean, "metrics.jsonl"))}
        for line in harness.json_lines(os.path.join(run, "metrics.jsonl")):
            self.assertAlmostEqual(line["loss"], losses[line["step"]], delta=0 if line["step"] <= 3 else 2e-5)
        done = self.succeed(
            self.compile(self.spec, "longer", "batch.sequence_length=48", "batch.micro_batch=1",
                         "memory.loss_chunk=24"), "--run", run)
        self.assertIn("batch.sequence_length 24 -> 48", done.err)
        metrics = harness.json_lines(os.path.join(run, "metrics.jsonl"))
        self.assertEqual(len(metrics), 12)
        # Other samples with longer contexts; the held-out ones are the same tokens.
        clean_val = harness.json_lines(os.path.join(clean, "metrics.jsonl"))[-1]["val_loss"]
        self.assertAlmostEqual(metrics[-1]["val_loss"], clean_val, delta=0.1)  # 0.06 on this data
        told = [start["changed"] for start in harness.json_lines(os.path.join(run, "history.jsonl"))]
        self.assertEqual([sorted(changed) for changed in told],
                         [[], ["batch.micro_batch", "memory.loss_chunk"], ["memory.recompute"],
                          ["batch.sequence_length", "memory.recompute"]])
        self.assertEqual(told[3]["batch.sequence_length"], ["24", "48"])

    def test_resume_none_overwrites_nothing(self):
        run = self.path("none")
        self.succeed(self.trainer, "--run", run, "--steps", 2)
        before = harness.tree(run)
        self.refused(6, "--run", run, "--resume", "none")
        self.assertEqual(harness.tree(run), before)
        self.assertIn("nothing to do", self.succeed(self.trainer, "--run", run, "--steps", 2).out)

    def test_data_errors(self):
        self.refused(5, "--run", self.path("x"), f"data.train.path={self.folder}/none-*.bin")
        wrong = self.path("wrong.bin")
        harness.write_shard(wrong, 500, 1, vocabulary=200)
        error = self.refused(5, "--run", self.path("x"), f"data.train.path={wrong}")
        self.assertIn("97", error)


if __name__ == "__main__":
    harness.main()
