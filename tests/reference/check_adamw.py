#!/usr/bin/python3
"""Compares ten AdamW steps with PyTorch's, driven by the trace's own gradients.

In a free run, early Adam steps are close to the sign of the gradient and amplify rounding. So the reference takes the
weights and gradients of the trace and only repeats the update: clipping, decay, both moments, bias correction. The
error is that of the step (weights after minus weights before), norm over norm, and must be at most 1e-3. A step is a
small difference of fp32 weights, so their rounding (6e-8 of a weight) is 1e-4 of it.
"""

import argparse
import os
import shutil
import sys

import torch

import check_gradients as traces
import safetensors_file
import specs
from checks import nan_as_inf

STEPS, LENGTH = 10, 20  # compared; of the schedule, over which weight decay falls to 0
SCALES = {"matrices": 3.0, "head": 0.25, "embedding": 0.5, "vectors": 2.0}
# So large that a wrong one is percents of a step.
DECAYS = {"matrices": 4.0, "head": 2.0, "embedding": 3.0, "vectors": 1.0}
BETAS = {"matrices": (0.9, 0.95), "head": (0.8, 0.96), "embedding": (0.8, 0.995), "vectors": (0.5, 0.7)}


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--llmc", required=True)
    parser.add_argument("--folder", required=True)
    parser.add_argument("--compute", choices=["fp32", "bf16"], default="fp32")
    parser.add_argument("--head-dims", type=int, nargs="*", default=specs.HEAD_DIMS)
    arguments = parser.parse_args()
    # Untied, with biases, so that every kind of parameter occurs.
    spec = specs.draw(1, arguments.compute, arguments.head_dims)
    path = specs.write(spec, arguments.folder)
    build = os.path.join(arguments.folder, "build")
    # Few tokens suffice, because the update does not depend on the source of a gradient.
    traces.run(arguments.llmc, "compile", path, "-o", build, "optimizer.clip_norm=0.5", "schedule.kind=linear",
               "schedule.warmup_steps=3", "batch.sequence_length=16", "batch.micro_batch=1", "batch.tokens=16",
               "memory.loss_chunk=16")
    failed = False
    for i, (decay, scales, decays) in enumerate((("matrices", {}, {}), ("all", {}, {}), ("matrices", SCALES, DECAYS))):
        run, trace = (os.path.join(arguments.folder, f"{name}-{i}") for name in ("run", "trace"))
        for folder in (run, trace):
            shutil.rmtree(folder, ignore_errors=True)
        traces.run(os.path.join(build, "trainer"), "--run", run, "--resume", "none", "--steps", str(STEPS + 1),
                   "--trace", trace, f"optimizer.decay={decay}", f"schedule.steps={LENGTH}",
                   f"schedule.weight_decay={'linear' if decays else 'constant'}",
                   *(f"optimizer.rate_scale.{part}={scale}" for part, scale in scales.items()),
                   *(f"optimizer.weight_decay_of.{part}={value}" for part, value in decays.items()),
                   *(f"optimizer.betas_of.{part}=[{b1}, {b2}]" for part, (b1, b2) in BETAS.items() if decays))
        failed |= not check(trace, decay, scales, decays)
    sys.exit(1 if failed else 0)


def part_of(name, parameter):
    """The key of optimizer.rate_scale and weight_decay_of that applies to a parameter."""
    if parameter.dim() == 1:
        return "vectors"
    return {"model.embed_tokens.weight": "embedding", "lm_head.weight": "head"}.get(name, "matrices")


def check(trace, decay, scales, decays):
    """Checks ten steps of a trace; True if all equal PyTorch's."""

    def weights(step):
        return safetensors_file.read(os.path.join(trace, f"step-{step}", "weights.safetensors"))

    start = weights(0)
    parameters = {name: torch.tensor(array, dtype=torch.float64) for name, array in start.items()}
    parts = {name: part_of(name, p) for name, p in parameters.items()}
    assert set(parts.values()) == set(SCALES)
    groups = [{
        "params": [p for n, p in parameters.items() if parts[n] == part], "scale": scales.get(part, 1.0),
        "weight_decay": decays.get(part, 0.1 if decay == "all" or part in ("matrices", "head") else 0.0)
    } for part in SCALES]
    for group, part in zip(groups, SCALES):
        group["betas"] = BETAS[part] if decays else (0.9, 0.95)
    optimizer = torch.optim.AdamW(groups, lr=1.0, eps=1e-8)
    failed = False
    for step in range(STEPS):
        _, _, gradients, summary = traces.read_trace(os.path.join(trace, f"step-{step}"))
        before, after = weights(step), weights(step + 1)
        for name, p in parameters.items():
            p.data.copy_(torch.tensor(before[name], dtype=torch.float64))
            p.grad = torch.tensor(gradients[name], dtype=torch.float64)
        norm = torch.nn.utils.clip_grad_norm_(parameters.values(), 0.5).item()
        for group in optimizer.param_groups:
            group["lr"] = summary["lr"] * group["scale"]
            if decays and step:
                group["weight_decay"] *= (LENGTH - step) / (LENGTH - step + 1)  # linear: 1 - step / LENGTH
        optimizer.step()
        error, where = 0.0, ""
        for name, p in parameters.items():
            exact = p.data - torch.tensor(before[name], dtype=torch.float64)
            ours = torch.tensor(after[name], dtype=torch.float64) - torch.tensor(before[name], dtype=torch.float64)
            if exact.norm() == 0:
                failed |= bool(ours.abs().max() != 0)
                continue
            relative = nan_as_inf(((ours - exact).norm() / exact.norm()).item())
            error, where = max((error, where), (relative, name))
        norm_error = nan_as_inf(abs(norm - summary["grad_norm"]) / norm)
        print(
            f"decay {decay}, {len(scales)} scales, {len(decays)} decays, step {step}: update {error:.1e} ({where}), gradient norm {norm_error:.1e}, lr {summary['lr']:.3e}"
        )
        failed |= error > 1e-3 or norm_error > 1e-5
    return not failed


if __name__ == "__main__":
    main()
