"""Tokens a second of the quick-start trainer and of the same model in PyTorch: see README.md. Run by quickstart.sh."""

import argparse
import json
import os
import pathlib
import shutil
import statistics
import subprocess
import sys

import quickstart_pieces as pieces
import quickstart_report as report

ROOT = pathlib.Path(__file__).resolve().parent.parent.parent
WORK = ROOT / "build" / "bench"
SPEC = ROOT / "specs" / "quickstart.yaml"
DATA = ROOT / "data" / "quickstart"
CHECKED_STEPS = 5
# The same arithmetic in another order moves an fp32 loss by some 1e-7 and bf16's roundings by some 1e-4. A wrong scale,
# rotation, mask, decay or schedule moves a loss of 8.3 by more than these within five steps. bf16x3, whose GEMMs have
# some ten times fp32's error, gets ten times the tolerance: the model of the tiles moved six by 7e-8.
TOLERANCE = {"fp32": 2e-5, "bf16x3": 2e-4, "bf16": 1e-3}


def say(text):
    print(text, file=sys.stderr, flush=True)


def run(command, environment, log=None, **options):
    command = [str(word) for word in command]
    done = subprocess.run(command, env=environment, text=True, **options)
    if done.returncode:
        raise SystemExit((log.read_text() if log else "") + f"exit {done.returncode} of: {' '.join(command)}")
    return done.stdout


def torch_compiler():
    """A g++ that links this environment's PyTorch. Debian's older one in its library folder comes first on
    torch.compile's own command line, and linking to that fails its test for vector instructions."""
    libraries = subprocess.run([sys.executable, "-c", "import torch; print(torch.__path__[0] + '/lib')"], check=True,
                               capture_output=True, text=True).stdout.strip()
    wrapper = WORK / "compiler" / "g++"
    wrapper.parent.mkdir(parents=True, exist_ok=True)
    wrapper.write_text(f'#!/bin/sh\nexec {os.environ.get("CXX", "g++")} "-L{libraries}" "$@"\n')
    wrapper.chmod(0o755)
    return wrapper


class Bench:
    """Both sides of the comparison, built and ready to run. A `side` is ours, eager or compile."""

    def __init__(self, arguments):
        self.a = arguments
        # Nothing is pinned: the trainer and PyTorch both use the processors that the system gives them. The allocator
        # keeps its memory, because otherwise PyTorch faults its activations in at every step (4 to 8 % of its time).
        self.environment = {
            **os.environ, "OMP_NUM_THREADS": str(self.a.threads), "CUDA_VISIBLE_DEVICES": "", "MALLOC_MMAP_THRESHOLD_":
            str(1 << 32), "MALLOC_TRIM_THRESHOLD_": str(1 << 33), "MALLOC_TOP_PAD_": str(1 << 26)
        }
        if not list(DATA.glob("train-*.bin")):
            say(f"making {DATA} from Python's standard library")
            run([
                self.a.llmc, "data", "build", "--from",
                os.path.dirname(os.__file__), "--glob", "*.py", "--vocab-size", "4096", "-o", DATA
            ], self.environment, stdout=subprocess.DEVNULL)
        self.timed, self.torch_compiler = {}, torch_compiler()
        for dtype in self.a.dtypes:
            say(f"compiling the {dtype} trainer, and again with clocks in its step")
            words = [f"precision.compute={dtype}"] + [f"precision.matmul={self.a.matmul}"] * (self.a.matmul != "auto")
            run([self.a.llmc, "compile", SPEC, "-o", WORK / dtype, *words], self.environment, stdout=subprocess.DEVNULL)
            self.timed[dtype] = pieces.build(WORK / dtype, self.a.llmc, WORK / f"{dtype}-pieces")
        self.plan = json.loads((WORK / self.a.dtypes[0] / "plan.json").read_text())
        self.batch = self.plan["batch"]
        resolved = json.loads(run([self.a.llmc, "config", SPEC, "--json"], self.environment, stdout=subprocess.PIPE))
        self.model = {
            key["key"].removeprefix("model."): key["value"]
            for key in resolved if key["key"].startswith("model.")
        }

    def trainer(self, executable, steps, *more, environment=None):
        """One run in a temporary folder; returns its --timing file."""
        folder, timing = WORK / "run", WORK / "timing.json"
        shutil.rmtree(folder, ignore_errors=True)
        run([
            executable, "--run", folder, "--timing", timing, "--resume", "none", "--quiet", "--steps", steps,
            f"schedule.steps={max(1000, steps)}", "evaluation.every=0", "sampling.every=0", "checkpoint.every=0", *more
        ], environment or self.environment, stdout=subprocess.DEVNULL)
        shutil.rmtree(folder)
        return json.loads(timing.read_text())

    def torch(self, mode, dtype, steps, *more, cache=WORK / "inductor"):
        command = [
            sys.executable, ROOT / "tests" / "bench" / "quickstart_torch.py", "--mode", mode, "--dtype", dtype,
            "--threads", self.a.threads, "--steps", steps, "--model",
            json.dumps(self.model), "--batch", self.batch["micro_batch"], "--length", self.batch["sequence_length"],
            "--shard",
            sorted(DATA.glob("train-*.bin"))[0], *more
        ]
        if self.a.cpu_time:
            command.append("--cpu-time")
        environment = {**self.environment, "TORCHINDUCTOR_CACHE_DIR": str(cache), "CXX": str(self.torch_compiler)}
        log = WORK / "torch.log"  # PyTorch warns about processors without CUDA, and the like
        with log.open("w") as errors:
            output = run(command, environment, stdout=subprocess.PIPE, stderr=errors, log=log)
        return json.loads(output.splitlines()[-1])

    def take_apart(self, dtype, steps):
        """The step piece by piece, and its GEMMs alone: pieces.read(). `steps`: of the whole ones."""
        result, turns = WORK / "pieces.json", 2 * (self.a.warmup + steps)
        environment = {**self.environment, "LLMC_PIECES": str(result), "LLMC_PRODUCTS_ALONE": "1"}
        if self.a.cpu_time:
            environment["LLMC_PIECES_CPU"] = "1"
        timing = self.trainer(self.timed[dtype], turns, environment=environment)
        return {**timing, **pieces.read(result, steps, self.a.warmup)}

    def measure(self, side, dtype):
        steps = self.a.warmup + self.a.steps
        if side != "ours":
            return self.torch(side, dtype, steps)
        return self.take_apart(dtype, self.a.steps) if self.a.cpu_time else self.trainer(
            WORK / dtype / "trainer", steps)


def check(bench, dtype):
    """Checks that both sides agree in the losses of the first steps, from the same weights on the same tokens."""
    trace = WORK / "trace"
    shutil.rmtree(trace, ignore_errors=True)
    bench.trainer(WORK / dtype / "trainer", CHECKED_STEPS, "--trace", trace)
    ours = [json.loads((trace / f"step-{i}" / "summary.json").read_text())["loss"] for i in range(CHECKED_STEPS)]
    theirs = bench.torch("eager", dtype, CHECKED_STEPS, "--trace", trace)["losses"]
    shutil.rmtree(trace)
    errors = [abs(a - b) / b for a, b in zip(ours, theirs)]
    tolerance = TOLERANCE[dtype if bench.a.matmul == "auto" else bench.a.matmul]
    if not all(error <= tolerance for error in errors):  # NaN is not
        raise SystemExit(f"{dtype}: the two sides train different models: losses {ours} here, {theirs} in PyTorch")
    return {"ours": ours, "torch": theirs, "worst_relative_difference": max(errors)}


def arguments():
    parser = argparse.ArgumentParser(description="Compares the quick-start trainer with PyTorch on this processor.")
    parser.add_argument("--llmc", default=ROOT / "build" / "llmc", type=pathlib.Path, help="the compiler (build/llmc)")
    parser.add_argument("--steps", type=int, default=30, help="timed steps of a run (30)")
    parser.add_argument("--warmup", type=int, default=5, help="steps before them (5)")
    parser.add_argument("--rounds", type=int, default=3, help="runs of each side, taking turns (3)")
    parser.add_argument("--threads", type=int, default=len(os.sched_getaffinity(0)), help="of every side (all)")
    parser.add_argument("--dtypes", nargs="+", choices=["fp32", "bf16"], default=["fp32", "bf16"])
    parser.add_argument("--matmul", choices=["auto", "bf16x3"], default="auto",
                        help="precision.matmul of our side, in fp32 on a processor with AMX (auto)")
    parser.add_argument("--sides", nargs="+", choices=["ours", "eager", "compile"],
                        default=["ours", "eager", "compile"])
    parser.add_argument("--cpu-time", action="store_true",
                        help="one thread, in seconds that the processor gave: for a machine that others use")
    parser.add_argument("-o", "--out", type=pathlib.Path, default=WORK / "quickstart.json", help="the figures as JSON")
    a = parser.parse_args()
    if not a.llmc.exists():
        parser.error(f"there is no {a.llmc}; build it (cmake -B build && cmake --build build), or give --llmc PATH")
    if a.matmul == "bf16x3" and a.dtypes != ["fp32"]:
        parser.error("--matmul bf16x3 is for --dtypes fp32")
    if a.cpu_time:
        a.threads = 1
    return a


def main():
    a = arguments()
    WORK.mkdir(parents=True, exist_ok=True)
    bench = Bench(a)
    result = report.machine(a)
    result["tokens_per_step"] = bench.batch["tokens"]
    result["flops_per_token"] = bench.plan["flops"]["model_per_token"]
    result["check"], result["cold"], result["runs"], result["step"] = {}, {}, [], {}
    for dtype in a.dtypes:
        say(f"{dtype}: the same losses on both sides?")
        result["check"][dtype] = check(bench, dtype)
        if "compile" in a.sides:
            say(f"{dtype}: torch.compile with an empty cache")
            shutil.rmtree(WORK / "inductor-cold", ignore_errors=True)
            result["cold"][dtype] = bench.torch("compile", dtype, a.warmup + 3, cache=WORK / "inductor-cold")
            bench.torch("compile", dtype, 1)  # fills the cache for the rounds
    for number in range(a.rounds):
        for dtype in a.dtypes:
            for side in a.sides:
                load = os.getloadavg()[0]
                figures = bench.measure(side, dtype)
                result["versions"]["torch"] = figures.get("torch", result["versions"].get("torch"))
                seconds = figures["steps"][a.warmup:]
                rate = bench.batch["tokens"] / statistics.median(seconds)
                say(f"round {number + 1} {dtype} {side}: {rate:,.0f} tokens/s, load {load:.1f}")
                result["runs"].append({
                    "round": number, "dtype": dtype, "side": side, "load": load, "seconds": seconds, "first_step_end":
                    figures["seconds_to_first_step"]
                })
    for dtype in a.dtypes:
        say(f"{dtype}: the step piece by piece")
        result["step"][dtype] = bench.take_apart(dtype, a.steps)
    report.summarise(result)
    a.out.write_text(json.dumps(result, indent=1) + "\n")
    print(report.markdown(result))
    say(f"figures: {a.out}")


if __name__ == "__main__":
    main()
