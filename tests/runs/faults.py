"""Faults of one of three ranks in each phase of a run: all ranks end and name it, and the job resumes."""

import contextlib
import json
import math
import os
import re
import shlex
import signal
import socket
import struct
import threading
import time

import harness
import processes
import ranks

RANKS = 3
VICTIM = 1
TIMEOUT = 3  # seconds of silence after which a rank is lost
LATE = 90  # seconds after which a job that should have ended hangs
ENDED = TIMEOUT + 30  # seconds in which it ends on a busy machine, far from --collective-timeout
LOST = 170
NUMERICS = 7
DOES_NOT_FIT = 4
HEAD_DIM = 10  # of harness.SMALL
ENDLESS = (*harness.ENDLESS, "metrics.every=100")
COLLECTIVES = "(all-reduce|reduce-scatter|all-gather)"
HOST = socket.gethostname()
YIELD = 24  # system call of x86-64: sched_yield


class Job:
    """Ranks of a run that saves every `every` steps; `shell`: commands of each rank before it becomes the trainer."""

    def __init__(self, test, name, trainer, *words, every=4, ranks_=RANKS, shell=""):
        self.folder = test.path(name)
        self.log = test.path(name + ".log")
        command = [
            trainer, "--run", self.folder, "--peer-timeout", TIMEOUT, *ENDLESS, f"checkpoint.every={every}", *words
        ]
        if shell:
            command = ["sh", "-c", shell + '; exec "$@"', "sh", *command]
        with open(self.log, "w") as log:
            self.mpirun = test.start(*ranks.mpirun(ranks_, *command), stdout=log, stderr=log, env=ranks.environment())
        self.before, self.logged = self.last_step(), self.log_size()
        self.found = {}

    def said(self):
        return harness.read(self.log).decode(errors="replace")

    def until(self, what, condition, *arguments):
        """Polls fast, because a phase may last only a millisecond."""
        limit = time.monotonic() + LATE
        while True:
            over = self.mpirun.poll() is not None or time.monotonic() > limit  # asked first: its last act counts
            if value := condition(*arguments):
                return value
            if over:
                raise AssertionError(f"{what} does not come\n{self.said()}")
            time.sleep(1e-5)

    def rank(self, rank=VICTIM):
        """The rank's process."""
        if rank not in self.found:
            self.found[rank] = self.until(f"rank {rank}", self.find, rank)
        return self.found[rank]

    def find(self, rank):
        for process in filter(str.isdigit, os.listdir("/proc")):
            try:
                words, variables = (harness.read(f"/proc/{process}/{file}").split(b"\0")
                                    for file in ("cmdline", "environ"))
            except OSError:
                continue
            if words[0].endswith(b"trainer") and self.folder.encode(
            ) in words and f"OMPI_COMM_WORLD_RANK={rank}".encode() in variables:
                return int(process)
        return None

    def entries(self):
        folder = os.path.join(self.folder, "checkpoints")
        return os.listdir(folder) if os.path.isdir(folder) else []

    def last_step(self):
        return harness.newest_checkpoint(self.folder)

    def log_size(self):
        """Bytes logged by the victim, including earlier starts."""
        log = os.path.join(self.folder, "ranks", f"rank-{VICTIM:04}.log")
        return os.path.getsize(log) if os.path.exists(log) else 0

    def steps(self):
        """Whether a new run has made two steps: then every rank has made its first update, and no moment is 0."""
        metrics = os.path.join(self.folder, "metrics.jsonl")
        return os.path.exists(metrics) and harness.read(metrics).count(b"\n") > 1

    def trains(self):
        """Returns when the run has saved since its start."""
        self.until("a checkpoint", lambda: self.last_step() > self.before)

    def ended(self):
        """The launcher's exit code, and the output of all ranks."""
        return self.mpirun.wait(timeout=LATE), self.said()

    # Phases. Each returns with the victim stopped in it.

    def caught(self, what, there):
        """Lets it run and stops it repeatedly until it is `there`(file of the code, system call)."""
        limit = time.monotonic() + LATE
        while time.monotonic() < limit:
            processes.stop(self.rank())
            if there(*processes.place(self.rank())):
                return
            os.kill(self.rank(), signal.SIGCONT)
            time.sleep(0.002)
        raise AssertionError(f"rank {VICTIM} is never in {what}")

    def in_forward_or_backward(self):
        self.trains()
        self.caught("forward or backward", lambda file, _: file.endswith("/trainer") or "libdnnl" in file)

    def in_a_reduction(self):
        self.trains()
        self.caught("a reduction",
                    lambda file, call: call == YIELD or "openmpi" in file or "libopen-" in file or "libmpi" in file)

    def in_a_save(self):
        self.trains()
        saving = lambda: any(not re.fullmatch(r"step-\d{8}", entry) for entry in self.entries())
        while True:
            self.until("a save", saving)
            processes.stop(self.rank())
            if saving():
                return
            os.kill(self.rank(), signal.SIGCONT)

    def in_the_start(self):
        """When it has connected to the others and announces its next step."""
        process = self.rank()
        self.until("the log of the start", lambda: self.log_size() > self.logged)
        processes.stop(process)


class Faults(ranks.RanksTest):

    def plan(self, shard, ranks_=RANKS):
        return json.loads(
            self.succeed(harness.LLMC, "plan", self.spec, "--json", "--world", ranks_, f"parallel.shard={shard}",
                         *ranks.UNEVEN).out)

    def job(self, name, shard, *words, **options):
        return Job(self, name, self.trainer("fp32", shard), *words, **options)

    def assert_named(self, said, how, others=(0, 2)):
        """Each other rank prints one line that names the victim, its host and step, and its own."""
        for rank in others:
            self.assertRegex(
                said,
                rf"error: rank {VICTIM} \(host {HOST}\) is lost: {how}.*\. .*rank {rank} \(host {HOST}\), (at step \d+ )?in .* exit code {LOST}"
            )

    # Faults in each phase.

    def fault(self, phase, number, *words):
        """Loses one rank, by a signal, of a job that each of these resumes."""
        job = self.job("lost", "optimizer", *words)
        phase(job)
        begin = time.monotonic()
        os.kill(job.rank(), number)
        code, said = job.ended()
        took = time.monotonic() - begin
        if number == signal.SIGKILL:
            self.assertEqual(code, 128 + signal.SIGKILL, said)
            # Before training, mpirun's signal ends the others before they can report it.
            if phase is not Job.in_the_start:
                self.assert_named(said, "its process ended")
        else:
            self.assertEqual(code, LOST, said)
            self.assert_named(said, f".* {TIMEOUT} s")
        self.assertLess(took, ENDED, said)
        return said

    def fault_at_the_end(self, number, end):
        """When the last checkpoint is complete; the others may or may not have exited yet, and must end in any case."""
        job = self.job("lost", "optimizer", "--steps", end)
        victim = job.rank()
        job.until("the last checkpoint", lambda: job.last_step() == end)
        with contextlib.suppress(ProcessLookupError):  # the process was faster
            os.kill(victim, number)
        limit = time.monotonic() + ENDED
        while job.find(0) or job.find(2):
            self.assertLess(time.monotonic(), limit, job.said())
            time.sleep(0.05)
        harness.kill(job.mpirun)

    def test_a_rank_that_is_lost_in_any_phase_ends_all_and_the_job_goes_on(self):
        for number in (signal.SIGKILL, signal.SIGSTOP):
            with self.subTest(number=number):
                self.fault(Job.in_the_start, number)
                self.fault(Job.in_forward_or_backward, number)
                said = self.fault(Job.in_a_reduction, number)
                self.assertRegex(said, rf"This is rank 0 \(host {HOST}\), at step \d+ in {COLLECTIVES}, which")
                self.fault(Job.in_a_save, number)
        self.assertGreater(harness.newest_checkpoint(self.path("lost")), 0)
        for number in (signal.SIGKILL, signal.SIGSTOP):
            end = harness.newest_checkpoint(self.path("lost")) + 6
            self.fault_at_the_end(number, end)
        for name in ("lost", "undisturbed"):
            self.succeed(
                *ranks.mpirun(RANKS, self.trainer("fp32", "optimizer"), "--run", self.path(name), *ENDLESS,
                              "checkpoint.every=4", "--steps", end), env=ranks.environment())
        self.assert_same_files(self.checkpoint("lost", end), self.checkpoint("undisturbed", end), "lost in each phase")

    def test_a_rank_that_does_not_come_ends_the_start(self):
        victim = f'[ "$OMPI_COMM_WORLD_RANK" = {VICTIM} ] && '
        for name, shell, code, facts in (("stopped", victim + "kill -STOP $$", LOST, ("MPI", f"{RANKS} ranks", "2 s")),
                                         ("killed", victim + "kill -KILL $$", 128 + signal.SIGKILL, ())):
            ended, said = self.job("never-" + name, "optimizer", "--start-timeout", 2, shell=shell).ended()
            self.assertEqual(ended, code, said)
            self.assert_facts(said, *facts)

    # Weights that differ from those of the other ranks.

    def test_a_rank_that_drifts_is_named_before_anything_is_saved(self):
        plan = self.plan("none")
        element = plan["ranks"]["buckets"][-1]["offset"] + 5
        for buffer, every, compare in (("masters", 1000000, 7), ("exp_avg_sq", 8, 1000000)):
            with self.subTest(buffer=buffer):
                # So slow that it memorises nothing: without gradients moments soon become 0, and flipped bits have no
                # effect.
                job = self.job("drift-" + buffer, "none", f"parallel.compare_every={compare}", "optimizer.lr=1e-6",
                               every=every)
                job.until("a step", job.steps)
                processes.stop(job.rank())
                processes.Arena(job.rank(), plan, HEAD_DIM).flip(buffer, element, 100)
                os.kill(job.rank(), signal.SIGCONT)
                code, said = job.ended()
                self.assertEqual(code, NUMERICS, said)
                line = re.search(
                    rf"error: rank {VICTIM} \(host {HOST}\) .*: after step (\d+) .*{buffer} is [0-9a-f]{{16}} on ranks 0, 2 \(host {HOST}\) "
                    rf"and [0-9a-f]{{16}} on rank {VICTIM} \(host {HOST}\)", said)
                self.assertTrue(line, said)
                self.assertLess(job.last_step(), int(line.group(1)))
                for rank in (1, 2):
                    self.assertIn(line.group(0),
                                  harness.read(self.path("drift-" + buffer, "ranks", f"rank-{rank:04d}.log")).decode())

    def test_two_ranks_that_differ_are_both_shown(self):
        plan = self.plan("none", 2)
        job = self.job("two", "none", "parallel.compare_every=5", ranks_=2)
        job.trains()
        processes.stop(job.rank())
        processes.Arena(job.rank(), plan, HEAD_DIM).flip("masters", plan["ranks"]["buckets"][-1]["offset"], 100)
        os.kill(job.rank(), signal.SIGCONT)
        code, said = job.ended()
        self.assertEqual(code, NUMERICS, said)
        self.assertRegex(said, r"error: the ranks .*masters is [0-9a-f]{16} on rank 0 .* and [0-9a-f]{16} on rank 1 ")

    def test_weights_that_are_gathered_are_compared_too(self):
        """Values of another rank are gathered before each step; here they are repeatedly wrong."""
        plan = self.plan("optimizer")
        job = self.job("gathered", "optimizer", "parallel.compare_every=1", every=1000000)
        job.until("a step", job.steps)
        processes.stop(job.rank())
        arena = processes.Arena(job.rank(), plan, HEAD_DIM)
        os.kill(job.rank(), signal.SIGCONT)
        element = plan["ranks"]["buckets"][-1]["offset"]  # of rank 0's share
        ended = threading.Event()

        def spoil():
            while not ended.is_set():
                try:
                    arena.write("masters", element, struct.pack("<f", 0.25))
                except OSError:
                    return

        thread = threading.Thread(target=spoil)
        thread.start()
        try:
            code, said = job.ended()
        finally:
            ended.set()
            thread.join()
        self.assertEqual(code, NUMERICS, said)
        self.assertRegex(said, rf"error: rank {VICTIM} \(host {HOST}\) .*checksums")

    # Non-finite values.

    def test_a_rank_full_of_nan_is_named_and_nothing_of_it_is_saved(self):
        for shard, compare in (("optimizer", 100), ("none", 0)):
            with self.subTest(shard=shard):
                plan = self.plan(shard)
                name = "nan-" + shard
                job = self.job(name, shard, f"parallel.compare_every={compare}", every=3)
                job.in_forward_or_backward()
                arena = processes.Arena(job.rank(), plan, HEAD_DIM)
                for bucket in plan["ranks"]["buckets"]:
                    arena.write("masters", bucket["offset"], struct.pack("<f", float("nan")) * bucket["elements"])
                os.kill(job.rank(), signal.SIGCONT)
                code, said = job.ended()
                self.assertEqual(code, NUMERICS, said)
                self.assertRegex(
                    said,
                    rf"error: .* at first (the loss on rank.* \(host {HOST}\), )?weights of rank {VICTIM} \(host {HOST}\)"
                )
                if shard == "optimizer":  # unsharded: rank 0 saves its own
                    self.assertRegex(said, rf"CHECKPOINT FAILED .*step \d+: rank \d: '.*' .*not finite")
                for file in ("model", "optimizer"):
                    for tensor, values in harness.tensors(
                            os.path.join(self.checkpoint(name, job.last_step()), file + ".safetensors")).items():
                        self.assertTrue(all(map(math.isfinite, values)), tensor)
                end = job.last_step() + 3
                self.succeed(
                    *ranks.mpirun(RANKS, self.trainer("fp32", shard), "--run", self.path(name), *ENDLESS,
                                  "checkpoint.every=4", "--steps", end), env=ranks.environment())

    def test_a_layer_of_nan_on_one_rank_is_rolled_back(self):
        for shard, compare in (("optimizer", 100), ("none", 0)):  # otherwise the ranks would end because of the drift
            with self.subTest(shard=shard):
                plan = self.plan(shard)
                name = "back-" + shard
                slow = self.path(name + "-slow")
                shim = f"export LD_PRELOAD={shlex.quote(os.environ['LLMC_FAIL_SHIM'])} LLMC_FAIL_SLOW={shlex.quote(slow)}"
                job = self.job(name, shard, "guards.rollback=true", f"parallel.compare_every={compare}", every=3,
                               shell=shim)
                job.in_forward_or_backward()
                layer = plan["ranks"]["buckets"][1]
                processes.Arena(job.rank(), plan, HEAD_DIM).write("masters", layer["offset"],
                                                                  struct.pack("<f", float("nan")) * layer["elements"])
                # Checkpoints are removed slowly: retention of the last save is still removing one when the run goes
                # back, which removes it too.
                open(slow, "w").close()
                os.kill(job.rank(), signal.SIGCONT)
                line = job.until(
                    "a rollback",
                    lambda: re.search(r"10 updates .* to step (\d+) .* of step (\d+) \(rollback 1 of", job.said()))
                back, left = map(int, line.groups())
                os.remove(slow)
                self.assertIn(f"weights of rank {VICTIM} (host {HOST})", line.group(0))
                job.until("a checkpoint after it", lambda: job.last_step() > left)
                os.kill(job.rank(0), signal.SIGTERM)
                job.ended()
                metrics = harness.json_lines(self.path(name, "metrics.jsonl"))
                self.assertEqual([line["step"] for line in metrics], list(range(1, len(metrics) + 1)))
                self.assertEqual([line for line in metrics if "skipped" in line], [])
                self.assertEqual(
                    [(line["step"], line["rollback"]["from_step"])
                     for line in harness.json_lines(self.path(name, "history.jsonl")) if "rollback" in line],
                    [(back, left)])
                for values in harness.tensors(os.path.join(self.checkpoint(name, job.last_step()),
                                                           "model.safetensors")).values():
                    self.assertTrue(all(map(math.isfinite, values)))

    def test_a_rank_without_memory_says_so(self):
        limit = f'[ "$OMPI_COMM_WORLD_RANK" = {VICTIM} ] && ulimit -v 400000'
        code, said = self.job("memory", "optimizer", "batch.tokens=120000000", shell=limit).ended()
        self.assertEqual(code, DOES_NOT_FIT, said)
        # Caused by its own allocation, or earlier by oneDNN's.
        out = "(the host .*memory|.*address space)"
        self.assertRegex(said, "error: " + out)
        self.assert_named(said, ".*exit code 4: " + out)


if __name__ == "__main__":
    harness.main()
