"""Signals to a run of two ranks: who gets them, in which phase, and whether all is saved and the run resumes exactly.

    python3 tests/bench/signals.py [--tries 10] [--jobs 3] [--only WORD...] [--seed 0] [--keep FOLDER]

Needs build/llmc and Open MPI. Each try starts a run, sends a signal at a random moment of the phase, waits for the end and starts the
same command again, which must end with the bytes of a run that was never stopped. Prints a row for each cell with the exit codes that
were seen, and each fault with its folder's log. Exit code 1 where there is one. --only takes rows whose text has all of the words.
The whole matrix is 490 tries, most of whose time is the end of mpirun.
"""

import argparse
import collections
import concurrent.futures
import dataclasses
import os
import random
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import time

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
sys.path.insert(0, os.path.join(ROOT, "tests", "runs"))
import harness  # noqa: E402
import processes  # noqa: E402
import ranks  # noqa: E402

STEPS, EVALUATED, SAVED = 16, 4, 6  # the last step, and how often
HANGS = 180  # seconds after which a run that should have ended hangs
RESUME_ME = 75
OF_TIMEOUT = 124  # the exit code of timeout(1)
TOKENS = 960
LAST = 2  # a request in the last steps finds the run done
PATIENT = ("--mca", "odls_base_sigkill_timeout", "60")  # docs/reference/ranks.md
# Steps and evaluations of some ten milliseconds, so that a signal can fall into them.
WORDS = (f"schedule.steps={STEPS}", f"batch.tokens={TOKENS}", "evaluation.sequences=80",
         f"evaluation.every={EVALUATED}", f"sampling.every={EVALUATED}", f"checkpoint.every={SAVED}", "guards.loss=0",
         "guards.grad_norm=0")
MATRIX_PHASES = ("start", "step", "save", "evaluation")


@dataclasses.dataclass(frozen=True)
class Cell:
    """`launcher`: "--ranks", "mpirun" or "timeout", whose process is the first one. `twice`: again within a millisecond."""
    launcher: str
    who: str
    when: str
    number: signal.Signals = signal.SIGTERM
    twice: bool = False

    def text(self):
        return f"{self.launcher} | {self.number.name[3:]}{' twice' if self.twice else ''} | {self.who} | {self.when}"

    def codes(self, begun):
        """Exit codes that are right of a run that has made a step, or none."""
        if self.number == signal.SIGUSR1:
            return {0}
        if self.launcher == "timeout":
            return {OF_TIMEOUT}
        # Without a step there is nothing to save. A process that had not taken the signal yet is killed by it.
        ended = set() if begun else {128 + self.number, -self.number}
        if self.launcher == "mpirun":
            # Its own code where it is signalled; of ranks that a signal ends while they start, it names one as it likes.
            return {RESUME_ME, 1, *ended, *({-self.number} if self.who != "ranks" else ())}
        return {RESUME_ME, *ended}


def cells():
    for launcher, names in (("--ranks", ("launcher", "ranks", "all", "mpirun and launcher")),
                            ("mpirun", ("mpirun", "ranks", "all"))):
        for who in names:
            for when in MATRIX_PHASES:
                yield Cell(launcher, who, when)
    for number in (signal.SIGINT, signal.SIGHUP, signal.SIGUSR2, signal.SIGUSR1):
        for who in ("launcher", "all"):
            for when in ("start", "step"):
                yield Cell("--ranks", who, when, number)
    for who in ("launcher", "one rank", "all"):
        yield Cell("--ranks", who, "step", twice=True)
    for when in ("start", "step"):
        yield Cell("timeout", "timeout", when)


class Run:
    """A try: the processes of a run in a folder of its own."""

    def __init__(self, bench, cell, folder):
        self.bench, self.cell, self.folder = bench, cell, folder
        self.log = folder + ".log"
        self.signalled = 0  # the steps that were done then

    def command(self, launcher):
        trainer = [self.bench.trainer, "--run", self.folder, "--peer-timeout", "20", *WORDS]
        if launcher == "mpirun":
            return ranks.mpirun(2, *PATIENT, *trainer)
        return [trainer[0], "--ranks", "2", *trainer[1:]]

    def start(self, before=()):
        with open(self.log, "ab") as log:
            self.process = subprocess.Popen([*before, *self.command(self.cell.launcher)], stdout=log, stderr=log,
                                            env=ranks.environment())
        self.began = time.monotonic()

    def said(self):
        return harness.read(self.log).decode(errors="replace")

    def lines(self):
        path = os.path.join(self.folder, "metrics.jsonl")
        return harness.read(path).count(b"\n") if os.path.exists(path) else 0

    def step_seconds(self):
        """Of the last step, since a machine that does other things changes its pace."""
        return TOKENS / harness.json_lines(os.path.join(self.folder, "metrics.jsonl"))[-1]["tokens_per_second"]

    def begun_saves(self):
        """Those that are in a folder of another name until they are whole."""
        folder = os.path.join(self.folder, "checkpoints")
        return [name for name in os.listdir(folder)
                if not re.fullmatch(r"step-\d{8}", name)] if os.path.isdir(folder) else []

    def saved_steps(self):
        folder = os.path.join(self.folder, "checkpoints")
        return {int(name[5:]) for name in os.listdir(folder) if re.fullmatch(r"step-\d{8}", name)}

    def until(self, condition):
        """False: the run has ended before."""
        while not condition():
            if self.process.poll() is not None:
                return False
            time.sleep(2e-4)
        return True

    def wait_for_phase(self, rng):
        """Returns at a random moment of it; False where the run has ended."""
        if self.cell.when == "start":
            time.sleep(rng.uniform(0, self.bench.start))
        elif self.cell.when == "step":
            wanted = rng.randrange(1, STEPS - 4)
            if not self.until(lambda: self.lines() >= wanted):
                return False
            time.sleep(rng.uniform(0, self.step_seconds()))
        elif self.cell.when == "evaluation":
            # Its step's line is written when it is done.
            wanted = EVALUATED * rng.randrange(1, STEPS // EVALUATED - 1)
            if not self.until(lambda: self.lines() >= wanted - 1):
                return False
            time.sleep(self.step_seconds() + rng.uniform(0, self.bench.evaluation))
        else:
            wanted = SAVED * rng.randrange(1, STEPS // SAVED)
            if not self.until(lambda: self.lines() >= wanted and self.begun_saves()):
                return False
            time.sleep(rng.uniform(0, 2e-3))
        return self.process.poll() is None

    def targets(self):
        """The processes that get the signal, as they are now."""
        first = self.process.pid
        below = processes.children(first)
        if self.cell.launcher == "mpirun":
            groups = {"mpirun": [first], "ranks": below}
        else:
            groups = {
                "launcher": [first], "mpirun": below, "ranks": [p for mpi in below for p in processes.children(mpi)]
            }
        groups["all"] = [pid for group in groups.values() for pid in group]
        groups["mpirun and launcher"] = groups["mpirun"] + groups.get("launcher", [])
        groups["one rank"] = groups["ranks"][-1:]
        return groups[self.cell.who]

    def send(self, rng):
        targets = []
        if not self.until(lambda: targets.extend(self.targets()) or targets):
            return False
        rng.shuffle(targets)
        self.signalled = self.lines()
        for _ in range(2 if self.cell.twice else 1):
            for pid in targets:
                try:
                    os.kill(pid, self.cell.number)
                except ProcessLookupError:  # a rank of which mpirun has heard and which is gone
                    pass
            time.sleep(rng.uniform(0, 1e-3) if self.cell.twice else 0)
        return True

    def stop(self, rng):
        """The exit code; None where the run ended before its signal."""
        if self.cell.launcher == "timeout":
            after = rng.uniform(0, self.bench.start) if self.cell.when == "start" else self.bench.start + rng.uniform(
                0, 0.7 * STEPS * self.bench.step)
            self.start(before=("timeout", f"{after:.3f}"))
            sent = True
        else:
            self.start()
            sent = self.wait_for_phase(rng) and self.send(rng)
        code = self.process.wait(timeout=HANGS)
        if self.cell.launcher == "timeout":
            self.signalled = self.lines()
        done = {0, 1} if self.cell.launcher == "mpirun" else {0}
        over = code in done and self.cell.number != signal.SIGUSR1 and self.signalled >= STEPS - LAST
        return code if sent and not over else None

    def fault(self, code):
        """Why this end is wrong; empty where it is not."""
        said, begun = self.said(), self.lines() > 0
        if code not in self.cell.codes(begun):
            return f"exit code {code}"
        if code == RESUME_ME and "everything is saved" not in said:
            return "75, and nobody says that all is saved"
        if begun and self.cell.number != signal.SIGUSR1 and self.lines() not in self.saved_steps():
            return f"{code}, and step {self.lines()} is not saved"
        # A step that is saved anyway is saved once; a request at a step's end may be taken after the next one.
        if self.cell.when == "step" and self.cell.number == signal.SIGUSR1 and not self.saves().intersection(
                range(self.signalled, self.signalled + 4)):
            return f"the request to save after step {self.signalled} is lost"
        return self.resumed()

    def saves(self):
        return {int(step) for step in re.findall(r"saved \S*/step-(\d{8})", self.said())}

    def resumed(self):
        done = harness.call(*self.command(self.cell.launcher), env=ranks.environment(), timeout=HANGS)
        if done.code != 0:
            return f"resuming ends with {done.code}: {done.err[-2000:]}"
        last = os.path.join("checkpoints", f"step-{STEPS:08d}")
        ours, theirs = (harness.tree(os.path.join(folder, last)) for folder in (self.folder, self.bench.clean))
        differ = [name for name in {*ours, *theirs} if ours.get(name) != theirs.get(name)]
        if differ:
            return f"the resumed run's last checkpoint differs: {', '.join(sorted(differ))}"
        losses = [[(line["step"], line["loss"]) for line in harness.json_lines(os.path.join(folder, "metrics.jsonl"))]
                  for folder in (self.folder, self.bench.clean)]
        return "" if losses[0] == losses[1] else "the resumed run's metrics differ"


class Bench:

    def __init__(self, folder):
        self.folder = folder
        spec = harness.write_small(folder)
        for name, sequences in (("train-0", 1500), ("val-0", 400)):
            harness.write_shard(os.path.join(folder, name + ".bin"), sequences * 24 + 1, len(name))
        self.trainer = harness.compile_trainer(spec, os.path.join(folder, "trainer"), *ranks.UNEVEN)
        self.clean = os.path.join(folder, "clean")
        clean = Run(self, Cell("--ranks", "nobody", "step"), self.clean)
        clean.start()
        met = clean.until(clean.lines)
        began = time.monotonic()
        if not met or clean.process.wait(timeout=HANGS):
            raise SystemExit(clean.said())
        lines = harness.json_lines(os.path.join(self.clean, "metrics.jsonl"))
        self.step = (lines[-1]["seconds"] - lines[0]["seconds"]) / (STEPS - 1)
        self.evaluation = max(line.get("evaluation_seconds", 0) for line in lines)
        self.start = began - clean.began

    def attempt(self, cell, seed, number):
        """The exit code, and what is wrong with it; None: the run was over before its signal, draw again."""
        rng = random.Random(f"{seed} {cell.text()} {number}")
        while True:
            folder = os.path.join(self.folder, re.sub(r"\W+", "-", f"{cell.text()} {number}").strip("-"))
            run = Run(self, cell, folder)
            try:
                code = run.stop(rng)
                fault = "" if code is None else run.fault(code)
            except subprocess.TimeoutExpired as late:
                code, fault = "hangs", f"{late}"
                run.process.kill()
            if fault:
                return code, f"{cell.text()}, try {number}: {fault}\n{run.said()[-4000:]}"
            shutil.rmtree(folder, ignore_errors=True)
            os.remove(run.log)
            if code is not None:
                return code, ""


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--tries", type=int, default=10)
    parser.add_argument("--jobs", type=int, default=3,
                        help="tries at once; each spends most of its time in mpirun's end")
    parser.add_argument("--only", nargs="+", default=[], metavar="WORD")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--keep", help="an empty folder that stays")
    options = parser.parse_args()
    # A job in the background of a script, or of nohup, inherits these ignored, and so would a run before it takes them.
    signal.signal(signal.SIGINT, signal.default_int_handler)
    signal.signal(signal.SIGHUP, signal.SIG_DFL)
    folder = options.keep or tempfile.mkdtemp(prefix="llmc-signals-", dir=harness.SCRATCH)
    os.makedirs(folder, exist_ok=True)
    bench, faults = Bench(folder), []
    print(f"start {bench.start:.2f} s, step {bench.step:.3f} s, evaluation {bench.evaluation:.3f} s")
    print("| launcher | signal | to | during | exit codes | faults |\n|---|---|---|---|---|---|", flush=True)
    with concurrent.futures.ThreadPoolExecutor(options.jobs) as pool:
        for cell in cells():
            if not all(word in re.split(r"[ |]+", cell.text()) for word in options.only):
                continue
            ends = list(pool.map(lambda number: bench.attempt(cell, options.seed, number), range(options.tries)))
            found = [fault for _, fault in ends if fault]
            codes = collections.Counter(str(code) for code, _ in ends)
            shown = ", ".join(f"{code}: {count}" for code, count in sorted(codes.items()))
            print(f"| {cell.text()} | {shown} | {len(found)} |", flush=True)
            for fault in found:
                print(fault, file=sys.stderr, flush=True)
            faults += found
    if not options.keep:
        shutil.rmtree(folder, ignore_errors=True)
    return 1 if faults else 0


if __name__ == "__main__":
    sys.exit(main())
