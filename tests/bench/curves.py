"""Loss curves of runs of the quick start and of a larger model; a module of fp8_curves.py, state_curves.py and
optimizer_curves.py.

Needs build/llmc and data/quickstart, which ./quickstart.sh makes. Runs resume: a command that was stopped continues with
its newest checkpoint, and a complete run is not repeated. plot_curves.py draws FOLDER/curves.csv.
"""

import csv
import json
import os
import statistics
import subprocess
import sys
from dataclasses import dataclass

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
LLMC = os.environ.get("LLMC", os.path.join(ROOT, "build", "llmc"))


@dataclass
class Model:
    """Overrides of the quick start, and the default of --steps."""
    words: tuple
    steps: int


# The second has 25.7 million parameters, of which 2.1 are the embedding's. One of its steps takes six of the quick
# start's: it has fewer of them, so that all runs here take a night of two cores. At twice its rate
# seeds' differences are several times as large.
MODELS = {
    "quickstart":
    Model((), 700),
    "25m":
    Model(("model.hidden_size=512", "model.num_hidden_layers=8", "model.intermediate_size=1408", "optimizer.lr=5.0e-4",
           "memory.budget=4GiB"), 100),
}


def add_arguments(parser, folder):
    """Options of every command here."""
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument(
        "--steps", type=int,
        help="of each run; default: " + ", ".join(f"{model.steps} of {name}" for name, model in MODELS.items()))
    parser.add_argument("--models", nargs="+", choices=MODELS, default=list(MODELS))
    parser.add_argument("--threads", type=int, default=len(os.sched_getaffinity(0)))
    parser.add_argument("--spec", default=os.path.join(ROOT, "specs", "quickstart.yaml"))
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
        succeed(LLMC, "compile", arguments.spec, "-o", out, *MODELS[model].words, *words, *arguments.overrides)
    return os.path.join(out, "trainer")


def steps_of(arguments, model):
    return arguments.steps or MODELS[model].steps


def train(trainer, arguments, steps, seed, *words):
    """Validation losses of a run of the trainer: [(step, loss)]."""
    name = "-".join([os.path.basename(os.path.dirname(trainer)), f"{steps}-steps-{seed}", *words])
    run = os.path.join(arguments.folder, name)
    every = max(1, steps // 14)
    succeed(trainer, "--run", run, "--threads", arguments.threads, f"seed={seed}", f"data.seed={seed}",
            f"schedule.steps={steps}", f"schedule.warmup_steps={every}", "sampling.every=0",
            f"checkpoint.every={every}", "checkpoint.keep_last=1", f"evaluation.every={every}", "metrics.every=100",
            *words)
    with open(os.path.join(run, "metrics.jsonl")) as file:
        lines = [json.loads(line) for line in file]
    return [(line["step"], line["val_loss"]) for line in lines if "val_loss" in line]


def write(arguments, rows):
    """FOLDER/curves.csv."""
    with open(os.path.join(arguments.folder, "curves.csv"), "w", newline="") as file:
        csv.writer(file).writerows([("model", "run", "seed", "step", "validation_loss"), *rows])


def steps_to(loss, points):
    """The step at which a curve reaches `loss`, between two points linearly; nothing if it does not."""
    for (step, above), (next_step, below) in zip(points, points[1:]):
        if below <= loss < above:
            return step + (next_step - step) * (above - loss) / (above - below)
    return None


def more_tokens(wide, narrow):
    """How many tokens more a curve takes to the loss that another one has before its last point: a worse curve does not
    reach the last one."""
    at, loss = wide[-2] if len(wide) > 1 else wide[-1]
    reached = steps_to(loss, narrow)
    return f"{100 * (reached / at - 1):+.1f} %" if reached else "not reached"


@dataclass
class Format:
    """A variant of a model. bound: nats that its mean last validation loss may be above the first format's; none: any."""
    name: str
    words: tuple
    bound: float | None = None


def compare(arguments, formats):
    """Trains each model with each format and seed, from the same weights and in the same order of samples. Prints last
    validation losses, and of all formats but the first their difference to it and the tokens that they take more.
    Returns whether all bounds hold."""
    rows, good = [], True
    for model in arguments.models:
        steps = steps_of(arguments, model)
        trainers = [compile_trainer(arguments, model, each.name, *each.words) for each in formats]
        differences = {each.name: [] for each in formats[1:]}
        print(f"{model}\nseed  {'run':12} validation loss  difference  tokens to {formats[0].name}'s loss", flush=True)
        for seed in range(1, arguments.seeds + 1):
            first = None
            for each, trainer in zip(formats, trainers):
                points = train(trainer, arguments, steps, seed)
                rows += [(model, each.name, seed, *point) for point in points]
                line = f"{seed:4}  {each.name:12} {points[-1][1]:15.4f}"
                if first:
                    differences[each.name].append(points[-1][1] - first[-1][1])
                    line += f"  {differences[each.name][-1]:+10.4f}  {more_tokens(first, points)}"
                first = first or points
                print(line, flush=True)
        for each in formats[1:]:
            mean = statistics.mean(differences[each.name])
            bound = "" if each.bound is None else f", at most {each.bound} wanted"
            error = statistics.stdev(differences[each.name]) / arguments.seeds**0.5 if arguments.seeds > 1 else 0
            print(
                f"{each.name}: mean difference {mean:+.4f} nats (standard error {error:.4f}) over {arguments.seeds} seeds "
                f"of {steps} steps{bound}", flush=True)
            good &= each.bound is None or mean <= each.bound
    write(arguments, rows)
    return good
