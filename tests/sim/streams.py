"""Overlap of operations on a simulated GPU: read from LLMC_SIM_LOG, where each operation lists those that must end before it.

    python3 tests/sim/streams.py LOG        draws the last step's passes as a gantt chart in Mermaid's language
"""

import collections
import re
import sys

RANKS = ("gather_", "reduce_")  # prefixes of regions that ranks run together
ORDER = re.compile(r"stream \d+: (.*)\norder: (\d+)\.(\d+) (\S+) after((?: \d+\.\d+)*)\n")

Operation = collections.namedtuple("Operation", "name stream number range after")


class Block:
    """Operations that one call of a region's function put on one stream; `turn`: how often it was replayed before."""

    def __init__(self, operation, turn):
        self.name, call = operation.range.rsplit(":", 1)
        self.call, self.turn = int(call), turn
        self.operations = [operation]

    first = property(lambda self: self.operations[0])
    last = property(lambda self: self.operations[-1])

    def begins_after(self, other):
        return self.first.after.get(other.last.stream, 0) >= other.last.number

    def may_run_beside(self, other):
        """Neither waits for the other's beginning."""
        return self.first.after.get(other.first.stream, 0) < other.first.number and other.last.after.get(
            self.first.stream, 0) < self.first.number


def operations(text):
    """Operations of micro-batches, in a possible order of execution."""
    for name, stream, number, path, after in ORDER.findall(text):
        parts = path.split("/")  # step, micro-batch, region, product
        if len(parts) > 2:
            ended = dict(tuple(map(int, place.split("."))) for place in after.split())
            yield Operation(name, int(stream), int(number), parts[2], ended)


def blocks(text):
    """Blocks of the passes, and those of the ranks, each in execution order."""
    found, newest, turns = {True: [], False: []}, {}, collections.Counter()
    for operation in operations(text):
        block = newest.get(operation.range)
        if block and block.last[1:3] == (operation.stream, operation.number - 1):
            block.operations.append(operation)
            continue
        newest[operation.range] = Block(operation, turns[operation.range])
        found[operation.range.startswith(RANKS)].append(newest[operation.range])
        turns[operation.range] += 1
    return found[False], found[True]


def neighbours(passes, block):
    """Block of the passes that the host queued before a block of the ranks' stream, and the next two after it."""
    same = sorted((p for p in passes if p.turn == block.turn), key=lambda p: p.call)
    after = [p for p in same if p.call > block.call][:2]
    before = [p for p in same if p.call < block.call]
    return before[-1] if before else None, after


def not_beside(text, names):
    """For the regions `names`, which the plan overlaps with a pass: how often each ran, and errors."""
    passes, ranks = blocks(text)
    wrong, count = [], collections.Counter()
    for block in ranks:
        if block.name not in names:
            continue
        count[block.name] += 1
        before, after = neighbours(passes, block)
        what = f"{block.name}, call {block.call}, turn {block.turn}"
        if not after or not block.may_run_beside(after[0]):
            wrong.append(f"{what}: cannot run beside {after[0].name if after else 'anything'}")
        if block.name.startswith("reduce") and (before is None or not block.begins_after(before)):
            wrong.append(f"{what}: begins before its block has made the gradients")
        if block.name.startswith("gather") and (len(after) < 2 or not after[1].begins_after(block)):
            wrong.append(f"{what}: {after[1].name if len(after) > 1 else 'nobody'} does not wait for it")
    return count, wrong


def gantt(text):
    """The last pass forward and backward: each operation as early as its order allows; an operation takes 1 and a
    collective 8."""
    times = {}
    for operation in operations(text):
        begin = max((times[place][1] for place in operation.after.items() if place in times), default=0)
        times[operation.stream, operation.number] = begin, begin + (8 if operation.range.startswith(RANKS) else 1)
    passes, ranks = blocks(text)
    last = [block for block in passes if block.name == "embed"][-1]
    known = {block.call: block for block in passes + ranks if block.turn == last.turn}
    first = last.call  # the first gather is requested before it
    while first - 1 in known and known[first - 1].name.startswith("gather_"):
        first -= 1
    from_here = [block for call, block in known.items() if call >= first]
    begin = min(times[block.first[1:3]][0] for block in from_here)
    lines = ["gantt", "    dateFormat x", "    axisFormat %L"]
    for label, some in (("passes", passes), ("ranks", ranks)):
        lines.append(f"    section {label}")
        for block in some:
            if block in from_here:
                lines.append(
                    f"    {block.name} :{times[block.first[1:3]][0] - begin}, {times[block.last[1:3]][1] - begin}")
    return "\n".join(lines) + "\n"


if __name__ == "__main__":
    with open(sys.argv[1]) as log:
        print(gantt(log.read()), end="")
