"""Controls programs from outside: kills their sessions, stops a trainer in a chosen phase, and writes to its arena."""

import math
import os
import re
import signal
import struct
import time

MOST = 1 << 30  # bytes of a mapping; of a larger one, a simulated device's, the beginning is searched


def read(path):
    with open(path, "rb") as file:
        return file.read()


def mappings(process):
    """Begin, end, permissions and file of each mapping."""
    for line in read(f"/proc/{process}/maps").decode().splitlines():
        words = line.split(maxsplit=5)
        begin, end = (int(word, 16) for word in words[0].split("-"))
        yield begin, end, words[1], words[5] if len(words) == 6 else ""


class Arena:
    """The arena of a stopped trainer, found by its table of cosines. A small one may be on the heap."""

    def __init__(self, process, plan, head_dim):
        self.file = os.open(f"/proc/{process}/mem", os.O_RDWR)
        self.buffers = {buffer["name"]: buffer for buffer in plan["memory"]["buffers"]}
        half = head_dim // 2
        row = struct.pack(f"<{2 * half + 1}f", *[1.0] * half, *[0.0] * half, math.cos(1.0))
        places = []
        for begin, end, permissions, name in mappings(process):
            if not permissions.startswith("rw") or name not in ("", "[heap]"):
                continue
            bytes_ = os.pread(self.file, end - begin if end - begin < MOST else MOST // 16, begin)
            at = bytes_.find(row)
            while at >= 0:
                places.append(begin + at - self.buffers["rope_table"]["offset"])
                at = bytes_.find(row, at + 1)
        places = [place for place in places if self.is_arena(place)]
        if len(places) != 1:
            raise AssertionError(f"{len(places)} places look like the arena")
        self.begin = places[0]

    def is_arena(self, place):
        """Distinguishes it from a copy of the table: the list of first chunks is at its offset."""
        try:
            first = os.pread(self.file, 8, place + self.buffers["first_chunk"]["offset"])
        except OSError:
            return False
        if len(first) < 8:
            return False
        zero, chunks = struct.unpack("<2i", first)
        return zero == 0 and 0 < chunks < 1 << 20

    def address(self, name, element):
        buffer = self.buffers[name]
        return self.begin + buffer["offset"] + element * {"fp32": 4, "bf16": 2}[buffer["dtype"]]

    def write(self, name, element, data):
        os.pwrite(self.file, data, self.address(name, element))

    def flip(self, name, element, count):
        """Flips a bit in each of `count` fp32 numbers: a small change, in so many that a step under way cannot
        overwrite all."""
        address = self.address(name, element)
        words = os.pread(self.file, 4 * count, address)
        os.pwrite(self.file, bytes(byte ^ (0x40 if i % 4 == 1 else 0) for i, byte in enumerate(words)), address)

    def __del__(self):
        os.close(self.file)


def living():
    """Number, parent and session of each process that has not ended."""
    for entry in filter(str.isdigit, os.listdir("/proc")):
        try:
            state, parent, _, session = read(f"/proc/{entry}/stat").rsplit(b")", 1)[1].split()[:4]
        except OSError:
            continue  # it has ended meanwhile
        if state != b"Z":
            yield int(entry), int(parent), int(session)


def children(process):
    """Processes started by this one that have not ended."""
    return sorted(number for number, parent, _ in living() if parent == process)


def kill_session(leader):
    """Kills all processes of a session, also those to which mpirun gave groups of their own, and waits for their end."""
    while members := [number for number, _, session in living() if session == leader]:
        for number in members:
            try:
                os.kill(number, signal.SIGKILL)
            except ProcessLookupError:
                pass
        time.sleep(0.001)


def stop(process):
    """Sends SIGSTOP and waits until it takes effect."""
    os.kill(process, signal.SIGSTOP)
    while re.search(rb"\) ([A-Za-z])", read(f"/proc/{process}/stat")).group(1) != b"T":
        time.sleep(1e-4)


def place(process):
    """For a stopped process: the file of the code that its main thread executes, and the number of its system call or
    -1."""
    words = read(f"/proc/{process}/task/{process}/syscall").decode().split()
    counter = int(words[-1], 16)
    return next((name for begin, end, _, name in mappings(process) if begin <= counter < end), ""), int(words[0])
