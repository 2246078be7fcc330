"""Passes the collectives in the plans of specs/ to a program, for each parallel.shard.

spec_collectives.py LLMC COMMAND [ARGUMENT...]: arguments KIND:TYPE:BYTES are appended. Large sizes are reduced,
keeping the last 16 bits of their bytes, on which alignment and odd ends depend."""

import json
import pathlib
import subprocess
import sys

SPECS = pathlib.Path(__file__).resolve().parents[3] / "specs"
TYPES = {
    "all_reduce": ["all_reduce:f32"], "sum_results": ["all_reduce:f64"], "all_gather": ["all_gather:byte"],
    "reduce_scatter": ["reduce_scatter:f32", "reduce_scatter:bf16"]
}
LONGEST = 1 << 17


def phases(spec):
    """The words that select each phase of a spec; one without a word for a spec without phases."""
    count = spec.read_text().partition("\nphases:\n")[2].count("  - until:")
    return [[f"phase={number}"] for number in range(1, count + 1)] or [[]]


def planned(llmc, spec, shard, phase):
    """Returns the collectives of two ranks, each of which sends half of the common data to the other: bytes per rank.
    """
    words = [
        llmc, "plan", spec, "--json", "--world", "2", f"parallel.shard={shard}", "memory.budget=1TiB",
        "batch.micro_batch=auto", *phase
    ]
    plan = json.loads(subprocess.run(words, check=True, capture_output=True, text=True).stdout)
    for collective in plan["ranks"]["collectives"]:
        size = int(collective["sent_bytes"])
        for kind in TYPES.get(collective["runs"], [collective["runs"] + ":?"]):
            yield f"{kind}:{size if size < LONGEST else size % (LONGEST // 2) + LONGEST // 2}"


def main():
    llmc, command = sys.argv[1], sys.argv[2:]
    words = {
        word
        for spec in sorted(SPECS.glob("*.yaml")) for shard in ("none", "optimizer", "gradients", "parameters")
        for phase in phases(spec) for word in planned(llmc, spec, shard, phase)
    }
    assert len(words) > 20, words
    sys.exit(subprocess.run([*command, *sorted(words)]).returncode)


if __name__ == "__main__":
    main()
