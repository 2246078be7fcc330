"""`llmc sweep` on eight simulated GPUs, one run on each at a time. A stand-in for nvcc compiles for the simulator, so that llmc
itself builds and starts the trainers."""

import glob
import json
import os
import stat
import sys
import time

import harness

NVCC = """#!{python}
import os, subprocess, sys
sys.path.insert(0, {sim!r})
import harness
if "--version" in sys.argv:
    print("Cuda compilation tools, release 13.0, V13.0.48")
    sys.exit(0)
source, out = sys.argv[sys.argv.index("-c") + 1], sys.argv[sys.argv.index("-o") + 1]
words = harness.compiler_words("kernel" if source.startswith("kernels/") else "host")
sys.exit(subprocess.run(["g++", *words, "-c", source, "-o", out]).returncode)
"""
RATES = [f"{i + 1}e-3" for i in range(8)]
WORDS = ("schedule.steps=3", "schedule.warmup_steps=1", "sampling.every=0", "evaluation.every=3", "checkpoint.every=0")


class Sweep(harness.SimTest):

    def environment(self, **changes):
        """With a toolkit, a driver's library and a runtime for CUDA that are the simulator's."""
        tools = self.path("cuda", "bin")
        os.makedirs(tools, exist_ok=True)
        nvcc = os.path.join(tools, "nvcc")
        with open(nvcc, "w") as file:
            file.write(NVCC.format(python=sys.executable, sim=harness.SIM))
        os.chmod(nvcc, stat.S_IRWXU)
        self.succeed("g++", "-shared", "-x", "c++", "/dev/null", "-o", self.path("cuda", "libcuda.so.1"))
        with open(os.path.join(harness.BUILT, "trainer.link")) as words, \
                open(self.path("cuda", "runtime-cuda.link"), "w") as link:
            link.write(words.read())
        env = harness.runs.environment(LLMC_SIM_GPUS="8", LD_LIBRARY_PATH=self.path("cuda"),
                                       CUDA_HOME=self.path("cuda"), LLMC_BUILD=self.path("cuda"),
                                       LLMC_HOME=harness.SOURCE, CPATH=os.path.join(harness.SIM, "include"), **changes)
        env["PATH"] = f"{tools}:{env['PATH']}"
        return env

    def devices_in_use(self):
        """The device of each run that trains, from the command lines of its processes."""
        found = {}
        for path in glob.glob("/proc/[0-9]*/cmdline"):
            try:
                words = harness.runs.read(path).decode(errors="replace").split("\0")
            except OSError:
                continue
            if words[0] == self.path("grid", "builds", "1", "trainer"):
                found[os.path.basename(words[words.index("--run") + 1])] = words[words.index("--device") + 1]
        return found

    def test_a_run_on_each_device(self):
        spec, env = harness.runs.write_small(self.folder, harness.SMALL), self.environment()
        command = [
            harness.LLMC, "sweep", spec, "optimizer.lr=" + ",".join(RATES), *WORDS, "--devices", "7,6,5,4,3,2,1,0",
            "-o",
            self.path("grid")
        ]
        with open(self.path("messages"), "w") as messages:
            process = self.start(*command, stdout=messages, stderr=messages, env=env)
        devices = {}
        while process.poll() is None:
            devices.update(self.devices_in_use())
            time.sleep(0.05)
        with open(self.path("messages")) as file:
            said = file.read()
        self.assertEqual(process.returncode, 0, said)
        self.assertEqual(devices, {f"{i + 1:04}": str(7 - i) for i in range(8)})
        with open(self.path("grid", "sweep.json")) as file:
            record = json.load(file)
        self.assertEqual([run["state"] for run in record["runs"]], ["finished"] * 8, said)
        self.assertEqual(len(record["builds"]), 1)
        started = [line for line in said.split("\n") if line.endswith(": started")]
        self.assertEqual(len(started), 8)
        self.assertLess(said.index(started[-1]), said.index(": finished"), "all of them run at once")
        # A run is the same as one on the first device alone.
        self.succeed(self.path("grid", "builds", "1", "trainer"), "--run", self.path("alone"), "optimizer.lr=3e-3",
                     *WORDS, env=env)
        metrics = [
            harness.runs.without_timing(harness.runs.json_lines(self.path(*run, "metrics.jsonl")))
            for run in (("alone", ), ("grid", "runs", "0003"))
        ]
        self.assertEqual(*metrics)
        self.assertEqual(record["runs"][2]["val_loss"], metrics[0][-1]["val_loss"])

    def test_devices_are_checked_first(self):
        spec, env = harness.runs.write_small(self.folder, harness.SMALL), self.environment()
        for words, facts in ((("--devices", "0,1,0"), ("twice", )), (("--devices", "0,1", "--jobs", "3"),
                                                                     ("--jobs 3", "2 devices")),
                             (("--threads", "2"), ("target.kind is cuda", ))):
            done = harness.runs.call(harness.LLMC, "sweep", spec, "optimizer.lr=1e-3,2e-3", *words, "-o",
                                     self.path("refused"), env=env)
            self.assertEqual(done.code, 2, done.err)
            self.assert_facts(done.err, *facts)
        self.assertFalse(os.path.exists(self.path("refused")))


if __name__ == "__main__":
    harness.main()
