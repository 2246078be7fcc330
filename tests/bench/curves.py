"""Loss curves of runs of the quick start and of a larger model; a module of state_curves.py and optimizer_curves.py.

Needs build/llmc and data/quickstart, which ./quickstart.sh makes. Runs resume: a command that was stopped continues with
its newest checkpoint, and a complete run is not repeated.
"""

import csv
import json
import os
import subprocess
import sys

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
LLMC = os.path.join(ROOT, "build", "llmc")
SPEC = os.path.join(ROOT, "specs", "quickstart.yaml")
# Overrides of the quick start. The second has 25.7 million parameters, of which 2.1 are the embedding's.
MODELS = {
    "quickstart": (),
    "25m": ("model.hidden_size=512", "model.num_hidden_layers=8", "model.intermediate_size=1408", "optimizer.lr=1.0e-3",
            "memory.budget=4GiB"),
}


def add_arguments(parser, folder):
    """Options of every command here."""
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument("--steps", type=int, default=700)
    parser.add_argument("--models", nargs="+", choices=MODELS, default=list(MODELS))
    parser.add_argument("--threads", type=int, default=len(os.sched_getaffinity(0)))
    parser.add_argument("-o", "--folder", default=os.path.join(ROOT, "build", folder))
    parser.add_argument("overrides", nargs="*", help="of the spec, for all runs")


def succeed(*command):
    done = subprocess.run([str(word) for word in command], stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
    if done.returncode != 0:
        sys.exit(f"{' '.join(map(str, command))} exited with {done.returncode}:\n{done.stdout[-3000:]}")


def compile_trainer(arguments, model, name, *words):
    """The trainer of a model with these overrides, known by `name`."""
    out = os.path.join(arguments.folder,
                       "-".join([model, name, *(word.replace("/", "_") for word in arguments.overrides)]))
    if not os.path.exists(os.path.join(out, "trainer")):
        succeed(LLMC, "compile", SPEC, "-o", out, *MODELS[model], *words, *arguments.overrides)
    return os.path.join(out, "trainer")


def train(trainer, arguments, seed, *words):
    """Validation losses of a run of the trainer: [(step, loss)]."""
    name = "-".join([os.path.basename(os.path.dirname(trainer)), f"{arguments.steps}-steps-{seed}", *words])
    run = os.path.join(arguments.folder, name)
    every = max(1, arguments.steps // 14)
    succeed(trainer, "--run", run, "--threads", arguments.threads, f"seed={seed}", f"data.seed={seed}",
            f"schedule.steps={arguments.steps}", f"schedule.warmup_steps={every}", "sampling.every=0",
            f"checkpoint.every={every}", "checkpoint.keep_last=1", f"evaluation.every={every}", "metrics.every=100",
            *words)
    with open(os.path.join(run, "metrics.jsonl")) as file:
        lines = [json.loads(line) for line in file]
    return [(line["step"], line["val_loss"]) for line in lines if "val_loss" in line]


def write(arguments, columns, rows):
    """FOLDER/curves.csv."""
    with open(os.path.join(arguments.folder, "curves.csv"), "w", newline="") as file:
        csv.writer(file).writerows([columns, *rows])
