"""Parses TensorBoard's event files: every checksum, and the values."""

import os
import struct

import harness


def crc32c(data):
    crc = 0xFFFFFFFF
    for byte in data:
        crc = TABLE[(crc ^ byte) & 0xFF] ^ (crc >> 8)
    return crc ^ 0xFFFFFFFF


def table():
    rows = []
    for crc in range(256):
        for _ in range(8):
            crc = (crc >> 1) ^ (0x82F63B78 if crc & 1 else 0)
        rows.append(crc)
    return rows


TABLE = table()


def masked(data):
    crc = crc32c(data)
    return ((crc >> 15 | crc << 17) + 0xA282EAD8) & 0xFFFFFFFF


def records(data):
    """Data of each TFRecord; a ValueError if one is incomplete."""
    at = 0
    while at < len(data):
        head = data[at:at + 12]
        if len(head) < 12:
            raise ValueError(f"a torn record at byte {at}")
        length, crc = struct.unpack("<QI", head)
        body, end = data[at + 12:at + 12 + length], data[at + 12 + length:at + 16 + length]
        if crc != masked(head[:8]) or len(end) < 4 or struct.unpack("<I", end)[0] != masked(body):
            raise ValueError(f"a wrong checksum or a torn record at byte {at}")
        yield body
        at += 16 + length


def varint(data, at):
    value = shift = 0
    while True:
        value |= (data[at] & 0x7F) << shift
        at, shift = at + 1, shift + 7
        if data[at - 1] < 0x80:
            return value, at


def fields(data):
    """(field number, value) of a protobuf message: an int, or the bytes of a field with a length or a fixed size."""
    at = 0
    while at < len(data):
        key, at = varint(data, at)
        kind = key & 7
        if kind == 0:
            value, at = varint(data, at)
        else:
            length = {1: 8, 5: 4}.get(kind)
            if length is None:
                assert kind == 2, kind
                length, at = varint(data, at)
            value, at = data[at:at + length], at + length
            assert len(value) == length
        yield key >> 3, value


class Events:
    """Events of a run folder, in TensorBoard's reading order."""

    def __init__(self, run):
        folder = os.path.join(run, "tensorboard")
        self.files = sorted(os.listdir(folder)) if os.path.isdir(folder) else []
        self.scalars = []  # (tag, step, value), value a 32-bit float
        self.texts = []  # (tag, step, text)
        self.restarts = []  # steps from which a reader drops earlier values
        self.wall_times = []
        for name in self.files:
            with open(os.path.join(folder, name), "rb") as file:
                for number, body in enumerate(records(file.read())):
                    self.add(dict(fields(body)), number == 0)

    def add(self, event, first):
        self.wall_times.append(struct.unpack("<d", event[1])[0])
        assert first == (3 in event), "the version stands first in each file, and nowhere else"
        if first:
            assert event[3] == b"brain.Event:2", event
        if 7 in event:
            assert event[7] == b"\x08\x01", event
            self.restarts.append(event[2])
        for number, value in fields(event.get(5, b"")):
            assert number == 1, number
            parts = dict(fields(value))
            tag = parts[1].decode()
            if 2 in parts:
                self.scalars.append((tag, event[2], struct.unpack("<f", parts[2])[0]))
            else:
                assert parts[9] == b"\x0a\x06\x0a\x04text\x20\x02", parts
                tensor = dict(fields(parts[8]))
                assert (tensor[1], tensor[2]) == (7, b"\x12\x02\x08\x01"), tensor
                lines = tensor[8].decode().split("\n")
                assert all(line.startswith("    ") for line in lines), "a block of code"
                self.texts.append((tag, event[2], "\n".join(line[4:] for line in lines)))


def rounded(value):
    """Rounded to a 32-bit float; None, as in JSON, if it is not finite."""
    value = struct.unpack("<f", struct.pack("<f", value))[0]
    return value if abs(value) < float("inf") else None


def expected_scalars(metrics):
    """Scalars expected in event files for the lines of a metrics.jsonl."""
    tags = {
        "val_loss": "validation/loss", "val_top1": "validation/top1", "val_bits_per_byte": "validation/bits_per_byte",
        "audit_loss": "audit/loss", "audit_difference": "audit/difference"
    }
    for line in metrics:
        for key, value in line.items():
            if key == "per_parameter":
                for name, norms in value.items():
                    yield from ((f"{what}/{name}", line["step"], norm if norm is None else rounded(norm))
                                for what, norm in norms.items())
            elif key not in ("step", "skip_reason"):
                value = len(value) if key == "skipped" else value
                name, slash, of = key.partition("/")  # of a validation set, a source or a task
                tag = tags.get(name, name if name == "task" else "train/" + name) + slash + of
                yield tag, line["step"], value if value is None else rounded(value)


def assert_as_logged(test, run, where):
    """Checks that the event files of a run of harness.SMALL contain metrics.jsonl and samples.jsonl, each point once.
    Each file is one start, which resumes from no earlier step than the previous one left; wall times only grow."""
    found = Events(run)
    scalars = [(tag, step, value if abs(value) < float("inf") else None) for tag, step, value in found.scalars]
    lines = harness.json_lines(os.path.join(run, "metrics.jsonl"))
    test.assertEqual(sorted(scalars, key=repr), sorted(expected_scalars(lines), key=repr), where)
    test.assertEqual(len({point[:2] for point in scalars}), len(scalars), f"{where}: a point stands twice")
    samples = harness.json_lines(os.path.join(run, "samples.jsonl"))
    test.assertEqual([(step, text) for _, step, text in found.texts],
                     [(s["step"], f"{s['prompt']} {s['text']}") for s in samples], where)
    test.assertEqual([tag for tag, _, _ in found.texts], [f"samples/{1 + i % 2}" for i in range(len(samples))], where)
    test.assertEqual(found.wall_times, sorted(found.wall_times), where)
    test.assertEqual(found.restarts, sorted(found.restarts), where)
    test.assertEqual((len(found.restarts), found.restarts[0]), (len(found.files), 1), where)
