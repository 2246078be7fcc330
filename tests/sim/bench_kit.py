"""The GPU benchmark kit, from bundles to its report, on the simulated GPU: complete, in two commands, and with parts
that fail, hang and are killed. The kit is built once; its PyTorch, its fp8 rates and its NVML are stand-ins that
return fixed figures."""

import contextlib
import json
import os
import pathlib
import shutil
import signal
import subprocess
import sys
import tarfile
import time

import harness

sys.path.insert(0, os.path.join(harness.SOURCE, "tests", "bench", "gpu"))
import parts  # noqa: E402
import prepare  # noqa: E402
import report  # noqa: E402

SPEC = prepare.SMALL  # tied and without biases, as the kit's PyTorch model is
# Settings of a long run (as in specs/llama-1b.yaml), which the kit's trainings must switch off.
LASTING = """evaluation: {every: 250, sequences: 256}
sampling: {every: 500, prompts: ["The meaning of life is "]}
checkpoint: {every: 1000, keep_every: 5000}
"""
DATA = """data:
  tokenizer: nowhere/tokenizer.model
  validation: [{path: nowhere/val-*.bin}]
"""
NAMES = [part.name for part in parts.PARTS]
# So long that only a part that hangs reaches it, even on a slow machine.
LIMIT = 1500
PATIENT = ["--minutes", "100", "--limit", *(f"{name}={LIMIT}" for name in NAMES)]
HANGS = 15  # seconds; limit of a part that never ends

# cuDNN's attention supports no grouped heads and is the faster one; eager needs a smaller batch.
PYTORCH = """
import json, sys
words = dict(zip(sys.argv[1:], sys.argv[2:] + [""]))
if "--look" in words: sys.exit(print(json.dumps({"torch": "stand-in"})))
if words["--attention"] == "cudnn" and "--repeat-heads" not in words: sys.exit("RuntimeError: No available kernel.")
if words["--mode"] == "eager" and words["--batch"] == "2": sys.exit(12)
seconds = [{"cudnn": 0.5, "flash": 0.75}[words["--attention"]]] * int(words["--steps"])
print(json.dumps({"steps": seconds, "accumulated_steps": [2 * each for each in seconds], "seconds_to_first_step": 9, "torch": "stand-in",
                  "reserved_bytes": 1 << 30, "residual": "bfloat16",
                  "attention": words["--attention"] + (", heads repeated" if "--repeat-heads" in words else "")}))
"""

# Supports no block scales, like some library versions.
RATES = """#!/usr/bin/env python3
import json, sys, time
for product in sys.argv[2:]:
    begin = time.monotonic()
    time.sleep(0.01)
    more = {"copy_alone_gb_s": 400, "copy_gb_s": 300} if product.endswith("+") else {"burst": 800}
    print(json.dumps({"product": product, "absent": "NOT_SUPPORTED"} if ",block," in product else
                     {"product": product, "algorithms": 8, "sustained": 700, "begin": begin, "end": time.monotonic(), **more}))
"""
HEADS = """#!/usr/bin/env python3
import json
for window in (0, 512):
    print(json.dumps({"heads": "16/4 of 128", "window": window, "way": "llmc", "pass": "forward", "ms": 1.5, "burst": 300.0,
                      "sustained": 280.0, "begin": 0, "end": 1}))
"""
# A card at 700 W and its power cap: joules by the machine's clock.
NVML = """
#include <time.h>
int nvmlInit_v2(void) { return 0; }
int nvmlDeviceGetHandleByIndex_v2(unsigned index, void** device) { return *device = 0, index; }
int nvmlDeviceGetTotalEnergyConsumption(void* device, unsigned long long* mj) {
  struct timespec t;
  clock_gettime(CLOCK_MONOTONIC, &t);
  return *mj = 700000ull * t.tv_sec + t.tv_nsec * 7ull / 10000, 0;
}
int nvmlDeviceGetClockInfo(void* device, int kind, unsigned* mhz) { return *mhz = 1755, kind != 1; }
int nvmlDeviceGetPowerUsage(void* device, unsigned* mw) { return *mw = 700000, 0; }
int nvmlDeviceGetTemperature(void* device, int sensor, unsigned* degrees) { return *degrees = 55, sensor; }
int nvmlDeviceGetCurrentClocksThrottleReasons(void* device, unsigned long long* reasons) { return *reasons = 4, 0; }
"""


def alive(process):
    with contextlib.suppress(OSError):
        return pathlib.Path(f"/proc/{process}/stat").read_text().rsplit(")", 1)[1].split()[0] != "Z"
    return False


class BenchKit(harness.SimTest):

    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        archive = pathlib.Path(cls.folder, "kit.tar.gz")
        spec = pathlib.Path(cls.folder, "lasting.yaml")
        spec.write_text(SPEC.read_text().replace("data:\n", DATA).replace("attention: cudnn", "attention: auto") +
                        LASTING)
        qwen = pathlib.Path(cls.folder, "qwen.yaml")
        qwen.write_text(SPEC.read_text().replace("sequence_length: 32", "sequence_length: 16"))
        prepare.make(harness.LLMC, {"run": spec, "small": SPEC, "qwen": qwen, "curve": SPEC}, archive, libraries=False)
        with tarfile.open(archive) as file:
            file.extractall(cls.folder)
        cls.top = pathlib.Path(cls.folder, "llmc-kit")
        (cls.top / "tests" / "bench" / "quickstart_torch.py").write_text(PYTORCH)
        cls.built = pathlib.Path(cls.folder, "built")
        cls.nvml = pathlib.Path(cls.folder, "nvml")
        cls.nvml.mkdir()
        (cls.nvml / "nvml.c").write_text(NVML)
        subprocess.run(["gcc", "-shared", "-fPIC", cls.nvml / "nvml.c", "-o", cls.nvml / "libnvidia-ml.so.1"],
                       check=True)
        done = harness.runs.call(*cls.words(cls.top, cls.built, pathlib.Path(cls.folder, "built-out")), "--only",
                                 "build", timeout=LIMIT)
        if done.code:
            raise RuntimeError(done.out + done.err)

    @staticmethod
    def words(top, work, out):
        return [
            sys.executable, top / "tests" / "bench" / "gpu" / "run.py", "--simulate", harness.BUILT, "--work", work,
            "--out", out, *PATIENT
        ]

    def setUp(self):
        name = self.id().split(".")[-1]
        self.work, self.out, self.kit = (pathlib.Path(self.path(f"{name}-{what}")) for what in ("work", "out", "kit"))
        shutil.copytree(self.built, self.work, copy_function=os.link)

    def own_kit(self):
        """A copy of the kit that the test may change, whose results count as this kit's."""
        shutil.copytree(self.top, self.kit, copy_function=os.link)
        (self.work / "kit.json").unlink()
        return self.kit

    def call(self, *arguments, top=None, gpus=1, card=False):
        libraries = {"LD_LIBRARY_PATH": str(self.nvml)} if card else {}
        return harness.runs.call(*self.words(top or self.top, self.work, self.out), *arguments, timeout=2 * LIMIT,
                                 env=harness.runs.environment(LLMC_SIM_GPUS=str(gpus), **libraries))

    def result(self):
        return json.loads((self.out / "gpu.json").read_text())

    def report(self):
        return (self.out / "gpu.md").read_text()

    def begun(self, done):
        """Parts that a command started, in order."""
        return [line for line in done.err.splitlines() if line in NAMES]

    @contextlib.contextmanager
    def replaced(self, bundle, program, script):
        """Replaces a program of the kit by a shell script, in which $REAL is the program."""
        path = self.work / "bin" / bundle / program
        real = path.with_name(path.name + "-real")
        path.rename(real)
        path.write_text(f"#!/bin/sh\nREAL={real}\n{script}\n")
        path.chmod(0o755)
        try:
            yield
        finally:
            real.replace(path)

    def hanging(self, pids):
        """Makes `trainer tune` hang, with a child that has its own session."""
        return f'[ "$1" = tune ] || exec $REAL "$@"\nsetsid sleep {10 * LIMIT} &\necho $! $$ > {pids}.part; mv {pids}.part {pids}\nwait'

    def plan(self, bundle):
        return json.loads((self.top / "bundles" / bundle / "plan.json").read_text())

    def check_launches(self, plan, measured):
        planned = {}
        for launch in plan["launches"]:
            if launch["per"] in ("micro-batch", "step") and launch["kind"] != "memset":
                name = launch["runs"]
                if name.startswith("attention") and plan["attention"]["forward"] == "cudnn":
                    if name.startswith("attention_backward_keys"):
                        continue  # of one call for all queries
                    name = "attention.backward" if "backward" in name else "attention.forward"
                planned[name] = planned.get(name, 0) + launch["times"]
        found = {name: row["a_step"] for name, row in measured["launches"].items()}
        # Where tuning has taken cuDNN's backward pass, a kernel rotates its gradients. llmc's own rotates them itself.
        if "rope_inverse" not in planned and "rope_inverse" in found:
            self.assertEqual(found.pop("rope_inverse"), planned["attention.backward"])
        self.assertEqual(found, planned)

    def test_two_commands_from_bundles_to_report(self):
        for name, script in (("rates", RATES), ("heads", HEADS)):
            program = self.work / "bin" / "run" / name
            program.write_text(script)
            program.chmod(0o755)
        begun = [part.name for part in parts.FIRST if part.name != "build"]
        first = self.call("--only", *begun, card=True)
        self.assertEqual(first.code, 0, first.out + first.err)
        self.assertEqual(self.begun(first), begun)
        before = self.result()["results"]
        second = self.call(gpus=2)
        self.assertEqual(second.code, 0, second.out + second.err)
        self.assertEqual(self.begun(second), [part.name for part in parts.SECOND])
        result = self.result()
        self.assertTrue(result["simulated"])
        results, plan = result["results"], result["plan"]
        self.assertEqual(list(results), NAMES)
        self.assertEqual([name for name, part in results.items() if "failed" in part], [])
        for name, part in before.items():
            self.assertEqual(part, results[name])
        third = self.call()
        self.assertEqual((third.code, self.begun(third)), (0, []))

        # Every launch of the plan was timed, as often as it occurs in a step.
        for part, row in (("pieces", "in_place"), ("repeated", "on_end"), ("repeated", "free")):
            self.check_launches(self.plan("run"), results[part][row])
        for kind in ("cudnn", "portable"):
            self.check_launches(self.plan(kind), results["attention"][kind])
        self.assertIn("attention_backward_keys_warpgroups_rotated", results["attention"]["portable"]["launches"])
        comparison = results["attention"]["portable"]["comparison"]
        self.assertEqual(len(comparison["losses"]), 2)
        self.assertNotEqual(results["attention"]["portable"]["training"], results["pieces"]["in_place"]["training"])
        self.assertIn("model.layers.0.self_attn.k_proj.weight",
                      results["attention"]["portable"]["training"]["gradient_norms"])
        for part, name, passes in (("step", "run", 1), ("step", "run, at the end", 1), ("step", "fp8_full", 1),
                                   ("variants", "run, accumulated", 2), ("variants", "free", 1)):
            step = results[part][name]
            self.assertEqual(step["arena_bytes"], step["plan_bytes"])
            self.assertEqual(step["tokens"], passes * plan["batch"]["micro_batch"] * plan["batch"]["sequence_length"])
        self.assertEqual(results["variants"]["qwen"]["tokens"], 32)
        for name in ("host", "host, accumulated"):
            self.assertGreater(results["variants"][name]["ms"], 0)
        self.check_card(results)
        for rates in results["ceilings"]["gemm_tflop_s"].values():
            self.assertGreater(rates["burst"], 0)
            self.assertGreater(rates["sustained"], 0)
        tuned = results["tune"]
        self.assertEqual(set(tuned["products"]), {product["name"] for product in plan["products"]})
        self.assertGreater(tuned["first_ms"], tuned["best_ms"])
        for name in ("run", "fp8_full"):
            self.assertEqual(len(results["calibrate"][name]["figures"]["products"]["weight_gradient"]), 8)
        self.assertEqual(len(results["losses"]["curve_fp8_full"]["losses"]), 3)
        self.assertNotEqual(results["losses"]["curve_fp8_full"]["above_bf16"], 0)
        self.assertIn("quantise", " ".join(results["pieces"]["fp8_full"]["launches"]))
        self.assertEqual(results["tests"]["failures"], [])
        self.assertGreater(results["tests"]["ran"], 3)
        pytorch = results["PyTorch"]
        self.assertEqual(results["compiled"]["compile, flash"]["carried"], False)
        self.assertEqual(pytorch["compile, again"]["attention"], "cudnn, heads repeated")
        self.assertEqual((pytorch["eager"]["batch"], pytorch["eager"]["out_of_memory_at"]), (1, [2]))
        self.check_devices(results["devices"], plan["batch"]["micro_batch"] * plan["batch"]["sequence_length"])
        # No state of a trainer was written.
        self.assertEqual([str(path) for path in self.work.rglob("*.safetensors")], [])
        self.check_report(result)

    def check_card(self, results):
        """Checks for the stand-in's 700 W and 1,755 MHz in a row of a part, in a line of a program, and in the raw
        results."""
        by_shape = results["rates"]["fp8, by shape"]["products"]
        self.assertEqual({row["product"].split(",")[3] for row in by_shape}, {"e4m3"})
        self.assertEqual(sum("absent" in row for row in results["rates"]["scale, accumulation and output"]["products"]),
                         2)
        self.assertEqual(
            [row["product"].split(",")[-1] for row in results["overlap"]["a product beside a copy"]["products"]],
            ["132", "124", "124+", "116", "116+", "88", "88+"])
        for row in (results["step"]["run"], by_shape[0], results["tune"]):
            self.assertEqual((row["card"]["mhz"]["median"], row["card"]["watts"]["most"], row["card"]["held"]),
                             (1755, 700, {"power cap": 1}))
            # The kit reads the clock and the meter one after the other, between which a loaded machine may pause it.
            self.assertAlmostEqual(row["card"]["joules"] / 700, row["card"]["seconds"], delta=0.1)
            self.assertGreater(row["card"]["joules"], 0)
        self.assertNotIn("card", results["variants"]["free"])  # of the command without NVML
        raw = [json.loads(line) for line in (self.out / "results.jsonl").read_text().splitlines()]
        self.assertIn({"part": "rates", "row": "fp8, by shape", **by_shape[0]}, raw)
        launch = next(row for row in raw if row.get("launch") == "qkv_forward" and row["row"] == "in_place")
        self.assertEqual(launch["ms"], results["pieces"]["in_place"]["launches"]["qkv_forward"]["ms"])
        self.assertGreater(launch["flops"], 0)

    def check_devices(self, part, tokens):
        self.assertEqual(
            {name: part[name]["tokens"] // tokens
             for name in ("one", "all", "one, accumulated", "all, accumulated")},
            {"one": 1, "all": 2, "one, accumulated": 2, "all, accumulated": 4})
        self.assertEqual(part["collectives"]["ranks"], "2 ranks, NCCL 2.28.9")
        (kinds, ) = part["collectives"]["mib"].values()
        for row in kinds.values():
            # One operation each on the simulated clock; the trainer's also includes events of its own stream.
            self.assertGreater(row["ours_gb_s"], 0)
            self.assertGreaterEqual(row["nccl_gb_s"], row["ours_gb_s"])
        # A reduce-scatter moves half the bytes of an all-reduce.
        self.assertAlmostEqual(kinds["all_reduce"]["nccl_gb_s"], 2 * kinds["reduce_scatter"]["nccl_gb_s"], delta=0.01)

    def check_report(self, result):
        text, plan = self.report(), result["plan"]
        self.assertIn("Simulated: no time", text)
        for row in plan["kernels"]:
            if row["name"] in result["results"]["pieces"]["in_place"]["launches"]:
                self.assertIn(f"| {row['name']} |", text)
        for heading, _ in report.SECTIONS:
            self.assertIn(f"## {heading}\n", text)
        for row in ("the run's", "attention: cudnn, deterministic: false", "attention: cudnn", "attention: portable"):
            self.assertRegex(text, rf"\| {row} \|( -?[\d.,]+%? \|){{8}}")
        self.assertRegex(text, r"A micro-batch's products: [\d.]+ ms by the algorithms that cuBLASLt suggests")
        self.assertRegex(text, r"losses of the first 2 steps [-+\de., ]+ \(bound 1e-04\)")
        theirs = "attention cudnn, heads repeated, residual bfloat16"
        self.assertRegex(
            text, rf"run \(residual fp32\): \*\*[\d.]+ times\*\* the speed of torch.compile \({theirs}\), arena")
        self.assertIn(f"PyTorch stand-in eager, 1 x 1, {theirs}; out of memory at 2 |", text)
        self.assertRegex(
            text,
            r"\| llmc, as the spec has it, 2 x 1 \| [\d.,]+ \| [\d.,]+ \|  \| [\d.,]+% \| [\d.,]+ ms: [\d.]+% \| 1,755 MHz, 700 W \|"
        )
        self.assertRegex(text, r"The run at the end of the part against its begin: [-+][\d.]+%, the card's drift\.")
        self.assertRegex(text, r"\| e4m3 to bf16, scale tensor, fast \| all \| 800\.0 \| 700\.0 \| 1,755 MHz, 700 W \|")
        self.assertRegex(text, r"\| bf16 to bf16 \| 124 \|  \| 700\.0 \| 1,755 MHz, 700 W \| 400 \| 300 \| 8 \|")
        self.assertRegex(
            text,
            r"\| step \| run \| [\d.,]+ \| [\d.,]+ \| 700, 700, 700 \| 1,755, 1,755, 1,755 \| 55 \| power cap 100% \|")
        self.assertRegex(text, r"\| 2 x 1 \| [\d.,]+ \| [\d.,]+ \| [\d.]+ \| -?[\d.,]+ \| -?[\d.]+% \|")
        self.assertRegex(text, r"\| all_reduce, 1 MiB \|( [\d.,]+ \|){3} [\d.]+% \|")
        self.assertNotIn("could not be written", text)
        # MFU needs the data sheet's peak, which the runtime knows of GPUs only.
        step = result["results"]["step"]["run"]
        rate = step["tokens"] / step["ms"] * 1e3 * step["flops_per_token"] / 1e12
        result["results"]["ceilings"]["peak_tflop_s"] = 4 * rate
        self.assertIn("| 25.0% |", report.step(report.Figures(result)))
        del result["results"]["ceilings"]["peak_tflop_s"]
        # The rest is shown if figures are missing.
        for part, figures in result["results"].items():
            for row in (None, *(name for name, value in figures.items() if isinstance(value, dict))):
                others = {name: value for name, value in figures.items() if row and name != row}
                changed = {**result["results"], part: others}
                text = report.markdown({**result, "results": changed})
                self.assertNotIn("could not be written", text, (part, row))
                self.assertIn("## Parts\n", text)
        text = report.markdown({**result, "results": {**result["results"], "tune": {"products": 7}}, "machine": {}})
        self.assertIn("## Products\n\nThis section could not be written: TypeError", text)
        self.assertIn("## Tests\n", text)

    def test_a_run_for_another_arch_is_refused(self):
        spec = self.work / "other.yaml"
        spec.write_text(SPEC.read_text().replace("[90a]", "[100]"))
        with self.assertRaisesRegex(SystemExit, r"target\.arch \['100'\].* sm_90a"):
            prepare.emit_all(harness.LLMC, {"run": spec}, self.work / "refused")

    def test_parts_that_fail_hang_and_are_killed(self):
        pids = self.work / "pids"
        with self.replaced("run", "ceilings", "echo the device is on fire >&2; exit 3"), \
                self.replaced("run", "trainer", self.hanging(pids)), self.replaced("run", "timed", "kill -KILL $$"):
            done = self.call("--limit", *(f"{name}={LIMIT}" for name in NAMES if name != "tune"), f"tune={HANGS}",
                             "--only", "ceilings", "tune", "pieces", "repeated", "tests", "PyTorch")
        self.assertEqual(done.code, 1, done.out + done.err)
        self.assertEqual(self.begun(done), ["tests", "ceilings", "tune", "pieces", "repeated", "PyTorch"])
        results, text = self.result()["results"], self.report()
        self.assertRegex(text, r"\| ceilings \| FAILED \|.*exited with 3: the device is on fire")
        self.assertRegex(text, r"\| tune \| FAILED \|")
        self.assertRegex(results["tune"]["failed"], "still running at the part's time limit|stopped at its limit")
        self.assertGreater(results["tune"]["seconds"], HANGS - 3)
        self.assertRegex(text, r"\| pieces \| FAILED \|.*in_place: .* was killed by SIGKILL")
        self.assertRegex(text, r"\| repeated \| FAILED \|.*on_end: .* was killed by SIGKILL")
        self.assertIn("launches", results["repeated"]["free"])  # by another program
        self.assertRegex(text, r"\| tests \| done \|")
        self.assertRegex(text, r"\| PyTorch \| done \|")
        self.assertGreater(results["tests"]["ran"], 3)
        self.assertIn(f"## Tests\n\n{results['tests']['ran']} ran, failed: none.", text)
        self.assertEqual([each for each in pids.read_text().split() if alive(each)], [])

        # The next command repeats failed parts, and of these only missing rows.
        again = self.call("--only", "ceilings", "pieces", "repeated", "tests", "PyTorch")
        self.assertEqual(again.code, 0, again.out + again.err)
        self.assertEqual(self.begun(again), ["ceilings", "pieces", "repeated"])
        self.assertEqual(self.result()["results"]["repeated"]["free"], results["repeated"]["free"])

    def test_a_command_that_is_killed(self):
        """Results measured before are kept, started processes are stopped, and the next command continues."""
        for stop in (signal.SIGKILL, signal.SIGTERM):
            with self.subTest(stop):
                pids = self.work / "pids"
                pids.unlink(missing_ok=True)
                with self.replaced("run", "trainer", self.hanging(pids)):
                    words = [*self.words(self.top, self.work, self.out), "--only", "ceilings", "tune"]
                    running = self.start(*words, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
                    end = time.monotonic() + LIMIT
                    while not pids.exists() and running.poll() is None and time.monotonic() < end:
                        time.sleep(0.05)
                    running.send_signal(stop)
                    self.assertNotEqual(running.wait(timeout=LIMIT), 0)
                child, trainer = pids.read_text().split()
                # A grandchild with its own session outlives a command that cannot clean up.
                gone = [trainer] if stop == signal.SIGKILL else [trainer, child]
                while any(map(alive, gone)) and time.monotonic() < end:
                    time.sleep(0.05)
                self.assertEqual([each for each in gone if alive(each)], [])
                with contextlib.suppress(ProcessLookupError):
                    os.kill(int(child), signal.SIGKILL)
                results = self.result()["results"]
                self.assertIn("seconds", results["ceilings"])
                self.assertIn("## Ceilings\n", self.report())
                if stop == signal.SIGTERM:
                    done = self.call("--only", "ceilings", "tune")
                    self.assertEqual(done.code, 0, done.out + done.err)
                    self.assertEqual(self.begun(done), ["tune"])
                    self.assertEqual(self.result()["results"]["ceilings"], results["ceilings"])

    def test_a_program_that_does_not_build_stops_no_other(self):
        top = self.own_kit()
        step = top / "bundles" / "small" / "step.cu"
        step.unlink()
        step.write_text("this is no C++\n")
        (self.work / "bin" / "small" / "trainer").unlink()
        (self.work / "bin" / "run" / "ceilings").unlink()
        done = self.call("--only", "build", "ceilings", "sanitizer", top=top)
        self.assertEqual(done.code, 1, done.err)
        self.assertEqual(self.begun(done), ["build", "ceilings", "sanitizer"])
        self.assertEqual(self.result()["results"]["build"]["programs"],
                         ["run/ceilings", "small/trainer", "wide/trainer", "normed/trainer"])
        self.assertRegex(self.result()["results"]["build"]["failed"],
                         r"(?s)not built: small/trainer;.*step\.cu:1:1: error: .*this is no C")
        self.assertRegex(self.report(), r"\| ceilings \| done \|")
        self.assertRegex(self.report(), r"\| sanitizer \| absent \|")

    def test_attention_that_is_wrong_by_a_twentieth_is_found(self):
        top = self.own_kit()
        kernel = top / "bundles" / "portable" / "kernels" / "attention_backward_keys_warpgroups_rotated.cu"
        text = kernel.read_text()
        right = "(dk, 0.125f,"
        self.assertEqual(text.count(right), 1)
        kernel.unlink()
        kernel.write_text(text.replace(right, "(dk, 0.13125f,"))
        (self.work / "bin" / "portable" / "timed").unlink()
        done = self.call("--only", "pieces", "attention", top=top)
        self.assertEqual(done.code, 1, done.err)
        self.assertRegex(self.report(), r"\| attention \| FAILED \|.*self_attn\.k_proj\.weight with norms \d")
        self.assertRegex(self.report(), r"\| attention: portable \| \d")

    def test_a_run_that_cannot_have_another_attention_says_why(self):
        top = self.own_kit()
        path = top / "bundles" / "bundles.json"
        refusals = {**json.loads(path.read_text()), **dict.fromkeys(("cudnn", "portable"), "error E0304: head_dim 264")}
        path.unlink()
        path.write_text(json.dumps(refusals))
        done = self.call("--only", "attention", top=top)
        self.assertEqual(done.code, 0, done.err)
        self.assertRegex(self.report(), r"\| attention \| absent \|.*attention: portable: error E0304: head_dim 264")

    def test_torch_compile_begins_with_a_carried_cache(self):
        """An archive's carried files are put into its cache, which is returned for the next archive."""
        top = self.own_kit()
        carried = pathlib.Path(self.path("carried", "inductor"))
        carried.mkdir(parents=True)
        (carried / "kernel").write_text("compiled before\n")
        with tarfile.open(top / "inductor.tar.gz", "w:gz") as file:
            file.add(carried, "inductor")
        done = self.call("--only", "compiled", top=top)
        self.assertEqual(done.code, 0, done.err)
        self.assertEqual(self.result()["results"]["compiled"]["compile, flash"]["carried"], True)
        self.assertEqual((self.work / "inductor" / "kernel").read_text(), "compiled before\n")
        with tarfile.open(self.out / "inductor.tar.gz") as file:
            self.assertIn("inductor/kernel", file.getnames())

    def test_one_device_has_nothing_to_send(self):
        done = self.call("--only", "devices")
        self.assertEqual(done.code, 0, done.err)
        self.assertRegex(self.report(), r"\| devices \| absent \|.*this machine shows 1 GPU, and it takes two")

    def test_skipped_updates_are_noticed(self):
        skip = ('$REAL "$@" || exit\n[ "$LLMC_PIECES_REPEATS" = 1 ] || '
                'echo \'{"step": 9, "loss": 1.0, "grad_norm": 1.0, "skipped": [3]}\' >> $2/metrics.jsonl')
        with self.replaced("run", "timed", skip):
            done = self.call("--only", "pieces", "repeated")
        self.assertEqual(done.code, 1, done.err)
        results = self.result()["results"]
        self.assertRegex(results["repeated"]["on_end"]["failed"], r"run/timed skipped the updates of steps \[9\]")
        self.assertRegex(self.report(), r"\| repeated \| FAILED \|.*skipped the updates")
        self.assertIn("launches", results["pieces"]["in_place"])
        self.assertIn("## Kernels\n", self.report())

    def test_results_of_another_kit_are_not_mixed(self):
        top = self.own_kit()
        (self.work / "kit.json").write_text(json.dumps({"kit": "0", "gpu": None, "simulated": True}))
        done = self.call("--only", "ceilings", top=top)
        self.assertEqual(done.code, 1)
        self.assertIn("has results of another kit", done.err)


if __name__ == "__main__":
    harness.main()
