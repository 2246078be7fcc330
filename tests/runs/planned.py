"""Compares the plan with a trainer's allocation, also for random specs with all choices open."""

import json
import math
import os
import random
import re

import harness

import specs  # of tests/reference

MIB = 1 << 20


def plan_of(spec, *overrides):
    done = harness.call(harness.LLMC, "plan", spec, "--json", *overrides)
    if done.code:
        raise AssertionError(f"exit {done.code} of llmc plan {spec} {' '.join(overrides)}\n{done.out}{done.err}")
    return json.loads(done.out)


def most_resident(memory):
    """Most resident bytes of a process by its plan. Within the budget, because the snapshot is planned only if it
    fits."""
    most = memory["arena_bytes"] + memory["process_bytes"] + memory["snapshot_bytes"]
    if most > memory["budget_bytes"]:
        raise AssertionError(f"{most} bytes are planned for a budget of {memory['budget_bytes']}")
    return most


def smallest_budget(spec):
    """Bytes of the choice with the least memory, from the message of exit 4, which gives them in hundredths of a MiB.
    """
    done = harness.call(harness.LLMC, "plan", spec, "memory.budget=1MiB")
    if done.code == 0:
        return MIB
    needs = re.search(r"this run needs ([\d.]+) MiB", done.err)
    if done.code != 4 or not needs:
        raise AssertionError(f"exit {done.code} of llmc plan {spec} memory.budget=1MiB\n{done.out}{done.err}")
    return math.ceil((float(needs.group(1)) + 0.005) * MIB)


def write_random(seed, folder):
    """Writes the spec of a seed and its shard into `folder`; returns the spec's path. The spec gets a budget between
    the smallest that fits and that of the fastest choice without recomputation; every eighth seed gets the
    smallest."""
    os.makedirs(folder, exist_ok=True)
    path = os.path.join(folder, "spec.yaml")
    drawn = specs.left_open(seed)

    def write():
        with open(path, "w") as file:
            file.write(specs.yaml_text(drawn))

    write()
    harness.write_shard(os.path.join(folder, "train-00000.bin"), 2 * drawn["tokens"] + 1, seed,
                        drawn["model"]["vocab_size"])
    memory = plan_of(path, "memory.recompute=none")["memory"]
    most = memory["arena_bytes"] + memory["process_bytes"]
    least = min(smallest_budget(path), most)
    drawn["budget"] = least + int((most - least) * (random.Random(seed).random() if seed % 8 else 0))
    write()
    return path


def compare(plan, trainer, run, *options):
    """Compares one step of a trainer with the plan of its spec; returns peak resident bytes. AssertionError if they
    differ."""

    def expect(good, what):
        if not good:
            raise AssertionError(what)

    memory = plan["memory"]
    arena = memory["arena_bytes"]
    end = 0
    for section in memory["sections"]:
        expect(section["offset"] == end,
               f"section {section['name']} begins at {section['offset']}, the one before it ends at {end}")
        end += section["bytes"]
    expect(end == arena, f"sections end at {end}, the arena at {arena}")
    transients, bound = memory["transient_bytes"], memory["transient_lower_bound"]
    expect(transients <= 1.03 * bound,
           f"transients take {transients} bytes, of which at most {bound} are alive at a time")
    shown = harness.call(trainer, "--plan", "--json")
    expect(shown.code == 0 and json.loads(shown.out) == plan, f"trainer --plan --json shows another plan\n{shown.err}")
    shown = harness.call(trainer, "--plan")
    expect(str(arena) in shown.out, f"trainer --plan does not say {arena}\n{shown.out}{shown.err}")
    log = run + ".log"
    code, peak = harness.run_measured([trainer, "--run", run, "--steps", 1, *options], log)
    output = harness.read(log).decode()
    expect(code == 0, f"exit {code} of the trainer\n{output}")
    allocated = harness.allocated_bytes(output)
    expect(allocated == arena, f"{allocated} bytes are allocated, {arena} planned")
    recorded = harness.json_lines(os.path.join(run, "history.jsonl"))[0]["memory"]
    expect(recorded == arena, f"history.jsonl has {recorded} bytes, the plan {arena}")
    most = most_resident(memory)
    expect(arena <= peak <= most, f"{peak} bytes are resident at most, where {arena} to {most} are planned")
    return peak
