#!/usr/bin/env python3
"""Step times that `llmc plan` predicts for this processor, next to measured ones: see README.md."""

import argparse
import itertools
import json
import os
import pathlib
import re
import shutil
import statistics
import subprocess
import sys

ROOT = pathlib.Path(__file__).resolve().parent.parent.parent
WORK = ROOT / "build" / "bench" / "plan-times"
SPEC = ROOT / "specs" / "quickstart.yaml"
DATA = ROOT / "data" / "quickstart"
WARMUP = 2  # first steps of a run that do not count
MIB = 1 << 20

# hidden: layers, query heads, key heads, intermediate
MODELS = {128: (4, 2, 2, 384), 256: (6, 8, 4, 768), 512: (4, 8, 4, 1536), 1024: (2, 8, 8, 3072)}
# precision, hidden, sequence, sequences, memory.recompute
ROWS = (("fp32", 128, 128, 16, "none"), ("bf16", 128, 512, 4, "[norms, swiglu]"), ("bf16", 128, 2048, 1, "full"),
        ("fp32", 256, 256, 8, "none"), ("bf16", 256, 256, 8, "none"), ("fp32", 256, 1024, 2, "full"),
        ("bf16", 512, 2048, 1, "none"), ("fp32", 512, 512, 2, "[gate_up, swiglu]"), ("bf16", 512, 128, 8, "full"),
        ("bf16", 1024, 512, 2, "none"), ("fp32", 1024, 128, 8, "[norms, attention]"), ("bf16", 1024, 2048, 1, "full"))
LEFT_OPEN = ("batch.micro_batch", "memory.loss_chunk", "memory.recompute")


def say(text):
    print(text, file=sys.stderr, flush=True)


def words(precision, hidden, sequence, sequences, recompute):
    layers, heads, key_heads, intermediate = MODELS[hidden]
    return (f"model.hidden_size={hidden}", f"model.num_hidden_layers={layers}", f"model.num_attention_heads={heads}",
            f"model.num_key_value_heads={key_heads}", f"model.head_dim={hidden // heads}",
            f"model.intermediate_size={intermediate}", f"batch.sequence_length={sequence}",
            f"batch.micro_batch={sequences}", f"batch.tokens={sequence * sequences}", f"memory.recompute={recompute}",
            f"precision.compute={precision}")


class Bench:

    def __init__(self, arguments):
        self.a = arguments
        self.environment = {**os.environ, "OMP_NUM_THREADS": str(self.a.threads)}
        WORK.mkdir(parents=True, exist_ok=True)
        if not list(DATA.glob("train-*.bin")):
            say(f"making {DATA} from Python's standard library")
            self.run(self.a.llmc, "data", "build", "--from", os.path.dirname(os.__file__), "--glob", "*.py",
                     "--vocab-size", "4096", "-o", DATA)
        self.device = self.a.device
        if not self.device:
            self.device = WORK / "cpu.yaml"
            say("llmc calibrate")
            self.run(self.a.llmc, "calibrate", "-o", self.device, "--threads", self.a.threads)

    def run(self, *command, code=0):
        command = [str(word) for word in command]
        done = subprocess.run(command, env=self.environment, text=True, stdout=subprocess.PIPE, stderr=subprocess.PIPE)
        if done.returncode != code:
            raise SystemExit(f"exit {done.returncode} of: {' '.join(command)}\n{done.stdout}{done.stderr}")
        return done.stdout if code == 0 else done.stderr

    def plan(self, overrides):
        return json.loads(self.run(self.a.llmc, "plan", SPEC, "--json", f"target.device={self.device}", *overrides))

    def compile(self, name, overrides):
        say(f"compiling {name}: {' '.join(overrides)}")
        self.run(self.a.llmc, "compile", SPEC, "-o", WORK / name, f"target.device={self.device}", *overrides)

    def steps(self, name, predicted):
        """Seconds of steps, and the process's peak resident bytes, of a run that is deleted afterwards."""
        folder, timing = WORK / "run", WORK / "timing.json"
        shutil.rmtree(folder, ignore_errors=True)
        count = WARMUP + max(4, min(40, round(self.a.seconds / predicted)))
        command = [
            WORK / name / "trainer", "--run", folder, "--timing", timing, "--resume", "none", "--quiet", "--steps",
            count, "--no-final-checkpoint", "schedule.steps=1000", "evaluation.every=0", "sampling.every=0",
            "checkpoint.every=0", "metrics.product_share=false"
        ]
        process = subprocess.Popen([str(word) for word in command], env=self.environment, stdout=subprocess.DEVNULL)
        _, status, usage = os.wait4(process.pid, 0)
        process.returncode = os.waitstatus_to_exitcode(status)
        if process.returncode:
            raise SystemExit(f"the trainer of {name} ended with {process.returncode}")
        shutil.rmtree(folder)
        return json.loads(timing.read_text())["steps"][WARMUP:], usage.ru_maxrss * 1024

    def in_turns(self, rows):
        """rows: name -> predicted seconds. Returns name -> (median step of all rounds, least and most of the rounds'
        medians, peak)."""
        taken, peaks = {name: [] for name in rows}, dict.fromkeys(rows, 0)
        for turn in range(self.a.rounds):
            say(f"round {turn + 1} of {self.a.rounds}")
            for name, predicted in rows.items():
                seconds, peak = self.steps(name, predicted)
                taken[name].append(seconds)
                peaks[name] = max(peaks[name], peak)
        medians = {name: [statistics.median(one) for one in rounds] for name, rounds in taken.items()}
        return {
            name:
            (statistics.median(itertools.chain(*taken[name])), min(medians[name]), max(medians[name]), peaks[name])
            for name in rows
        }


def table(head, rows):
    lines = [head, ["---"] * len(head), *rows]
    return "\n".join("| " + " | ".join(str(cell) for cell in line) + " |" for line in lines)


def wrong_order(rows, far=1.1):
    """Number of pairs of (measured, predicted) that differ by more than `far` as measured, and of these the number
    predicted in the opposite order."""
    pairs = [(a, b) for a, b in itertools.combinations(rows, 2) if max(a[0], b[0]) > far * min(a[0], b[0])]
    return len(pairs), sum((a[0] < b[0]) != (a[1] < b[1]) for a, b in pairs)


def times(bench):
    rows = {"-".join(map(str, row[:4])): row for row in ROWS}
    predicted = {}
    for name, row in rows.items():
        bench.compile(name, words(*row))
        predicted[name] = bench.plan(words(*row))["step_seconds"]
    measured = bench.in_turns(predicted)
    errors = {name: predicted[name] / measured[name][0] - 1 for name in rows}
    print(
        table([
            "precision", "hidden", "layers", "sequence", "sequences", "recompute", "measured, ms", "rounds",
            "predicted, ms", "error"
        ], [[
            row[0], row[1], MODELS[row[1]][0], row[2], row[3], row[4], f"{1e3 * measured[name][0]:.1f}",
            f"{1e3 * measured[name][1]:.1f} to {1e3 * measured[name][2]:.1f}", f"{1e3 * predicted[name]:.1f}",
            f"{errors[name]:+.1%}"
        ] for name, row in rows.items()]))
    worst, median = max(map(abs, errors.values())), statistics.median(map(abs, errors.values()))
    pairs, wrong = wrong_order([(measured[name][0], predicted[name]) for name in rows])
    print(
        f"\nerrors: median {median:.1%}, worst {worst:.1%}; of {pairs} pairs that differ by more than 10 %, {wrong} in the wrong order"
    )
    return worst <= 0.25 and median <= 0.1 and wrong == 0


def needed(plan):
    return plan["memory"]["arena_bytes"] + plan["memory"]["process_bytes"]


def budgets(bench):
    fixed = [word for word in words("fp32", 256, 256, 8, "auto") if word.split("=")[0] not in LEFT_OPEN]
    model = [*fixed, *(key + "=auto" for key in LEFT_OPEN)]
    refusal = bench.run(bench.a.llmc, "plan", SPEC, f"target.device={bench.device}", *model, "memory.budget=1MiB",
                        code=4)
    least = int(re.search(r"write memory\.budget: (\d+)MiB", refusal)[1])
    kept = [word for word in model if not word.startswith("memory.recompute")
            ] + ["memory.recompute=none", "memory.budget=64GiB"]
    most = -(-needed(bench.plan(kept)) // MIB)
    rows, predicted = {}, {}
    for i in range(bench.a.budgets):
        budget = least + (most - least) * i // (bench.a.budgets - 1)
        name = f"budget-{i}"
        overrides = [*model, f"memory.budget={budget}MiB"]
        bench.compile(name, overrides)
        plan = bench.plan(overrides)
        rows[name], predicted[name] = (budget, plan), plan["step_seconds"]
    measured = bench.in_turns(predicted)
    print(
        table([
            "budget, MiB", "micro-batch", "loss_chunk", "recompute", "arena, MiB", "resident, MiB", "measured, ms",
            "rounds", "predicted, ms"
        ], [[
            budget, plan["choice"]["micro_batch"], plan["choice"]["loss_chunk"], plan["choice"]["recompute"],
            f"{plan['memory']['arena_bytes'] / MIB:.0f}", f"{measured[name][3] / MIB:.0f}",
            f"{1e3 * measured[name][0]:.1f}", f"{1e3 * measured[name][1]:.1f} to {1e3 * measured[name][2]:.1f}",
            f"{1e3 * predicted[name]:.1f}"
        ] for name, (budget, plan) in rows.items()]))
    names = list(rows)
    rises = [b for a, b in itertools.combinations(names, 2)
             if measured[b][1] > measured[a][2]]  # outside the range of all rounds of both
    beside = [measured[name][3] - plan["memory"]["arena_bytes"] for name, (_, plan) in rows.items()]
    over = [budget for name, (budget, _) in rows.items() if measured[name][3] > budget * MIB]
    print(
        f"\n{len(rises)} of {len(names)} budgets take longer than a smaller one in every round; resident memory exceeds {len(over)}; beside "
        f"the arena a process has {min(beside) / MIB:.0f} to {max(beside) / MIB:.0f} MiB resident")
    return not rises and not over


def main():
    parser = argparse.ArgumentParser(description="Predicted step times beside measured ones, on this processor.")
    parser.add_argument("--llmc", default=ROOT / "build" / "llmc", type=pathlib.Path, help="the compiler (build/llmc)")
    parser.add_argument("--device", type=pathlib.Path, help="a device file (default: llmc calibrate makes one first)")
    parser.add_argument("--rounds", type=int, default=3, help="runs of each trainer, taking turns (3)")
    parser.add_argument("--seconds", type=float, default=1.5, help="of steps in each run, at least four steps (1.5)")
    parser.add_argument("--threads", type=int, default=len(os.sched_getaffinity(0)), help="of every trainer (all)")
    parser.add_argument(
        "--budgets", type=int, nargs="?", const=8, metavar="N",
        help="in place of the table: N memory budgets (8) from the smallest to that of no recomputation")
    a = parser.parse_args()
    if a.budgets is not None and a.budgets < 2:
        parser.error("--budgets needs at least 2")
    bench = Bench(a)
    sys.exit(0 if (budgets if a.budgets else times)(bench) else 1)


if __name__ == "__main__":
    main()
