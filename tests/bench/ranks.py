"""Compares one rank with all threads with several ranks that divide them: tokens per second of the quick start, alternating.

    python3 tests/bench/ranks.py [--ranks 2] [--shards optimizer] [--dtypes fp32 bf16] [--steps 20] [--rounds 3]

Needs build/llmc and data/quickstart, which ./quickstart.sh makes. Every trainer runs the same global batch; a rank's
micro-batch is its part of it. With more ranks than threads each has one, and they share processors. Prints medians and the
range of rounds; the first three steps of a run do not count.
"""

import argparse
import json
import os
import shutil
import statistics
import subprocess
import sys
import tempfile

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
LLMC = os.path.join(ROOT, "build", "llmc")
SPEC = os.path.join(ROOT, "specs", "quickstart.yaml")
SEQUENCES, LENGTH, WARM_UP = 8, 256, 3


def compile_trainer(folder, dtype, ranks, shard):
    out = os.path.join(folder, f"{dtype}-{ranks}-{shard}")
    subprocess.run([
        LLMC, "compile", SPEC, "-o", out, f"precision.compute={dtype}", f"batch.micro_batch={SEQUENCES // ranks}",
        f"parallel.world_size={ranks}", f"parallel.shard={shard}", "evaluation.every=0", "sampling.every=0",
        "checkpoint.every=0"
    ], check=True, stdout=sys.stderr)
    return os.path.join(out, "trainer")


def seconds_a_step(folder, trainer, ranks, threads, steps):
    run, timing = os.path.join(folder, "run"), os.path.join(folder, "timing.json")
    shutil.rmtree(run, ignore_errors=True)
    command = [trainer, "--run", run, "--steps", str(steps), "--no-final-checkpoint", "--timing", timing, "--quiet"]
    if ranks > 1:
        command += ["--ranks", str(ranks)]
    subprocess.run(command, check=True, env=dict(os.environ, OMP_NUM_THREADS=str(max(1, threads // ranks))),
                   stdout=sys.stderr)
    with open(timing) as file:
        return statistics.median(json.load(file)["steps"][WARM_UP:])


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--ranks", type=int, nargs="+", default=[2], help="divisors of 8 and of the threads")
    parser.add_argument("--shards", nargs="+", default=["optimizer"])
    parser.add_argument("--dtypes", nargs="+", default=["fp32", "bf16"])
    parser.add_argument("--threads", type=int, default=len(os.sched_getaffinity(0)))
    parser.add_argument("--steps", type=int, default=20)
    parser.add_argument("--rounds", type=int, default=3)
    options = parser.parse_args()
    for ranks in options.ranks:
        if SEQUENCES % ranks or options.threads % ranks and ranks < options.threads:
            parser.error(f"{ranks} ranks do not share {SEQUENCES} sequences and {options.threads} threads evenly")
    print(
        "| dtype | ranks | shard | threads of each | ms a step | tokens/s | rounds | of one rank |\n|---|---|---|---|---|---|---|---|"
    )
    with tempfile.TemporaryDirectory(prefix="llmc-ranks-") as folder:
        for dtype in options.dtypes:
            kinds = [(1, options.shards[0])] + [(ranks, shard) for ranks in options.ranks if ranks > 1
                                                for shard in options.shards]
            trainers = {kind: compile_trainer(folder, dtype, *kind) for kind in kinds}
            rounds = {kind: [] for kind in kinds}
            for _ in range(options.rounds):
                for kind in kinds:
                    rounds[kind].append(SEQUENCES * LENGTH /
                                        seconds_a_step(folder, trainers[kind], kind[0], options.threads, options.steps))
            alone = statistics.median(rounds[kinds[0]])
            for ranks, shard in kinds:
                of_kind = rounds[ranks, shard]
                rate = statistics.median(of_kind)
                print(
                    f"| {dtype} | {ranks} | {shard if ranks > 1 else ''} | {max(1, options.threads // ranks)} | {1000 * SEQUENCES * LENGTH / rate:.1f} | {rate:,.0f} | "
                    f"{min(of_kind):,.0f} to {max(of_kind):,.0f} | {100 * rate / alone:.0f} % |", flush=True)


if __name__ == "__main__":
    main()
