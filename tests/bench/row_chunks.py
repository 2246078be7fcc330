#!/usr/bin/env python3
"""Time that a thread would save by carrying its own rows through a layer in chunks: see README.md."""

import argparse
import json
import os
import pathlib
import shutil
import statistics
import subprocess

import plan_times

WORK = plan_times.ROOT / "build" / "bench" / "row-chunks"
LENGTH = 64  # of all sequences, so that attention is the same in each chunk
TOKENS = 2048
ONCE = ("_wgrad", "_fold", "_reduce")  # sums over all rows: a step that works in chunks would do them after its layers


def overrides(precision, rows):
    return (f"precision.compute={precision}", f"batch.sequence_length={LENGTH}", f"batch.micro_batch={rows // LENGTH}",
            f"batch.tokens={TOKENS}", f"memory.loss_chunk={rows}", "memory.recompute=none")


class Chunks(plan_times.Bench):
    """Trainers of the quick start that differ in the rows of a micro-batch."""

    def measured(self, precision, rows, processes, threads):
        """Seconds in the layers' launches for a step's tokens, and of these the part done in chunks; the mean over
        `processes` concurrent trainers."""
        folder = WORK / f"{precision}-{rows}"
        command = [
            folder / "trainer", "--quiet", "--resume", "none", "--steps", 8, "--timeline-steps", "3:5",
            "--no-final-checkpoint", "--threads", threads, "evaluation.every=0", "sampling.every=0",
            "checkpoint.every=0", "metrics.product_share=false"
        ]
        files = [WORK / f"timeline-{i}.json" for i in range(processes)]
        for i in range(processes):
            shutil.rmtree(WORK / f"run-{i}", ignore_errors=True)
        running = [
            subprocess.Popen([str(word) for word in [*command, "--run", WORK / f"run-{i}", "--timeline", file]],
                             stdout=subprocess.DEVNULL) for i, file in enumerate(files)
        ]
        if any(process.wait() for process in running):
            raise SystemExit(f"a trainer of {folder} failed")
        seconds = []
        for file in files:
            plan = json.loads(
                self.run(self.a.llmc, "plan", plan_times.SPEC, "--json", *overrides(precision, rows), "--measured",
                         file))
            layers = [op for op in plan["measured"]["ops"] if op["region"] in ("layer_forward", "layer_backward")]
            seconds.append([
                sum(op["measured_seconds"] for op in layers),
                sum(op["measured_seconds"] for op in layers if not op["op"].endswith(ONCE))
            ])
        return [statistics.mean(part) for part in zip(*seconds)]


def main():
    parser = argparse.ArgumentParser(
        description="Layers of the quick start by the rows that a thread carries through them at once.")
    parser.add_argument("--llmc", default=plan_times.ROOT / "build" / "llmc", type=pathlib.Path,
                        help="the compiler (build/llmc)")
    parser.add_argument("--rounds", type=int, default=5, help="runs of each, taking turns (5)")
    parser.add_argument("--rows", type=int, nargs="+", default=[1024, 512, 256, 128, 64],
                        help="of a chunk (1024 512 256 128 64)")
    a = parser.parse_args()
    a.threads, a.device = len(os.sched_getaffinity(0)), "cpu"
    bench = Chunks(a)
    WORK.mkdir(parents=True, exist_ok=True)
    rows = []
    for precision in ("fp32", "bf16"):
        for count in (TOKENS, *a.rows):
            plan_times.say(f"compiling {precision}, {count} rows")
            bench.run(a.llmc, "compile", plan_times.SPEC, "-o", WORK / f"{precision}-{count}",
                      *overrides(precision, count))
        whole, chunks = [], {count: [] for count in a.rows}
        for turn in range(a.rounds):
            plan_times.say(f"{precision}, round {turn + 1} of {a.rounds}")
            whole.append(bench.measured(precision, TOKENS, 1, a.threads))
            for count in a.rows:
                # As many one-thread trainers as there are processors: the time of one, for the tokens of all.
                chunks[count].append(bench.measured(precision, count, a.threads, 1)[1] / a.threads)
        layers, in_chunks = (statistics.median(part) for part in zip(*whole))
        rows.append([precision, f"all {TOKENS}", f"{1e3 * in_chunks:.1f}", f"{1e3 * layers:.1f}", ""])
        for count in a.rows:
            # Within a round, so that changes of the machine's speed cancel.
            ratio = statistics.median((all_rows - all_but_once + part) / all_rows
                                      for (all_rows, all_but_once), part in zip(whole, chunks[count]))
            rows.append([
                precision, count, f"{1e3 * statistics.median(chunks[count]):.1f}", f"{1e3 * ratio * layers:.1f}",
                f"{ratio - 1:+.1%}"
            ])
    print(plan_times.table(["precision", "rows at once", "in chunks, ms", "layers, ms", "layers"], rows))


if __name__ == "__main__":
    main()
