#!/usr/bin/python3
"""Compares loss and gradients of emitted trainers with the PyTorch reference in float64.

fp32: loss within 1e-6 relative, every gradient tensor within 1e-5 (norm of the difference over norm). PyTorch in fp32 on such
specs is at 7e-8 and 1.7e-6; the rest is room for other summation orders.
bf16: the worst tensor's error at most 1.25 times that of PyTorch's bf16 autocast from the same weights and tokens; cosine
>= 0.998, norm within 3 %, loss within 1e-4.
With precision.residual: bf16 the stream and its gradient are rounded after every addition, which autocast does not do, so the
error is compared with that of autocast with a stream so rounded: at most 1.5 times its error and its norm's deviation. The
worst tensor there is mostly k's bias, of whose gradient softmax leaves little but rounding, so ratios spread more: 0.8 to 1.24.
"""

import argparse
import json
import os
import shutil
import subprocess
import sys

import torch

import llama
import safetensors_file
import specs


def run(*command, **options):
    done = subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, **options)
    if done.returncode != 0:
        sys.exit(f"{' '.join(command)} exited with {done.returncode}:\n{done.stdout}")


def forget(folder):
    """Removes what an earlier call has left of the run."""
    for name in ("run", "trace"):
        shutil.rmtree(os.path.join(folder, name), ignore_errors=True)


def trace_step(llmc, spec_path, folder, extra=()):
    """Compiles the spec with overrides `extra`, runs one step and returns the folder of its trace."""
    run(llmc, "compile", spec_path, "-o", os.path.join(folder, "build"), *extra)
    forget(folder)
    run(os.path.join(folder, "build", "trainer"), "--run", os.path.join(folder, "run"), "--steps", "1", "--resume", "none",
        "--trace", os.path.join(folder, "trace"))
    return os.path.join(folder, "trace", "step-0")


def read_trace(step):
    with open(os.path.join(step, "summary.json")) as file:
        summary = json.load(file)
    files = {name: safetensors_file.read(os.path.join(step, name + ".safetensors"))
             for name in ("weights", "tokens", "gradients")}
    return files["weights"], files["tokens"], files["gradients"], summary


def worst(gradients, reference):
    """Largest relative error over tensors, with its name; smallest cosine; largest deviation of a norm."""
    error, cosine, norm = (0.0, ""), 1.0, 0.0
    for name, exact in reference.items():
        ours = torch.as_tensor(gradients[name], dtype=torch.float64).reshape(exact.shape)
        size = exact.norm().item()
        if size == 0:
            if ours.abs().max().item() != 0:
                sys.exit(f"{name}: the exact gradient is 0, ours is not")
            continue
        error = max(error, ((ours - exact).norm().item() / size, name))
        cosine = min(cosine, (ours * exact).sum().item() / (size * ours.norm().item()))
        norm = max(norm, abs(ours.norm().item() / size - 1))
    return error, cosine, norm


def check(llmc, seed, compute, residual, folder, head_dims, overrides):
    """One line of the table; True if all bounds hold."""
    spec = specs.draw(seed, compute, head_dims)
    step = trace_step(llmc, specs.write(spec, folder), folder, [f"precision.residual={residual}", *overrides])
    weights, tokens, gradients, summary = read_trace(step)
    model = specs.config(spec)
    exact_loss, exact = llama.loss_and_gradients(weights, model, tokens["inputs"], tokens["targets"], torch.float64)
    if set(gradients) != set(exact):
        sys.exit(f"seed {seed}: gradients of other tensors: {sorted(set(gradients) ^ set(exact))}")
    (error, name), cosine, norm = worst(gradients, exact)
    loss_error = abs(summary["loss"] - exact_loss) / exact_loss
    line = f"{seed:3} {compute}, stream {residual} {spec['recompute']:<52} loss {loss_error:.1e} gradient {error:.2e} ({name})"
    if compute == "fp32":
        good = loss_error <= 1e-6 and error <= 1e-5
    else:
        _, autocast = llama.loss_and_gradients(weights, model, tokens["inputs"], tokens["targets"], torch.float32, True)
        (torch_error, torch_name), _, _ = worst(autocast, exact)
        line += f"; autocast {torch_error:.2e} ({torch_name}) ratio {error / torch_error:.2f} cosine {cosine:.5f} norm {norm:.1e}"
        most_norm = 0.03
        if residual == "bf16":
            _, rounded = llama.loss_and_gradients(weights, model, tokens["inputs"], tokens["targets"], torch.float32, True,
                                                  torch.bfloat16)
            (torch_error, torch_name), _, torch_norm = worst(rounded, exact)
            line += f"; autocast's with such a stream {torch_error:.2e} ({torch_name}) ratio {error / torch_error:.2f} norm {torch_norm:.1e}"
            most_norm = max(most_norm, 1.5 * torch_norm)
        good = error <= (1.25 if residual == "fp32" else 1.5) * torch_error and cosine >= 0.998 and norm <= most_norm and loss_error <= 1e-4
    print(line + ("" if good else "   FAILED"), flush=True)
    return good


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--llmc", required=True)
    parser.add_argument("--folder", required=True, help="for specs, trainers and traces")
    parser.add_argument("--compute", choices=["fp32", "bf16"], required=True)
    parser.add_argument("--residual", nargs="*", choices=["fp32", "bf16"], default=["fp32"], help="dtypes of the stream")
    parser.add_argument("--seeds", type=int, nargs="*", default=list(range(12)))
    parser.add_argument("--head-dims", type=int, nargs="*", default=specs.HEAD_DIMS)
    parser.add_argument("--override", nargs="*", default=[], help="of every spec: key.path=value")
    arguments = parser.parse_args()
    torch.set_num_threads(1)  # shapes are tiny: threads only cost
    results = [check(arguments.llmc, seed, arguments.compute, residual,
                     os.path.join(arguments.folder, f"{arguments.compute}-{seed}"), arguments.head_dims,
                     arguments.override)
               for seed in arguments.seeds for residual in arguments.residual]
    print(f"{sum(results)} of {len(results)} trainers within bounds")
    sys.exit(0 if all(results) else 1)


if __name__ == "__main__":
    main()
