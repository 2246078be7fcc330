"""Several ranks train like one: under MPI, with every value of parallel.shard, and when one of them is lost."""

import json
import os
import re
import shlex
import signal
import socket
import struct
import subprocess
import time

import events
import harness
import processes
from harness import RunTest

STEPS = 12
SHARDS = ("optimizer", "none", "gradients", "parameters")
# Five micro-batches of one sequence: two, three and four ranks run unequal numbers of them, and audit the first step's
# loss.
UNEVEN = ("batch.micro_batch=1", "batch.tokens=120", "memory.loss_chunk=12", "memory.recompute={every: 2}",
          "audit.compute=logits")
# A rank's results for a micro-batch have the same bits everywhere. Gradients of micro-batches and sums of squares are
# added in another order: a few roundings of 2^-24.
SUMS = 1e-6
# AdamW's first steps divide a gradient by its own size, so that rounding of a tiny one moves a weight by up to lr. bf16
# copies round that up to 2^-8 of a weight, which changes later additions to a moment: by 1.5e-2 for a bias of 16
# elements, when another element fell on the other side of a tie.
TRAINED = {"fp32": 1e-4, "bf16": 3e-2}
# For a tensor's moments: 0.078 for that bias with three ranks and GEMMs in AMX tiles, which round more often. A missing
# or doubled part of a step is a fifth of a gradient.
MOMENTS = {"fp32": 1e-4, "bf16": 0.15}
# A rank's gradients are rounded to bf16 before summation, and so is their sum: 2^-9 of an element each.
SENT_IN_BF16 = 2**-8


def mpirun(ranks, *command):
    """Command line that starts `command` on several ranks of one thread each."""
    return ["mpirun", "-n", str(ranks), "--oversubscribe", "--bind-to", "none", *map(str, command)]


def mpirun_each(*commands, folders=(".", ".")):
    """Command line that starts each command as one rank, in its folder. A shell chooses the command, because mpirun of
    Open MPI 5.0.7 crashes on a ":" between two."""
    ranks = enumerate(zip(commands, folders))
    cases = [
        f"{rank}) cd {shlex.quote(folder)} && exec {shlex.join(map(str, words))};;" for rank, (words, folder) in ranks
    ]
    return mpirun(len(commands), "sh", "-c", f"case $OMPI_COMM_WORLD_RANK in {' '.join(cases)} esac")


def environment():
    changes = {"OMP_NUM_THREADS": "1"}
    if os.geteuid() == 0:  # as in a container; Open MPI requires a confirmation
        changes.update(OMPI_ALLOW_RUN_AS_ROOT="1", OMPI_ALLOW_RUN_AS_ROOT_CONFIRM="1")
    return harness.environment(**changes)


class RanksTest(RunTest):
    """Trainers under mpirun, and faults of one rank."""

    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        cls.spec = harness.write_small(cls.folder)
        cls.trainers = {}

    def trainer(self, compute="fp32", shard="optimizer", sent="fp32"):
        key = (compute, shard, sent)
        if key not in self.trainers:
            self.trainers[key] = self.compile(self.spec, "-".join(key), f"precision.compute={compute}",
                                              f"parallel.shard={shard}", f"parallel.gradient_dtype={sent}", *UNEVEN)
        return self.trainers[key]

    def gradients(self, trace, step=0):
        return harness.tensors(os.path.join(self.path(trace), f"step-{step}", "gradients.safetensors"))

    def launch(self, ranks, *command, cwd=None, **variables):
        words = [str(word) for word in command] if ranks == 1 else mpirun(ranks, *command)
        return harness.call(*words, cwd=cwd, env=environment() | variables)

    def train(self, ranks, trainer, name, *words):
        done = self.launch(ranks, trainer, "--run", self.path(name), *words)
        self.assertEqual(done.code, 0, f"{ranks} ranks {words}\n{done.out}{done.err}")
        return done

    def checkpoint(self, name, step=STEPS):
        return self.path(name, "checkpoints", f"step-{step:08d}")

    def start_endless(self, name, *words, launcher=None, **variables):
        """A long run, returned once it has saved. `launcher`: arguments before the trainer's own, without mpirun."""
        keys = {str(word).split("=")[0] for word in words}
        endless = [word for word in harness.ENDLESS if word.split("=")[0] not in keys]
        command = [
            self.trainer("fp32"), "--run",
            self.path(name), "--peer-timeout", 3, *endless, "checkpoint.every=20", *words
        ]
        command = mpirun(
            3, *command) if launcher is None else [str(word) for word in (command[0], *launcher, *command[1:])]
        with open(self.path(name + ".log"), "w") as log:
            process = self.start(*command, stdout=log, stderr=log, env=environment() | variables)
        self.until(process, lambda: self.saved(name), self.path(name + ".log"))
        return process

    def saved(self, name):
        """Steps that a run reports as saved: with fast steps a checkpoint may be removed before it is seen."""
        return [int(step) for step in re.findall(rb"saved \S*/step-(\d{8})", harness.read(self.path(name + ".log")))]

    def rank_of(self, name, rank):
        """Process of a run's rank."""
        for pid in filter(str.isdigit, os.listdir("/proc")):
            try:
                words, variables = (harness.read(f"/proc/{pid}/{file}").split(b"\0") for file in ("cmdline", "environ"))
            except OSError:
                continue
            if words[0].endswith(b"trainer") and self.path(
                    name).encode() in words and f"OMPI_COMM_WORLD_RANK={rank}".encode() in variables:
                return int(pid)
        self.fail(f"rank {rank} of {name} does not run")

    def ended(self, process, name, seconds=60):
        code = process.wait(timeout=seconds)
        return code, harness.read(self.path(name + ".log")).decode(errors="replace")


class Ranks(RanksTest):

    def assert_near(self, ours, theirs, bound, where):
        """Compares the tensors of two checkpoints."""
        self.assertEqual(sorted(os.listdir(ours)), sorted(os.listdir(theirs)), where)
        for file in ("model.safetensors", "optimizer.safetensors"):
            a, b = (harness.tensors(os.path.join(folder, file)) for folder in (ours, theirs))
            # A bias of k shifts all scores of a query equally: its gradient is only rounding, which AdamW treats as a
            # gradient.
            a, b = ({name: values for name, values in of.items() if not name.endswith("k_proj.bias")} for of in (a, b))
            difference, tensor = harness.relative_difference(a, b)
            self.assertLess(difference, bound, f"{where}: {tensor}")

    def test_any_number_trains_alike(self):
        for compute in ("fp32", "bf16"):
            alone = None
            for shard in SHARDS:
                trainer = self.trainer(compute, shard)
                for ranks in (1, 2, 3, 4):
                    where = f"{compute}, shard {shard}, {ranks} ranks"
                    name = f"alike-{compute}-{shard}-{ranks}"
                    trace = self.path(name + "-trace")
                    self.train(ranks, trainer, name, "--trace", trace)
                    if alone is None:
                        alone, alone_trace = name, trace
                        continue
                    for step in (0, 1):
                        ours, theirs = (os.path.join(t, f"step-{step}") for t in (trace, alone_trace))
                        self.assertEqual(harness.read(os.path.join(ours, "tokens.safetensors")),
                                         harness.read(os.path.join(theirs, "tokens.safetensors")), where)
                        if step == 0:
                            self.assertEqual(harness.read(os.path.join(ours, "weights.safetensors")),
                                             harness.read(os.path.join(theirs, "weights.safetensors")), where)
                            difference, tensor = harness.relative_difference(
                                *(harness.tensors(os.path.join(t, "gradients.safetensors")) for t in (ours, theirs)))
                            self.assertLess(difference, SUMS, f"{where}: {tensor}")
                    self.assert_near(self.checkpoint(name), self.checkpoint(alone), MOMENTS[compute], where)
                    for line, expected in zip(*(harness.json_lines(self.path(n, "metrics.jsonl"))
                                                for n in (name, alone))):
                        for key in ("loss", "val_loss", "audit_loss", "grad_norm", "lse_mean", "lse_max", "entropy"):
                            self.assertEqual(key in line, key in expected)
                            if key in line:
                                self.assertLess(abs(line[key] / expected[key] - 1), TRAINED[compute],
                                                f"{where}, {key} of step {line['step']}")
                        self.assertLess(abs(line["top1"] - expected["top1"]), 0.05,
                                        f"{where}, top1 of step {line['step']}")
                        self.assertEqual(line["tokens"], expected["tokens"], where)
                        for parameter, norms in line["per_parameter"].items():
                            if parameter.endswith("k_proj.bias"):  # see assert_near()
                                continue
                            for what, norm in norms.items():
                                expected_norm = expected["per_parameter"][parameter][what]
                                if norm is None:  # ratio to a weight that is still 0
                                    self.assertEqual((what, expected_norm), ("ratio", None), f"{where}, {parameter}")
                                    continue
                                self.assertLess(abs(norm - expected_norm), 10 * TRAINED[compute] * expected_norm,
                                                f"{where}, {what} of {parameter}")
                    self.assertEqual(len(harness.json_lines(self.path(name, "samples.jsonl"))),
                                     len(harness.json_lines(self.path(alone, "samples.jsonl"))))

    def test_a_hundred_steps_stay_together(self):
        """In fp32 only the order of sums differs: 2.3e-6 of a loss was the worst case, after roundings of 2^-24 in
        each step."""
        words = ("schedule.steps=100", "evaluation.every=0", "sampling.every=0", "checkpoint.every=0",
                 "--no-final-checkpoint")
        losses = {}
        for ranks, shard in ((1, "none"), (2, "none"), (2, "optimizer"), (3, "gradients"), (4, "parameters")):
            name = f"hundred-{ranks}-{shard}"
            self.train(ranks, self.trainer(shard=shard), name, *words)
            losses[name] = [line["loss"] for line in harness.json_lines(self.path(name, "metrics.jsonl"))]
            self.assertEqual(len(losses[name]), 100)
            for step, (ours, alone) in enumerate(zip(losses[name], losses["hundred-1-none"]), 1):
                self.assertLess(abs(ours / alone - 1), 1e-5, f"{ranks} ranks, shard {shard}, step {step}")

    def test_work_that_does_not_divide(self):
        """Each number of ranks resumes the run of another, with a mixture of two sources and validation sets of fewer
        micro-batches than ranks, of equally many and of one more. Evaluation, samples, saves and requests fall on every
        second step."""
        sets = {f"of{count}": count for count in (1, 2, 4, 6)}
        for name, count in sets.items():
            harness.write_shard(os.path.join(self.folder, name + ".bin"), count * 24 + 1, 40 + count)
        words = [
            f"data.validation={{path: {self.folder}/val-*.bin, {', '.join(f'{name}: {self.folder}/{name}.bin' for name in sets)}}}",
            "evaluation.every=2", "evaluation.sequences=6", "sampling.every=2", "checkpoint.every=2",
            "schedule.steps=10", *harness.mixture(self.folder)
        ]
        losses = {}
        for shard in (*SHARDS, "alone"):
            for turn, ranks in enumerate((5, 3, 1, 4, 2)):
                self.train(1 if shard == "alone" else ranks, self.trainer(shard="none" if shard == "alone" else shard),
                           f"undivided-{shard}", "--steps", 2 * turn + 2, *words)
            lines = harness.json_lines(self.path(f"undivided-{shard}", "metrics.jsonl"))
            losses[shard] = [
                value for line in lines for key, value in line.items() if key == "loss" or key.startswith("val_loss")
            ]
            self.assertEqual(len(losses[shard]), 10 + 5 * (1 + len(sets)), shard)
            self.assertEqual(len(harness.json_lines(self.path(f"undivided-{shard}", "samples.jsonl"))), 5 * 2, shard)
            # Of 50 samples, 35 and 15; the sources have five and four.
            self.assertEqual([lines[-1][key] for key in ("tokens/first", "tokens/second", "epochs/first")],
                             [35 * 24, 15 * 24, 7.0], shard)
        for shard in SHARDS:
            for ours, alone in zip(losses[shard], losses["alone"]):
                self.assertLess(abs(ours / alone - 1), TRAINED["fp32"], shard)

    def test_any_number_has_the_same_fp8_products(self):
        """Scales belong to a micro-batch, so gradients of the same weights differ by the order of sums alone."""
        words = ("batch.sequence_length=32", "batch.micro_batch=1", "batch.tokens=160", "memory.loss_chunk=16",
                 "memory.recompute={every: 2}")
        alone = {}
        for shard, fp8 in (*((shard, harness.FP8_FULL) for shard in SHARDS), ("parameters", harness.FP8_TENSOR)):
            trainer = self.compile(self.spec, f"{fp8[1]}-{shard}", *fp8, *words, f"parallel.shard={shard}")
            for ranks in (1, 3):
                name = f"{fp8[1]}-{shard}-{ranks}"
                self.train(ranks, trainer, name, "--steps", 2, "--trace", self.path(name + "-trace"))
                gradients = self.gradients(name + "-trace")
                difference, tensor = harness.relative_difference(gradients, alone.setdefault(fp8, gradients))
                self.assertLess(difference, SUMS, f"{fp8[1]}, shard {shard}, {ranks} ranks: {tensor}")

    def test_gradients_in_bf16_are_rounded_once_by_each_rank(self):
        self.train(1, self.trainer(), "sent-alone", "--trace", self.path("sent-alone-trace"), "--steps", 2)
        exact = self.gradients("sent-alone-trace")
        for shard in ("none", "optimizer", "parameters"):
            trainer = self.trainer(shard=shard, sent="bf16")
            for ranks in (1, 2, 3):
                name = f"sent-{shard}-{ranks}"
                self.train(ranks, trainer, name, "--trace", self.path(name + "-trace"), "--steps", 2)
                ours = self.gradients(name + "-trace")
                if ranks == 1:
                    self.assertEqual(ours, exact, f"{shard}: one rank sends nothing")
                    continue
                difference, tensor = harness.relative_difference(ours, exact)
                self.assertLess(difference, SENT_IN_BF16, f"{shard}, {ranks} ranks: {tensor}")
                self.assertGreater(difference, SENT_IN_BF16 / 16, f"{shard}, {ranks} ranks: nothing was rounded")

    def test_a_figure_of_the_model_is_summed(self):
        trainer = self.compile(self.spec, "z-loss", "precision.compute=fp32", "loss.z=0.01", *UNEVEN)
        figures = {}
        for ranks in (1, 2, 3):
            self.train(ranks, trainer, f"z-loss-{ranks}", "--steps", 2)
            figures[ranks] = harness.json_lines(self.path(f"z-loss-{ranks}", "metrics.jsonl"))[0]["z_loss"]
            self.assertLess(abs(figures[ranks] / figures[1] - 1), SUMS, f"{ranks} ranks: {figures}")
        self.assertGreater(figures[1], 0)

    def test_equal_runs_have_equal_bits(self):
        trainer = self.trainer("bf16")
        for name in ("equal-a", "equal-b"):
            self.train(3, trainer, name)
        self.assert_same_files(self.checkpoint("equal-a"), self.checkpoint("equal-b"), "three ranks twice")
        self.train(3, trainer, "equal-c", "--steps", 5)
        self.train(3, trainer, "equal-c")
        self.assert_same_files(self.checkpoint("equal-c"), self.checkpoint("equal-a"),
                               "three ranks, stopped after step 5")

    def test_a_checkpoint_goes_to_any_number(self):
        """Weights and moments equal the saved ones to the bit; training continues as with one rank."""
        self.train(4, self.trainer("fp32", "parameters"), "from", "--steps", 6)
        saved = harness.tensors(os.path.join(self.checkpoint("from", 6), "model.safetensors"))
        self.train(1, self.trainer(), "from-one")
        for ranks, shard in ((1, "none"), (2, "optimizer"), (3, "gradients"), (3, "none")):
            name = f"to-{ranks}-{shard}"
            trace = self.path(name + "-trace")
            self.train(ranks, self.trainer("fp32", shard), name, "--resume", self.checkpoint("from", 6), "--trace",
                       trace)
            self.assertEqual(harness.tensors(os.path.join(trace, "step-6", "weights.safetensors")), saved, name)
            self.assert_near(self.checkpoint(name), self.checkpoint("from-one"), TRAINED["fp32"], name)

    def test_memory_is_what_the_plan_says(self):
        for shard in SHARDS:
            # Eight micro-batches, one per rank.
            words = ("precision.compute=bf16", f"parallel.shard={shard}", "batch.micro_batch=1", "batch.tokens=192",
                     "memory.loss_chunk=12")
            trainer = self.compile(self.spec, f"memory-{shard}", *words)
            for ranks in range(1, 9):
                plan = json.loads(self.succeed(harness.LLMC, "plan", self.spec, "--json", "--world", ranks, *words).out)
                done = self.train(ranks, trainer, f"memory-{shard}-{ranks}", "--steps", 1, "evaluation.every=0",
                                  "sampling.every=0", "--no-final-checkpoint")
                self.assertEqual(harness.allocated_bytes(done.out), plan["memory"]["arena_bytes"],
                                 f"{shard}, {ranks} ranks")

    def test_only_rank_0_shows_and_all_write_their_log(self):
        done = self.train(2, self.trainer(), "log", "--steps", 3)
        self.assertEqual(done.out.count("fingerprint"), 1)
        self.assertIn("2 ranks, Open MPI", done.out)
        with open(self.path("log", "ranks", "rank-0001.log")) as file:
            log = file.read()
        self.assertIn("this is rank 1", log)
        self.assertIn("step 3/3", log)
        self.assertEqual(json.loads(harness.read(self.path("log", "history.jsonl")).splitlines()[0])["ranks"], 2)
        self.assertEqual([line["step"] for line in harness.json_lines(self.path("log", "metrics.jsonl"))], [1, 2, 3])
        self.assertEqual(len(events.Events(self.path("log")).files), 1, "rank 0 alone writes one")
        events.assert_as_logged(self, self.path("log"), "two ranks")

    def test_what_cannot_be_is_refused(self):
        done = self.launch(7, self.trainer(), "--run", self.path("few"))
        self.assertEqual(done.code, 4, done.err)
        self.assertIn("too few for 7 ranks", done.err)
        self.assertEqual(done.err.count("batch.tokens=168"), 1)
        self.assertFalse(os.path.exists(self.path("few")))
        # A separate folder for each rank, as on machines without a shared one.
        folders = [self.path("apart", name) for name in ("a", "b")]
        for folder in folders:
            os.makedirs(folder)
        trainer = self.trainer()
        command = (trainer, "--run", "run")
        done = harness.call(*mpirun_each(command, command, folders=folders), env=environment())
        self.assertEqual(done.code, 6, done.err)
        self.assertIn("rank 1", done.err)
        self.assertIn("--run DIR", done.err)
        within = environment() | {"RANK": "0", "WORLD_SIZE": "2", "MASTER_ADDR": "127.0.0.1", "MASTER_PORT": "1"}
        done = harness.call(trainer, "--ranks", 2, "--run", self.path("within"), env=within)
        self.assertEqual(done.code, 2, done.err)
        self.assertIn("--ranks", done.err)
        self.assertFalse(os.path.exists(self.path("within")))
        unlike = (trainer, "--run", self.path("unlike"))
        done = harness.call(*mpirun_each((*unlike, "optimizer.lr=1e-3"), (*unlike, "optimizer.lr=2e-3")),
                            env=environment())
        self.assertEqual(done.code, 2, done.err)
        self.assertRegex(
            done.err,
            r"error: the ranks .*: optimizer.lr is 0.001 on rank 0 \(host .*\) and 0.002 on rank 1 \(host .*\)\n")
        # Options and data that determine the collectives of a rank.
        options = ("--steps", "3", "--trace", self.path("unlike-trace"), "--timeline", self.path("unlike-timeline"),
                   "--timeline-steps", "1:2", "--profile", "2:1", "--no-final-checkpoint",
                   f"data.validation.path={self.folder}/train-0.bin")
        done = harness.call(*mpirun_each(unlike, (*unlike, *options)), env=environment())
        self.assertEqual(done.code, 2, done.err)
        self.assertRegex(
            done.err,
            r": last step is 12 on rank 0 \(host .*\) and 3 on rank 1 \(host .*\); --trace is not given on rank 0 .*"
            r"; --timeline is not given on rank 0 .*; --timeline-steps is not given on rank 0 .* and 1:2 on rank 1 .*"
            r"; --profile is not given on rank 0 .* and 2:1 on rank 1 .*"
            r"; --no-final-checkpoint is not given on rank 0 .*; validation data is .*; data.validation.path is ")
        mixed = ("--run", self.path("mixed"))
        done = harness.call(*mpirun_each((trainer, *mixed), (self.trainer(shard="none"), *mixed)), env=environment())
        self.assertEqual(done.code, 2, done.err)
        self.assertRegex(done.err, r"error: rank 1 on .* fingerprint [0-9a-f]+, .*rank 0 on ")
        self.assertFalse(os.path.exists(self.path("mixed")))
        done = self.launch(2, trainer, "--run", self.path("typo"), "optimizer.lr=fast")
        self.assertEqual(done.code, 2, done.err)
        self.assertEqual(done.err.count("error:"), 1, done.err)

    def test_a_rank_that_may_start_no_thread(self):
        command = (self.trainer(), "--run", self.path("threads"))
        of_the_loader = ("env", "LD_PRELOAD=" + os.environ["LLMC_FAIL_SHIM"], "LLMC_FAIL_THREAD=4")
        done = harness.call(*mpirun_each(command, (*of_the_loader, *command)), env=environment())
        self.assertEqual(done.code, 4, done.err)
        self.assertRegex(done.err, "rank 1 .* is lost: it ended with exit code 4: the system allows .* no more threads")

    def test_a_parent_that_ignores_ended_children(self):
        """The setting is inherited over exec, and without children to wait for a launcher would never end."""
        run = self.path("ignored")
        # A process that another launcher started alone may start ranks, which find each other.
        alone = environment() | {"RANK": "0", "WORLD_SIZE": "1", "MASTER_ADDR": "192.0.2.1", "MASTER_PORT": "29500"}
        self.succeed("sh", "-c", 'trap "" CHLD; exec "$@"', "sh", self.trainer(), "--run", run, "--ranks", 2, "--steps",
                     1, "--start-timeout", 20, env=alone)
        self.assertEqual(len(harness.json_lines(os.path.join(run, "metrics.jsonl"))), 1)

    def test_a_stranger_takes_no_seat(self):
        """Rank 0 of a run without a launcher's id; other programs claim to be rank 1."""
        with socket.socket() as probe:
            probe.bind(("127.0.0.1", 0))
            port = probe.getsockname()[1]
        within = environment() | {
            "RANK": "0", "WORLD_SIZE": "2", "MASTER_ADDR": "127.0.0.1", "MASTER_PORT": str(port - 1)
        }
        words = [str(self.trainer()), "--run", self.path("lonely"), "--start-timeout", "2"]
        process = self.start(*words, env=within, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
        answers = []
        for fields in ((b"", b"elsewhere"), (b"", b"", b"elsewhere"), (os.fsencode(self.path("lonely")), b"0123",
                                                                       b"\x1b]0;elsewhere")):
            body = struct.pack("<QQ", 1, 2) + b"".join(struct.pack("<Q", len(field)) + field for field in fields)
            answers.append(self.answer_to(process, port, struct.pack("<IHHQ", 0x636d6c6c, 2, 1, len(body)) + body))
        out, err = process.communicate(timeout=harness.HANGS)
        self.assertEqual(process.returncode, 170, err)
        self.assertEqual(answers[0], b"", "not a hello")
        self.assertRegex(answers[1], b"rank 1 on elsewhere .*run ''")
        self.assertNotIn(os.fsencode(self.path("lonely")), answers[1])
        self.assertIn(b" fingerprint 0123, ", answers[2])
        self.assertRegex(err, r"rank 1 of 2 .* rank 0 .*fingerprint is \w+; rank 1 on \\x1b\]0;elsewhere is a trainer")
        self.assertNotIn("\x1b", out + err)

    def answer_to(self, process, port, hello):
        while True:
            try:
                with socket.create_connection(("127.0.0.1", port)) as connection:
                    connection.sendall(hello)
                    connection.shutdown(socket.SHUT_WR)
                    return b"".join(iter(lambda: connection.recv(4096), b""))
            except ConnectionRefusedError:
                self.assertIsNone(process.poll(), "rank 0 has ended")
                time.sleep(0.01)

    def test_a_signal_to_one_rank_stops_all(self):
        """While rank 0 samples for longer than --peer-timeout. That the last copy to the mirror fails is reported, and
        the next start makes it. Its own last copy takes longer than --collective-timeout."""
        copies = self.path("signalled-mirror", "checkpoints")
        process = self.start_endless("signalled", "sampling.every=25", "sampling.tokens=2000",
                                     "checkpoint.mirror=" + os.path.dirname(copies))
        metrics = self.path("signalled", "metrics.jsonl")
        self.until(process, lambda: harness.json_lines(metrics)[-1]["step"] == 25, self.path("signalled.log"))
        os.kill(self.rank_of("signalled", 2), signal.SIGTERM)
        os.rename(copies, copies + "-lost")
        with open(copies, "w"):
            pass
        for _ in range(4):  # heartbeats continue in between
            processes.stop(self.rank_of("signalled", 0))
            time.sleep(0.9)
            os.kill(self.rank_of("signalled", 0), signal.SIGCONT)
            time.sleep(0.05)
        code, log = self.ended(process, "signalled")
        self.assertEqual(code, 75, log)
        self.assertIn("another rank after step 26 of", log)
        self.assertRegex(log, "warning: .*signalled-mirror.*raining continues")
        self.assertIn("the same command", log)
        self.assertEqual(harness.json_lines(metrics)[-1]["step"], 26)
        os.remove(copies)
        # A collective may also take as long as 100 steps.
        done = self.launch(2, self.trainer("fp32"), "--run", self.path("signalled"), "--steps", 326, "sampling.every=0",
                           "checkpoint.every=0", "--collective-timeout", 2, LD_PRELOAD=os.environ["LLMC_FAIL_SHIM"],
                           LLMC_FAIL_SLOW_SAVE=os.path.join(copies, "step-00000326"), LLMC_FAIL_SLOW_SECONDS="5")
        self.assertEqual(done.code, 0, done.err)
        self.assertIn("resumed at step 26", done.out)
        self.assertEqual(sorted(os.listdir(copies)), ["step-00000026", "step-00000326"])

    def test_a_signal_to_every_process_is_one_request(self):
        """As sent by systemd and schedulers; and twice, as by `timeout`. A request to save reaches all ranks, and a
        second one on another rank is the same."""
        process = self.start_endless("every", launcher=("--ranks", 3))
        asked = lambda: [step for step in self.saved("every") if step % 20]
        saving = [self.rank_of("every", rank) for rank in (1, 2)]
        while not asked():
            self.assertIsNone(process.poll(), harness.read(self.path("every.log")).decode())
            for rank in saving:
                os.kill(rank, signal.SIGUSR1)
                time.sleep(0.1)
            if not asked():
                time.sleep(1)  # sent anew if it fell on a step that is saved anyway
        launchers = [process.pid, *processes.children(process.pid)]
        for pid in [*launchers, *(rank for mpi in launchers[1:] for rank in processes.children(mpi)), process.pid]:
            os.kill(pid, signal.SIGTERM)
        code, log = self.ended(process, "every")
        self.assertEqual(code, 75, log)
        stopped = harness.newest_checkpoint(self.path("every"))
        self.assertLessEqual(len(asked()), 2, log)  # with the last one
        self.assertIn(f"stopped by SIGTERM after step {stopped} of", log)
        self.assertRegex(log, r"resume with\n  \S+ --ranks 3 --run \S+every ")
        self.assertEqual(len(launchers), 2, log)


if __name__ == "__main__":
    harness.main()
