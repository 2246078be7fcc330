#!/usr/bin/env python3
"""Inserts known faults into a copy of the sources, one at a time, and checks that the tests listed with each fail.

    tests/mutations/run.py                        all of them, an hour or two
    tests/mutations/run.py --only NAME...         some
    tests/mutations/run.py --sample 4 --seed 7    as many, drawn
    tests/mutations/run.py --list                 what there is
    tests/mutations/run.py --check                only that the place of each is found, once, and that its tests exist

The copy is build/mutations, with its own build folder: the checkout is never changed. Only targets of the listed tests are
built, with ccache if available. A fault is killed if each of its tests runs and fails, after passing without it. A fault that
needs an instruction set that this machine lacks is reported and not tried. Exit code 1: a fault survived, or its entry is out
of date (its place is missing or ambiguous, the changed source does not compile, or its tests fail without it).
"""

import argparse
import os
import random
import re
import shutil
import subprocess
import sys
import time

sys.dont_write_bytecode = True
import faults  # noqa: E402
from known import Known  # noqa: E402
from place import OutOfDate, Sources, put  # noqa: E402

SOURCE = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
# Build targets that ctest's tests need, by the prefix of their names.
NEEDS = {
    "no_throwing_calls": [], "conformance_": ["conformance"], "run_": ["llmc", "checkpoint_fail_shim"], "reference_":
    ["llmc"], "sim_conformance_": ["conformance_sim"], "sim_": ["llmc", "llmc_sim", "sim_nvml"]
}
# Seconds after which a build or a test counts as hung; a run that reaches it has no verdict. Below ctest's own limit,
# after which it ends this program without a message.
LIMIT = 0.8 * float(os.environ.get("LLMC_HANG_LIMIT", "3000"))


def tracked(source):
    """Files that git tracks or would add, relative to the checkout."""
    listed = subprocess.run(["git", "ls-files", "-z", "--cached", "--others", "--exclude-standard"], cwd=source,
                            check=True, stdout=subprocess.PIPE).stdout
    return [name for name in listed.decode().split("\0") if name and os.path.exists(os.path.join(source, name))]


def copy_tree(source, to):
    """Updates `to`; files with equal bytes keep their times, so that little is rebuilt."""
    wanted = set(tracked(source))
    for name in wanted:
        path = os.path.join(to, name)
        with open(os.path.join(source, name), "rb") as file:
            data = file.read()
        if os.path.exists(path):
            with open(path, "rb") as file:
                if file.read() == data:
                    continue
        os.makedirs(os.path.dirname(path), exist_ok=True)
        shutil.copy(os.path.join(source, name), path)
    for root, folders, names in os.walk(to):
        if root == to:
            folders[:] = [name for name in folders if name != "build"]
        for name in names:
            path = os.path.join(root, name)
            if os.path.relpath(path, to) not in wanted:
                os.remove(path)


def check_list():
    """Every fault whose place is gone or whose test is unknown, by name. If code was rewritten, choose another place with
    the same kind of mistake."""
    sources, known, found = Sources(SOURCE), Known(SOURCE), []
    for fault in faults.ALL:
        try:
            for test in fault.tests:
                Tree.targets(test)
                if not known.has(test):
                    raise OutOfDate(f"there is no test '{test}'")
            found.append(sources.place(fault.anchor, fault.old)[0])
        except OutOfDate as problem:
            print(f"{fault.name}: {problem}")
    print(f"{len(found)} faults of {len(faults.ALL)} in {len({os.path.dirname(file) for file in found})} folders")
    return len(found) < len(faults.ALL)


class Tree:
    """The copy, its build folder, and the test results without faults."""

    def __init__(self, folder, jobs, options):
        self.folder, self.build_folder, self.jobs = folder, os.path.join(folder, "build"), jobs
        self.environment = dict(os.environ, CCACHE_BASEDIR=folder, CCACHE_NOHASHDIR="1", CCACHE_IGNOREOPTIONS="-Werror",
                                PYTHONDONTWRITEBYTECODE="1")
        self.passed = set()
        os.makedirs(folder, exist_ok=True)
        copy_tree(SOURCE, folder)
        self.sources = Sources(folder)
        code, said = self.call("cmake", "-G", "Ninja", "-S", folder, "-B", self.build_folder, *options)
        if code != 0:
            sys.exit(f"the copy in {folder} cannot be configured:\n{said}")

    def call(self, *command, **options):
        try:
            done = subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, universal_newlines=True,
                                  errors="replace", env=self.environment, timeout=LIMIT, **options)
        except subprocess.TimeoutExpired:
            raise OutOfDate(f"{' '.join(command)} took more than {LIMIT:.0f} s")
        return done.returncode, done.stdout

    def build(self, tests):
        """The build's exit code and output. `cmake --build` itself has no time limit except LIMIT."""
        targets = {target for test in tests for target in self.targets(test)}
        if not targets:
            return 0, ""
        return self.call("cmake", "--build", self.build_folder, "-j", str(self.jobs), "--target", *sorted(targets))

    @staticmethod
    def targets(test):
        program, _, pattern = test.partition(" ")
        if pattern:
            return [program]
        for prefix, needs in NEEDS.items():
            if program.startswith(prefix):
                return needs
        raise OutOfDate(f"'{test}' is not a test of ctest, and a GoogleTest program needs a filter")

    def run(self, test):
        """Whether the test passes. 'PROGRAM FILTER': a filter of a GoogleTest program; otherwise the full name of a
        test of ctest."""
        program, _, pattern = test.partition(" ")
        if pattern:
            (path, ) = [
                os.path.join(root, program) for root, _, names in os.walk(os.path.join(self.build_folder, "tests"))
                if program in names
            ]
            code, said = self.call(path, "--gtest_filter=" + pattern, cwd=os.path.dirname(path))
            if re.search(r"Running 0 tests", said):
                raise OutOfDate(f"{program} has no test {pattern}")
            return code == 0, said
        code, said = self.call("ctest", "--test-dir", self.build_folder, "--no-tests=error", "--output-on-failure",
                               "-R", f"^{program}$")
        if "No tests were found" in said or "Not Run" in said:
            raise OutOfDate(f"ctest has no test {program}, or could not run it")
        return code == 0, said

    def passes_without(self, tests):
        """A test must pass without the fault before its failure means anything."""
        missing = [test for test in tests if test not in self.passed]
        if not missing:
            return
        code, said = self.build(missing)
        if code != 0:
            raise OutOfDate(f"does not build without the fault:\n{said[-3000:]}")
        for test in missing:
            good, said = self.run(test)
            if not good:
                raise OutOfDate(f"{test} fails without the fault:\n{said[-3000:]}")
            self.passed.add(test)

    def kill(self, fault):
        """Tests that do not detect the fault."""
        self.passes_without(fault.tests)
        file, before, after = self.sources.with_fault(fault.anchor, fault.old, fault.new)
        path = os.path.join(self.folder, file)
        put(path, after)
        try:
            code, said = self.build(fault.tests)
            if code != 0:
                raise OutOfDate(f"the changed source does not build:\n{said[-3000:]}")
            return [test for test in fault.tests if self.run(test)[0]]
        finally:
            put(path, before)


def instruction_sets():
    """Those of this machine's processor, as Linux names them."""
    with open("/proc/cpuinfo", encoding="utf-8") as file:
        return {name for line in file if line.startswith("flags") for name in line.partition(":")[2].split()}


def chosen(arguments):
    if arguments.only:
        unknown = set(arguments.only) - {fault.name for fault in faults.ALL}
        if unknown:
            sys.exit(f"no fault has the name {', '.join(sorted(unknown))}; --list prints all")
        return [fault for fault in faults.ALL if fault.name in arguments.only]
    if arguments.sample:
        return random.Random(arguments.seed).sample([fault for fault in faults.ALL if fault.cheap()], arguments.sample)
    return faults.ALL


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--only", nargs="+", default=[], metavar="NAME")
    parser.add_argument("--sample", type=int, default=0, metavar="N", help="of those whose tests build in seconds")
    parser.add_argument("--seed", type=int, default=0, help="of the sample")
    parser.add_argument("--list", action="store_true")
    parser.add_argument("--check", action="store_true")
    parser.add_argument("--folder", default=os.path.join(SOURCE, "build", "mutations"), type=os.path.abspath,
                        help="of the copy")
    parser.add_argument("--jobs", type=int, default=os.cpu_count())
    parser.add_argument("--python", default="", help="LLMC_PYTHON of the copy's build")
    arguments = parser.parse_args()
    if arguments.list:
        for fault in faults.ALL:
            print(f"{fault.name:40} {fault.anchor}: {', '.join(fault.tests)}")
        return
    if arguments.check:
        sys.exit(1 if check_list() else 0)
    tree = Tree(arguments.folder, arguments.jobs, [f"-DLLMC_PYTHON={arguments.python}"] if arguments.python else [])
    killed, wrong, known = 0, [], instruction_sets()
    for fault in chosen(arguments):
        if fault.needs and fault.needs not in known:
            print(f"{fault.name} ({fault.anchor}): not tried, because this machine lacks {fault.needs}", flush=True)
            continue
        begin = time.monotonic()
        try:
            survived = tree.kill(fault)
            verdict = f"killed by {', '.join(fault.tests)}" if not survived else f"SURVIVED {', '.join(survived)}"
        except OutOfDate as problem:
            survived, verdict = True, f"OUT OF DATE: {problem}"
        killed += not survived
        wrong += [fault.name] if survived else []
        print(f"{fault.name} ({fault.anchor}): {verdict} [{time.monotonic() - begin:.0f} s]", flush=True)
    print(f"{killed} of {killed + len(wrong)} faults killed" + (f"; not: {', '.join(wrong)}" if wrong else ""))
    sys.exit(1 if wrong else 0)


if __name__ == "__main__":
    main()
