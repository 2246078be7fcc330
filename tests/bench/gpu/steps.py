"""The kit's steps: each fills a dictionary with what it measured, or raises."""

import json
import os
import re
import shutil
import statistics
import subprocess
import sys
import threading

import build as builds
import harness  # tests/runs: shards and what a trainer prints

# copy MiB; sizes of square products; timed steps and those before them; repeats of a launch; micro-batches accumulated.
FULL = {"copy": 4096, "gemm": [4096, 8192, 16384], "steps": 8, "warmup": 3, "repeats": 5, "accumulated": 4}
TINY = {"copy": 1, "gemm": [32, 64], "steps": 1, "warmup": 1, "repeats": 2, "accumulated": 2}

# The part attention compares two trainers that add in different orders and round to bf16 at different values (probabilities
# against another maximum), so that single elements differ by up to 2^-8.
# A loss is a mean over a batch's tokens, in which that cancels: on the simulated GPU 2e-5 with 64 and with 512 tokens.
LOSS_BOUND = 1e-4
COMPARED_STEPS = 4  # in later ones the weights themselves have drifted apart
# The first step's gradients come from equal weights. Their norms would differ by 2^-8 if all elements were rounded one way,
# and by twice that, as scores' gradients are rounded before results are; on the simulated GPU 1.3e-3. The loss hardly sees a
# backward pass that is wrong, these norms do: a wrong scale, mask or head is percents of one.
NORM_BOUND = 2**-7


def build(kit, result):
    kit.machine.build()


def ceilings(kit, result):
    sizes = kit.sizes
    result.update(json.loads(kit.call(kit.machine.program("run", "ceilings"), sizes["copy"], *sizes["gemm"])))


def tune(kit, result):
    """The fastest algorithm of each product, for every program that runs after this part."""
    trainer = kit.machine.program("run", "trainer")
    output = kit.call(trainer, "tune")
    rows = re.findall(r"^(\w+) +(\d+) +([\d.]+) +([\d.]+) +[\d.]+% +[\d.]+$", output, re.MULTILINE)
    result["products"] = {name: {"algorithms": int(count), "first_ms": float(first), "best_ms": float(best)}
                          for name, count, first, best in rows}
    first, best = re.search(r"products of a micro-batch: ([\d.]+) ms as the library suggests, ([\d.]+) ms tuned", output).groups()
    result["first_ms"], result["best_ms"] = float(first), float(best)
    file = trainer.parent / "tuned.json"
    for bundle, names in builds.programs(kit.bundles).items():
        for folder in {kit.machine.program(bundle, name).parent for name in names} - {trainer.parent}:
            shutil.copy(file, folder)


def data_of(kit, bundle):
    """A folder with a shard of tokens for a bundle's vocabulary; enough for every run."""
    if bundle not in kit.data:
        plan = json.loads((kit.bundles / bundle / "plan.json").read_text())
        vocabulary = json.loads((kit.bundles / bundle / "config.json").read_text())["vocab_size"]
        batch = plan["batch"]
        count = batch["micro_batch"] * batch["sequence_length"] * 16 + 1
        folder = kit.work / f"data-{bundle}"
        folder.mkdir()
        harness.write_shard(folder / "train-0.bin", count, 1, vocabulary)
        kit.data[bundle] = folder
    return kit.data[bundle]


def trainer_words(kit, bundle, program, count, passes, folder):
    batch = json.loads((kit.bundles / bundle / "plan.json").read_text())["batch"]
    tokens = batch["micro_batch"] * batch["sequence_length"] * passes
    return [kit.machine.program(bundle, program), "--run", folder / "run", "--resume", "none",
            "--timing", folder / "timing.json", "--steps", count, f"schedule.steps={max(1000, count)}", "schedule.warmup_steps=10",
            f"data.train.path={data_of(kit, bundle) / 'train-0.bin'}", "data.tokenizer=", "data.validation.path=", f"batch.tokens={tokens}",
            "evaluation.every=0", "sampling.every=0", "checkpoint.every=0"]


def train(kit, bundle, program, count, passes, prefix=(), settings=(), **environment):
    """One run: what --timing wrote, what the trainer printed, and its metrics."""
    folder = kit.work / "training"
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir()
    output = kit.call(*prefix, *trainer_words(kit, bundle, program, count, passes, folder), *settings,
                      env={**kit.machine.environment, **environment})
    timing = json.loads((folder / "timing.json").read_text())
    metrics = harness.json_lines(folder / "run" / "metrics.jsonl")
    shutil.rmtree(folder)
    return timing, output, metrics


class MemoryWatch(threading.Thread):
    """The most device memory in use while it runs, as nvidia-smi says, less what was in use before; None without it."""

    def __init__(self):
        super().__init__(daemon=True)
        self.stopped, self.before, self.most = threading.Event(), self.used(), 0
        self.start()

    @staticmethod
    def used():
        try:
            text = subprocess.run(["nvidia-smi", "--query-gpu=memory.used", "--format=csv,noheader,nounits"],
                                  capture_output=True, text=True, timeout=10).stdout
            return int(text.split()[0]) << 20
        except (OSError, subprocess.TimeoutExpired, IndexError, ValueError):
            return None

    def run(self):
        while self.before is not None and not self.stopped.wait(0.5):
            self.most = max(self.most, self.used() or 0)

    def finish(self):
        self.stopped.set()
        self.join()
        return None if self.before is None else self.most - self.before


def whole_steps(kit, result):
    """The trainer as it is, one pass and several a step; then the host's time to launch its graphs."""
    warmup, count = kit.sizes["warmup"], kit.sizes["steps"]
    for name, passes in (("single", 1), ("accumulated", kit.sizes["accumulated"])):
        watch = MemoryWatch()
        timing, output, _ = train(kit, "run", "trainer", warmup + count, passes)
        taken = watch.finish()
        seconds = timing["steps"][warmup:]
        tokens = kit.plan["batch"]["micro_batch"] * kit.plan["batch"]["sequence_length"] * passes
        result[name] = {
            "passes": passes, "tokens": tokens, "ms": 1e3 * statistics.median(seconds), "seconds": seconds,
            "first_step_end": timing["seconds_to_first_step"],
            "start_up_seconds": timing["seconds_to_first_step"] - statistics.median(seconds),
            "arena_bytes": harness.allocated_bytes(output), "device_bytes": taken}
        host = timed(kit, "run", passes, 0, "hosted")[0]["host"]
        graphs = passes + 1  # of a step: its micro-batches, the optimizer
        each = [sum(host[i:i + graphs]) for i in range(0, len(host), graphs)]
        result[name]["host_ms"] = statistics.median(each[warmup:])


def timed(kit, bundle, passes, repeats, program="timed", settings=()):
    """What the clocks in the step wrote, and the run's metrics."""
    path = kit.work / "pieces.json"
    _, _, metrics = train(kit, bundle, program, kit.sizes["warmup"] + kit.sizes["steps"], passes, settings=settings,
                          LLMC_PIECES=str(path), LLMC_PIECES_REPEATS=str(repeats))
    return json.loads(path.read_text()), metrics


def launches(kit, bundle, repeats):
    """name -> ms of a launch (median), launches a step, ms a step; and what the first steps trained."""
    warmup = kit.sizes["warmup"]
    written, metrics = timed(kit, bundle, 1, repeats, settings=["metrics.every=1"])
    rows = {}
    for name, launches in written["launches"].items():
        kept = [ms for step, ms in launches if step >= warmup]
        if kept:  # else start-up's
            steps = written["steps"] - warmup
            rows[name] = {"ms": statistics.median(kept), "a_step": len(kept) / steps, "ms_a_step": sum(kept) / steps}
    norms = {name: values["grad"] for name, values in metrics[0].get("per_parameter", {}).items()}
    return rows, {"losses": [line["loss"] for line in metrics[:COMPARED_STEPS]],
                  "gradient_norms": {"all parameters": metrics[0]["grad_norm"], **norms}}


def pieces(kit, result):
    """Every launch in its place and on end; and with the attention library's atomics allowed."""
    result["in_place"], result["training"] = launches(kit, "run", 1)
    result["on_end"], _ = launches(kit, "run", kit.sizes["repeats"])
    result["free"], _ = launches(kit, "free", 1)


def relative_difference(ours, theirs):
    """|ours - theirs| / |theirs|; infinite where a trainer wrote null, for a number that is not finite."""
    if ours is None or theirs is None:
        return float("inf")
    return abs(ours - theirs) / abs(theirs) if theirs else abs(ours)


def attention(kit, result):
    """Every launch with llmc's own attention, and whether that trains as cuDNN's does."""
    refusal = builds.refusal(kit.bundles, "portable")
    if refusal:
        result["absent"] = refusal
        return
    if "training" not in kit.results.get("pieces", {}):
        raise RuntimeError("nothing to compare with: the part pieces has not run the trainer with cuDNN's attention")
    cudnn = kit.results["pieces"]["training"]
    result["in_place"], own = launches(kit, "portable", 1)
    losses = [relative_difference(*pair) for pair in zip(cudnn["losses"], own["losses"])]
    # A bias of the keys shifts all scores of a query alike: its gradient is zero, and its norm only rounding.
    norms = {name: relative_difference(cudnn["gradient_norms"][name], norm)
             for name, norm in own["gradient_norms"].items() if not name.endswith("k_proj.bias")}
    worst = max(norms, key=norms.get)
    result["comparison"] = {"training": own, "losses": losses, "loss_bound": LOSS_BOUND,
                            "gradient_norm": norms[worst], "of": worst, "norm_bound": NORM_BOUND}
    if max(losses) > LOSS_BOUND:
        raise RuntimeError(f"cuDNN's attention and llmc's own give losses {max(losses):.1e} apart; bound {LOSS_BOUND:.0e}")
    if norms[worst] > NORM_BOUND:
        raise RuntimeError(f"cuDNN's attention and llmc's own give first gradients of {worst} with norms {norms[worst]:.1e} "
                           f"apart; bound {NORM_BOUND:.1e}")


def torch_run(kit, mode, passes, cache):
    batch, device = kit.plan["batch"], "cpu" if kit.simulated else "cuda"
    output = kit.call(
        sys.executable, builds.HERE.parent / "quickstart_torch.py", "--mode", mode, "--dtype", "bf16", "--device", device,
        "--threads", os.cpu_count(), "--steps", kit.sizes["warmup"] + kit.sizes["steps"], "--accumulate", passes, "--model",
        (kit.bundles / "run" / "config.json").read_text(), "--batch", batch["micro_batch"], "--length",
        batch["sequence_length"], "--shard", data_of(kit, "run") / "train-0.bin",
        *(["--scalar"] if kit.simulated else []), env={**os.environ, "TORCHINDUCTOR_CACHE_DIR": str(cache), "TRITON_CACHE_DIR": str(cache)})
    figures = json.loads(output.splitlines()[-1])
    seconds = figures["steps"][kit.sizes["warmup"]:]
    return {"passes": passes, "ms": 1e3 * statistics.median(seconds), "seconds": seconds, "torch": figures["torch"],
            "start_up_seconds": figures["seconds_to_first_step"] - statistics.median(seconds),
            "reserved_bytes": figures["reserved_bytes"]}


def torch(kit, result):
    """The same model: eager, torch.compile with an empty cache, and with the cache that this has left."""
    try:
        kit.call(sys.executable, "-c", "import torch; torch.nn.functional.rms_norm")
    except RuntimeError as error:
        result["absent"] = f"no PyTorch with rms_norm (2.4 or later) in {sys.executable}: {str(error).splitlines()[-1]}"
        return
    cache = kit.work / "inductor"
    for name, mode, passes in (("compile, cold", "compile", 1), ("compile, warm", "compile", 1), ("eager", "eager", 1),
                               ("compile, accumulated", "compile", kit.sizes["accumulated"])):
        try:
            result[name] = torch_run(kit, mode, passes, cache)
        except RuntimeError as error:  # such as eager's logits on a smaller GPU
            result[name] = {"failed": str(error)}
    failed = [f"{name}: {run['failed'][-600:]}" for name, run in result.items() if "failed" in run]
    if failed:
        raise RuntimeError("; ".join(failed))


def sanitizer(kit, result):
    if kit.simulated:
        result["absent"] = "the simulator itself looks for races and bad accesses, and found none"
        return
    for tool in ("memcheck", "racecheck"):
        _, output, _ = train(kit, "small", "trainer", 2, 2, ("compute-sanitizer", "--tool", tool, "--error-exitcode", "99"))
        result[tool] = re.findall(r"=+ ((?:ERROR|RACECHECK) SUMMARY: .*)", output)[-1]


def tests(kit, result):
    """GoogleTest's report: how many ran, and which failed."""
    path = kit.work / "tests.json"
    try:
        kit.call(*kit.machine.tests(), f"--gtest_output=json:{path}")
    finally:
        if path.exists():
            report = json.loads(path.read_text())
            result["ran"] = report["tests"] - report["disabled"]
            result["failures"] = [f"{suite['name']}.{test['name']}" for suite in report["testsuites"] for test in suite["testsuite"]
                                  if test.get("failures")]
    if not result["ran"]:
        raise RuntimeError("no test ran")
