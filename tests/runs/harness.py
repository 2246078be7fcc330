"""Shared by the whole-run tests: a small spec with its shards, running llmc and trainers, comparing run folders."""

import array
import json
import math
import os
import random
import re
import shutil
import struct
import subprocess
import sys
import tempfile
import time
import unittest

import processes
from processes import read

LLMC = os.path.abspath(os.environ.get("LLMC", "build/llmc"))
SOURCE = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
sys.path.append(os.path.join(SOURCE, "tests", "reference"))
from checks import HANGS, nan_as_inf  # noqa: E402

VOCABULARY = 97
SCRATCH = "/dev/shm" if os.access("/dev/shm", os.W_OK) else tempfile.gettempdir()  # every save syncs its files

# Three layers, so that {every: 2} has layers of both kinds; odd widths, so that rows are padded; two micro-batches per
# step. Evaluation, sampling and saving coincide, every third step.
SMALL = """name: small
model:
  vocab_size: 97
  hidden_size: 36
  num_hidden_layers: 3
  num_attention_heads: 6
  num_key_value_heads: 2
  head_dim: 10
  intermediate_size: 50
  tie_word_embeddings: false
  attention_bias: true
precision: {compute: fp32}
batch: {sequence_length: 24, micro_batch: 2, tokens: 96}
memory: {budget: 256MiB, loss_chunk: 16}
optimizer: {lr: 3.0e-3}
schedule: {kind: cosine, steps: 12, warmup_steps: 3}
data:
  train: [{path: train-*.bin}]
  validation: [{path: val-*.bin}]
  seed: 5
evaluation: {every: 3, sequences: 4}
sampling: {every: 3, prompts: ["1 2 3", "40"], tokens: 8}
checkpoint: {every: 3, keep_last: 100}
metrics: {every: 1}
target: {kind: cpu, arch: native}
"""
# Over SMALL: GEMMs as three of bf16, except those of its 97 tokens. Widths are multiples of 32, as tiles require.
BF16X3 = ("precision.matmul=bf16x3", "model.hidden_size=64", "model.num_attention_heads=2",
          "model.num_key_value_heads=1", "model.head_dim=32", "model.intermediate_size=96", "batch.sequence_length=32",
          "batch.micro_batch=1", "memory.loss_chunk=32")
# Over SMALL: products of e4m3 operands, in all layers but the first. Widths are multiples of 16.
FP8 = ("precision.compute=bf16", "precision.matmul=fp8", "precision.fp8.first_layers=1", "model.hidden_size=96",
       "model.head_dim=16", "model.intermediate_size=80")
FP8_FULL = (*(word.replace("matmul=fp8", "matmul=fp8_full")
              for word in FP8), "precision.fp8.head=forward_dgrad", "model.vocab_size=112")
FP8_TENSOR = (*(word.replace("matmul=fp8", "matmul=fp8_tensor") for word in FP8), "precision.fp8.last_layers=0")
# Over SMALL: blocks of 32 along all sums, those over tokens included.
MXFP8 = ("precision.compute=bf16", "precision.matmul=mxfp8", "precision.fp8.first_layers=1", "model.hidden_size=96",
         "model.head_dim=16", "model.intermediate_size=64", "batch.sequence_length=16")
# Over SMALL: AdamW's moments in 8 bits, of matrices that have 4096 elements. k and v have 2048.
INT8 = ("precision.optimizer_state=int8", "model.hidden_size=64", "model.num_attention_heads=4", "model.head_dim=16",
        "model.intermediate_size=80")
# For a run of SMALL that lasts until interrupted: after some hundred steps it has memorised its few samples, and its
# loss spikes at times.
ENDLESS = ("schedule.steps=100000", "checkpoint.keep_last=2", "evaluation.every=0", "sampling.every=0", "guards.loss=0",
           "guards.grad_norm=0")
# Three steps that write metrics and nothing else.
QUIET = ("--no-final-checkpoint", "--steps", 3, "checkpoint.every=0", "evaluation.every=0", "sampling.every=0")


def mixture(folder):
    """Words that give a run of SMALL its two shards as two sources."""
    return ("data.train.path=", f"data.train.first={{path: {folder}/train-0.bin, weight: 0.7}}",
            f"data.train.second={{path: {folder}/train-1.bin, weight: 0.3, most_epochs: 100}}")


def write_shard(path, count, seed, vocabulary=VOCABULARY, period=None):
    """llm.c's format: a header of 256 int32, then tokens with a learnable pattern; those after `period` repeat the
    first ones."""
    rng = random.Random(seed)
    magic, version, code = (20240520, 1, "H") if vocabulary <= 65536 else (20240801, 7, "I")
    tokens = array.array(code, [(7 * i + seed) % vocabulary if rng.random() < 0.7 else rng.randrange(vocabulary)
                                for i in range(period or count)])
    tokens = array.array(code, [tokens[i % len(tokens)] for i in range(count)])
    with open(path, "wb") as file:
        file.write(struct.pack("<256i", magic, version, count, *([0] * 253)))
        file.write(tokens.tobytes())


def write_small(folder, text=SMALL):
    """The small spec and shards of 5 and 4 samples (with tails): a step of 4 samples crosses ends of shards and of
    epochs."""
    os.makedirs(folder, exist_ok=True)
    spec = os.path.join(folder, "small.yaml")
    with open(spec, "w") as file:
        file.write(text)
    write_shard(os.path.join(folder, "train-0.bin"), 5 * 24 + 1 + 7, 1)
    write_shard(os.path.join(folder, "train-1.bin"), 4 * 24 + 1 + 3, 2)
    write_shard(os.path.join(folder, "val-0.bin"), 6 * 24 + 1, 3)
    return spec


def environment(**changes):
    """The caller's environment, with ccache's compilers first (Debian's location), because the tests often compile
    equal kernels. Paths below SCRATCH are relative to the current directory, so that a folder's name does not
    matter. Simulated kernels use a precompiled header, which ccache caches only with CCACHE_SLOPPINESS. The folder
    of device files does not exist, so that predicted times are llmc's own, whatever was measured here."""
    env = dict(os.environ, CCACHE_BASEDIR=SCRATCH, CCACHE_NOHASHDIR="1", CCACHE_SLOPPINESS="pch_defines,time_macros",
               CCACHE_IGNOREOPTIONS="-Werror", XDG_CONFIG_HOME=os.path.join(SCRATCH, "llmc-no-config"))
    if os.path.isdir("/usr/lib/ccache"):
        env["PATH"] = "/usr/lib/ccache:" + env["PATH"]
    for key in ("LLMC_HOME", "LLMC_BUILD"):
        env.pop(key, None)
    env.update(changes)
    return env


def has_tiles():
    """Whether this processor has AMX's bf16 tiles, checked as in runtime/device/cpu/arch.cpp."""
    return {"amx_tile", "amx_bf16"} <= set(read("/proc/cpuinfo").decode().split())


class Done:
    """Exit code and output of a process."""

    def __init__(self, process):
        self.code, self.out, self.err = process.returncode, process.stdout, process.stderr


def call(*command, cwd=None, env=None, timeout=HANGS):
    return Done(
        subprocess.run([str(word) for word in command], stdout=subprocess.PIPE, stderr=subprocess.PIPE,
                       universal_newlines=True, errors="replace", cwd=cwd, env=env or environment(), timeout=timeout))


def compile_trainer(spec, out, *overrides):
    """Compiles into the folder `out`, from within it (see environment()); returns the trainer's path."""
    os.makedirs(out, exist_ok=True)
    done = call(LLMC, "compile", spec, "-o", out, *overrides, cwd=out)
    if done.code:
        raise AssertionError(f"{spec} {overrides}\n{done.out}{done.err}")
    return os.path.join(out, "trainer")


def run_measured(command, log):
    """Runs a program with its output in the file `log`; returns its exit code and peak resident bytes, by wait4."""
    with open(log, "wb") as file:
        process = subprocess.Popen([str(word) for word in command], stdout=file, stderr=subprocess.STDOUT,
                                   env=environment())
    _, status, usage = os.wait4(process.pid, 0)
    process.returncode = os.WEXITSTATUS(status) if os.WIFEXITED(status) else -os.WTERMSIG(status)
    return process.returncode, usage.ru_maxrss * 1024


def read_terminal(master):
    """Reads a terminal until its last writer has closed it; closes `master`."""
    output = b""
    while True:
        try:
            part = os.read(master, 4096)
        except OSError:  # Linux signals the end of a terminal this way
            break
        if not part:
            break
        output += part
    os.close(master)
    return output


def tree(folder):
    """Relative path -> bytes, for every file below a folder."""
    return {
        os.path.relpath(os.path.join(root, name), folder): read(os.path.join(root, name))
        for root, _, names in os.walk(folder) for name in names
    }


def newest_checkpoint(run):
    """Highest step of a checkpoint in the run folder, -1 if there is none. A wait for one folder could miss it: a run of
    fast steps removes old checkpoints between two looks."""
    folder = os.path.join(run, "checkpoints")
    names = os.listdir(folder) if os.path.isdir(folder) else []
    return max((int(name[5:]) for name in names if re.fullmatch(r"step-\d+", name)), default=-1)


def json_lines(path):
    with open(path) as file:
        return [json.loads(line) for line in file]


def tensors(path):
    """safetensors of F32, or of codes in U8: name -> array of numbers."""
    data = read(path)
    (size, ) = struct.unpack("<Q", data[:8])
    header = json.loads(data[8:8 + size])
    header.pop("__metadata__", None)
    result = {}
    for name, entry in header.items():
        begin, end = entry["data_offsets"]
        values = array.array({"F32": "f", "U8": "B"}[entry["dtype"]])
        values.frombytes(data[8 + size + begin:8 + size + end])
        result[name] = values
    return result


def round_to_fp16(path):
    """Rounds the weights of a file: an eighth of them then lie in the middle of two bf16."""
    data = bytearray(read(path))
    (size, ) = struct.unpack("<Q", data[:8])
    header = json.loads(data[8:8 + size])
    header.pop("__metadata__", None)
    for entry in header.values():
        begin, end = (8 + size + offset for offset in entry["data_offsets"])
        values = array.array("f")
        values.frombytes(data[begin:end])
        halves = struct.pack(f"{len(values)}e", *values)
        data[begin:end] = array.array("f", struct.unpack(f"{len(values)}e", halves)).tobytes()
    with open(path, "wb") as file:
        file.write(data)


def relative_difference(ours, reference):
    """Norm of the difference over norm; the largest over all tensors, with its name. NaN counts as inf, and so does what
    only one of both has."""
    worst = (0.0, "")
    for name in {**reference, **ours}:
        if name not in ours or name not in reference or len(ours[name]) != len(reference[name]):
            return (math.inf, name)
        difference = sum((a - b)**2 for a, b in zip(ours[name], reference[name]))**0.5
        size = sum(b * b for b in reference[name])**0.5
        if size:
            worst = max(worst, (nan_as_inf(difference / size), name))
        elif difference:
            return (math.inf, name)
    return worst


def kill(process):
    """Kills what still runs of a program with a session of its own, and closes its pipes."""
    with process:
        if process.poll() is None:
            processes.kill_session(process.pid)


class RunTest(unittest.TestCase):
    """A temporary folder, in memory if possible."""

    maxDiff = 4000

    @classmethod
    def setUpClass(cls):
        cls.folder = tempfile.mkdtemp(prefix="llmc-run-", dir=SCRATCH)

    @classmethod
    def tearDownClass(cls):
        shutil.rmtree(cls.folder, ignore_errors=True)

    def path(self, *names):
        return os.path.join(self.folder, *names)

    def start(self, *command, **options):
        """Starts a program with a session of its own. If it still runs when the test ends, all of the session is killed,
        so that a test that fails leaves no endless trainer."""
        options.setdefault("env", environment())
        process = subprocess.Popen([str(word) for word in command], start_new_session=True, **options)
        self.addCleanup(kill, process)
        return process

    def until(self, process, there, log=None):
        """Waits until there() is true. Fails if the program has ended before, with what it wrote to a pipe or `log`."""
        deadline = time.monotonic() + HANGS
        while not there():
            if process.poll() is not None and not there():  # asked again: its last act counts
                said = read(log).decode(errors="replace") if log else process.communicate()
                self.fail(f"{process.args} has ended with {process.returncode}: {said}")
            self.assertLess(time.monotonic(), deadline, process.args)
            time.sleep(0.01)

    def succeed(self, *command, **options):
        done = call(*command, **options)
        self.assertEqual(done.code, 0, f"{' '.join(map(str, command))}\n{done.out}{done.err}")
        return done

    def assert_facts(self, text, *facts):
        """The message has these facts, in this order. The sentence around them may change."""
        self.assertRegex(text, "(?s)" + ".*".join(map(re.escape, facts)))

    @classmethod
    def compile(cls, spec, name, *overrides):
        """Compiles into <folder>/<name>; returns the trainer's path."""
        return compile_trainer(spec, os.path.join(cls.folder, name), *overrides)

    def assert_same_files(self, ours, theirs, where):
        """Compares every file of two folders byte by byte; names the first that differs, without its bytes."""
        a, b = tree(ours), tree(theirs)
        self.assertEqual(sorted(a), sorted(b), where)
        for name in sorted(a):
            self.assertTrue(a[name] == b[name], f"{where}: {name} differs")


class TrainerTest(RunTest):
    """Runs of one trainer, of a small spec."""

    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        cls.spec = write_small(cls.folder)
        cls.trainer = cls.compile(cls.spec, "a")

    def refused(self, code, *words, trainer=None):
        done = call(trainer or self.trainer, *words)
        self.assertEqual(done.code, code, f"{words}\n{done.out}{done.err}")
        self.assertTrue(done.err.startswith("error: "), done.err)
        return done.err


TIMES = ("seconds", "total_seconds", "tokens_per_second", "data_wait", "evaluation_seconds", "audit_seconds",
         "saving_seconds", "resident", "mfu", "product_share")


def without_timing(metrics):
    return [{key: value for key, value in line.items() if key not in TIMES} for line in metrics]


def allocated_bytes(output):
    """Bytes of the arena that a trainer reports."""
    return int(
        re.search(r"memory\s+([\d_,' ]+) bytes allocated", output).group(1).translate({ord(c): None
                                                                                       for c in "_,' "}))


def main():
    unittest.main(verbosity=2)
