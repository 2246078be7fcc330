"""The processor of a trainer: instructions that it must have, and threads."""

import os
import shutil
import struct
import subprocess

import harness
from harness import LLMC, QUIET, TrainerTest


class TrainerProcessor(TrainerTest):

    def wanting(self, name, instructions):
        """A copy of the trainer that claims its kernels may use `instructions`, numbered as in
        runtime/device/cpu/instructions.h."""
        copy = self.path(name)
        shutil.copy(self.trainer, copy)
        address = next(
            int(line.split()[0], 16) for line in self.succeed("nm", copy).out.splitlines()
            if line.endswith("kInstructionsE"))
        with open(copy, "r+b") as file:
            head = file.read(64)
            table, (size, count) = struct.unpack_from("<Q", head, 32)[0], struct.unpack_from("<HH", head, 54)
            for number in range(count):
                file.seek(table + number * size)
                kind, _, offset, begin, _, bytes_, _, _ = struct.unpack("<IIQQQQQQ", file.read(56))
                if kind == 1 and begin <= address < begin + bytes_:  # PT_LOAD
                    file.seek(offset + address - begin)
                    file.write(struct.pack("<Q", instructions))
        return copy

    def test_a_processor_without_the_instructions_is_refused(self):
        xop, avx512fp16 = 1 << 14, 1 << 28  # of two vendors: no processor has both
        trainer = self.wanting("elsewhere", xop | avx512fp16)
        run = self.path("elsewhere-run")
        for words in ([], ["--ranks", 2], ["calibrate"], ["sample", "--checkpoint", run, "--prompt",
                                                          "1"], ["evaluate", "--checkpoint", run]):
            said = self.refused(3, *(["--run", run, *words] if not words or words[0] == "--ranks" else words),
                                trainer=trainer)
            self.assertRegex(
                said, r"^error: .*built for \S+, .*processor \(\S+\) has no [a-z0-9, -]+\. .*target\.arch: \S+, ")
        self.assertFalse(os.path.exists(run))
        for words in (["--version"], ["--help"], ["--plan"]):
            self.succeed(trainer, *words)

    def test_what_is_compiled_for_one_arch_has_no_code_that_others_share(self):
        """The linker keeps one copy of an inline function: one from a kernel's source would run before the processor
        is checked."""
        objects = os.path.join(os.path.dirname(self.trainer), "objects")
        shared = {}
        for name in os.listdir(objects):
            if name.endswith(".o"):
                symbols = [line.split() for line in self.succeed("nm", os.path.join(objects, name)).out.splitlines()]
                if not any(symbol[-1] == "main" for symbol in symbols):
                    shared[name] = self.weak(symbols)
        self.assertGreater(len(shared), 5)
        self.assertEqual([names for names in shared.values() if names], [])

    def weak(self, symbols):
        """Functions that a linker keeps one copy of, but for those of a step, which has the only one."""
        return [
            symbol[-1] for symbol in symbols
            if symbol[-2] in "WV" and not symbol[-1].startswith(("DW.ref.", "_ZN4llmc4Step"))
        ]

    def test_a_step_of_ranks_has_no_code_that_others_share(self):
        """The one with the most classes of the runtime."""
        project = self.path("muon")
        self.succeed(LLMC, "emit", self.spec, "-o", project, "optimizer.kind=muon", "parallel.world_size=2",
                     "parallel.shard=gradients")
        folders = ["-I" + os.path.join(harness.SOURCE, name) for name in ("runtime", "", "templates", "templates/cpu")]
        self.succeed("g++", "-std=c++20", "-O1", "-fopenmp", "-march=native", "-I" + project, *folders, "-c",
                     os.path.join(project, "step.cpp"), "-o", self.path("step.o"))
        lines = self.succeed("nm", self.path("step.o")).out.splitlines()
        self.assertEqual(self.weak([line.split() for line in lines]), [])

    def test_threads_that_are_bound_have_a_processor_each(self):
        """With OMP_PROC_BIND libgomp binds the first thread before main, which counts processors and may restart
        itself."""
        env = harness.environment(OMP_PROC_BIND="true")
        for key in ("OMP_NUM_THREADS", "OMP_WAIT_POLICY", "GOMP_SPINCOUNT"):
            env.pop(key, None)
        processors = os.sched_getaffinity(0)
        command = [self.trainer, "--run", self.path("bound"), *harness.ENDLESS, "checkpoint.every=0"]
        process = self.start(*command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, env=env, text=True)
        said = next(line for line in process.stdout if line.startswith("device"))
        self.assertIn(f" {len(processors)} thread", said)
        next(line for line in process.stdout if line.startswith("step"))
        tasks = [int(task) for task in os.listdir(f"/proc/{process.pid}/task")]
        self.assertEqual(set().union(*(os.sched_getaffinity(task) for task in tasks)), processors)

    def test_more_threads_than_processors(self):
        """One warning with the number of processors, and none where each thread has one. It counts the threads of all
        ranks."""
        processors = sorted(os.sched_getaffinity(0))

        def warned(count, *words):
            words = [self.trainer, "--run", self.path("-".join(map(str, ("threads", count, *words)))), *QUIET, *words]
            done = subprocess.run(list(map(str, words)), env=harness.environment(), stdout=subprocess.PIPE,
                                  stderr=subprocess.STDOUT, text=True,
                                  preexec_fn=lambda: os.sched_setaffinity(0, processors[:count]))
            self.assertEqual(done.returncode, 0, done.stdout)
            return [line for line in done.stdout.splitlines() if "warning: " in line and "processor" in line]

        (line, ) = warned(1, "--threads", 3)
        self.assertRegex(line, r"\b3 threads .*\b1 processor\b.*--threads 1\b")
        self.assertEqual(warned(1, "--threads", 1), [])
        (line, ) = warned(1, "--ranks", 2, "--threads", 1)
        self.assertRegex(line, r"\b2 ranks .*\b1 thread each.*\b1 processor\b.*\b1 rank\b.*--threads 1\b")
        if len(processors) > 1:
            (line, ) = warned(2, "--ranks", 2, "--threads", 2)
            self.assertRegex(line, r"\b2 ranks .*\b2 threads each.*\b2 processors\b.*--threads 1\b")
            self.assertEqual(warned(2, "--ranks", 2, "--threads", 1), [])

    def test_threads_are_those_that_openmp_gives(self):
        """Fewer threads than requested would leave the missing threads' part undone."""

        def environment(**variables):
            return {
                key: value
                for key, value in harness.environment(**variables).items()
                if key != "OMP_NUM_THREADS" or key in variables
            }

        one = (*QUIET, "--threads", 1)
        self.succeed(self.trainer, "--run", self.path("one-thread"), *one)
        expected = [line["loss"] for line in harness.json_lines(self.path("one-thread", "metrics.jsonl"))]
        for name, variables in (("limit", {"OMP_THREAD_LIMIT": "1"}), ("levels", {"OMP_MAX_ACTIVE_LEVELS": "0"}),
                                ("both", {"OMP_NUM_THREADS": "4", "OMP_THREAD_LIMIT": "1"})):
            done = self.succeed(self.trainer, "--run", self.path(name), *QUIET, env=environment(**variables))
            self.assertRegex(done.out, r"(?m)^device .*, 1 thread,")
            self.assertEqual([line["loss"] for line in harness.json_lines(self.path(name, "metrics.jsonl"))], expected,
                             name)
        for words, variables, said in ((("--threads", 2), {"OMP_THREAD_LIMIT":
                                                           "1"}, "OpenMP gives 1"), ((), {"OMP_NUM_THREADS":
                                                                                          "99999"}, " 4096")):
            done = harness.call(self.trainer, "--run", self.path("never"), *QUIET, *words, env=environment(**variables))
            self.assertEqual(done.code, 2, done.err)
            self.assertIn(said, done.err)


if __name__ == "__main__":
    harness.main()
