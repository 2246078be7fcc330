#!/usr/bin/env python3
"""Predicts the time of llmc's own attention on a Hopper GPU from its machine code: instructions of the inner loop, and ms a step.
Exits with 1 if a kernel spills registers.

    python3 -m venv build/sass-venv && build/sass-venv/bin/pip install nvidia-cuda-nvdisasm
    tests/bench/attention_sass.py --nvdisasm build/sass-venv/lib/python3*/site-packages/nvidia/cu13/bin/nvdisasm

The model, and where its rates come from, is in docs/reference/kernel-counts.md."""

import argparse
import collections
import os
import re
import subprocess
import sys
import tempfile

SOURCE = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))

SMS, SCHEDULERS, GHZ = 132, 4, 1.7  # an SM has four schedulers; a clock that H100 and H200 hold under GEMM load
HMMA_FLOP = 2 * 16 * 8 * 16
HMMA_CLOCKS = 4 / 0.629  # of a scheduler: mma.sync reaches 62.9 % of Hopper's dense peak (arXiv 2402.13499)
SHARED_BYTES = 128  # per clock and SM
EFFICIENCY = 0.6  # of the busiest unit; FlashAttention-2's forward pass has 0.76 by this model

PRODUCTS = {"attention_forward": 2, "attention_backward_queries": 3, "attention_backward_keys": 4}
HGMMA_CLOCKS = 32  # of an SM's tensor cores: wgmma m64n64k16, 131,072 FLOP at 4,096 a clock
L2_BYTES = 5.5e12 / SMS / GHZ / 1e9  # per clock and SM: what the L2 cache gave all SMs together


def blocks_of(kernel, args):
    """Blocks that read keys and values once, as a cluster."""
    return args.multicast if kernel in ("attention_forward_warpgroups", "attention_backward_queries_warpgroups") else 1


def disassemble(kernel, arch, shape, args, folder):
    """(registers, spilled bytes, instructions as (label or None, text))."""
    params = os.path.join(folder, "params_given.h")
    with open(params, "w") as file:
        file.write('#include "device/types.h"\n#define LLMC_PARAMS_GIVEN\nnamespace llmc {\nusing Act = bf16;\n')
        for name, value in shape.items():
            file.write(f"constexpr {'float' if name == 'kScale' else 'int'} {name} = {value};\n")
        if blocks_of(kernel, args) > 1:
            file.write(f"constexpr int kMulticast = {args.multicast};\n")
            file.write("#define LLMC_FURTHER_OPERANDS , const __grid_constant__ TileMap key_map\n")
        file.write("}\n")
    cubin = os.path.join(folder, "kernel.cubin")
    done = subprocess.run([
        args.nvcc, "-std=c++20", "-O3", "--fmad=false", "-cubin", f"-arch=sm_{arch}", "-Xptxas", "-v",
        f"-I{args.source}/runtime", "-include", params, f"{args.source}/templates/cuda/{kernel}.cu", "-o", cubin
    ], capture_output=True, text=True)
    if done.returncode:
        raise SystemExit(done.stderr)
    text = subprocess.run([args.nvdisasm, "-c", cubin], capture_output=True, text=True, check=True).stdout
    return (int(re.search(r"Used (\d+) registers",
                          done.stderr)[1]), int(re.search(r"(\d+) bytes spill stores", done.stderr)[1]), text)


def name_of(instruction):
    return re.sub(r"^@!?U?P\w+\s+", "", instruction).split()[0]


def masks(block):
    """Whether instructions only select what a mask leaves."""
    names = collections.Counter(name_of(instruction).split(".")[0] for instruction in block)
    return names["FSEL"] > 0 and names["FSEL"] + names["ISETP"] >= 0.8 * len(block)


def loops(text):
    """Instructions of each loop: from a label to the last branch back to it. Without masks that a branch passes over: few
    tiles are on the diagonal."""
    instructions, labels = [], {}
    for line in text.splitlines():
        if match := re.match(r"(\.L_x_\d+):", line):
            labels[match[1]] = len(instructions)
        elif match := re.match(r"\s+/\*[0-9a-f]{4,}\*/\s+(.*?)\s*;", line):
            instructions.append(match[1])
    ends, passed = {}, set()
    for at, text in enumerate(instructions):
        match = re.search(r"\bBRA.*\((\.L_x_\d+)\)", text)
        target = labels.get(match[1], at + 1) if match else at + 1
        if target <= at:
            ends[target] = at
        elif masks(instructions[at + 1:target]):
            passed.update(range(at + 1, target))
    return [[instructions[at] for at in range(begin, end + 1) if at not in passed] for begin, end in ends.items()]


def inner_loop(text, product):
    """The smallest loop with products, by instruction."""
    with_products = [loop for loop in loops(text) if any(product in i for i in loop)]
    return min(with_products, key=len)


def shared_bytes(instruction):
    """Bytes of a warp's access."""
    name = name_of(instruction)
    if name.startswith("LDSM"):
        return 128 * int(name.rsplit(".", 1)[-1])
    if name.startswith(("LDS", "STS")):
        return 32 * next((int(part) // 8 for part in name.split(".") if part in ("64", "128")), 4)
    if name.startswith("LDGSTS"):
        return 32 * next((int(part) // 8 for part in name.split(".") if part in ("64", "128")), 4)
    return 0


def by_warps(kernel, shape, registers, spilled, body, layers):
    hmma = sum("HMMA" in i for i in body)
    issue = len(body) / hmma
    shared = sum(map(shared_bytes, body)) / hmma * SCHEDULERS / SHARED_BYTES
    flop = PRODUCTS[kernel] * shape["kBatch"] * shape["kHeads"] * shape["kSequence"]**2 * shape["kHeadDim"] * layers
    clocks = max(HMMA_CLOCKS, issue, shared)
    bound = flop / HMMA_FLOP / (SMS * SCHEDULERS) * clocks / GHZ / 1e6
    return [
        f"{registers}", f"{spilled}", f"{hmma}", f"{len(body)}", f"{HMMA_CLOCKS:.2f}", f"{issue:.2f}", f"{shared:.2f}",
        f"{bound:.1f}", f"{bound / EFFICIENCY:.1f}"
    ]


def by_warpgroups(shape, registers, spilled, body, layers, blocks):
    """A turn is one tile of 64 x 64 scores of a block. Its products and its other instructions follow each other."""
    hgmma = sum("HGMMA" in i for i in body)
    tensor, issue = HGMMA_CLOCKS * hgmma, len(body)
    cache = 2 * 64 * shape["kHeadDim"] * 2 / L2_BYTES / blocks
    tiles = shape["kSequence"] // 64
    turns = shape["kBatch"] * shape["kHeads"] * tiles * (tiles + 1) // 2 * layers / SMS
    return [
        f"{registers}", f"{spilled}", f"{hgmma}", f"{len(body)}", f"{tensor}", f"{issue}", f"{cache:.0f}",
        f"{turns * max(tensor, cache) / GHZ / 1e6:.1f}", f"{turns * max(tensor + issue, cache) / GHZ / 1e6:.1f}"
    ]


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--nvcc", default="/usr/local/cuda/bin/nvcc")
    parser.add_argument("--nvdisasm", default="nvdisasm")
    parser.add_argument("--source", default=SOURCE, help="the repository's root, or another version's")
    parser.add_argument("--arch", nargs="+", default=["90a"])
    parser.add_argument("--layers", type=int, default=16)
    parser.add_argument("--kernel", nargs="+", default=[k + way for way in ("", "_warpgroups") for k in PRODUCTS])
    parser.add_argument("--head-dim", type=int, default=64)
    parser.add_argument("--multicast", type=int, default=1,
                        help="blocks of a cluster that copy keys and values for each other, by warpgroups")
    parser.add_argument("--instructions", action="store_true", help="which they are")
    args = parser.parse_args()
    batch, sequence, heads, kv_heads, dim = 16, 2048, 32, 8, args.head_dim
    shape = {
        "kBatch": batch, "kSequence": sequence, "kHeads": heads, "kKvHeads": kv_heads, "kHeadDim": dim, "kPitch":
        (heads + 2 * kv_heads) * dim, "kOutPitch": heads * dim, "kScale": f"{dim ** -0.5}f", "kLanes": 128
    }
    print(
        f"[{batch}, {sequence}], {heads}/{kv_heads} heads of {dim}, {args.layers} layers. Clocks by unit: by warps of a "
        "scheduler for an HMMA, by warpgroups of an SM for a tile of 64 x 64 scores.")
    units, spills = {"": "shared", "_warpgroups": "L2"}, False
    with tempfile.TemporaryDirectory() as folder:
        for way, unit in units.items():
            kernels = [k for k in args.kernel if k.endswith("_warpgroups") == bool(way)]
            if kernels:
                print("".join([f"{'kernel':<40}{'sm':>5}"] + [
                    f"{word:>13}" for word in ("registers", "spilled", "products", "instructions", "tensor", "issue",
                                               unit, "bound, ms", "predicted")
                ]))
            for arch in args.arch:
                for kernel in kernels:
                    registers, spilled, text = disassemble(kernel, arch, shape, args, folder)
                    spills |= spilled > 0
                    body = inner_loop(text, "GMMA" if way else "HMMA")
                    if way:
                        cells = by_warpgroups(shape, registers, spilled, body, args.layers, blocks_of(kernel, args))
                    else:
                        cells = by_warps(kernel, shape, registers, spilled, body, args.layers)
                    print(f"{kernel:<40}{arch:>5}" + "".join(f"{cell:>13}" for cell in cells))
                    if args.instructions:
                        print("   ", dict(collections.Counter(name_of(i).split(".")[0] for i in body).most_common()))
    return spills


if __name__ == "__main__":
    sys.exit(main())
