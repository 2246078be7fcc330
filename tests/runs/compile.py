"""Which parts llmc compile compiles, and which it reuses. It also prints how long llmc takes, which decides nothing,
because it depends on the machine and its load. The goals next to the figures are for two idle cores."""

import os
import re
import shutil
import time

import harness
from harness import LLMC, SOURCE, RunTest

QUICKSTART = os.path.join(SOURCE, "specs", "quickstart.yaml")


class Compile(RunTest):

    def plain(self):
        """An environment without ccache."""
        path = harness.environment()["PATH"]
        return harness.environment(PATH=":".join(folder for folder in path.split(":") if "ccache" not in folder))

    def timed(self, what, goal, *command):
        """Runs llmc and returns its output. Prints the wall-clock seconds next to the goal."""
        begin = time.monotonic()
        done = self.succeed(LLMC, *command, env=self.plain())
        seconds = time.monotonic() - begin
        print(f"{what}: {seconds:.2f} s (goal {goal} s on two quiet cores)")
        return done.out

    def counts(self, output):
        compiled, unchanged = re.search(r"(\d+) sources? compiled, (\d+) unchanged", output).groups()
        return int(compiled), int(unchanged)

    def test_compile(self):
        out = self.path("quickstart")
        compiled, unchanged = self.counts(
            self.timed("cold compile of the quick start", 5, "compile", QUICKSTART, "-o", out))
        self.assertGreater(compiled, 15)
        self.assertEqual(unchanged, 0)
        output = self.timed("second compile", 0.5, "compile", QUICKSTART, "-o", out)
        self.assertEqual(self.counts(output), (0, compiled))
        self.assertNotIn("linked", output)
        # A learning rate occurs in texts only; the trainer is only relinked.
        output = self.timed("compile with another learning rate", 5, "compile", QUICKSTART, "-o", out,
                            "optimizer.lr=1.25e-4")
        self.assertEqual(self.counts(output), (1, compiled - 1))
        self.assertIn("linked", output)
        self.assertIn("optimizer.lr=0.000125", self.succeed(os.path.join(out, "trainer"), "--help").out)
        # Only a removed object is rebuilt.
        objects = [name for name in os.listdir(os.path.join(out, "objects")) if name.endswith(".o")]
        os.remove(os.path.join(out, "objects", sorted(objects)[0]))
        self.assertEqual(
            self.counts(
                self.succeed(LLMC, "compile", QUICKSTART, "-o", out, "optimizer.lr=1.25e-4", env=self.plain()).out),
            (1, compiled - 1))
        self.heals(out)

    def test_compilers_get_no_path_of_the_project(self):
        """So that a cache of compilers knows a kernel again in another project."""
        tools, real = self.path("tools"), shutil.which("g++", path=self.plain()["PATH"])
        os.makedirs(tools)
        wrapper = os.path.join(tools, "g++")
        with open(wrapper, "w") as file:  # logs commands with an output, and writes empty files
            file.write(f"""#!/bin/sh
case " $* " in *" -o "*) ;; *) exec {real} "$@";; esac
echo "$*" >> "$COMMANDS"
for word; do [ "$before" != -o ] || : > "$word"; before=$word; done
""")
        os.chmod(wrapper, 0o755)
        commands = []
        for name in ("one", "other"):
            log = self.path(name + ".log")
            self.succeed(LLMC, "compile", QUICKSTART, "-o", self.path(name),
                         env={**self.plain(), "PATH": tools + ":" + self.plain()["PATH"], "COMMANDS": log})
            lines = harness.read(log).decode().splitlines()
            commands.append(sorted(re.sub(r"\.\d+\.new", "", line) for line in lines if " -c " in line))
        self.assertGreater(len(commands[0]), 15)
        self.assertEqual(commands[0], commands[1])

    def test_the_step_includes_no_large_headers(self):
        """<memory> and <string> would take g++ as long as the whole step (program/hidden.h), <algorithm> half of that."""
        emitted = os.path.join(SOURCE, "generated", "quickstart")
        folders = [f"-I{os.path.join(SOURCE, name)}" for name in ("runtime", "templates/cpu")]
        for source in ("step.cpp", "program.cpp"):
            done = self.succeed("g++", "-std=c++20", "-M", '-DLLMC_ARCH=""', f"-I{emitted}", *folders,
                                os.path.join(emitted, source))
            read = set(re.findall(r"/bits/(\w+\.h)", done.out))
            self.assertIn("stl_algobase.h", read)  # of <span>
            self.assertEqual(
                read & {
                    "unique_ptr.h", "shared_ptr.h", "basic_string.h", "stl_vector.h", "std_function.h", "stl_algo.h",
                    "ranges_algo.h"
                }, set(), source)

    def heals(self, out):
        """Rebuilds only files that differ from the build; `llmc run` starts the right trainer."""

        def run():
            done = self.succeed(LLMC, "run", QUICKSTART, "-o", out, "--", "--plan", env=self.plain())
            self.assertIn("memory: ", done.out)
            return done.err

        trainer, objects = os.path.join(out, "trainer"), os.path.join(out, "objects")
        run()
        whole = harness.read(trainer)
        self.assertEqual(run(), "")
        for damage in (lambda: os.truncate(trainer, 0), lambda: os.truncate(trainer,
                                                                            len(whole) // 2),
                       lambda: os.chmod(trainer, 0o644), lambda: os.remove(os.path.join(objects, "trainer.hash"))):
            damage()
            self.assertEqual(run(), "linking trainer\n")
            self.assertEqual(harness.read(trainer), whole)
        first = sorted(name for name in os.listdir(objects) if name.endswith(".o"))[0]
        for cut in (0, 1000):
            os.truncate(os.path.join(objects, first), cut)
            os.truncate(trainer, 0)
            self.assertIn("compiling 1 of", run())
        # A source changed by hand is rewritten.
        with open(os.path.join(out, "step.cpp"), "a") as file:
            file.write("#error changed\n")
        self.assertEqual(run(), "")

    def test_a_changed_header_compiles_everything_again(self):
        """In a copy of the sources, for headers of the runtime and of the templates."""
        home = self.path("home")
        for folder in ("runtime", "templates"):
            shutil.copytree(os.path.join(SOURCE, folder), os.path.join(home, folder))
        spec = harness.write_small(self.path("small-headers"))

        def compile():
            return self.counts(
                self.succeed(LLMC, "compile", spec, "-o", self.path("headers"),
                             env=harness.environment(LLMC_HOME=home)).out)

        sources = compile()[0]
        self.assertEqual(compile(), (0, sources))
        for header in ("runtime/device/cpu/group.h", "templates/cpu/params.h"):
            with open(os.path.join(home, header), "a") as file:
                file.write("// changed\n")
            self.assertEqual(compile(), (sources, 0), header)

    def test_products_in_bf16x3(self):
        """Built for a processor with tiles; without one a trainer exits before it starts."""
        spec = harness.write_small(self.path("small-bf16x3"))
        trainer = self.compile(spec, "bf16x3", *harness.BF16X3, "target.arch=sapphirerapids")
        self.assertIn(b".tiles = true", harness.read(self.path("bf16x3", "step.h")))
        done = harness.call(trainer, "--steps", 1, "--run", self.path("bf16x3-run"))
        self.assertEqual(done.code, 0 if harness.has_tiles() else 3, done.err)

    def test_emit(self):
        spec = os.path.join(SOURCE, "specs", "llama-1b.yaml")
        self.timed("emit of llama-1b", 0.5, "emit", spec, "-o", self.path("llama-1b"))
        shutil.rmtree(self.path("llama-1b"))

    def test_start_of_the_trainer(self):
        """From process start to the end of step 0, minus one steady step."""
        spec = harness.write_small(self.path("small"))
        trainer = self.compile(spec, "small-trainer", "model.vocab_size=4096", "model.hidden_size=256",
                               "model.num_hidden_layers=6", "model.num_attention_heads=8",
                               "model.num_key_value_heads=4", "model.head_dim=32", "model.intermediate_size=768",
                               "memory.budget=2GiB", "sampling.every=0", "evaluation.every=0", "checkpoint.every=0")
        starts = []
        for attempt in range(3):
            timing = self.path(f"timing-{attempt}.json")
            self.succeed(trainer, "--run", self.path(f"start-{attempt}"), "--timing", timing, "--steps", 8)
            (line, ) = harness.json_lines(timing)
            steady = sorted(line["steps"][1:])[len(line["steps"]) // 2 - 1]
            starts.append(line["seconds_to_first_step"] - steady)
        print(f"start to the end of step 0, less a steady step: {min(starts):.2f} s (goal 0.5 s on two quiet cores)")


if __name__ == "__main__":
    harness.main()
