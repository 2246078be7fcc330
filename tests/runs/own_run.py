"""From the quick start to an own run: its last hints as written, llmc in a prefix, two llmc in one folder."""

import fcntl
import glob
import json
import os
import re
import shutil
import subprocess

import harness
import pages
from harness import LLMC, SOURCE, RunTest

BUILD = os.path.dirname(os.path.realpath(LLMC))


class OwnRun(RunTest):

    def test_hints_of_the_quick_start(self):
        """Runs each command literally after the quick start; the last one stops after a step."""
        with open(os.path.join(SOURCE, "quickstart.sh")) as file:
            hints = re.search(r"cat <<'END'\n(.*?)^END$", file.read(), re.MULTILINE | re.DOTALL).group(1)
        commands = [
            re.split(r"\s{2,}", line.strip())[0].split() for line in hints.splitlines()
            if line.startswith("  build/llmc ")
        ]
        self.assertGreaterEqual(len(commands), 5, hints)
        tree = pages.Tree(self.path("tree"))
        for command in commands:
            words = " ".join(command + (["--", "--steps", "1", pages.FEW] if command[1] == "run" else []))
            code, output = tree.shell(words)
            self.assertEqual(code, 1 if command[1] == "diff" else 0, f"{words}\n{output}")
        self.assertTrue(glob.glob(os.path.join(tree.folder, "**", "checkpoints", "step-00000001"), recursive=True))

    def test_installed(self):
        """llmc in a prefix compiles a trainer that uses nothing of the build and contains none of its paths."""
        prefix = self.path("prefix")
        self.succeed("cmake", "--install", BUILD, "--prefix", prefix)
        with open(os.path.join(prefix, "lib", "llmc", "runtime-cpu.link")) as file:
            self.assertNotIn(BUILD, file.read())
        environment = {k: v for k, v in harness.environment().items() if k not in ("LLMC_HOME", "LLMC_BUILD")}
        moved = self.path("moved")
        shutil.move(prefix, moved)  # a prefix may be moved, too
        llmc = os.path.join(moved, "bin", "llmc")
        done = self.succeed(llmc, "doctor", env=environment)
        self.assertIn(os.path.join(moved, "share", "llmc"), done.out)
        spec = harness.write_small(self.path("installed"))
        self.succeed(llmc, "compile", spec, "-o", self.path("trainer"), env=environment)
        loaded = self.succeed(llmc, "emit", spec, "-o", self.path("sources"), env={**environment, "LD_DEBUG":
                                                                                   "files"}).err
        self.assertIn(os.path.join(moved, "lib", "llmc", "libllmc_clang.so"), loaded)
        self.assertNotIn(os.path.join(BUILD, "libllmc_clang.so"), loaded)
        version = self.succeed(self.path("trainer", "trainer"), "--version").out
        self.assertRegex(version, r"^small [0-9a-f]{32} \S+\n$")
        usage = self.succeed(self.path("trainer", "trainer"), "--help").out
        for word in ("--device", "--profile", "GPU", "tune"):
            self.assertNotIn(word, usage, "help of a trainer for the CPU")

    def test_link_line_moves_with_the_tree(self):
        with open(os.path.join(BUILD, "runtime-cpu.link")) as file:
            self.assertNotIn(SOURCE, file.read())

    def test_second_llmc_waits(self):
        """While one llmc works in a folder, another reports that it waits, and continues when the first has ended."""
        spec = harness.write_small(self.path("twice"))
        out = self.path("twice-out")
        self.succeed(LLMC, "emit", spec, "-o", out)
        with open(os.path.join(out, ".llmc-lock")) as held:
            fcntl.flock(held, fcntl.LOCK_EX)  # as the first llmc does
            second = self.start(LLMC, "emit", spec, "-o", out, stdout=subprocess.PIPE, stderr=subprocess.PIPE,
                                text=True)
            self.assertIn("waiting for", second.stderr.readline())
            self.assertIsNone(second.poll())
        out_text, error = second.communicate(timeout=harness.HANGS)
        self.assertEqual((second.returncode, out_text.strip(), error), (0, out, ""))

    def test_names_of_the_build_folder(self):
        """A run with the name of a CMake output gets a separate folder."""
        spec = harness.write_small(self.path("named"))
        tree = self.path("cmake")
        os.makedirs(os.path.join(tree, "build", "tests"))
        for name in ("CMakeCache.txt", "llmc", "tests/cmake_install.cmake"):
            open(os.path.join(tree, "build", name), "w").close()
        for name in ("tests", "llmc", "runtime"):
            done = self.succeed(LLMC, "emit", spec, f"name={name}", cwd=tree)
            self.assertEqual(done.out.strip(), f"build/{name}" + ("" if name == "runtime" else "-run"))

    def test_two_specs_of_one_name(self):
        """A second file with the name of the first: `llmc run` refuses its run folder before compiling, `llmc compile`
        says whose trainer it replaces."""
        folder = self.path("namesakes")
        first = harness.write_small(folder)
        second = os.path.join(folder, "second.yaml")
        shutil.copy(first, second)
        trainer = os.path.join(folder, "build", "small", "trainer")
        self.assertNotIn("note: ", self.succeed(LLMC, "run", first, "--", "--steps", "1", cwd=folder).err)
        before = os.stat(trainer).st_mtime_ns
        done = harness.call(LLMC, "run", second, "optimizer.lr=1e-3", cwd=folder)
        self.assertEqual((done.code, os.stat(trainer).st_mtime_ns), (6, before), done.err)
        self.assert_facts(done.err, "last started", f"trainer of '{first}'", f"of '{second}'")
        self.assert_facts(
            self.succeed(LLMC, "compile", second, cwd=folder).err, "note: ", f"trainer of '{second}'", f"of '{first}'")
        self.assertEqual(harness.call(trainer, "--steps", "2").code, 6)
        done = self.succeed(LLMC, "run", second, "--", "--steps", "2", "--run", os.path.join(folder, "runs", "small"),
                            cwd=folder)
        self.assert_facts(done.out, "note    ", f"trainer of '{first}'", f"of '{second}'\n")

    def test_notes_come_once(self):
        folder = self.path("notes")
        spec = harness.write_small(folder, harness.SMALL.replace("{kind: cpu, arch: native}",
                                                                 "{kind: cuda, arch: 90a}"))
        done = self.succeed(LLMC, "run", spec, "target.kind=cpu", "optimizer.lr=1e-4", "--", "--steps", "1", cwd=folder)
        notes = re.findall(r"(?m)^note.*", done.out + done.err)
        self.assertEqual((len(notes), len(set(notes))), (2, 2), done.out + done.err)

    def test_leftovers_of_a_killed_compiler(self):
        spec, out = harness.write_small(self.path("killed")), self.path("killed-out")
        self.succeed(LLMC, "compile", spec, "-o", out)
        before = sorted(harness.tree(out))
        for name in ("trainer.new", "program.cpp.new", "spec_files.new", "kernels/rope.cpp.new", "objects/abc.o.new"):
            open(os.path.join(out, name), "w").close()
        self.succeed(LLMC, "compile", spec, "-o", out)
        self.assertEqual(sorted(harness.tree(out)), before)

    def test_arguments_of_the_trainer(self):
        done = harness.call(LLMC, "plan", "specs/tiny.yaml", "--", "--steps", "1", cwd=SOURCE)
        self.assertEqual(done.code, 2)
        self.assertIn(" -- --steps 100", done.err)

    def test_doctor_tries_the_compilers(self):
        """An nvcc that prints its version but compiles nothing is not ok; GPUs are listed as by nvidia-smi."""
        tools = self.path("tools")
        os.makedirs(tools)
        for name, text in ((
                "nvcc", 'case "$1" in --version) echo "release 13.0, V13.0.1";; *) echo "no ptxas" >&2; exit 1;; esac'),
                           ("nvidia-smi", 'echo "NVIDIA H100 80GB HBM3, 81559 MiB, 580.65.06, 9.0"')):
            with open(os.path.join(tools, name), "w") as file:
                file.write("#!/bin/sh\n" + text + "\n")
            os.chmod(os.path.join(tools, name), 0o755)
        environment = dict(harness.environment(), PATH=tools + ":" + os.environ["PATH"])
        out = self.succeed(LLMC, "doctor", env=environment).out
        self.assertRegex(out, r"-- CUDA compiler +release 13.0, V13.0.1; .*cannot compile .*\(exit 1\): no ptxas")
        self.assertRegex(out, r"ok GPU +NVIDIA H100 80GB HBM3, 81559 MiB, 580.65.06, 9.0")
        for what in ("memory", "disk here", r"C\+\+ compiler"):
            self.assertRegex(out, f"ok {what} ")
        # Tools may print anything.
        with open(os.path.join(tools, "nvidia-smi"), "w") as file:
            file.write("#!/bin/sh\nprintf 'GPU \\377 \\033[2J\\n'\n")
        self.assertIn(r"ok GPU                    GPU \xff \x1b[2J", self.succeed(LLMC, "doctor", env=environment).out)
        findings = json.loads(self.succeed(LLMC, "doctor", "--json", env=environment).out)
        self.assertEqual(findings[-1]["found"], "GPU \ufffd \x1b[2J")


if __name__ == "__main__":
    harness.main()
