#!/usr/bin/python3
"""Compares loss and gradients of emitted trainers with the PyTorch reference in float64.

fp32: loss within 1e-6 relative, every gradient tensor within 1e-5 (norm of the difference over norm). PyTorch in fp32 on such
specs is at 7e-8 and 1.7e-6; the rest is room for other summation orders.

bf16: against the error of PyTorch's bf16 autocast with the same weights and tokens. One tensor's error says little: which one
is worst, and by how much, is chance. The geometric mean of the ratios (ours over autocast's) of all tensors says much: in 6 draws
(seeds of weights and tokens) of each of 8 specs it was 0.854 with a standard deviation of 4 % of it, and at most 0.95, where the
largest error over autocast's largest was 0.41 to 1.47. It may be 1.1, which is 6.7 standard deviations away for one draw, and
more for several: it never fails by chance. So that no tensor is wrong alone, each may have 6 times autocast's error of it, or of
the median tensor where that is larger (1.04 on average, up to 2.5). The loss must be within 4e-4 (4e-5 on average, as
autocast's).

fp8: against the error of the same recipe in PyTorch, whose operands have the same numbers but for those that rounding decides. The
geometric mean of the ratios has bf16's bound. Each tensor may have 1.25 times the recipe's error, both as root mean squares over
the draws: of 44 trainers with six draws each the largest was 1.12. With one draw it says too little of a norm of heads, whose 16
terms mostly cancel: 1.31 and 1.27 were seen in one draw and two, 1.08 in 24. The loss and the other figures may be 1e-3 off, where
4e-4 was seen.

tf32: against the error of the same recipe in PyTorch, as fp8's, with the bounds of fp8 but 1e-4 for the loss and the other
figures.

Mean and largest log-sum-exp and the entropy of the step have the loss's bounds. Top-1 is a count of targets: the same in fp32; in
bf16 two logits may round to one, which makes up to 2 % of the targets more or fewer a first choice.

With precision.residual: bf16 the stream and its gradient are rounded after every addition, which autocast does not do, so the
error is compared, by the same bounds, with that of autocast with a stream so rounded.
"""

import argparse
import collections
import hashlib
import json
import math
import os
import shutil
import statistics
import subprocess
import sys

import torch

import llama
import safetensors_file
import specs
from checks import HANGS, nan_as_inf


def run(*command, **options):
    done = subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, timeout=HANGS,
                          **options)
    if done.returncode != 0:
        sys.exit(f"{' '.join(command)} exited with {done.returncode}:\n{done.stdout}")


def forget(folder):
    """Removes the leftovers of an earlier call."""
    for name in ("run", "trace"):
        shutil.rmtree(os.path.join(folder, name), ignore_errors=True)


def build(llmc, spec_path, folder, overrides):
    run(llmc, "compile", spec_path, "-o", os.path.join(folder, "build"), *overrides)


def trace_step(folder, overrides):
    """Runs one step of the trainer with run-time overrides; returns the folder of its trace."""
    forget(folder)
    run(os.path.join(folder, "build", "trainer"), "--run", os.path.join(folder, "run"), "--steps", "1", "--resume",
        "none", "--trace", os.path.join(folder, "trace"), *overrides)
    return os.path.join(folder, "trace", "step-0")


def read_trace(step):
    with open(os.path.join(step, "summary.json")) as file:
        summary = json.load(file)
    files = {
        name: safetensors_file.read(os.path.join(step, name + ".safetensors"))
        for name in ("weights", "tokens", "gradients")
    }
    return files["weights"], files["tokens"], files["gradients"], summary


def errors(gradients, reference):
    """Name -> norm of the difference over norm."""
    result = {}
    for name, exact in reference.items():
        ours = torch.as_tensor(gradients[name], dtype=torch.float64).reshape(exact.shape)
        size = exact.norm().item()
        if size == 0 and ours.abs().max().item() != 0:
            sys.exit(f"{name}: the exact gradient is 0, ours is not")
        if size:
            result[name] = (ours - exact).norm().item() / size
    return result


def largest(values):
    """Largest of name -> error, with its name."""
    return max((nan_as_inf(value), name) for name, value in values.items())


# By products as in llama.py: the name of the trainer's precision, and of PyTorch's run with the same roundings.
PRECISIONS = {
    "exact": "fp32", "tf32": "tf32", "bf16": "bf16", "fp8": "fp8", "fp8_full": "fp8_full", "fp8_head": "fp8_head",
    "fp8_tensor": "fp8_tensor", "fp8_tensor_head": "fp8_tensor_head", "mxfp8": "mxfp8"
}
BASELINES = {"bf16": "autocast", **{name: "the recipe" for name in PRECISIONS if name not in ("exact", "bf16")}}
HEAD = "_head"  # of names: the products of the head too


class Step:
    """PyTorch's results for one step: loss, gradients and the other figures in float64, and the errors of its
    rounded products."""

    def __init__(self, *data):
        self.data, self.rounded = data, {}
        figures = llama.Figures()
        self.loss, self.gradients = llama.loss_and_gradients(*data, torch.float64, figures=figures)
        self.figures = figures.result(data[1])

    def rounded_errors(self, products, stream):
        key = (products, stream)
        if key not in self.rounded:
            self.rounded[key] = errors(
                llama.loss_and_gradients(*self.data, torch.float32, products, stream)[1], self.gradients)
        return self.rounded[key]


class Reference:
    """Steps of one model (config.json's keys), each computed once: trainers that differ only in precision share them.
    """

    def __init__(self, model):
        self.model, self.steps = model, {}

    def step(self, weights, tokens):
        key = tuple((name, hashlib.sha256(array.tobytes()).digest()) for kind in (weights, tokens)
                    for name, array in sorted(kind.items()))
        if key not in self.steps:
            self.steps[key] = Step(weights, self.model, tokens["inputs"], tokens["targets"])
        return self.steps[key]


class Draws:
    """Results of several draws of weights and tokens for one spec's trainer; `add` compares the trace of a step.

    products: a key of llama.PRODUCTS. stream: the dtype of a residual stream that is rounded, or None."""

    def __init__(self, reference, products, stream):
        self.reference, self.products, self.stream = reference, products, stream
        self.loss_error, self.worst, self.ratios, self.plain = 0.0, (0.0, ""), [], []
        self.squares = collections.defaultdict(lambda: [0.0, 0.0])  # by tensor: of our errors, and of theirs
        self.said_error, self.top1_error = 0.0, 0.0  # of the other figures of the step's targets

    def add(self, step):
        weights, tokens, gradients, summary = read_trace(step)
        exact = self.reference.step(weights, tokens)
        if set(gradients) != set(exact.gradients):
            sys.exit(f"{step}: gradients of other tensors: {sorted(set(gradients) ^ set(exact.gradients))}")
        ours = errors(gradients, exact.gradients)
        self.loss_error = max(self.loss_error, nan_as_inf(abs(summary["loss"] - exact.loss) / exact.loss))
        wrong = {
            key: nan_as_inf(abs(summary[key] - figure) / (1 if key == "top1" else abs(figure)))
            for key, figure in exact.figures.items()
        }
        self.top1_error = max(self.top1_error, wrong.pop("top1"))
        self.said_error = max(self.said_error, *wrong.values())
        self.worst = max(self.worst, largest(ours))
        if self.products != "exact":
            theirs = exact.rounded_errors(self.products, self.stream)
            self.ratios += [ours[name] / theirs[name] for name in ours if theirs[name]]
            median = statistics.median(theirs.values())
            # A bias of k shifts all scores of a query equally, but for its rotation: most of its gradient is rounding.
            for name in ours:
                if not name.endswith("k_proj.bias"):
                    self.squares[name][0] += ours[name]**2
                    self.squares[name][1] += max(theirs[name], median)**2
            if self.stream:
                usual = exact.rounded_errors(self.products, None)
                self.plain += [ours[name] / usual[name] for name in ours if usual[name]]

    def excess(self):
        """(ratio, tensor) of the tensor whose error over all draws exceeds the baseline's most."""
        return largest({name: math.sqrt(ours / theirs) for name, (ours, theirs) in self.squares.items()})

    def good(self):
        """Whether all bounds hold."""
        if self.products == "exact":
            return self.loss_error <= 1e-6 and self.worst[
                0] <= 1e-5 and self.said_error <= 1e-6 and self.top1_error <= 1e-6
        figures, one = {"tf32": (1e-4, 1.25), "bf16": (4e-4, 6)}.get(self.products, (1e-3, 1.25))
        if max(self.said_error, self.loss_error) > figures or self.top1_error > 0.02:
            return False
        return statistics.geometric_mean(self.ratios) <= 1.1 and self.excess()[0] <= one

    def line(self):
        text = (f"loss {self.loss_error:.1e} lse, entropy {self.said_error:.1e} top-1 {self.top1_error:.1e} "
                f"gradient {self.worst[0]:.2e} ({self.worst[1]})")
        if self.ratios:
            excess, tensor = self.excess()
            text += (
                f"; of {BASELINES[self.products]}'s error: {statistics.geometric_mean(self.ratios):.3f} on average, "
                f"at most {excess:.2f} ({tensor})")
        if self.plain:
            text += f"; of {BASELINES[self.products]}'s with an fp32 stream: {statistics.geometric_mean(self.plain):.3f} on average"
        return text + ("" if self.good() else "   FAILED")


def check(llmc, seed, products, residuals, folder, head_dims, overrides, draws):
    """Prints a table row for each dtype of the stream; returns whether all bounds hold, for each."""
    spec = specs.draw(seed, "fp32" if products in ("exact", "tf32") else "bf16", head_dims)
    if products == "mxfp8" or products.startswith("fp8"):
        specs.widen(spec, 32 if products == "mxfp8" else 16)
        if products.endswith(HEAD):
            spec["model"]["vocab_size"] += -spec["model"]["vocab_size"] % 16
        overrides = ["precision.fp8.first_layers=0", "precision.fp8.last_layers=0", *overrides]
    if products not in ("exact", "bf16"):
        head = ["precision.fp8.head=forward_dgrad"] if products.endswith(HEAD) else []
        overrides = [f"precision.matmul={products.removesuffix(HEAD)}", *head, *overrides]
    reference = Reference(specs.config(spec))
    return [
        check_stream(llmc, spec, reference, seed, products, residual, folder, overrides, draws)
        for residual in residuals
    ]


def check_stream(llmc, spec, reference, seed, products, residual, folder, overrides, draws):
    path = specs.write(spec, folder)
    build(llmc, path, folder, [f"precision.residual={residual}", *overrides])
    judged = Draws(reference, products, torch.bfloat16 if residual == "bf16" else None)
    for draw in range(draws):
        judged.add(trace_step(folder, [f"seed={seed + 1000 * draw}", f"data.seed={seed + 1 + 1000 * draw}"]))
    print(f"{seed:3} {PRECISIONS[products]}, stream {residual} {spec['recompute']:<52} {judged.line()}", flush=True)
    return judged.good()


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--llmc", required=True)
    parser.add_argument("--folder", required=True, help="for specs, trainers and traces")
    parser.add_argument("--precision", choices=list(PRECISIONS.values()), required=True)
    parser.add_argument("--residual", nargs="*", choices=["fp32", "bf16"], default=["fp32"],
                        help="dtypes of the stream")
    parser.add_argument("--seeds", type=int, nargs="*", default=list(range(12)))
    parser.add_argument("--draws", type=int, default=1, help="of weights and tokens for each spec")
    parser.add_argument("--head-dims", type=int, nargs="*", default=specs.HEAD_DIMS)
    parser.add_argument("--override", nargs="*", default=[], help="of every spec: key.path=value")
    arguments = parser.parse_args()
    torch.set_num_threads(1)  # shapes are tiny, so threads only cost time
    products = next(key for key, name in PRECISIONS.items() if name == arguments.precision)
    results = [
        result for seed in arguments.seeds
        for result in check(arguments.llmc, seed, products, arguments.residual,
                            os.path.join(arguments.folder, f"{arguments.precision}-{seed}"), arguments.head_dims,
                            arguments.override, arguments.draws)
    ]
    print(f"{sum(results)} of {len(results)} trainers within bounds")
    sys.exit(0 if all(results) else 1)


if __name__ == "__main__":
    main()
