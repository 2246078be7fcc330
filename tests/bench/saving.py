#!/usr/bin/env python3
"""What checkpoints cost a run: no saves, saves beside training, and saves that training waits for, in turn.

    python3 tests/bench/saving.py build/quickstart/trainer [--steps 100] [--every 20] [--rounds 5] [--threads N] [--folder DIR] [key.path=value ...]

Each round is one run of each kind, in folders that are removed. Seconds a step are those from the end of the first step to the end
of the last by metrics.jsonl, saves included but for the last one; processor seconds are of the whole process. Prints the medians over
the rounds, and of the ratios to the run without saves of the same round: of the wall, of the processor's time, and of the wall less
the processor's time that is added, shared by the threads: what saving costs beyond the bytes' own work.
"""

import argparse
import json
import os
import resource
import statistics
import subprocess
import tempfile

KINDS = {"none": ["checkpoint.every=0"], "beside": ["checkpoint.every={every}", "checkpoint.asynchronous=true"],
         "waits": ["checkpoint.every={every}", "checkpoint.asynchronous=false"]}


def run(kind, arguments, folder):
    """Seconds of the wall and of the processor, of all steps behind the first."""
    directory = os.path.join(folder, "run")
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    subprocess.run([arguments.trainer, "--quiet", "--run", directory, "--steps", str(arguments.steps), "--no-final-checkpoint",
                    "--threads", str(arguments.threads), "checkpoint.keep_last=1", "evaluation.every=0", "sampling.every=0",
                    *arguments.overrides, *(word.format(every=arguments.every) for word in KINDS[kind])], check=True)
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    with open(os.path.join(directory, "metrics.jsonl")) as file:
        seconds = [json.loads(line)["seconds"] for line in file]
    return seconds[-1] - seconds[0], after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("trainer")
    parser.add_argument("overrides", nargs="*", help="of every run: key.path=value")
    parser.add_argument("--steps", type=int, default=100)
    parser.add_argument("--every", type=int, default=20)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--threads", type=int, default=os.cpu_count())
    parser.add_argument("--folder", help="where the runs are written, such as a disk to be measured; default: the system's for temporary files")
    arguments = parser.parse_args()
    rounds = []
    for number in range(arguments.rounds):
        results = {}
        kinds = list(KINDS)
        for kind in kinds[number % len(kinds):] + kinds[:number % len(kinds)]:
            with tempfile.TemporaryDirectory(dir=arguments.folder) as folder:
                results[kind] = run(kind, arguments, folder)
        rounds.append(results)
    print(f"{arguments.steps - 1} steps, a save every {arguments.every}, {arguments.threads} threads, medians of {arguments.rounds} rounds")
    print(f"{'':8}{'s a step':>10}{'CPU s a step':>14}{'wall':>9}{'CPU':>9}{'beyond CPU':>12}")
    steps = arguments.steps - 1
    for kind in KINDS:
        wall, cpu = (statistics.median(round[kind][i] for round in rounds) / steps for i in (0, 1))
        ratios = [(round[kind][0] / round["none"][0], round[kind][1] / round["none"][1],
                   (round[kind][0] - (round[kind][1] - round["none"][1]) / arguments.threads) / round["none"][0]) for round in rounds]
        shown = "".join(f"{100 * (statistics.median(r[i] for r in ratios) - 1):+{width}.2f} %" for i, width in ((0, 7), (1, 7), (2, 10)))
        print(f"{kind:8}{wall:10.4f}{cpu:14.4f}{shown}   range of the wall {min(r[0] for r in ratios):.3f} to {max(r[0] for r in ratios):.3f}")


if __name__ == "__main__":
    main()
