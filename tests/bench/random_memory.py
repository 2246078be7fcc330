#!/usr/bin/env python3
"""Compares llmc's plans for random specs with all choices open with their trainers' allocations: see README.md."""

import argparse
import collections
import pathlib
import shutil
import sys

ROOT = pathlib.Path(__file__).resolve().parent.parent.parent
WORK = ROOT / "build" / "bench" / "random-memory"
sys.path.insert(0, str(ROOT / "tests" / "runs"))
import harness  # noqa: E402
import planned  # noqa: E402

MIB = planned.MIB


def say(text):
    print(text, file=sys.stderr, flush=True)


class Row:
    """A seed's spec, planned, built and run. AssertionError if the trainer differs from the plan; the folder is kept
    then."""

    def __init__(self, seed):
        folder = WORK / f"seed-{seed}"
        shutil.rmtree(folder, ignore_errors=True)
        spec = planned.write_random(seed, str(folder))
        plan = planned.plan_of(spec)
        # One folder for all, in which llmc reuses objects equal to the previous spec's.
        trainer = harness.compile_trainer(spec, str(WORK / "trainer"))
        self.peak = planned.compare(plan, trainer, str(folder / "run"), "--no-final-checkpoint")
        shutil.rmtree(folder)

        memory, batch, choice = plan["memory"], plan["batch"], plan["choice"]
        self.seed, self.arena, self.budget = seed, memory["arena_bytes"], memory["budget_bytes"]
        self.beside = self.peak - self.arena
        self.needed, self.process = self.arena + memory["process_bytes"], memory["process_bytes"]
        self.packing = memory["transient_bytes"] / memory["transient_lower_bound"]
        self.precision = f"{plan['compute']} with a stream in {plan['residual']}"
        self.micro_batches = batch["micro_batches"]
        self.chunks = batch["micro_batch"] * batch["sequence_length"] // choice["loss_chunk"]
        self.recompute = choice["recompute"]

    @property
    def recomputation(self):
        if self.recompute.startswith("{"):
            return "mixed"
        return "none" if self.recompute == "none" else "all layers alike"

    def line(self):
        return (
            f"{self.precision}, {self.micro_batches} micro-batches of {self.chunks} chunks, recompute {self.recompute}; arena "
            f"{self.arena / MIB:.2f} of {self.budget / MIB:.2f} MiB, resident {self.peak / MIB:.2f}")


def counts(rows, name):
    """Number of rows for each value of an attribute, ordered by value."""
    found = collections.Counter(getattr(row, name) for row in rows)
    return ", ".join(f"{value}: {count}" for value, count in sorted(found.items()))


def summary(rows):

    def span(values):
        return f"{min(values) / MIB:.1f} to {max(values) / MIB:.1f} MiB"

    largest = max(rows, key=lambda row: row.peak)
    return f"""planned as allocated   {len(rows)} specs, byte for byte
precision              {counts(rows, 'precision')}
micro-batches a step   {counts(rows, 'micro_batches')}
chunks of the loss     {counts(rows, 'chunks')}
recomputation          {counts(rows, 'recomputation')}
arenas                 {span([row.arena for row in rows])}; {sum(row.needed >= 0.97 * row.budget for row in rows)} fill 97 % of their budget
packing                {sum(row.packing == 1 for row in rows)} at the bound, the others at most {max(row.packing for row in rows) - 1:.2%} above it
resident               {span([row.beside for row in rows])} beside the arena; at most {largest.peak / MIB:.1f} MiB, of which {largest.arena / MIB:.1f} MiB arena
                       at least {min(row.process - row.beside for row in rows) / MIB:.1f} MiB less than the process is planned to have, within every budget"""


def main():
    parser = argparse.ArgumentParser(
        description="Planned memory beside allocated memory, of random specs with everything left open.")
    parser.add_argument("--llmc", default=ROOT / "build" / "llmc", type=pathlib.Path, help="the compiler (build/llmc)")
    parser.add_argument("--specs", type=int, default=200, help="how many (200)")
    parser.add_argument("--seed", type=int, default=0, help="of the first; the others have the next ones (0)")
    a = parser.parse_args()
    if a.specs < 1:
        parser.error("--specs needs at least 1")
    harness.LLMC = str(a.llmc.resolve())
    rows, different = [], []
    for seed in range(a.seed, a.seed + a.specs):
        try:
            rows.append(Row(seed))
            say(f"{seed}: {rows[-1].line()}")
        except AssertionError as error:
            different.append(seed)
            say(f"{seed}: {error}\nkept: {WORK / f'seed-{seed}' / 'spec.yaml'}")
    if rows:
        print(summary(rows))
    if different:
        print(f"different              seeds {', '.join(map(str, different))}")
    sys.exit(1 if different else 0)


if __name__ == "__main__":
    main()
