#!/usr/bin/env python3
"""Measures an emitted trainer and PyTorch on this machine's GPU, without llmc: see README.md."""

import argparse
import ctypes
import datetime
import json
import os
import pathlib
import platform
import shutil
import subprocess
import sys
import tempfile
import time

HERE = pathlib.Path(__file__).resolve().parent
ROOT = HERE.parents[2]
sys.path[:0] = [str(HERE), str(HERE.parent), str(ROOT / "tests" / "runs")]
import build  # noqa: E402
import report  # noqa: E402
import steps  # noqa: E402

# Name, function, limit in seconds. A step that fails or runs out of time is reported so, and the next one runs.
STEPS = [("build", steps.build, 240), ("ceilings", steps.ceilings, 40), ("tune", steps.tune, 60),
         ("step", steps.whole_steps, 150),
         ("pieces", steps.pieces, 100), ("attention", steps.attention, 50), ("tests", steps.tests, 60),
         ("sanitizer", steps.sanitizer, 60), ("PyTorch", steps.torch, 240)]


class Kit:
    """What the steps share. `sizes`: how much is measured."""

    def __init__(self, arguments, work):
        self.simulated, self.work = arguments.simulate is not None, work
        self.bundles = ROOT / "bundles"
        self.sizes = steps.TINY if self.simulated else steps.FULL
        self.end = time.monotonic() + 60 * arguments.minutes
        self.deadline = self.end
        self.results = {}
        self.machine = (build.Simulated(self.bundles, work, arguments.simulate) if self.simulated
                        else build.Gpu(self.bundles, work, self.call))
        self.plan = json.loads((self.bundles / "run" / "plan.json").read_text())
        self.data = {}

    def call(self, *command, env=None):
        """Output of a command that must succeed before the step's deadline."""
        words = [str(word) for word in command]
        try:
            done = subprocess.run(words, env=env or self.machine.environment, stdout=subprocess.PIPE, stderr=subprocess.PIPE,
                                  text=True, errors="replace", timeout=max(1.0, self.deadline - time.monotonic()))
        except subprocess.TimeoutExpired as error:
            raise RuntimeError(f"{words[0]} was still running at the step's time limit") from error
        if done.returncode:
            raise RuntimeError(f"{' '.join(words)} exited with {done.returncode}: {(done.stdout + done.stderr)[-3000:]}")
        return done.stdout

    def run(self, name, function, limit):
        print(name, file=sys.stderr, flush=True)
        begin = time.monotonic()
        self.deadline = min(self.end, begin + limit)
        result = self.results.setdefault(name, {})
        try:
            if begin >= self.end:
                raise RuntimeError("not begun: the kit's time was used up")
            function(self, result)
        except (Exception, SystemExit) as error:  # whatever a step meets is its result
            result["failed"] = f"{type(error).__name__}: {error}"
            print(f"{name} failed: {result['failed'][-400:]}", file=sys.stderr)
        result["seconds"] = time.monotonic() - begin


def library_version(name, function):
    """What a library itself says, through its C function of no arguments."""
    names = [f"lib{name}.so", *(f"lib{name}.so.{n}" for n in (13, 12, 9, 2))]
    # Found as the build finds it: cuBLASLt in the toolkit, the others in this Python first.
    toolkit = pathlib.Path(shutil.which("nvcc") or "nvcc").resolve().parent.parent / "lib64"
    folder = toolkit if name == "cublasLt" else (build.python_library(name) or toolkit.parent) / "lib"
    paths = [str(path) for path in sorted(folder.glob(f"lib{name}.so*"))]
    for path in paths + names:
        try:
            library = ctypes.CDLL(path)
        except OSError:
            continue
        if name == "nccl":
            value = ctypes.c_int()
            library.ncclGetVersion(ctypes.byref(value))
            return value.value
        getattr(library, function).restype = ctypes.c_size_t
        return getattr(library, function)()
    return None


def describe():
    def output(*command):
        try:
            return subprocess.run(command, capture_output=True, text=True, timeout=20).stdout.strip()
        except (OSError, subprocess.TimeoutExpired):
            return ""

    gpu = output("nvidia-smi", "--query-gpu=name,driver_version,memory.total,clocks.max.sm,power.limit", "--format=csv,noheader")
    return {"date": datetime.datetime.now(datetime.timezone.utc).isoformat(timespec="seconds"), "gpu": gpu.split("\n")[0],
            "nvcc": (output("nvcc", "--version").split("\n") or [""])[-1], "python": platform.python_version(),
            "cublasLt": library_version("cublasLt", "cublasLtGetVersion"), "cudnn": library_version("cudnn", "cudnnGetVersion"),
            "nccl": library_version("nccl", "ncclGetVersion"), "host": platform.platform(), "cores": os.cpu_count()}


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--out", type=pathlib.Path, required=True, help="folder for gpu.json and gpu.md")
    parser.add_argument("--minutes", type=float, default=9.5, help="time for everything (9.5)")
    parser.add_argument("--only", nargs="+", choices=[name for name, *_ in STEPS], help="these steps and the build")
    parser.add_argument("--simulate", type=pathlib.Path, metavar="BUILD/tests/sim",
                        help="on llmc's simulated GPU: tiny sizes, and times that mean nothing")
    a = parser.parse_args()
    a.out.mkdir(parents=True, exist_ok=True)
    # Every run of a trainer ends with a checkpoint: in memory where there is room for it.
    memory = pathlib.Path("/dev/shm")
    parent = memory if memory.is_dir() and shutil.disk_usage(memory).free > 40 << 30 else None
    with tempfile.TemporaryDirectory(prefix="llmc-kit-", dir=parent) as scratch:
        kit = Kit(a, pathlib.Path(scratch))
        begin = time.monotonic()
        for name, function, limit in STEPS:
            if not a.only or name in a.only or name == "build":
                kit.run(name, function, limit)
        plan = {key: kit.plan[key] for key in ("name", "fingerprint", "batch", "flops", "memory", "launches", "kernels", "products")}
        result = {"simulated": kit.simulated, "machine": describe(), "seconds": time.monotonic() - begin, "plan": plan,
                  "results": kit.results}
    (a.out / "gpu.json").write_text(json.dumps(result, indent=1) + "\n")
    text = report.markdown(result)
    (a.out / "gpu.md").write_text(text + "\n")
    print(text)
    return 1 if any("failed" in step for step in kit.results.values()) else 0


if __name__ == "__main__":
    sys.exit(main())
