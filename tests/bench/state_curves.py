"""Loss curves of AdamW with moments in 8 bits and in fp32: two models, several seeds.

    python3 tests/bench/state_curves.py [--seeds 3] [--steps 700] [--models quickstart 25m] [--threads N] [-o FOLDER] [OVERRIDE...]

Needs build/llmc and data/quickstart, which ./quickstart.sh makes. Each seed trains once with either format, from the same weights
and in the same order of samples. Prints the last validation loss of each run and int8's less fp32's (nats a token), and writes all
validation losses to FOLDER/curves.csv. The bound is 0.01 nats for the mean of a model's seeds; a mean above it ends with exit 1.
Runs resume: a command that was stopped continues with its newest checkpoint, and a complete run is not repeated.
"""

import argparse
import csv
import json
import os
import statistics
import subprocess
import sys

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
LLMC = os.path.join(ROOT, "build", "llmc")
SPEC = os.path.join(ROOT, "specs", "quickstart.yaml")
FORMATS = ("fp32", "int8")
BOUND = 0.01  # nats
# Overrides of the quick start. The second has 25.7 million parameters, of which 2.1 are the embedding's.
MODELS = {
    "quickstart": (),
    "25m": ("model.hidden_size=512", "model.num_hidden_layers=8", "model.intermediate_size=1408", "optimizer.lr=1.0e-3",
            "memory.budget=4GiB"),
}


def succeed(*command):
    done = subprocess.run([str(word) for word in command], stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
    if done.returncode != 0:
        sys.exit(f"{' '.join(map(str, command))} exited with {done.returncode}:\n{done.stdout[-3000:]}")


def compile_trainer(folder, model, state, overrides):
    out = os.path.join(folder, "-".join([model, state, *(word.replace("/", "_") for word in overrides)]))
    if not os.path.exists(os.path.join(out, "trainer")):
        succeed(LLMC, "compile", SPEC, "-o", out, *MODELS[model], f"precision.optimizer_state={state}", *overrides)
    return os.path.join(out, "trainer")


def curve(run):
    """Validation losses of a run: [(step, loss)]."""
    with open(os.path.join(run, "metrics.jsonl")) as file:
        lines = [json.loads(line) for line in file]
    return [(line["step"], line["val_loss"]) for line in lines if "val_loss" in line]


def train(trainer, folder, seed, steps, threads):
    run = os.path.join(folder, f"{os.path.basename(os.path.dirname(trainer))}-{steps}-steps-{seed}")
    every = max(1, steps // 14)
    succeed(trainer, "--run", run, "--threads", threads, f"seed={seed}", f"data.seed={seed}", f"schedule.steps={steps}",
            f"schedule.warmup_steps={max(1, steps // 14)}", "sampling.every=0", f"checkpoint.every={every}",
            "checkpoint.keep_last=1", f"evaluation.every={every}", "metrics.every=100")
    return curve(run)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument("--steps", type=int, default=700)
    parser.add_argument("--models", nargs="+", choices=MODELS, default=list(MODELS))
    parser.add_argument("--threads", type=int, default=len(os.sched_getaffinity(0)))
    parser.add_argument("-o", "--folder", default=os.path.join(ROOT, "build", "state_curves"))
    parser.add_argument("overrides", nargs="*", help="of the spec, for all runs")
    arguments = parser.parse_args()
    rows, good = [], True
    for model in arguments.models:
        trainers = [compile_trainer(arguments.folder, model, state, arguments.overrides) for state in FORMATS]
        differences = []
        print(f"{model}\nseed      fp32      int8  difference")
        for seed in range(1, arguments.seeds + 1):
            curves = [
                train(trainer, arguments.folder, seed, arguments.steps, arguments.threads) for trainer in trainers
            ]
            rows += [(model, state, seed, *point) for state, points in zip(FORMATS, curves) for point in points]
            wide, narrow = (points[-1][1] for points in curves)
            differences.append(narrow - wide)
            print(f"{seed:4} {wide:9.4f} {narrow:9.4f} {differences[-1]:+11.4f}", flush=True)
        mean = statistics.mean(differences)
        good &= mean < BOUND
        print(f"mean difference {mean:+.4f} nats over {len(differences)} seeds of {arguments.steps} steps")
    with open(os.path.join(arguments.folder, "curves.csv"), "w", newline="") as file:
        csv.writer(file).writerows([("model", "state", "seed", "step", "validation_loss"), *rows])
    sys.exit(0 if good else 1)


if __name__ == "__main__":
    main()
