"""The kit's parts without a file of their own: each fills a dictionary with its figures, or raises."""

import json
import re
import shutil
import time

import toolkit
import training

# copy MiB and sizes of square GEMMs, each sustained for `sustained` seconds; timed steps and those before them; repeats
# of a launch; micro-batches accumulated; consecutive collectives, and their MiB; seconds of a single GEMM; draws of
# weights and tokens; steps of a run that is stopped half-way.
FULL = {
    "copy": 4096, "gemm": [4096, 8192, 16384], "sustained": 2.5, "steps": 8, "warmup": 3, "repeats": 5, "accumulated":
    4, "collectives": {"runs": 20, "mib": [1, 16, 256]}, "rates": 0.8, "draws": 3, "resumed": 6, "curve": 200,
    "calibrate": ["--seconds", 5], "tune": []
}
TINY = {
    "copy": 1, "gemm": [32, 64], "sustained": 0.01, "steps": 1, "warmup": 1, "repeats": 2, "accumulated": 2,
    "collectives": {"runs": 2, "mib": [1]}, "rates": 0.01, "draws": 1, "resumed": 2, "curve": 3, "calibrate":
    ["--seconds", 0, "--sizes", 32, 64], "tune": ["--sustained", 2]
}


def build(kit, result):
    result["programs"] = [f"{bundle}/{program}" for bundle, program in kit.programs]
    kit.machine.build(kit.programs)


def ceilings(kit, result):
    sizes = kit.sizes
    kit.need("run", "ceilings")
    lines = kit.json_lines(
        kit.call(kit.machine.program("run", "ceilings"), sizes["copy"], sizes["sustained"], *sizes["gemm"]))
    rows = {line["what"]: line for line in lines}
    if "peak" in rows:  # of the data sheet, if the runtime knows this GPU
        result.update(peak_tflop_s=rows.pop("peak")["bf16"])
    result.update(sustained_seconds=sizes["sustained"], copy_gb_s=rows.pop("copy"), gemm_tflop_s=rows)


def tune(kit, result):
    """The fastest algorithm of each of the run's GEMMs, under load, as `trainer tune` finds it."""
    begin = time.monotonic()
    result.update(tuned(kit, "run"))
    result.update(kit.of_card(begin, time.monotonic()))


def tuned_keys(plan):
    return {product["tuned_key"] for product in plan["products"]}


def covered(plan, before):
    """Whether the tuning of other plans has an algorithm for every GEMM of this one."""
    return tuned_keys(plan) <= set().union(*map(tuned_keys, before))


def tuned(kit, bundle):
    """Figures of `trainer tune` of a bundle, whose algorithms every trainer gets; None if another bundle's tuning
    covers all its GEMMs."""
    path = kit.work / "tuned-bundles.json"
    before = json.loads(path.read_text()) if path.exists() else []
    if bundle != "run" and covered(kit.made.plan(bundle), map(kit.made.plan, before)):
        return None
    kit.need(bundle, "trainer")
    trainer = kit.machine.program(bundle, "trainer")
    figures = tune_one(kit, trainer)
    for row in kit.made.rows():
        folder = kit.machine.program(row.name, "trainer").parent
        folder.mkdir(parents=True, exist_ok=True)  # some are built later
        if folder != trainer.parent:
            shutil.copy(trainer.parent / "tuned.json", folder)
    path.write_text(json.dumps([*before, bundle]) + "\n")
    return figures


def tune_one(kit, trainer):
    output = kit.call(trainer, "tune", *kit.sizes["tune"])
    rows = re.findall(r"^(\w+) +(\d+) +([\d.]+) +([\d.]+) +[\d.]+% +[\d.]+$", output, re.MULTILINE)
    first, best = re.search(r"products of a micro-batch: ([\d.]+) ms as the library suggests, ([\d.]+) ms tuned",
                            output).groups()
    return {
        "products": {
            name: {"algorithms": int(count), "first_ms": float(first), "best_ms": float(best)}
            for name, count, first, best in rows
        }, "first_ms": float(first), "best_ms": float(best)
    }


def calibrate(kit, result):
    """The device as measured by `trainer calibrate`, of the run and with its products in fp8. `figures`: input of
    `llmc calibrate FILE`."""

    def one(bundle):
        kit.need(bundle, "trainer")
        figures = kit.work / "figures.json"
        kit.call(kit.machine.program(bundle, "trainer"), "calibrate", *kit.sizes["calibrate"], "-o", figures)
        return {"figures": json.loads(figures.read_text())}

    kit.rows(result, {bundle: lambda bundle=bundle: one(bundle) for bundle in ("run", "fp8_full")})


def tuned_step(kit, bundle, passes=1):
    """A whole step of a variant, whose own GEMMs are tuned first."""
    kit.need(bundle, "trainer")
    figures = tuned(kit, bundle)
    row = training.whole_steps(kit, bundle, passes)
    return {**row, "tune": figures} if figures else row


def whole_steps(kit, result):
    """The trainer as it is, its variants, and the trainer once more, to show the card's drift."""
    kit.rows(
        result, {
            "run": lambda: training.whole_steps(kit, "run", 1),
            **{row.name: lambda name=row.name: tuned_step(kit, name)
               for row in kit.table if row.step}, "run, at the end": lambda: training.whole_steps(kit, "run", 1)
        })


def variants(kit, result):
    """Several micro-batches per step, further variants, and the host's time to launch a step's graphs."""
    several = kit.sizes["accumulated"]
    kit.rows(
        result, {
            "run, accumulated": lambda: training.whole_steps(kit, "run", several), **{
                row.name: lambda name=row.name: tuned_step(kit, name)
                for row in kit.table if row.later
            }, "host": lambda: training.host_ms(kit, 1), "host, accumulated": lambda: training.host_ms(kit, several)
        })


def sanitizer(kit, result):
    """Checks only llmc's kernels: the libraries' take minutes under memcheck, and are tested by their makers.
    Racecheck gets the kernels with shared memory alone, because cuBLASLt's GEMMs end with an illegal access under
    it (13.0)."""
    if kit.simulated:
        result["absent"] = "the simulator itself looks for races and bad accesses, and found none"
        return
    sanitizer = toolkit.tool("compute-sanitizer")
    if not sanitizer:
        result["absent"] = "no compute-sanitizer on the PATH or in the toolkit"
        return
    ours = ("--kernel-name", "kernel_substring=_ZN4llmc")  # prefix of mangled names in namespace llmc

    def look(bundle):
        _, output, _ = training.train(kit, bundle, "trainer", 2, 2,
                                      (sanitizer, "--tool", "memcheck", *ours, "--error-exitcode", "99"))
        return {"summary": re.findall(r"=+ (ERROR SUMMARY: .*)", output)[-1]}

    def races():
        kit.machine.build([("run", "tests")])
        output = kit.call(
            sanitizer, "--tool", "racecheck", *ours, "--error-exitcode", "99", *kit.machine.tests(),
            "--gtest_filter=PortableAttention.*:WarpgroupAttention.*:ClusteredCrossEntropy.*:TransposedCodes.*")
        return {"summary": re.findall(r"=+ (RACECHECK SUMMARY: .*)", output)[-1]}

    kit.rows(
        result, {
            "racecheck, single kernels": races,
            **{f"memcheck, {bundle}": lambda bundle=bundle: look(bundle)
               for bundle in ("small", "wide", "normed")}
        })


def tests(kit, result):
    """GoogleTest's report: the number run, and the failures. Built here, so that a test that does not compile stops
    nothing."""
    kit.machine.build([("run", "tests")])
    path = kit.work / "tests.json"
    path.unlink(missing_ok=True)
    try:
        kit.call(*kit.machine.tests(), f"--gtest_output=json:{path}")
    finally:
        if path.exists():
            report = json.loads(path.read_text())
            result["ran"] = report["tests"] - report["disabled"]
            result["failures"] = [
                f"{suite['name']}.{test['name']}" for suite in report["testsuites"] for test in suite["testsuite"]
                if test.get("failures")
            ]
    if not result["ran"]:
        raise RuntimeError("no test ran")
