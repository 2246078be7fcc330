#!/usr/bin/python3
"""Compares the float64 run inside `llmc verify` with PyTorch in float64: loss and the step's other figures, all gradients, and
the weights after the first step.

Both compute in float64, so differences come only from the fp32 numbers that the trainer's host gives to both runs: the table
of RoPE, 1 / targets, rates of the optimizer. Their relative error is at most 6e-8; that of 1 - beta1 3e-7. Bounds: loss and
other figures 1e-7, gradients (norm of the difference over norm) 1e-6, updates 1e-6 (computed from the dump's own gradients,
because near 0 Adam's first step is the gradient's sign). One spec is in bf16, which must not affect the interpreter.
"""

import argparse
import json
import os
import shutil
import sys

import torch

import check_gradients as traces
import llama
import safetensors_file
import specs
from checks import Checks

RATE, DECAY, CLIP = 1e-3, 0.1, 0.5
WORDS = [
    "schedule.kind=constant", "schedule.warmup_steps=0", f"optimizer.lr={RATE}", f"optimizer.weight_decay={DECAY}",
    f"optimizer.clip_norm={CLIP}"
]


def read(folder, name):
    return safetensors_file.read(os.path.join(folder, name + ".safetensors"))


def updated(weights, gradients):
    """Weights after PyTorch's first step from these weights and gradients."""
    parameters = {name: torch.tensor(array, dtype=torch.float64) for name, array in weights.items()}
    for name, parameter in parameters.items():
        parameter.grad = gradients[name].clone()
    norm = torch.nn.utils.clip_grad_norm_(parameters.values(), CLIP).item()

    def decays(parameter):  # optimizer.decay: matrices except the embedding table
        return parameter.dim() == 2 and parameter is not parameters["model.embed_tokens.weight"]

    groups = [{"params": [p for p in parameters.values() if decays(p) == group], "weight_decay": DECAY * group}
              for group in (True, False)]
    torch.optim.AdamW(groups, lr=RATE, betas=(0.9, 0.95), eps=1e-8).step()
    return parameters, norm


def check_step(folder, model, first, checks):
    weights, tokens, gradients = (read(folder, name) for name in ("weights", "tokens", "gradients"))
    with open(os.path.join(folder, "summary.json")) as file:
        said = json.load(file)
    exact_figures = llama.Figures()
    loss, exact = llama.loss_and_gradients(weights, model, tokens["inputs"], tokens["targets"], torch.float64,
                                           figures=exact_figures)
    figures = dict(exact_figures.result(model), loss=loss)
    wrong = {name: abs(said[name] - figure) / max(abs(figure), 1e-3) for name, figure in figures.items()}
    slopes = traces.errors(gradients, exact)
    checks.expect(set(gradients) == set(exact), f"{folder}: gradients of other tensors")
    text = f"{os.path.relpath(folder)}: figures {traces.largest(wrong)}, gradients {traces.largest(slopes)}"
    checks.expect(traces.largest(wrong)[0] <= 1e-7 and traces.largest(slopes)[0] <= 1e-6, text)
    if first:
        new, norm = updated(weights, {name: torch.tensor(array) for name, array in gradients.items()})
        after = read(folder, "updated")
        before = {name: torch.tensor(array) for name, array in weights.items()}
        updates = traces.errors({name: after[name] - weights[name]
                                 for name in after}, {name: new[name] - before[name]
                                                      for name in new})
        text += f", update {traces.largest(updates)}"
        checks.expect(traces.largest(updates)[0] <= 1e-6, text)
        checks.expect(
            abs(said["grad_norm"] - norm) / norm <= 2e-7, f"{folder}: norm {said['grad_norm']}, of PyTorch {norm}")
    print(text, flush=True)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--llmc", required=True)
    parser.add_argument("--folder", required=True)
    arguments = parser.parse_args()
    torch.set_num_threads(1)
    checks = Checks()
    for seed, compute in ((9, "fp32"), (14, "bf16")):
        spec = specs.draw(seed, compute)
        folder = os.path.join(arguments.folder, str(seed))
        path = specs.write(spec, folder)
        dump = os.path.join(folder, "dump")
        shutil.rmtree(dump, ignore_errors=True)
        traces.run(arguments.llmc, "verify", path, "-o", os.path.join(folder, "verify"), "--dump", dump, *WORDS)
        model = dict(specs.config(spec), num_hidden_layers=min(2, spec["model"]["num_hidden_layers"]))
        for step in (1, 2):
            check_step(os.path.join(dump, f"step-{step}"), model, step == 1, checks)
    sys.exit(1 if checks.failed else 0)


if __name__ == "__main__":
    main()
