#!/usr/bin/env python3
"""Random small specs and command lines in hostile surroundings: nothing may end in 70, hang, or die of a signal that was not sent.

    tests/bench/hostile.py [--count 1000] [--seed 1] [--only CASE] [--jobs 2] [--llmc PATH]

A case has its own numbers, drawn from the seed and its place: `--only` repeats one and prints its command and output.
"""
import argparse
import collections
import concurrent.futures
import functools
import os
import pathlib
import random
import resource
import shutil
import signal
import stat
import subprocess
import sys
import tempfile

ROOT = pathlib.Path(__file__).resolve().parent.parent.parent
sys.path.insert(0, str(ROOT / "tests" / "runs"))
import harness  # noqa: E402

LIMIT = 300  # seconds until a case counts as hung: most take a hundredth of one
NOBODY = 65534
GOOD = {0, 1, 2, 3, 4, 5, 6, 7, 75, 170}
LOADER = "error while loading shared libraries"  # from ld.so, if memory or descriptors do not suffice to start

DIMENSIONS = {
    "model.vocab_size": (97, 1, 0, 96, 65537, -3),
    "model.hidden_size": (36, 64, 7, 0, 1 << 40),
    "model.num_hidden_layers": (3, 1, 0, 200),
    "model.num_attention_heads": (6, 5, 0),
    "model.num_key_value_heads": (2, 6, 4),
    "model.head_dim": (10, 9, 256, 1000),
    "model.intermediate_size": (50, 1, 10**12),
    "batch.sequence_length": (24, 1, 0, 10**9),
    "batch.micro_batch": (2, 3, "auto", 0),
    "batch.tokens": (96, 24, 97, "1Mi", -1),
    "memory.budget": ("256MiB", "1KiB", "auto", "", "9e99GiB"),
    "memory.recompute": ("none", "all", "auto", "{every: 2}"),
    "optimizer.lr": ("3e-4", "nan", "-1", "1e400"),
    "schedule.steps": (12, 1, 0, 1 << 62),
    "precision.compute": ("fp32", "bf16", "fp64"),
    "target.kind": ("cpu", "cuda", "tpu"),
    "target.arch": ("native", "sm_90a", "[]", "x86-64-v9"),
    "target.device": ("cpu", "h100-sxm", "./none.yaml", "LOOP"),
    "data.tokenizer": ("", "none.model", "LOOP", "PIPE"),
    "init.from": ("", "LOOP", "."),
    "checkpoint.mirror": ("", "LOOP", "mirror"),
    "name": ("small", "", "a/b", "../x", "n" * 300),
    "parallel.world_size": (1, 2, 3, 10**6),
    "parallel.shard": ("none", "optimizer", "parameters", "x"),
    "evaluation.every": (3, 0, -1),
    "sampling.prompts": ('["1 2"]', "[" + ", ".join(["x"] * 200) + "]"),
    "seed": (1, -1, 1 << 64),
    "none.such": (1, ),
}
WRECKS = ("", "\0", "{", "- a\n- b\n", "name: &a [*a]\n", "\xff\xfe", "model: " + "{a: " * 2000, "extends: LOOP\n",
          "extends: bad.yaml\n", "a: " * 500)


class Scene:
    """A folder with the files that cases name: a spec, data, a trainer and a run; links to themselves, pipes,
    inaccessible folders."""

    def __init__(self, llmc, folder, trainer=None):
        self.llmc, self.folder = llmc, folder
        self.spec = harness.write_small(folder)
        self.trainer = trainer or harness.compile_trainer(self.spec, self.path("trainer"))
        self.run = self.path("runs", "good")
        done = harness.call(self.trainer, "--run", self.run, "--steps", 3)
        assert done.code == 0, done.err
        self.checkpoint = os.path.join(self.run, "checkpoints", "step-00000003")
        os.symlink("loop", self.path("loop"))
        os.mkfifo(self.path("pipe"))
        for name in ("closed", "unlisted"):
            os.makedirs(self.path(name, "inside"))
        os.makedirs(self.path("runs", "closed", "state"))
        os.makedirs(self.path("text"))
        pathlib.Path(self.path("text", "a.txt")).write_text("some text of a few words\n" * 200)
        pathlib.Path(self.path("plain")).write_text("plain\n")
        os.chmod(self.path("closed"), 0)
        os.chmod(self.path("runs", "closed"), 0)
        os.chmod(self.path("unlisted"), stat.S_IXUSR | stat.S_IXOTH)
        os.chmod(folder, 0o755)
        self.bad_places = [
            self.path("loop"),
            self.path("loop", "x"),
            self.path("closed", "x"),
            self.path("closed"),
            self.path("plain", "x"), "/dev/full", "/dev/null",
            self.path("pipe"),
            self.path("n" * 300), "/proc/self/mem", "/", ".", "", " ", "-", "/" + "d/" * 3000, "\x1b[31m"
        ]
        self.bad_folders = [
            self.path("loop"),
            self.path("closed"),
            self.path("plain", "x"),
            self.path("none"), "", "/dev/full",
            self.path("n" * 300)
        ]

    def path(self, *names):
        return os.path.join(self.folder, *names)

    def remove(self):
        for name in ("closed", os.path.join("runs", "closed"), "unlisted"):
            os.chmod(self.path(name), 0o700)
        shutil.rmtree(self.folder, ignore_errors=True)


class Case:

    def __init__(self, scene, seed, number):
        self.scene, self.number = scene, number
        self.draw = random.Random(f"{seed} {number}")
        self.own = scene.path(f"case-{number}")
        os.makedirs(self.own)
        os.chmod(self.own, 0o777)
        self.command = self.words()
        self.env, self.limits, self.notes = harness.environment(OMP_NUM_THREADS="1", CCACHE_DISABLE="1"), [], []
        self.user, self.cwd, self.input, self.output, self.error = None, self.own, "null", "kept", "kept"
        for _ in range(self.draw.choice((0, 1, 1, 2, 3))):
            self.draw.choice((self.variables, self.variables, self.limit, self.streams, self.streams, self.folder,
                              self.other_user))()

    def one(self, *of):
        return self.draw.choice(of)

    def place(self):
        """Mostly a place where a file exists or can be created."""
        return self.one(os.path.join(self.own, "out"), *
                        self.scene.bad_places) if self.draw.random() < 0.6 else os.path.join(self.own, "out")

    def overrides(self, most):
        words = []
        for _ in range(self.draw.randrange(most + 1)):
            key = self.one(*DIMENSIONS)
            value = self.one(*DIMENSIONS[key])
            words.append(f"{key}={self.filled(str(value))}")
        if self.draw.random() < 0.05:
            words.append(self.one("", "=", "x", "name", "--", "a=b=c", "batch={", "name=\x01"))
        return words

    def filled(self, text):
        return text.replace("LOOP", self.scene.path("loop")).replace("PIPE", self.scene.path("pipe"))

    def written_spec(self):
        """The good one, a copy with other values, a damaged one, or something that is no file."""
        kind = self.draw.random()
        if kind < 0.4:
            return self.scene.spec
        if kind < 0.5:
            return self.one(*self.scene.bad_places, self.scene.run, self.scene.checkpoint)
        path = os.path.join(self.own, "bad.yaml")
        text = harness.SMALL
        if kind < 0.8:
            lines = text.splitlines()
            for _ in range(self.draw.randrange(1, 4)):
                at = self.draw.randrange(len(lines))
                lines[at] = self.one("", lines[at][:self.draw.randrange(len(lines[at]) + 1)],
                                     lines[at].replace(":", ": x"), lines[at] + self.one("0", "]", " #"))
            text = "\n".join(lines) + "\n"
        else:
            text = self.one(*WRECKS)
        with open(path, "wb") as file:
            file.write(self.filled(text).encode("latin-1", "replace"))
        return path

    def words(self):
        llmc, scene = self.scene.llmc, self.scene
        which = self.draw.random()
        if which < 0.12:
            return self.trainer_words()
        if which < 0.3:
            return [llmc, *self.other_words()]
        command = self.one("check", "check", "plan", "plan", "config", "emit", "emit", "diff", "sizes")
        if command == "emit":
            style = self.one([], [], ["--style=include"], ["--bundle"], ["--dump-ir", self.place()])
            return [llmc, "emit", self.written_spec(), *self.overrides(2), "-o", self.place(), *style]
        if command == "diff":
            return [
                llmc, "diff",
                self.written_spec(),
                self.written_spec(), *self.overrides(1), *self.one([], ["--json"], ["--full"])
            ]
        options = {
            "check": ([], ["--json"]), "config": ([], ["--json"]), "plan":
            ([], [], ["--json"], ["--hints"], ["--launches"], ["--kernels"], ["--html", self.place()], ["--pin"],
             ["--world", self.one("2", "0", "", "x", "99999")], ["--explain",
                                                                 self.one("", "loss", "attention")],
             ["--measured", self.place()], ["--price", self.one("2", "", "nan", "-1")])
        }
        if command == "sizes":
            return [
                llmc, "sizes",
                *self.one([], ["--json"], ["--device", self.one("l4", "", place := self.place(), place)],
                          ["--tokens", self.one("1B", "", "x")], [""])
            ]
        return [llmc, command, self.written_spec(), *self.overrides(3), *self.one(*options[command])]

    def other_words(self):
        scene, place = self.scene, self.place()
        return self.one(
            ["schema"], ["explain", self.one("E0301", "", "x")], ["init", "-o", place],
            ["init", "--from", self.one(scene.run, place)], ["devices"], ["devices", "--json"],
            ["runs", self.one(scene.path("runs"), place)], ["runs", scene.path("runs"), "--json"],
            ["report", scene.path("runs"), "-o", self.one(place + ".html", place)],
            ["report", self.one(scene.run, place), "-o",
             os.path.join(self.own, "a.html")],
            ["data", "info", self.one(scene.path("train-0.bin"), place)], [
                "data", "build", "--from",
                self.one(scene.path("text"), place), "--vocab-size",
                self.one("320", "", "0"), "-o", place
            ],
            ["data", "build", "--from",
             scene.path("text"), "--tokenizer", place, "-o",
             os.path.join(self.own, "out")],
            *([["checkpoint", command, self.one(scene.run, scene.checkpoint, place)]
               for command in ("ls", "show", "verify")
               ]), ["checkpoint", "diff", scene.checkpoint,
                    self.one(scene.checkpoint, place)],
            ["checkpoint", "prune",
             self.one(scene.run, place), "--keep-last",
             self.one("100", "0", "")],
            ["checkpoint", "export", self.one(scene.checkpoint, place), "-o", place],
            [self.one("", "x", "--help", "--version", "check", "plan", "data")],
            ["compile", self.written_spec(), "-o", self.one(*scene.bad_folders)],
            ["run", scene.spec, "-o", self.one(*scene.bad_folders), "--", *self.training()],
            ["verify", scene.spec, "-o", self.place(), "--emit-only"])

    def training(self):
        place = self.place()
        return self.one(["--run", place], ["--run", self.one("", self.scene.path("loop"))], ["--resume", place],
                        ["--base", self.one(*self.scene.bad_folders)],
                        ["--steps", self.one("", "0", "1", "-1", "1e9")],
                        ["--deadline", self.one("", "1s", "x", "99999999999d")], ["--trace", place],
                        ["--timing", place], ["--timeline", place], ["--profile", self.one("", "1:1")],
                        ["--batches", self.one("", "1", "1:3", "99999", "x")], ["--batches", "1", "--text", "--json"],
                        ["--threads", self.one("1", "0", "", "99999")],
                        ["--ranks", self.one("", "0", "1", "x")], ["--plan"], ["--plan", "--json"], self.overrides(2))

    def trainer_words(self):
        scene, place = self.scene, self.place()
        trained = ["--run", os.path.join(self.own, "run"), "--steps", "2"]
        return [
            scene.trainer, *self.one(
                ["--plan"], ["--help"], ["--version"], trained, trained, [*trained, *self.training()],
                self.training() + ["--batches", "1"],
                [*trained, "--resume", self.one(scene.run, scene.checkpoint, place)], [
                    "evaluate", "--checkpoint",
                    self.one(scene.run, scene.checkpoint, place), *self.one(
                        [], ["--json"], ["--data", place], ["--sequences", self.one("", "1", "all")])
                ], [
                    "sample", "--checkpoint",
                    self.one(scene.run, place), "--prompt",
                    self.one("1 2", "", "x", "-"), "--tokens",
                    self.one("2", "", "0")
                ], ["--run", scene.run, "--batches",
                    self.one("1", "1:2"), *self.one([], ["--json"], ["--text"])],
                ["calibrate", "-o", self.one("", *scene.bad_folders), "--seconds", "0"])
        ]

    # Environments.

    def variables(self):
        bad = self.one(*self.scene.bad_folders)
        for name in self.draw.sample(("HOME", "XDG_CONFIG_HOME", "TMPDIR", "LLMC_HOME", "LLMC_BUILD", "PATH",
                                      "OMP_NUM_THREADS", "TERM", "COLUMNS", "CUDA_HOME", "LC_ALL"),
                                     self.draw.randrange(1, 4)):
            self.env[name] = {
                "OMP_NUM_THREADS": self.one("", "x", "-1", "1,1", "1"), "TERM": "", "COLUMNS": self.one("0", "x"),
                "LC_ALL": self.one("xx_XX", "de_DE.UTF-8", "")
            }.get(name, bad)
            self.notes.append(f"{name}={self.env[name]!r:.60}")

    def limit(self):
        kind, value = self.one((resource.RLIMIT_NOFILE, self.one(4, 5, 8, 12, 20)),
                               (resource.RLIMIT_FSIZE, self.one(0, 1, 4096, 100000)), (resource.RLIMIT_CORE, 0),
                               (resource.RLIMIT_AS, self.one(250, 400, 800, 1600) << 20),
                               (resource.RLIMIT_NPROC, self.one(0, 1, 5)))
        if kind == resource.RLIMIT_AS and self.command[0] == self.scene.trainer:
            return  # oneDNN's own
        self.limits.append((kind, value))
        self.notes.append(f"limit {kind} {value}")

    def streams(self):
        which = self.one("input", "output", "output", "error")
        setattr(self, which, self.one("closed", "full", "pipe") if which != "input" else self.one("closed", "folder"))
        self.notes.append(f"{which} {getattr(self, which)}")

    def folder(self):
        self.cwd = self.one("/", "gone", self.scene.folder, "/proc/self" if os.path.isdir("/proc/self") else "/")
        self.notes.append(f"in {self.cwd}")

    def other_user(self):
        if os.geteuid() == 0:
            self.user = NOBODY
            self.notes.append("as nobody")

    def prepare(self):
        """In the child, before the program."""
        if self.cwd == "gone":
            gone = os.path.join(self.own, "gone")
            os.mkdir(gone)
            os.chdir(gone)
            os.rmdir(gone)
        for kind, value in self.limits:
            resource.setrlimit(kind, (value, value))
        if self.user is not None:
            os.setgroups([])
            os.setresgid(self.user, self.user, self.user)
            os.setresuid(self.user, self.user, self.user)
        for number, how in enumerate((self.input, self.output, self.error)):
            if how == "closed":
                os.close(number)

    def stream(self, how, kept):
        if how == "full":
            return open("/dev/full", "wb")
        if how == "folder":
            return os.open(self.own, os.O_RDONLY)
        if how == "pipe":
            read, write = os.pipe()
            os.close(read)
            return write
        return kept

    def ends(self):
        """Exit code (negative: a signal; None: timed out), and the output."""
        files = [
            self.stream(self.input, subprocess.DEVNULL),
            self.stream(self.output, subprocess.PIPE),
            self.stream(self.error, subprocess.STDOUT if self.output == "kept" else subprocess.PIPE)
        ]
        try:
            process = subprocess.Popen(self.command_words(), stdin=files[0], stdout=files[1], stderr=files[2],
                                       cwd="/" if self.cwd == "gone" else self.cwd, env=self.env,
                                       preexec_fn=self.prepare, start_new_session=True)
        except (OSError, subprocess.SubprocessError, ValueError) as error:
            return 0, f"not started: {error}"  # refused by the system before llmc started
        finally:
            for file in files:
                if not isinstance(file, int):
                    file.close()
                elif file >= 0:
                    os.close(file)
        said, code = [b"", b""], None
        try:
            said, code = process.communicate(timeout=LIMIT), process.returncode
        except subprocess.TimeoutExpired:
            os.killpg(process.pid, signal.SIGKILL)
            said = process.communicate()
        return code, b"".join(text or b"" for text in said).decode(errors="replace")

    def command_words(self):
        return [word.replace("\0", "") for word in self.command]

    def fault(self):
        code, said = self.ends()
        self.code, self.said = code, said
        if code is None:
            return "hangs"
        if code == -signal.SIGPIPE and "pipe" in (self.output, self.error):
            return ""  # sent by a pipe without a reader
        if code == 127 and (LOADER in said or self.error != "kept"):
            return ""
        if code < 0:
            return f"ends by signal {-code}"
        if code not in GOOD:
            return f"ends with {code}"
        if "a bug in llmc" in said or "terminate called" in said:
            return "blames llmc"
        if code and self.error == "kept" and not said.strip() and not (code == 1 and self.output != "kept"):
            return f"ends with {code} without a word"
        return ""

    def text(self):
        return f"case {self.number}: {' '.join(map(repr, self.command_words()))}\n  {', '.join(self.notes) or 'nothing hostile'}"


def tried(scene, seed, number):
    case = Case(scene, seed, number)
    fault = case.fault()
    shutil.rmtree(case.own, ignore_errors=True)
    return case, fault


def run(count, seed, jobs, llmc, only=None, trainer=None):
    """Faults found, as text; counts of exit codes. `trainer`: an existing one of harness.SMALL."""
    folder = tempfile.mkdtemp(prefix="llmc-hostile-", dir=harness.SCRATCH)
    scene = Scene(llmc, folder, trainer)
    faults, codes = [], collections.Counter()
    try:
        # Processes, because the code between fork and exec is not safe with threads.
        with concurrent.futures.ProcessPoolExecutor(jobs) as pool:
            for case, fault in pool.map(functools.partial(tried, scene, seed),
                                        [only] if only is not None else range(count)):
                codes[case.code] += 1
                if only is not None:
                    print(case.text(), f"\nexit {case.code}\n{case.said}")
                if fault:
                    faults.append(f"{case.text()}\n  {fault}\n" + "".join(f"  | {line:.300}\n"
                                                                          for line in case.said.splitlines()[-6:]))
                    print(faults[-1], file=sys.stderr, flush=True)
    finally:
        scene.remove()
    return faults, codes


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--count", type=int, default=1000)
    parser.add_argument("--seed", default="1")
    parser.add_argument("--only", type=int, metavar="CASE")
    parser.add_argument("--jobs", type=int, default=os.cpu_count())
    parser.add_argument("--llmc", default=harness.LLMC)
    given = parser.parse_args()
    harness.LLMC = os.path.abspath(given.llmc)
    faults, codes = run(given.count, given.seed, given.jobs, harness.LLMC, given.only)
    ends = ", ".join(f"{code}: {count}" for code, count in sorted(codes.items(), key=str))
    print(f"{sum(codes.values())} cases of seed {given.seed}; exit codes {ends}; {len(faults)} faults")
    sys.exit(1 if faults else 0)


if __name__ == "__main__":
    main()
