#!/usr/bin/python3
"""Compares twenty steps of Muon with its formulas in float64, driven by the trace's own gradients.

Formulas: Jordan et al. 2024 in the order of torch.optim.Muon; scaling by 0.2 sqrt(max(rows, columns)) of Liu et al.
2025 (Moonlight); coefficients of Amsel et al. 2025; cautious decay of Chen et al. 2025; neurons of Li et al. 2025
(NorMuon). The reference starts with the
trace's weights, keeps its own momentum and weights, and takes nothing but gradients from then on. The other parameters
follow AdamW. The error is that of the whole run (weights after minus weights before), norm over norm, of each
parameter. Cautious decay depends on the sign of an element: those that were once near 0 do not count.

In fp32 it must be at most 1e-5 for matrices whose momentum has full rank. Iterations enlarge a small singular value,
and the rounding of its direction, up to 3.4445^5 times. In bf16 the products round to 2^-9 of each element: 2e-2 of the run's change, which is below 1e-2 of the weights.
Singular values from 0.01 on must end in [0.68, 1.14].

--pytorch also holds the formulas to torch.optim.Muon (PyTorch 2.10 or later, requirements-muon.txt).
"""

import argparse
import math
import os
import shutil
import sys

import torch

import check_adamw
import check_gradients as traces
import safetensors_file
import specs
from checks import nan_as_inf

STEPS, WARMUP = 20, 3  # at most, and by default
BOUNDS = {"fp32": 1e-5, "bf16": 2e-2}
CLIP, BETAS, EPS, DECAY = 0.5, (0.9, 0.95), 1e-8, 0.1
QUINTIC = [(3.4445, -4.7750, 2.0315)]
POLAR_EXPRESS = [(8.156554524902461, -22.48329292557795, 15.878769915207462),
                 (4.042929935166739, -2.808917465908714, 0.5000178451051316),
                 (3.8916678022926607, -2.772484153217685, 0.5060648178503393),
                 (3.285753657755655, -2.3681294933425376, 0.46449024233003106),
                 (2.3465413258596377, -1.7097828382687081, 0.42323551169305323)]


class Setting:
    """Values of optimizer.muon; the defaults are llmc's."""

    def __init__(self, **words):
        self.words = words
        self.iterations = words.get("iterations", 5)
        self.polar_express = words.get("coefficients") == "polar_express"
        self.original = words.get("scaling") == "original"
        self.equilibrate = words.get("equilibrate") == "true"
        self.cautious = words.get("decay") == "cautious"
        self.neurons = words.get("normalise") == "neurons"
        self.momentum = words.get("momentum", 0.95)
        self.start = words.get("momentum_start", 0.85)
        self.rise = words.get("momentum_steps", 300)

    def overrides(self):
        """Of them the compiled-in ones, and those of a run."""
        built = ("iterations", "coefficients", "normalise")
        text = {name: f"optimizer.muon.{name}={value}" for name, value in self.words.items()}
        return [text[name] for name in text if name in built], [text[name] for name in text if name not in built]

    def momentum_at(self, step):
        """Weight of the momentum in update `step`, from 0."""
        return self.start + (self.momentum - self.start) * min(step / self.rise, 1) if self.rise else self.momentum


def orthogonalised(direction, setting):
    """Newton and Schulz in the dtype of `direction`."""
    x = direction.mT if direction.shape[0] > direction.shape[1] else direction
    if setting.equilibrate:  # rows of the parameter
        norms = direction.norm(dim=1, keepdim=True)
        scaled = torch.where(norms > 0, direction * norms.mean() / norms, 0)
        x = scaled.mT if direction.shape[0] > direction.shape[1] else scaled
    norm = x.norm()
    x = x / (1.02 * norm + 1e-6 if setting.polar_express else norm.clamp(min=1e-7))
    coefficients = POLAR_EXPRESS if setting.polar_express else QUINTIC
    for i in range(setting.iterations):
        a, b, c = coefficients[min(i, len(coefficients) - 1)]
        gram = x @ x.mT
        x = a * x + (b * gram + c * gram @ gram) @ x
    if setting.equilibrate:
        x = x * math.sqrt(min(x.shape)) / x.norm().clamp(min=1e-7)
    return x.mT if direction.shape[0] > direction.shape[1] else x


def size_of(update, setting):
    rows, cols = update.shape
    return math.sqrt(max(1, rows / cols)) if setting.original else 0.2 * math.sqrt(max(rows, cols))


class Muon:
    """Muon of one matrix."""

    def __init__(self, weight, setting):
        self.weight, self.setting = weight.clone(), setting
        self.buffer = torch.zeros_like(weight)
        self.neurons = torch.zeros_like(weight[:, :1])  # second moment of each row
        self.decided = torch.ones_like(weight, dtype=torch.bool)  # elements whose decay no rounding decides

    def step(self, gradient, lr, step):
        mu = self.setting.momentum_at(step)
        self.buffer = mu * self.buffer + (1 - mu) * gradient
        direction = mu * self.buffer + (1 - mu) * gradient
        update = orthogonalised(direction, self.setting)
        if self.setting.neurons:
            self.neurons = BETAS[1] * self.neurons + (1 - BETAS[1]) * update.square().mean(dim=1, keepdim=True)
            update = update / (self.neurons.sqrt() + EPS)
            update = update * math.sqrt(min(update.shape)) / update.norm().clamp(min=1e-7)
        keep = 1 - lr * DECAY
        if self.setting.cautious:
            self.decided &= update.abs() > 1e-4 * update.square().mean().sqrt()
            self.weight = torch.where(update * self.weight >= 0, self.weight * keep, self.weight)
        else:
            self.weight = self.weight * keep
        self.weight = self.weight - lr * size_of(update, self.setting) * update
        return direction, update


def weights(trace, step):
    arrays = safetensors_file.read(os.path.join(trace, f"step-{step}", "weights.safetensors"))
    return {name: torch.tensor(array, dtype=torch.float64) for name, array in arrays.items()}


def check(trace, setting, compute, steps):
    """Checks the first steps of a run; True if all parameters are within the bound."""
    start = weights(trace, 0)
    parts = {name: check_adamw.part_of(name, p) for name, p in start.items()}
    assert set(parts.values()) == {"matrices", "head", "embedding", "vectors"}
    matrices = {name: Muon(p, setting) for name, p in start.items() if parts[name] == "matrices"}
    others = {name: p.clone() for name, p in start.items() if parts[name] != "matrices"}
    adamw = torch.optim.AdamW([{
        "params": [p for name, p in others.items()
                   if (parts[name] == "head") == decays], "weight_decay": DECAY if decays else 0
    } for decays in (True, False)], lr=1.0, betas=BETAS, eps=EPS)
    least, most = math.inf, 0.0
    for step in range(steps):
        _, _, gradients, summary = traces.read_trace(os.path.join(trace, f"step-{step}"))
        gradients = {name: torch.tensor(array, dtype=torch.float64) for name, array in gradients.items()}
        norm = math.sqrt(sum(g.square().sum().item() for g in gradients.values()))
        for g in gradients.values():
            g *= min(1.0, CLIP / norm)
        for name, muon in matrices.items():
            direction, update = muon.step(gradients[name], summary["lr"], step)
            plain = not setting.polar_express and not setting.equilibrate and not setting.neurons
            if plain and setting.iterations == 5:
                left, before, right = torch.linalg.svd(direction, full_matrices=False)
                values = (left.mT @ update @ right.mT).diagonal()[before >= 0.01 * before.norm()]
                least, most = min(least, values.min().item()), max(most, values.max().item())
        for name, p in others.items():
            p.grad = gradients[name]
        for group in adamw.param_groups:
            group["lr"] = summary["lr"]
        adamw.step()
    after = weights(trace, steps)
    error, where, of_weights = 0.0, "", 0.0
    for name, p in start.items():
        exact = matrices[name].weight if name in matrices else others[name]
        decided = matrices[name].decided if name in matrices else torch.ones_like(exact, dtype=torch.bool)
        assert decided.double().mean() > 0.99
        difference = ((after[name] - exact) * decided).norm()
        error, where = max((error, where), (nan_as_inf((difference / (exact - p).norm()).item()), name))
        of_weights = max(of_weights, nan_as_inf((difference / exact.norm()).item()))
    print(f"{setting.words}: error {error:.1e} ({where}), {of_weights:.1e} of the weights" +
          (f"; singular values {least:.3f} to {most:.3f}" if most else ""))
    good = error <= BOUNDS[compute] and of_weights <= 1e-2 and (not most or (least >= 0.68 and most <= 1.14))
    if not good:
        print("off")
    return good


def against_pytorch(shape, scaling):
    """Error of the formulas in float64 after STEPS steps of torch.optim.Muon."""
    torch.manual_seed(0)
    setting = Setting(scaling=scaling, momentum_steps=0)
    weight = torch.nn.Parameter(0.02 * torch.randn(shape))
    ours = Muon(weight.detach().double(), setting)
    start = ours.weight.clone()
    theirs = torch.optim.Muon([weight], lr=0.02, weight_decay=DECAY, momentum=0.95, adjust_lr_fn=scaling)
    for step in range(STEPS):
        weight.grad = torch.randn(shape)
        ours.step(weight.grad.double(), 0.02, step)
        theirs.step()
    return ((weight.detach().double() - ours.weight).norm() / (ours.weight - start).norm()).item()


def check_pytorch():
    """Compares the formulas with torch.optim.Muon, whose iterations are in bf16; then with these in fp32."""
    good, bf16 = True, torch.bfloat16
    for dtype, bound in ((bf16, 1e-2), (torch.float32, 1e-5)):
        torch.bfloat16 = dtype  # the name by which PyTorch asks for it
        for scaling in ("match_rms_adamw", "original"):
            for shape in ((48, 48), (96, 32), (32, 96)):
                error = against_pytorch(shape, scaling)
                print(f"torch.optim.Muon, iterations in {dtype}, {scaling}, {shape}: {error:.1e}")
                good &= error <= bound
    torch.bfloat16 = bf16
    return good


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--llmc")
    parser.add_argument("--folder")
    parser.add_argument("--compute", choices=["fp32", "bf16"], default="fp32")
    parser.add_argument("--steps", type=int, default=STEPS)
    parser.add_argument("--builds", nargs="*", default=["quintic", "polar_express", "neurons"])
    parser.add_argument("--settings", type=int, default=6, help="how many of them")
    parser.add_argument("--override", nargs="*", default=[])
    parser.add_argument("--pytorch", action="store_true", help="compare the formulas with torch.optim.Muon instead")
    arguments = parser.parse_args()
    if arguments.pytorch:
        sys.exit(0 if check_pytorch() else 1)
    # Untied, with biases, so that every kind of parameter occurs.
    path = specs.write(specs.draw(1, arguments.compute, [16]), arguments.folder)
    settings = {
        "quintic": [
            Setting(),
            Setting(scaling="original", decay="cautious", momentum=0.9, momentum_start=0.5, momentum_steps=10),
            Setting(equilibrate="true", momentum_steps=0)
        ], "polar_express": [Setting(coefficients="polar_express", iterations=6, equilibrate="true")], "neurons": [
            Setting(normalise="neurons", momentum_steps=0),
            Setting(normalise="neurons", scaling="original", equilibrate="true")
        ]
    }
    failed = False
    left = arguments.settings
    for name in arguments.builds:
        list_of = settings[name][:left]
        left -= len(list_of)
        if not list_of:
            break
        build = os.path.join(arguments.folder, "build-" + name)
        # More tokens than columns: gradients have full rank.
        traces.run(arguments.llmc, "compile", path, "-o", build, "optimizer.kind=muon", f"optimizer.clip_norm={CLIP}",
                   "model.hidden_size=64", "model.num_attention_heads=4", "model.num_key_value_heads=2",
                   "model.intermediate_size=90", "batch.sequence_length=64", "batch.micro_batch=2", "batch.tokens=256",
                   "memory.loss_chunk=128", *list_of[0].overrides()[0], *arguments.override)
        for i, setting in enumerate(list_of):
            run, trace = (os.path.join(arguments.folder, f"{kind}-{name}-{i}") for kind in ("run", "trace"))
            for folder in (run, trace):
                shutil.rmtree(folder, ignore_errors=True)
            traces.run(os.path.join(build, "trainer"), "--run", run, "--resume", "none", "--steps",
                       str(arguments.steps + 1), "--trace", trace, "schedule.kind=linear",
                       f"schedule.warmup_steps={WARMUP}", f"schedule.steps={2 * STEPS}", "optimizer.lr=0.02",
                       "optimizer.decay=matrices",
                       *setting.overrides()[1])
            failed |= not check(trace, setting, arguments.compute, arguments.steps)
    sys.exit(1 if failed else 0)


if __name__ == "__main__":
    main()
