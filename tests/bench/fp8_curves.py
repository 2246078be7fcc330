"""Loss curves of products in fp8 and in bf16: the quick start's model and text, several seeds.

    python3 tests/bench/fp8_curves.py [--seeds 3] [--steps 700] [--threads N] [--matmul fp8] [-o FOLDER] [OVERRIDE...]

Needs build/llmc and data/quickstart, which ./quickstart.sh makes. Each seed trains once with either arithmetic, from the
same weights and in the same order of samples. Prints the last validation loss of each run, fp8's less bf16's (nats a token), and
how many tokens more fp8 takes to bf16's loss, interpolated in its own validation curve. FOLDER keeps the trainers and runs: a run
that is complete is not repeated.
"""

import argparse
import json
import os
import statistics
import subprocess
import sys

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
LLMC = os.path.join(ROOT, "build", "llmc")
SPEC = os.path.join(ROOT, "specs", "quickstart.yaml")


def succeed(*command):
    done = subprocess.run([str(word) for word in command], stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
    if done.returncode != 0:
        sys.exit(f"{' '.join(map(str, command))} exited with {done.returncode}:\n{done.stdout[-3000:]}")


def compile_trainer(folder, matmul, overrides):
    out = os.path.join(folder, "-".join([matmul, *(word.replace("/", "_") for word in overrides)]))
    if not os.path.exists(os.path.join(out, "trainer")):
        succeed(LLMC, "compile", SPEC, "-o", out, "precision.compute=bf16", f"precision.matmul={matmul}", *overrides)
    return os.path.join(out, "trainer")


def curve(run):
    """Validation losses of a run: [(step, loss)]."""
    with open(os.path.join(run, "metrics.jsonl")) as file:
        lines = [json.loads(line) for line in file]
    return [(line["step"], line["val_loss"]) for line in lines if "val_loss" in line]


def train(trainer, folder, seed, steps, threads):
    run = os.path.join(folder, f"{os.path.basename(os.path.dirname(trainer))}-{steps}-steps-{seed}")
    words = [
        f"seed={seed}", f"data.seed={seed}", f"schedule.steps={steps}", "sampling.every=0", "checkpoint.every=0",
        f"evaluation.every={max(1, steps // 14)}", "metrics.every=100"
    ]
    succeed(trainer, "--run", run, "--threads", threads, *words)
    return curve(run)


def steps_to(loss, points):
    """The step at which a curve reaches `loss`; nothing if it does not."""
    for (step, above), (next_step, below) in zip(points, points[1:]):
        if below <= loss < above:
            return step + (next_step - step) * (above - loss) / (above - below)
    return None


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument("--steps", type=int, default=700)
    parser.add_argument("--threads", type=int, default=len(os.sched_getaffinity(0)))
    parser.add_argument("--matmul", default="fp8")
    parser.add_argument("-o", "--folder", default=os.path.join(ROOT, "build", "fp8_curves"))
    parser.add_argument("overrides", nargs="*", help="of the spec, for all runs")
    arguments = parser.parse_args()
    trainers = [compile_trainer(arguments.folder, word, arguments.overrides) for word in ("auto", arguments.matmul)]
    differences = []
    print(f"seed      bf16 {arguments.matmul:>9}  difference  tokens to bf16's loss")
    for seed in range(1, arguments.seeds + 1):
        wide, narrow = (train(trainer, arguments.folder, seed, arguments.steps, arguments.threads)
                        for trainer in trainers)
        differences.append(narrow[-1][1] - wide[-1][1])
        # bf16's loss some steps before its end, since a worse curve does not reach the last one.
        at, loss = wide[-2] if len(wide) > 1 else wide[-1]
        reached = steps_to(loss, narrow)
        more = f"{100 * (reached / at - 1):+.1f} %" if reached else "not reached"
        print(f"{seed:4} {wide[-1][1]:9.4f} {narrow[-1][1]:9.4f} {differences[-1]:+11.4f}  {more}", flush=True)
    print(
        f"mean difference {statistics.mean(differences):+.4f} nats over {len(differences)} seeds of {arguments.steps} steps"
    )


if __name__ == "__main__":
    main()
