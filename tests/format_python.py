#!/usr/bin/env python3
"""Checks that every Python source is formatted by yapf 0.32 with the file in the root.

    tests/format_python.py SOURCE_FOLDER YAPF [KNOWN] [--fix]

KNOWN is a file of checksums of formatted sources: only files changed since are checked.
"""
import hashlib
import pathlib
import subprocess
import sys

FOLDERS = ["exporter", "tests", "tokens"]


def main():
    words = [word for word in sys.argv[1:] if word != "--fix"]
    root, yapf, known = pathlib.Path(words[0]), words[1], pathlib.Path(words[2]) if words[2:] else None
    files = sorted(path for folder in FOLDERS for path in (root / folder).rglob("*.py"))
    assert len(files) > 80, f"only {len(files)} sources under {root}"
    if "--fix" in sys.argv:
        subprocess.run([yapf, "--in-place", "--parallel", *files], check=True)
        return
    style = (root / ".style.yapf").read_bytes()
    sums = {hashlib.sha256(style + path.read_bytes()).hexdigest(): path for path in files}
    before = set(known.read_text().split()) if known and known.exists() else set()
    new = [path for checksum, path in sums.items() if checksum not in before]
    if new:
        result = subprocess.run([yapf, "--diff", "--parallel", *new], capture_output=True, text=True)
        print(result.stdout, end="")
        if result.returncode != 0:
            sys.exit(f"{result.stderr}tests/format_python.py {root} {yapf} --fix formats them")
    if known:
        known.write_text("\n".join(sums) + "\n")


main()
