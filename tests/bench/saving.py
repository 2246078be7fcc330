#!/usr/bin/env python3
"""Cost of checkpoints: saves concurrent with training, and saves that training waits for.

    python3 tests/bench/saving.py build/quickstart/trainer [--every 20] [--saves 15] [--threads N] [--folder DIR] [key.path=value ...]

Runs one of each kind, in temporary folders. An interval is the `every` steps from one save to the next. The two steps after a
save, in which a concurrent save is written, are compared with the median of the other steps of the same interval, so that the
machine's drift over minutes affects both. Their additional time, including the wait for the save, is the cost of the save.
Prints medians over the intervals, as fractions of an interval: the wait, and the cost. For concurrent saves also the cost
minus the work on the bytes, divided by the processors that train, which a run without spare threads would wait for.
"""

import argparse
import json
import os
import statistics
import subprocess
import tempfile

BEHIND = 2  # steps after a save that are compared with the others


def intervals(arguments, asynchronous):
    """(seconds of a step, of the wait for the save, and of the cost) for each interval after the first save."""
    with tempfile.TemporaryDirectory(dir=arguments.folder) as folder:
        directory = os.path.join(folder, "run")
        subprocess.run([
            arguments.trainer, "--quiet", "--run", directory, "--steps",
            str(arguments.every * (arguments.saves + 1)), "--no-final-checkpoint", "--threads",
            str(arguments.threads), "checkpoint.keep_last=1", "evaluation.every=0", "sampling.every=0",
            f"checkpoint.every={arguments.every}", f"checkpoint.asynchronous={asynchronous}", *arguments.overrides
        ], check=True)
        with open(os.path.join(directory, "metrics.jsonl")) as file:
            lines = [json.loads(line) for line in file]
    result = []
    for save in range(1, arguments.saves + 1):
        at = lines[save * arguments.every - 1:(save + 1) * arguments.every]  # the step of the save, and the interval
        steps = [line["seconds"] - before["seconds"] for before, line in zip(at, at[1:])]
        usual = statistics.median(steps[BEHIND:])
        result.append((usual, at[1]["saving_seconds"], sum(steps[:BEHIND]) - BEHIND * usual))
    return result


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("trainer")
    parser.add_argument("overrides", nargs="*", help="of both runs: key.path=value")
    parser.add_argument("--every", type=int, default=20)
    parser.add_argument("--saves", type=int, default=15)
    parser.add_argument("--threads", type=int, default=os.cpu_count())
    parser.add_argument(
        "--folder",
        help="where the runs are written, such as a disk to be measured; default: the system's for temporary files")
    arguments = parser.parse_args()
    if arguments.every <= 2 * BEHIND or arguments.saves < 1:
        parser.error(f"--every past {2 * BEHIND} and --saves from 1 on")
    print(
        f"{arguments.saves} saves, one every {arguments.every} steps, {arguments.threads} threads; in parts of the time between saves"
    )
    own_work = None
    for kind, asynchronous in (("waited for", "false"), ("beside", "true")):
        found = intervals(arguments, asynchronous)
        usual = statistics.median(step for step, _, _ in found)
        wait, price = (statistics.median(row[i] / (arguments.every * row[0]) for row in found) for i in (1, 2))
        print(f"{kind:11} {1000 * usual:8.1f} ms a step, wait {100 * wait:6.2f} %, price {100 * price:6.2f} %", end="")
        if own_work is None:
            own_work = wait / arguments.threads
            print()
        else:
            print(f", less the bytes' own work of {100 * own_work:.2f} %: {100 * (price - own_work):.2f} %")


if __name__ == "__main__":
    main()
