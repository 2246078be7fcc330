#!/usr/bin/env python3
"""Time of torch.compile's launches of the 1.24B model on an H100, priced by their own bytes and FLOPs: see README.md."""

import argparse
import json
import math
import os
import pathlib
import subprocess
import sys

ROOT = pathlib.Path(__file__).resolve().parent.parent.parent
BENCH = ROOT / "tests" / "bench"
WORK = ROOT / "build" / "bench" / "paper-gpu"
SPEC = ROOT / "specs" / "llama-1b.yaml"
RUN = ("batch.tokens=32768", "memory.budget=400GiB", "memory.recompute=none", "target.device=h100-sxm"
       )  # one pass, all kept
PUBLISHED, MEASURED = "504", "481 to 483"  # ms: as published for this model; docs/reference/benchmarks.md, PyTorch 2.11

# compiler/plan/price.cpp: tiles of a GEMM, with their rate relative to the largest one's; overlap of compute and
# memory.
TILES = ((256, 128, 1), (128, 256, 1), (128, 128, 0.92), (128, 64, 0.75), (64, 64, 0.55))
LEAST_SPLIT, OVERLAP = 1024, 1.5

# The first class that contains one of the kernel's ops. Kernels with only casts come last.
CLASSES = (("the embedding's gradient", {"embedding_dense_backward"}), ("cross-entropy", {"_log_softmax"}),
           ("SwiGLU", {"silu"}), ("norms, residual additions, embedding",
                                  {"_fused_rms_norm", "_fused_rms_norm_backward", "sum"}), ("RoPE", {"cat"}))

# Bytes per parameter, in fp32, of work outside the two passes: reads and writes of each tensor.
CLIP = {"the gradients' norm": 4, "gradients times a factor": 8}
ADAMW = {"AdamW": 28}  # reads weight, gradient and both moments, writes all but the gradient
CHUNK, BLOCKS = 65536, 320  # elements, and chunks of a launch: PyTorch's MultiTensorApply.cuh


def run(*command, **more):
    return subprocess.run([str(word) for word in command], check=True, text=True, stdout=subprocess.PIPE, **more).stdout


class Prices:
    """Seconds on a device, by `figures`: name -> {"value"}, as in `llmc plan --json`."""

    def __init__(self, figures):
        self.f = {name: figure["value"] for name, figure in figures.items()}

    def moved(self, size):
        return size / self.f["cache_copy" if 2 * size <= self.f["cache"] else "copy"]

    def kernel(self, size):
        return self.moved(size) + self.f["launch"]

    def product(self, m, n, k, size):
        """A [m, k] times [k, n] in bf16 that moves `size` bytes."""
        processors, rate = self.f["processors"], self.f["product_bf16"]
        flops = []
        for tile_m, tile_n, share in TILES:
            split = 1
            while split == 1 or k // split >= LEAST_SPLIT:
                tiles = math.ceil(m / tile_m) * math.ceil(n / tile_n) * split
                of_a_tile = 2 * tile_m * tile_n * (k // split)
                sums = 8 * split * m * n / self.f["copy"] if split > 1 else 0
                flops.append(math.ceil(tiles / processors) * processors * of_a_tile / share + sums * rate)
                split *= 2
        compute, memory = min(flops) / rate, self.moved(size)
        return (compute**OVERLAP + memory**OVERLAP)**(1 / OVERLAP) + self.f["launch"]


def class_of(launch):
    ops = set(launch["ops"])
    for name, has in CLASSES:
        if ops & has:
            return name
    if ops <= {"_to_copy", "t", "view"}:
        return "casts of weights and gradients"
    if ops == {"_to_copy", "add"}:  # the two of tied weights
        return CLASSES[0][0]
    raise SystemExit(f"no class has the ops of a kernel of torch.compile: {sorted(ops)}")


def environment():
    """The Python that has PyTorch, and the library that stands in for a GPU."""
    run(BENCH / "python.sh", "-c", "")
    python = ROOT / "build" / "bench-venv" / "bin" / "python"
    headers = next(
        (ROOT / "build" / "bench-venv").glob("lib/*/site-packages/nvidia/cu*/include/cuda_runtime_api.h")).parent
    WORK.mkdir(parents=True, exist_ok=True)
    library = WORK / "libcuda.so.1"
    run("g++", "-std=c++20", "-O1", "-shared", "-fPIC", f"-Wl,-soname,{library.name}", "-I", headers,
        BENCH / "paper_gpu.cpp", "-o", library)
    return python, {**os.environ, "LD_PRELOAD": str(library)}


def table(head, rows):
    return "\n".join("| " + " | ".join(str(cell) for cell in line) + " |"
                     for line in [head, ["---"] * len(head), *rows])


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--llmc", default=ROOT / "build" / "llmc", type=pathlib.Path, help="the compiler (build/llmc)")
    parser.add_argument("--residual", choices=["bf16", "fp32"], default="bf16",
                        help="PyTorch's residual stream (bf16, as measured)")
    parser.add_argument("-o", dest="output", type=pathlib.Path, help="write every launch as JSON")
    a = parser.parse_args()
    plan = json.loads(run(a.llmc, "plan", SPEC, *RUN, "--json"))
    library = json.loads(run(a.llmc, "plan", SPEC, *RUN, "target.attention=cudnn", "deterministic=false", "--json"))
    keys = {key["key"]: key["value"] for key in json.loads(run(a.llmc, "config", SPEC, *RUN, "--json"))}
    model = {key.removeprefix("model."): value for key, value in keys.items() if key.startswith("model.")}
    python, variables = environment()
    print("compiling with torch.compile (a minute)", file=sys.stderr, flush=True)
    found = json.loads(
        run(python, BENCH / "inductor_launches.py", "--model", json.dumps(model), "--batch", keys["batch.micro_batch"],
            "--length", keys["batch.sequence_length"], "--residual", a.residual, env=variables))
    if a.output:
        a.output.write_text(json.dumps(found, indent=1) + "\n")

    prices = Prices(plan["device"]["figures"])
    attention = {launch["op"]: launch["seconds"] for launch in library["time"]["launches"]}
    rows = {}  # class -> launches, bytes, FLOPs, seconds

    def add(name, launches, size, flops, seconds):
        rows[name] = [x + y for x, y in zip(rows.get(name, (0, 0, 0, 0)), (launches, size, flops, seconds))]

    for one in found["launches"]:
        if one["kind"] == "product":
            add("products", 1, one["bytes"], 2 * one["m"] * one["n"] * one["k"],
                prices.product(one["m"], one["n"], one["k"], one["bytes"]))
        elif one["kind"] == "attention":
            add(f"attention, {one['pass']}", 1, 0, 0,
                attention["attention" if one["pass"] == "forward" else "attention_backward"])
        else:
            add(class_of(one), 1, one["bytes"], 0, prices.kernel(one["bytes"]))
    parameters = sum(found["parameters"])
    launches = math.ceil(sum(math.ceil(count / CHUNK) for count in found["parameters"]) / BLOCKS)
    for name, size in (("gradient clipping", CLIP.values()), ("AdamW, fused", ADAMW.values())):
        for one in size:
            add(name, launches, one * parameters, 0, prices.moved(one * parameters) + launches * prices.f["launch"])

    lines = [[
        name, *[
            f"{row[0]:,}", f"{1e-9 * row[1]:.1f}" if row[1] else "", f"{1e-12 * row[2]:.1f}" if row[2] else "",
            f"{1e3 * row[3]:.1f}"
        ]
    ] for name, row in sorted(rows.items(), key=lambda item: -item[1][3])]
    total = [sum(column) for column in zip(*rows.values())]
    lines.append(
        ["in all", f"{total[0]:,}", f"{1e-9 * total[1]:.1f}", f"{1e-12 * total[2]:.1f}", f"{1e3 * total[3]:.1f}"])
    print(
        table([
            f"torch.compile's launches (PyTorch {found['torch'].split('+')[0]}, residual {a.residual})", "launches",
            "GB", "TFLOP", "priced, ms"
        ], lines))
    print(f"\npublished {PUBLISHED} ms, measured {MEASURED} ms, llmc's own plan {1e3 * plan['step_seconds']:.1f} ms")


if __name__ == "__main__":
    main()
