#!/usr/bin/env python3
"""llmc for tests written for CPU trainers: `compile` makes a trainer for the simulated GPU.

llmc.py compile SPEC -o FOLDER [--style STYLE] [OVERRIDE...]"""

import os
import sys

import harness


def main():
    command, spec, option, folder, *rest = sys.argv[1:]
    if command != "compile" or option != "-o":
        os.execv(harness.LLMC, [harness.LLMC, *sys.argv[1:]])
    harness.compile(spec, folder, *rest)


if __name__ == "__main__":
    main()
