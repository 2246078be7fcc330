#!/usr/bin/env python3
"""Checks that every hand-written C++ and CUDA source is formatted by clang-format 19 with the file in the root.

    tests/format.py SOURCE_FOLDER CLANG_FORMAT [--fix]
"""
import pathlib
import subprocess
import sys

FOLDERS = ["compiler", "runtime", "templates", "tests"]
KINDS = {".cpp", ".h", ".cu", ".cuh"}


def main():
    root, clang_format = pathlib.Path(sys.argv[1]), sys.argv[2]
    files = sorted(p for folder in FOLDERS for p in (root / folder).rglob("*") if p.suffix in KINDS)
    assert len(files) > 300, f"only {len(files)} sources under {root}"
    if "--fix" in sys.argv:
        subprocess.run([clang_format, "-i", *files], check=True)
        return
    wrong = []
    for begin in range(0, len(files), 100):
        result = subprocess.run([clang_format, "--dry-run", "-Werror", "--ferror-limit=1", *files[begin:begin + 100]],
                                capture_output=True, text=True)
        wrong += [line for line in result.stderr.splitlines() if "error:" in line]
        assert result.returncode == 0 or wrong, result.stderr
    for line in wrong:
        print(line)
    if wrong:
        sys.exit(f"tests/format.py {root} {clang_format} --fix formats them")


main()
