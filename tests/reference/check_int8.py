#!/usr/bin/python3
"""Compares ten steps of AdamW in 8 bits with its formula in float64, driven by the trace's own gradients.

The dynamic map is built here from its definition (Dettmers et al. 2022, section 2.1 and appendix F of "8-bit optimizers
via block-wise quantization"), apart from llmc's, and its codes are found by distance to all 256 numbers. Each step
begins from the codes, scales and weights that the trainer saved after the one before.

A code must be that of the nearest number, or, within fp32's rounding of the border between two, the other one's. The
terms of a second moment have eight roundings (2^-24 each): the squared gradient twice those of clipping, which are the
norm's, its quotient's and the product's. The part of the block's largest, and the index in a decade of up to 128 parts,
have some of the number itself, below 2e-6. So few may differ. Moments that stay in fp32 have only those of their terms.
"""

import argparse
import os
import shutil
import sys

import check_adamw
import check_gradients as traces
import numpy as np
import safetensors_file
import specs
from checks import nan_as_inf

STEPS = 10
BLOCK = 256
LEAST = 4096  # elements of a tensor whose moments are in 8 bits
ROUNDINGS = 8 * 2.0**-24
OF_NUMBER = 2e-6
BETAS, EPS, DECAY, CLIP = (0.9, 0.95), 1e-8, 0.1, 0.5


def numbers(signed):
    """The 256 numbers in order: in each decade the centres of 2^i equal parts of [0.1, 1], then 0 and 1."""
    found = [0.0, 1.0]
    for i in range(7):
        parts = np.linspace(0.1, 1, 2**(i if signed else i + 1) + 1)
        centres = (parts[1:] + parts[:-1]) / 2 * 10.0**(i - 6)
        found += [*centres, *(-centres if signed else ())]
    return np.array(sorted(found))


SIGNED, UNSIGNED = numbers(True), numbers(False)
assert len(SIGNED) == len(UNSIGNED) == 256


def of_blocks(values, count):
    """One value a block, for each of `count` elements."""
    return np.repeat(values, BLOCK)[:count]


def largest_of_blocks(values):
    padded = np.zeros(-(-len(values) // BLOCK) * BLOCK)
    padded[:len(values)] = np.abs(values)
    return padded.reshape(-1, BLOCK).max(axis=1)


def wrong_codes(found, moment, terms, scales, of):
    """Elements whose code is not that of the nearest number, and those of them for which rounding is no reason."""
    scale = of_blocks(scales, len(moment))
    part = np.divide(moment, scale, out=np.zeros_like(moment), where=scale > 0)
    nearest = np.abs(part[:, None] - of[None, :]).argmin(axis=1)
    if of is UNSIGNED:
        nearest = np.where(part > 0, np.maximum(nearest, 1), 0)  # only 0 has that of 0
    off = nearest != found
    slack = OF_NUMBER * np.abs(part) + np.divide(ROUNDINGS * terms, scale, out=np.zeros_like(scale), where=scale > 0)
    low = np.minimum(nearest, found)
    border = (of[low] + of[np.minimum(low + 1, 255)]) / 2
    return off, off & ((np.abs(found.astype(int) - nearest) > 1) | (np.abs(part - border) > slack))


class Moment:
    """One moment of a parameter as a checkpoint has it, dequantised if it is in 8 bits."""

    def __init__(self, saved, name, parameter, count):
        self.codes = saved.get(f"{name}.{parameter}")
        self.scales = saved.get(f"{name}_scale.{parameter}")
        self.map = SIGNED if name == "exp_avg" else UNSIGNED
        if saved and self.codes is None:
            sys.exit(f"{name}.{parameter} is not in the checkpoint")
        if self.codes is None:
            self.values = np.zeros(count)
        elif self.scales is None:
            self.values = self.codes.reshape(-1).astype(np.float64)
        else:
            self.codes = self.codes.reshape(-1)
            self.values = self.map[self.codes] * of_blocks(self.scales.astype(np.float64), count)

    def check(self, where, exact, terms):
        """Counts codes beside a border."""
        if self.scales is None:
            worst = nan_as_inf(np.max(np.abs(self.values - exact) - ROUNDINGS * terms))
            if worst > 0:
                sys.exit(f"{where}: a moment in fp32 is off by {worst:.1e} more than rounding")
            return 0
        largest = largest_of_blocks(exact)
        allowed = ROUNDINGS * largest_of_blocks(terms)
        if not np.all(np.abs(self.scales - largest) <= allowed):
            sys.exit(f"{where}: a scale is not its block's largest magnitude")
        off, wrong = wrong_codes(self.codes, exact, terms, largest, self.map)
        if wrong.any():
            at = int(wrong.argmax())
            sys.exit(f"{where}: element {at}, {exact[at]:.9g} of {largest[at // BLOCK]:.9g}, has code {self.codes[at]}")
        return int(off.sum())


def check(run, trace, names):
    """Checks all steps of a run that saves after each."""
    beside, codes, worst = 0, 0, (0.0, "")
    saved = {}
    for step in range(STEPS):
        weights, _, gradients, summary = traces.read_trace(os.path.join(trace, f"step-{step}"))
        folder = os.path.join(run, "checkpoints", f"step-{step + 1:08d}")
        after = safetensors_file.read(os.path.join(folder, "model.safetensors"))
        saved_after = safetensors_file.read(os.path.join(folder, "optimizer.safetensors"))
        norm = np.sqrt(sum(np.sum(g.astype(np.float64)**2) for g in gradients.values()))
        for name, array in weights.items():
            p, d = (x[name].reshape(-1).astype(np.float64) for x in (weights, gradients))
            d = d * min(1.0, CLIP / norm)
            first, second = (Moment(saved, moment, name, len(p)) for moment in ("exp_avg", "exp_avg_sq"))
            m = BETAS[0] * first.values + (1 - BETAS[0]) * d
            v = BETAS[1] * second.values + (1 - BETAS[1]) * d * d
            decay = DECAY if check_adamw.part_of(name, _Dim(array)) in ("matrices", "head") else 0.0
            lr = summary["lr"]
            exact = -lr * decay * p - lr / (1 - BETAS[0]**(step + 1)) * m / (np.sqrt(v /
                                                                                     (1 - BETAS[1]**(step + 1))) + EPS)
            ours = after[name].reshape(-1).astype(np.float64) - p
            if np.linalg.norm(exact):  # 0 in a warm-up's first step
                worst = max(worst, (nan_as_inf(np.linalg.norm(ours - exact) / np.linalg.norm(exact)), name))
            for moment, of, terms in (("exp_avg", m, np.abs(first.values) + np.abs(d)), ("exp_avg_sq", v,
                                                                                         second.values + d * d)):
                found = Moment(saved_after, moment, name, len(p))
                in_codes = check_adamw.part_of(name, _Dim(array)) in ("matrices", "head") and len(p) >= LEAST
                if in_codes != (found.scales is not None):
                    sys.exit(f"{moment}.{name} of {len(p)} elements has {'no ' if in_codes else ''}scales")
                beside += found.check(f"step {step}, {moment}.{name}", of, terms)
                codes += len(p) if in_codes else 0
                names[in_codes].add(name)
        saved = saved_after
    print(f"update {worst[0]:.1e} ({worst[1]}); {beside} of {codes} codes beside a border")
    # As in check_adamw.py; and of the numbers' distances, a hundredth of each, 2e-4 lies within both slacks of a border.
    if worst[0] > 1e-3 or beside > 1e-3 * codes:
        sys.exit("off")


class _Dim:
    """The one thing that part_of asks of a parameter."""

    def __init__(self, array):
        self.dim = lambda: array.ndim


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--llmc", required=True)
    parser.add_argument("--folder", required=True)
    parser.add_argument("--compute", choices=["fp32", "bf16"], default="fp32")
    parser.add_argument("--override", nargs="*", default=[])
    arguments = parser.parse_args()
    # Untied, with biases, so that every kind of parameter occurs; wide enough for matrices on both sides of the least.
    path = specs.write(specs.draw(1, arguments.compute, [16]), arguments.folder)
    build = os.path.join(arguments.folder, "build")
    traces.run(arguments.llmc, "compile", path, "-o", build, "precision.optimizer_state=int8",
               f"optimizer.clip_norm={CLIP}", "model.hidden_size=64", "model.num_attention_heads=4",
               "model.num_key_value_heads=2", "model.intermediate_size=80", "batch.sequence_length=16",
               "batch.micro_batch=1", "batch.tokens=16", "memory.loss_chunk=16", *arguments.override)
    run, trace = (os.path.join(arguments.folder, name) for name in ("run", "trace"))
    for folder in (run, trace):
        shutil.rmtree(folder, ignore_errors=True)
    traces.run(os.path.join(build, "trainer"), "--run", run, "--trace", trace, f"schedule.steps={STEPS}",
               "schedule.kind=linear", "schedule.warmup_steps=3", "checkpoint.every=1", f"checkpoint.keep_last={STEPS}",
               "optimizer.decay=matrices")
    names = {False: set(), True: set()}
    check(run, trace, names)
    if "lm_head.weight" not in names[True] or "model.layers.0.self_attn.k_proj.weight" not in names[False]:
        sys.exit(f"moments in 8 bits are those of {sorted(names[True])}")


if __name__ == "__main__":
    main()
