#!/usr/bin/env python3
"""Processor time of each test, alone and in turn: what ./test.sh costs, whatever else runs on the machine.

    tests/bench/suite_times.py [-R REGEX] [-L LABEL] [--build FOLDER] [--cold] [-o FILE] [--against FILE]

Prints CPU-seconds (user and system, with all processes that a test waited for), seconds and the name of each test, largest
last, and the sum of each label. --cold: with an empty compiler cache of their own, which the tests of one call share. -o writes
the figures as JSON; --against prints their difference to such a file. Exit 1: a test failed.
"""
import argparse
import collections
import json
import os
import pathlib
import subprocess
import sys
import tempfile
import time

ROOT = pathlib.Path(__file__).resolve().parent.parent.parent


class Test:

    def __init__(self, entry):
        self.name, self.command, self.properties = entry["name"], entry.get("command", []), {}
        for property_ in entry.get("properties", []):
            self.properties[property_["name"]] = property_["value"]
        self.labels = self.properties.get("LABELS", [])

    def environment(self, base):
        result = dict(base)
        result.update(word.split("=", 1) for word in self.properties.get("ENVIRONMENT", []))
        for word in self.properties.get("ENVIRONMENT_MODIFICATION", []):
            name, _, change = word.partition("=")
            if change.startswith("unset:"):
                result.pop(name, None)
            elif change.startswith("path_list_prepend:"):
                result[name] = change[len("path_list_prepend:"):] + ":" + result[name]
            else:
                sys.exit(f"{self.name}: no rule for {word}")
        return result

    def passed(self, code, output):
        wanted = self.properties.get("PASS_REGULAR_EXPRESSION")
        if wanted:
            done = subprocess.run(["grep", "-qzE", *[word for each in wanted for word in ("-e", each)]],
                                  input=output.encode())
            return done.returncode == 0
        return code == 0 if not self.properties.get("WILL_FAIL") else code != 0

    def run(self, base):
        """(passed, CPU-seconds, seconds, output)"""
        with tempfile.TemporaryFile() as output:
            begin = time.monotonic()
            process = subprocess.Popen(self.command, stdin=subprocess.DEVNULL, stdout=output, stderr=subprocess.STDOUT,
                                       cwd=self.properties.get("WORKING_DIRECTORY"), env=self.environment(base))
            _, status, usage = os.wait4(process.pid, 0)
            process.returncode = os.waitstatus_to_exitcode(status)
            seconds = time.monotonic() - begin
            output.seek(0)
            text = output.read().decode(errors="replace")
        return self.passed(process.returncode, text), usage.ru_utime + usage.ru_stime, seconds, text


def tests(arguments):
    words = ["ctest", "--test-dir", arguments.build, "--show-only=json-v1", "-LE", "gpu"]
    words += ["-R", arguments.regex] if arguments.regex else []
    words += ["-L", arguments.label] if arguments.label else []
    listed = json.loads(subprocess.run(words, check=True, stdout=subprocess.PIPE).stdout)
    found = [Test(entry) for entry in listed["tests"]]
    return [test for test in found if not test.properties.get("DISABLED") and test.command]


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("-R", dest="regex", default="", help="names, as of ctest")
    parser.add_argument("-L", dest="label", default="", help="labels, as of ctest")
    parser.add_argument("--build", default=str(ROOT / "build"))
    parser.add_argument("--cold", action="store_true")
    parser.add_argument("-o", dest="output", type=pathlib.Path)
    parser.add_argument("--against", type=pathlib.Path)
    arguments = parser.parse_args()
    environment = dict(os.environ, OMP_WAIT_POLICY="passive", XDG_CONFIG_HOME="/nonexistent")  # as in test.sh
    before = json.loads(arguments.against.read_text()) if arguments.against else {}
    figures, failed, sums = {}, [], collections.Counter()
    with tempfile.TemporaryDirectory() as cache:
        if arguments.cold:
            environment["CCACHE_DIR"] = cache
        for test in tests(arguments):
            good, cpu, seconds, text = test.run(environment)
            figures[test.name] = {"cpu": round(cpu, 2), "seconds": round(seconds, 2), "labels": test.labels}
            sums.update({label: cpu for label in [*test.labels, "all"]})
            if not good:
                failed.append(test.name)
                print(f"{test.name} failed:\n{text[-4000:]}", file=sys.stderr, flush=True)
            if arguments.output:
                arguments.output.write_text(json.dumps(figures, indent=1) + "\n")
    for name, row in sorted(figures.items(), key=lambda item: item[1]["cpu"]):
        change = f"{row['cpu'] - before[name]['cpu']:+9.1f}" if name in before else " " * 9 * bool(before)
        print(f"{row['cpu']:9.2f}{change}{row['seconds']:9.2f}  {name}")
    for label, cpu in sorted(sums.items()):
        print(f"{cpu:9.1f}  {label}")
    for name in failed:
        print(f"failed: {name}")
    sys.exit(bool(failed))


if __name__ == "__main__":
    main()
