"""The kit's parts but those of pieces.py and devices.py: each fills a dictionary with what it measured, or raises."""

import json
import os
import re
import shutil
import statistics
import sys

import build as builds
import process
import toolkit
import training

# copy MiB and sizes of square products, each sustained for so many seconds; timed steps and those before them; repeats of
# a launch; micro-batches accumulated; collectives on end, and their MiB; draws of weights and tokens; steps of a run that is
# stopped half-way.
FULL = {"copy": 4096, "gemm": [4096, 8192, 16384], "sustained": 2.5, "steps": 8, "warmup": 3, "repeats": 5, "accumulated": 4,
        "collectives": {"runs": 20, "mib": [1, 16, 256]}, "draws": 3, "resumed": 6,
        "calibrate": ["--seconds", 5]}
TINY = {"copy": 1, "gemm": [32, 64], "sustained": 0.01, "steps": 1, "warmup": 1, "repeats": 2, "accumulated": 2,
        "collectives": {"runs": 2, "mib": [1]}, "draws": 1, "resumed": 2,
        "calibrate": ["--seconds", 0, "--sizes", 32, 64]}

OUT_OF_MEMORY = 12  # quickstart_torch.py's exit code


def build(kit, result):
    result["programs"] = [f"{bundle}/{program}" for bundle, program in kit.programs]
    kit.machine.build(kit.programs)


def ceilings(kit, result):
    sizes = kit.sizes
    kit.need("run", "ceilings")
    result.update(json.loads(kit.call(kit.machine.program("run", "ceilings"), sizes["copy"], sizes["sustained"], *sizes["gemm"])))


def tune(kit, result):
    """The fastest algorithm of each product, for every program that runs after this part."""
    folders = {bundle: kit.machine.program(bundle, name).parent for bundle, name in builds.wanted_programs(kit.made)}
    tuned, products = set(), {}
    for bundle in folders:
        for product in kit.made.plan(bundle)["products"]:
            products.setdefault(bundle, []).append(tuple(product[key] for key in ("m", "n", "k", "operands", "result")))
    for bundle in ("run", *(row.name for row in kit.made.rows() if row.step)):
        if bundle == "run" or not tuned.issuperset(products[bundle]):  # such as another residual stream's
            kit.need(bundle, "trainer")
            figures = tune_one(kit, kit.machine.program(bundle, "trainer"))
            if bundle == "run":
                result.update(figures)
            tuned |= set(products[bundle])
            for folder in folders.values():
                folder.mkdir(parents=True, exist_ok=True)  # some are built later
                if folder != folders[bundle]:
                    shutil.copy(folders[bundle] / "tuned.json", folder)


def tune_one(kit, trainer):
    output = kit.call(trainer, "tune")
    rows = re.findall(r"^(\w+) +(\d+) +([\d.]+) +([\d.]+) +[\d.]+% +[\d.]+$", output, re.MULTILINE)
    first, best = re.search(r"products of a micro-batch: ([\d.]+) ms as the library suggests, ([\d.]+) ms tuned", output).groups()
    return {"products": {name: {"algorithms": int(count), "first_ms": float(first), "best_ms": float(best)}
                         for name, count, first, best in rows},
            "first_ms": float(first), "best_ms": float(best)}


def calibrate(kit, result):
    """The device as `trainer calibrate` measures it. `figures` is what `llmc calibrate FILE` takes."""
    kit.need("run", "trainer")
    figures = kit.work / "figures.json"
    kit.call(kit.machine.program("run", "trainer"), "calibrate", *kit.sizes["calibrate"], "-o", figures)
    result["figures"] = json.loads(figures.read_text())


def whole_steps(kit, result):
    """The trainer as it is, one pass and several a step, and its variants; the host's time to launch its graphs."""
    several = kit.sizes["accumulated"]
    rows = {"run": lambda: training.whole_steps(kit, "run", 1),
            "run, accumulated": lambda: training.whole_steps(kit, "run", several)}
    for row in kit.table:
        if row.step:
            rows[row.name] = lambda name=row.name: training.whole_steps(kit, name, 1)
    rows["host"] = lambda: training.host_ms(kit, 1)
    rows["host, accumulated"] = lambda: training.host_ms(kit, several)
    kit.rows(result, rows)


def torch_run(kit, mode, attention, batch, then, *more):
    """Figures of quickstart_torch.py's process: steps of one pass, and after them, with `then`, of so many."""
    plan, device = kit.made.plan()["batch"], "cpu" if kit.simulated else "cuda"
    warmup, cache = kit.sizes["warmup"], kit.work / "inductor"
    output = kit.call(
        sys.executable, builds.HERE.parent / "quickstart_torch.py", "--mode", mode, "--dtype", "bf16", "--device", device,
        "--threads", os.cpu_count(), "--steps", warmup + kit.sizes["steps"], "--attention", attention, "--model",
        json.dumps(kit.made.model()), "--batch", batch, "--length", plan["sequence_length"], "--shard",
        training.data_of(kit, "run"), *(["--then-accumulate", then] if then else []), *(["--scalar"] if kit.simulated else []),
        *more, environment=dict(os.environ), TORCHINDUCTOR_CACHE_DIR=str(cache), TRITON_CACHE_DIR=str(cache))
    figures = json.loads(output.splitlines()[-1])
    seconds = figures["steps"][warmup:]
    row = {"batch": batch, "passes": 1, "ms": 1e3 * statistics.median(seconds), "seconds": seconds,
           "start_up_seconds": figures["seconds_to_first_step"] - statistics.median(seconds),
           **{key: figures[key] for key in ("torch", "reserved_bytes", "residual", "attention")}}
    if then:
        later = figures["accumulated_steps"][warmup:]
        row["accumulated"] = {"passes": then, "ms": 1e3 * statistics.median(later), "seconds": later}
    return row


def torch_fitting(kit, mode, attention, then=0):
    """With the run's micro-batch, or the largest half, quarter, ... of it that fits; which did not is said."""
    batch, too_large, more = kit.made.plan()["batch"]["micro_batch"], [], []
    while True:
        try:
            return {**torch_run(kit, mode, attention, batch, then, *more), "out_of_memory_at": too_large}
        except process.Failed as error:
            if error.code == OUT_OF_MEMORY and batch > 1:
                too_large.append(batch)
                batch //= 2
            elif not re.search("No (available kernel|viable backend)", str(error)):
                raise
            elif more:
                raise process.Absent(f"PyTorch has no {attention} attention for this model here") from None
            else:
                more = ["--repeat-heads"]


def torch(kit, result):
    """The same model by torch.compile, with cuDNN's and with flash attention; again from its cache; eager."""
    try:
        kit.call(sys.executable, builds.HERE.parent / "quickstart_torch.py", "--look", environment={**os.environ})
    except RuntimeError as error:
        result["absent"] = f"no PyTorch with rms_norm (2.4 or later) in {sys.executable}: {str(error).splitlines()[-1]}"
        return

    def faster():
        """Of the two kinds of attention; the default's where neither ran."""
        ran = {name: result[f"compile, {name}"]["ms"] / result[f"compile, {name}"]["batch"] for name in ("cudnn", "flash")
               if "ms" in result.get(f"compile, {name}", {})}
        return min(ran, key=ran.get) if ran else "default"

    kit.rows(result, {
        "compile, cudnn": lambda: torch_fitting(kit, "compile", "cudnn"),
        "compile, flash": lambda: torch_fitting(kit, "compile", "flash"),
        "compile, again": lambda: torch_fitting(kit, "compile", faster(), kit.sizes["accumulated"]),
        "eager": lambda: torch_fitting(kit, "eager", faster())})


def sanitizer(kit, result):
    """Only llmc's kernels are looked at: the libraries' take minutes under memcheck, and are their makers' to test. Racecheck
    looks at the kernels that share memory by themselves: cuBLASLt's products end with an illegal access under it (13.0)."""
    if kit.simulated:
        result["absent"] = "the simulator itself looks for races and bad accesses, and found none"
        return
    sanitizer = toolkit.tool("compute-sanitizer")
    if not sanitizer:
        result["absent"] = "no compute-sanitizer on the PATH or in the toolkit"
        return
    ours = ("--kernel-name", "kernel_substring=_ZN4llmc")  # what the mangled names of namespace llmc begin with

    def look(bundle):
        _, output, _ = training.train(kit, bundle, "trainer", 2, 2, (sanitizer, "--tool", "memcheck", *ours, "--error-exitcode", "99"))
        return {"summary": re.findall(r"=+ (ERROR SUMMARY: .*)", output)[-1]}

    def races():
        kit.machine.build([("run", "tests")])
        output = kit.call(sanitizer, "--tool", "racecheck", *ours, "--error-exitcode", "99", *kit.machine.tests(),
                          "--gtest_filter=PortableAttention.*:WarpgroupAttention.*:ClusteredCrossEntropy.*")
        return {"summary": re.findall(r"=+ (RACECHECK SUMMARY: .*)", output)[-1]}

    kit.rows(result, {"racecheck, attention and cross-entropy": races,
                      **{f"memcheck, {bundle}": lambda bundle=bundle: look(bundle) for bundle in ("small", "wide", "normed")}})


def tests(kit, result):
    """GoogleTest's report: how many ran, and which failed. Built here, so that a test that does not compile stops nothing."""
    kit.machine.build([("run", "tests")])
    path = kit.work / "tests.json"
    path.unlink(missing_ok=True)
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
