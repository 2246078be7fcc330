#!/usr/bin/env python3
"""Runs two trainers of one run alternately, A B A B ...: seconds per step of each, and the ratio A/B, round by round.

    python3 tests/bench/paired.py build/after/trainer build/before/trainer [--steps 60] [--rounds 9] [--threads N] [key.path=value ...]

Measures the cost of a change: build the spec with each llmc, and pass both trainers. Each round is one run of A and one of B,
in temporary folders; its figure is the median of the steps after the first three. Prints medians over the rounds, the range
of the rounds, and the median of the ratios, which the machine's drift does not affect. Also prints percentiles of all steps,
with the ratio A/B: the fastest steps are undisturbed ones. --metric cpu: CPU seconds of the whole process per step instead,
which other processes affect less.
"""

import argparse
import json
import os
import resource
import statistics
import subprocess
import tempfile

SKIPPED = 3  # steps at a run's begin


def run(trainer, arguments, folder):
    """Seconds of each step by wall clock, or of CPU time per step."""
    timing = os.path.join(folder, "timing.json")
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    subprocess.run([
        trainer, "--quiet", "--run",
        os.path.join(folder, "run"), "--steps",
        str(arguments.steps), "--no-final-checkpoint", "--timing", timing,
        *(["--threads", str(arguments.threads)] if arguments.threads else []), "checkpoint.every=0",
        "evaluation.every=0", "sampling.every=0", *arguments.overrides
    ], check=True)
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    with open(timing) as file:
        steps = json.load(file)["steps"]
    cpu = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
    return {"wall": steps[SKIPPED:], "cpu": [cpu / len(steps)]}


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("trainers", nargs=2, metavar="TRAINER")
    parser.add_argument("overrides", nargs="*", help="of both runs: key.path=value")
    parser.add_argument("--steps", type=int, default=60)
    parser.add_argument("--rounds", type=int, default=9)
    parser.add_argument("--threads", type=int)
    parser.add_argument("--metric", choices=["wall", "cpu"], default="wall")
    arguments = parser.parse_args()
    if arguments.steps <= SKIPPED or arguments.rounds < 1:
        parser.error(f"--steps past {SKIPPED} and --rounds from 1 on")
    seconds, steps = ([], []), ([], [])
    for round_ in range(arguments.rounds):
        for side in (0, 1) if round_ % 2 == 0 else (1, 0):
            with tempfile.TemporaryDirectory() as folder:
                found = run(arguments.trainers[side], arguments, folder)[arguments.metric]
            seconds[side].append(statistics.median(found))
            steps[side].extend(found)
    for name, values in zip("AB", seconds):
        print(
            f"{name}: {1000 * statistics.median(values):.2f} ms a step ({1000 * min(values):.2f} to {1000 * max(values):.2f}), "
            f"{arguments.metric}")
    ratios = sorted(a / b for a, b in zip(*seconds))
    print(f"A / B: {statistics.median(ratios):.4f} (rounds from {ratios[0]:.4f} to {ratios[-1]:.4f})")
    if arguments.metric == "wall":
        for part in (0.01, 0.05, 0.25, 0.5):
            a, b = (sorted(side)[int(part * (len(side) - 1))] for side in steps)
            print(
                f"{100 * part:3.0f} % of {len(steps[0])} steps: {1000 * a:.2f} and {1000 * b:.2f} ms, A / B {a / b:.4f}"
            )


if __name__ == "__main__":
    main()
