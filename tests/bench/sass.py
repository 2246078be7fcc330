#!/usr/bin/env python3
"""Counts what ptxas made of the kernels of an emitted CUDA project, and predicts their times. Needs nvcc and nvdisasm, no GPU.

    tests/bench/sass.py generated/llama-1b
    tests/bench/sass.py FOLDER --runtime RUNTIME --kernels cross_entropy norm_backward --json counts.json

nvdisasm is searched next to nvcc, in PATH, and in this Python's packages (pip install nvidia-cuda-nvdisasm)."""

import argparse
import json
import os
import re
import shutil
import site
import subprocess
import sys
import tempfile

HERE = os.path.dirname(os.path.abspath(__file__))
SOURCE = os.path.dirname(os.path.dirname(HERE))

# One device. SMs, schedulers and MUFU rate: CUDA C++ programming guide, compute capability 9.0. GHz: from the data
# sheet's 989.4 TFLOP/s of dense bf16 over 132 SMs of 4,096 FLOP per clock. copy: GB/s that a copy is expected to reach,
# of 3,350 and 4,800.
DEVICES = {"H100": {"sms": 132, "ghz": 1.83, "copy": 3000}, "H200": {"sms": 132, "ghz": 1.83, "copy": 4300}}
LANES_A_CLOCK = 128  # of an SM: four schedulers, each issuing an instruction of one warp
MUFU_A_CLOCK = 16  # of an SM
ROUND_TRIP = 1000  # clocks from a load to its value on a busy device: assumed, not measured
REGISTERS, THREADS, BLOCKS, SHARED = 65536, 2048, 32, 228 << 10  # of an SM

# Bytes per element that a kernel reads by 16-byte loads in its loop, which gives the elements per iteration. Nothing is
# predicted for kernels on flat parameters: most of their loop is code for a chunk's end, which hardly ever runs.
READ = {
    "cross_entropy": 2, "cross_entropy_capped": 2, "rms_norm_forward": 8, "rms_norm_backward": 6,
    "rms_norm_backward_residual": 8, "swiglu_forward": 4, "swiglu_backward": 6
}


class Instruction:

    def __init__(self, text):
        self.predicate = re.match(r"@!?U?P\w+ ", text)
        if self.predicate:
            text = text[self.predicate.end():]
        name, _, rest = text.partition(" ")
        self.name, _, self.modifiers = name.partition(".")
        self.wide = ".128" in name
        operands = [operand.strip() for operand in rest.split(",")]
        stores = self.name in ("STG", "STS", "ST", "BRA", "EXIT")
        self.reads = set(re.findall(r"\bR\d+", ",".join(operands if stores else operands[1:])))
        self.writes = set() if stores else set(re.findall(r"\bR\d+", operands[0]))
        if self.wide and self.writes:
            first = int(next(iter(self.writes))[1:])
            self.writes = {f"R{first + i}" for i in range(4)}
        self.target = re.search(r"\((\.L_x_\d+)\)", rest) if self.name == "BRA" else None


def parse(sass):
    """The instructions, and the targets of labels."""
    instructions, labels = [], {}
    for line in sass.splitlines():
        label = re.match(r"\s*(\.L_x_\d+):", line)
        if label:
            labels[label.group(1)] = len(instructions)
        found = re.match(r"\s+/\*[0-9a-f]{4,5}\*/\s+(.*?)\s*;", line)
        if found:
            instructions.append(Instruction(found.group(1).replace("`", "")))
    return instructions, labels


def hot_loop(instructions, labels):
    """The loop with the most 16-byte accesses, of the innermost ones before the kernel's end."""
    ends = [i for i, one in enumerate(instructions) if one.name == "EXIT" and not one.predicate]
    loops = []
    for i, one in enumerate(instructions[:ends[0]] if ends else instructions):
        if one.target and labels[one.target.group(1)] <= i:
            loops.append((labels[one.target.group(1)], i + 1))
    inner = [a for a in loops if not any(a != b and a[0] <= b[0] and b[1] <= a[1] for b in loops)]
    wide = lambda loop: sum(one.wide for one in instructions[loop[0]:loop[1]])
    first, last = max(inner, key=wide, default=(0, ends[0] if ends else len(instructions)))
    return instructions[first:last]


def clocks_of_waiting(loop):
    """Clocks that a warp waits for memory in one iteration: it stalls at the first use of a loaded register, or at a
    fence with pending stores. Branches are not taken."""
    now, arrives, stored, waited = 0, {}, False, 0
    for one in loop:
        until = max([arrives.get(register, 0) for register in one.reads], default=0)
        if one.name == "MEMBAR" and stored:
            until, stored = now + ROUND_TRIP, False
        if until > now:
            waited += until - now
            now = until
        now += 1
        for register in one.writes:
            arrives.pop(register, None)
        if one.name == "LDG":
            for register in one.writes:
                arrives[register] = now + ROUND_TRIP
        stored = stored or one.name == "STG"
    return waited


def is_barrier(one):
    """Where lanes synchronise, except the arrival that only signals a block's start."""
    return one.name in ("BAR", "UCGABAR_WAIT")


def occupancy(registers, shared, threads):
    """Blocks per SM."""
    of_warp = -(-max(registers, 1) * 32 // 256) * 256
    by_registers = REGISTERS // of_warp // 4 * 4 // (threads // 32)
    return min(by_registers, THREADS // threads, BLOCKS, SHARED // (-(-(shared + 1024) // 128) * 128))


def count(kernel, file, options, temporary):
    cubin = os.path.join(temporary, "kernel.cubin")
    command = [
        options.nvcc, "-std=c++20", "-O3", "--fmad=false", "-cubin", "-arch=sm_" + options.arch, "-Xptxas", "-v",
        "-I" + options.runtime, file, "-o", cubin
    ]
    report = subprocess.run(command, capture_output=True, text=True)
    if report.returncode:
        sys.exit(report.stderr)
    sass = subprocess.run([options.nvdisasm, "-c", cubin], capture_output=True, text=True, check=True).stdout
    instructions, labels = parse(sass)
    loop = hot_loop(instructions, labels)
    used = lambda pattern: int((re.search(pattern, report.stderr) or [0, 0])[1])
    threads = max(int(kernel["params"]["kLanes"]), 128)
    first = next((i for i, one in enumerate(loop) if is_barrier(one)), len(loop))
    loads = [i for i, one in enumerate(loop) if one.name == "LDG"]
    of = lambda name, wide=None: sum(one.name == name and wide in (None, one.wide) for one in instructions)
    blocks = occupancy(used(r"Used (\d+) registers"), used(r"(\d+) bytes smem"), threads)
    return {
        "instructions": len(instructions), "registers": used(r"Used (\d+) registers"), "spills":
        used(r"(\d+) bytes spill stores") + used(r"(\d+) bytes spill loads"), "blocks": blocks, "threads": threads,
        "occupancy": blocks * threads / THREADS, "wide_loads": of("LDG", True), "narrow_loads": of("LDG", False),
        "wide_stores": of("STG", True), "narrow_stores": of("STG",
                                                            False), "mufu": of("MUFU"), "ffma": of("FFMA"), "fences":
        of("MEMBAR"), "loop": len(loop), "loop_mufu": sum(one.name == "MUFU" for one in loop), "loop_wide_loads":
        sum(loop[i].wide for i in loads), "before_barrier": sum(i < first for i in loads), "after_barrier":
        sum(i > first for i in loads), "wide_after_barrier": sum(i > first and loop[i].wide
                                                                 for i in loads), "waits": clocks_of_waiting(loop)
    }


def predict(kernel, counts, device):
    """Milliseconds of a launch, by three terms: bytes over the copy's rate; an iteration's instructions (MUFU by their own rate)
    over the schedulers' issue rate; a resident warp's memory stalls in all its iterations. least: their maximum; most: sum."""
    read = next((READ[name] for name in (kernel["name"].replace("_recompute", ""), kernel["template"]) if name in READ),
                None)
    if not read or not counts["loop_wide_loads"]:
        return None
    d = DEVICES[device]
    params = kernel["params"]
    passes = int(params["kRows"]) * int(params["kCols"]) / (counts["loop_wide_loads"] * 16 / read)  # of lanes
    clock = d["ghz"] * 1e6  # a millisecond
    by_bytes = kernel["bytes"] / (d["copy"] * 1e6)
    issue = passes * max(counts["loop"] / LANES_A_CLOCK, counts["loop_mufu"] / MUFU_A_CLOCK) / (d["sms"] * clock)
    waits = passes / (d["sms"] * counts["blocks"] * counts["threads"]) * counts["waits"] / clock
    return {
        "elements_a_pass": counts["loop_wide_loads"] * 16 / read, "bytes": by_bytes, "issue": issue, "waits": waits,
        "least": max(by_bytes, issue, waits), "most": by_bytes + issue + waits
    }


def find_nvdisasm(nvcc):
    places = [os.path.dirname(os.path.realpath(nvcc)), *os.environ.get("PATH", "").split(os.pathsep)]
    for packages in site.getsitepackages():
        nvidia = os.path.join(packages, "nvidia")
        if os.path.isdir(nvidia):
            places += [os.path.join(nvidia, name, "bin") for name in sorted(os.listdir(nvidia))]
    return next((path for path in (os.path.join(place, "nvdisasm") for place in places) if os.access(path, os.X_OK)),
                None)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", help="an emitted project: plan.json and kernels/")
    parser.add_argument("--runtime",
                        help="the runtime's headers (default: FOLDER/runtime, FOLDER/../../runtime, this checkout's)")
    parser.add_argument("--arch", default="90a", choices=["90a", "100"])
    parser.add_argument("--kernels", nargs="*", default=[], help="parts of the names of those to count (default: all)")
    parser.add_argument("--nvcc", default=shutil.which("nvcc") or "/usr/local/cuda/bin/nvcc")
    parser.add_argument("--nvdisasm")
    parser.add_argument("--json", help="writes every figure there")
    parser.add_argument("--loads-first", action="store_true",
                        help="fails where one of the kernels spills, or reads a part of a row after its lanes have met")
    options = parser.parse_args()
    runtimes = [
        os.path.join(options.folder, "runtime"),
        os.path.join(options.folder, "..", "..", "runtime"),
        os.path.join(SOURCE, "runtime")
    ]
    options.runtime = options.runtime or next(path for path in runtimes if os.path.isdir(path))
    options.nvdisasm = options.nvdisasm or find_nvdisasm(options.nvcc)
    if not options.nvdisasm:
        sys.exit("no nvdisasm beside nvcc, in PATH or in Python's packages: pip install nvidia-cuda-nvdisasm")
    with open(os.path.join(options.folder, "plan.json")) as file:
        plan = json.load(file)
    chosen = [k for k in plan["kernels"] if not options.kernels or any(part in k["name"] for part in options.kernels)]

    everything, wrong = {}, []
    print(
        f"| sm_{options.arch} | instructions | loop | registers | spills | occupancy | 16-byte LDG, STG | narrower | LDG before, "
        "after the barrier | fences | MUFU | FFMA |\n|---|---|---|---|---|---|---|---|---|---|---|---|")
    with tempfile.TemporaryDirectory() as temporary:
        for kernel in chosen:
            c = count(kernel, os.path.join(options.folder, "kernels", kernel["name"] + ".cu"), options, temporary)
            print(
                f"| {kernel['name']} | {c['instructions']} | {c['loop']} | {c['registers']} | {c['spills']} | {c['occupancy']:.0%} "
                f"| {c['wide_loads']}, {c['wide_stores']} | {c['narrow_loads']}, {c['narrow_stores']} "
                f"| {c['before_barrier']}, {c['after_barrier']} | {c['fences']} | {c['mufu']} | {c['ffma']} |")
            if c["spills"]:
                wrong.append(f"{kernel['name']} spills {c['spills']} bytes")
            if c["wide_after_barrier"]:
                wrong.append(
                    f"{kernel['name']} reads {c['wide_after_barrier']} vectors of a row after its lanes have met")
            predictions = {device: predict(kernel, c, device) for device in DEVICES}
            everything[kernel["name"]] = {"counts": c, "predictions": predictions}

    print("\n| ms of a launch | bytes moved | " + " | ".join(f"{d}: bytes | issue | waits | at best | at worst"
                                                             for d in DEVICES) + " |")
    print("|---" * (2 + 5 * len(DEVICES)) + "|")
    for kernel in chosen:
        predictions = everything[kernel["name"]]["predictions"]
        if all(predictions.values()):
            cells = [
                f"{predictions[d][key]:.3f}" for d in DEVICES for key in ("bytes", "issue", "waits", "least", "most")
            ]
            print(f"| {kernel['name']} | {kernel['bytes'] / 1e6:.1f} MB | " + " | ".join(cells) + " |")
    if options.json:
        with open(options.json, "w") as file:
            json.dump(everything, file, indent=1)
    if options.loads_first and wrong:
        sys.exit("\n".join(wrong))


if __name__ == "__main__":
    main()
