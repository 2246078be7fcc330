#!/usr/bin/env python3
"""Checks the direction of includes: the interface between runtime and emitted step knows no step, a step knows no run, a run no
command line.

    tests/rooms.py SOURCE_FOLDER
"""
import pathlib
import re
import sys

# A folder of runtime/, and the folders that it must not include. Folders below the last must not include any of these.
ABOVE = {"trainer": (), "train": ("trainer", ), "step": ("train", "trainer")}
LOWEST = ("step", "train", "trainer")
INCLUDE = re.compile(r'^\s*#\s*include\s*"(\w+)/', re.MULTILINE)


def upward(room, text):
    return [each for each in INCLUDE.findall(text) if each in ABOVE.get(room, LOWEST)]


def main():
    assert upward("step", '#include "train/usage.h"\n') == ["train"]
    assert upward("program", '#include "device/types.h"\n  # include "step/fits.h"\n') == ["step"]
    assert not upward("trainer", '#include "train/loop.h"\n')
    root, wrong, files = pathlib.Path(sys.argv[1]) / "runtime", [], 0
    for file in sorted(root.rglob("*")):
        room = file.relative_to(root).parts[0]
        if file.suffix in (".h", ".cpp") and file.parent != root:
            files += 1
            wrong += [f"runtime/{file.relative_to(root)} includes {above}/" for above in upward(room, file.read_text())]
    assert files > 250, f"only {files} sources under {root}"
    if wrong:
        sys.exit("\n".join(wrong) + "\nmove what both need into the lower room")


main()
