"""Guards on clean runs: how near to its limit each window comes, and whether any update is skipped.

    python3 tests/bench/guards.py [--runs 10] [--steps 2000] [--spec SPEC] [--keep FOLDER]

Needs build/llmc. Without --spec, a tiny model learns tokens that repeat with a twist, with another seed of weights and of data for each run: 10 runs
of 2,000 steps. Prints for loss and gradient norm the largest (value - median) / spread of any step, with the windows of docs/guards.md
and spreads without and with their floors, and the skipped updates. Exit code 1 where there are some.
"""

import argparse
import json
import os
import statistics
import subprocess
import sys
import tempfile

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
sys.path.insert(0, os.path.join(ROOT, "tests", "runs"))
import harness  # noqa: E402  (its small spec and shards)

WINDOW, WARM_UP, LAG = 200, 100, 2


def spreads(values, floor):
    """(value - median) / spread of each step that is judged."""
    for step in range(WARM_UP + LAG, len(values) + 1):
        window = values[max(0, step - LAG - WINDOW):step - LAG]
        median = statistics.median(window)
        spread = max(1.4826 * statistics.median(abs(value - median) for value in window), floor(median))
        if spread > 0:
            yield (values[step - 1] - median) / spread


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--runs", type=int, default=10)
    parser.add_argument("--steps", type=int, default=2000)
    parser.add_argument("--spec", help="in place of the tiny one")
    parser.add_argument("--keep", help="folder of the runs; by default they are deleted")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory(dir=harness.SCRATCH) as scratch:
        folder = os.path.abspath(options.keep or scratch)
        os.makedirs(folder, exist_ok=True)
        spec = options.spec or harness.write_small(folder)
        if not options.spec:
            for number, samples in enumerate((900, 700)):  # more than one epoch, and other samples in each step of it
                harness.write_shard(os.path.join(folder, f"train-{number}.bin"), samples * 24 + 1, 7 + number)
        trainer = os.path.join(folder, "build", "trainer")
        quiet = ["evaluation.every=0", "sampling.every=0", "checkpoint.every=0"]
        subprocess.run([os.path.join(ROOT, "build", "llmc"), "compile", spec, "-o", os.path.dirname(trainer), *quiet], check=True, stdout=sys.stderr)
        skipped = 0
        print("seed  loss: of spread, with floor  norm: of spread, with floor  skipped")
        for seed in range(1, options.runs + 1):
            run = os.path.join(folder, f"run-{seed}")
            subprocess.run([trainer, "--run", run, "--quiet", "--no-final-checkpoint", f"schedule.steps={options.steps}",
                            f"seed={seed}", f"data.seed={seed}"], check=True, stdout=sys.stderr)
            lines = harness.json_lines(os.path.join(run, "metrics.jsonl"))
            losses, norms = ([line[key] for line in lines] for key in ("loss", "grad_norm"))
            found = [line["step"] for line in lines if "skipped" in line]
            skipped += len(found)
            worst = [max(spreads(values, floor), default=0) for values, floor in
                     ((losses, lambda m: 0), (losses, lambda m: max(0.02 * m, 0.02)), (norms, lambda m: 0), (norms, lambda m: 0.1 * m))]
            print(f"{seed:4}  {worst[0]:15.2f} {worst[1]:11.2f}  {worst[2]:15.2f} {worst[3]:11.2f}  {found or 'none'}", flush=True)
    return 1 if skipped else 0


if __name__ == "__main__":
    sys.exit(main())
