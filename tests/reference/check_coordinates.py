#!/usr/bin/python3
"""Checks that `llmc scale --rule mup` is the maximal update parametrisation (Yang et al. 2022, arXiv:2203.03466, appendix D.1): ten
steps change the result of each product, and the logits, by an amount that does not depend on the width. With `--rule none` the
change grows with it. PyTorch computes the results from the checkpoints of trainers.
"""

import argparse
import glob
import os
import shutil
import sys

import torch

import check_gradients as traces
import llama
import safetensors_file

SMALL, STEPS = 64, 10
SPEC = """name: width-{width}
model: {{vocab_size: 512, hidden_size: {width}, num_hidden_layers: 2, num_attention_heads: {heads}, num_key_value_heads: {kv_heads},
  head_dim: 16, intermediate_size: {hidden}, tie_word_embeddings: false}}
precision: {{compute: fp32}}
batch: {{sequence_length: 64, tokens: 256, micro_batch: 4}}
memory: {{budget: 2GiB}}
optimizer: {{lr: 1.0e-2}}
schedule: {{kind: constant, steps: {steps}, warmup_steps: 0}}
data: {{train: [{{path: data/train-*.bin}}], seed: 3}}
checkpoint: {{every: 0}}
guards: {{loss: 0, grad_norm: 0}}
"""
# Of the seven products of a layer, and of the head.
NAMES = ["q_proj", "k_proj", "v_proj", "o_proj", "gate_proj", "up_proj", "down_proj"]
# A change that is free of the width would have the ratio 1. Random weights and ten steps of few tokens leave it between a half and
# two; in the standard parametrisation it grows from 64 to 1,024 at least by the root of the factor, 4.
FLAT, GROWS = 2.0, 4.0


def model_of(width):
    return {
        "hidden_size": width, "num_hidden_layers": 2, "num_attention_heads": width // 16, "num_key_value_heads":
        width // 32, "head_dim": 16, "rope_theta": 10000.0, "rms_norm_eps": 1e-5
    }


def results(weights, width, tokens, logits_scaling):
    """Results of the products and of the head, in the order of the forward pass."""
    recorded = []

    def record(x, weight, bias=None):
        recorded.append(torch.nn.functional.linear(x, weight, bias))
        return recorded[-1]

    llama.PRODUCTS["recorded"] = (record, record, torch.matmul)
    with torch.no_grad():
        llama.forward({name: torch.tensor(array)
                       for name, array in weights.items()}, model_of(width), tokens, products="recorded")
    recorded[-1] = recorded[-1] / logits_scaling
    return recorded


def changes(arguments, spec, name, width, scaling):
    """Root mean square of the change of each result over STEPS steps: of a product the mean over layers."""
    folder = os.path.join(arguments.folder, name)
    for run in ("start", "end"):
        shutil.rmtree(os.path.join(folder, run), ignore_errors=True)
    build = os.path.join(folder, "build")
    traces.run(arguments.llmc, "compile", spec, "-o", build)
    tokens = torch.arange(256, dtype=torch.int64).reshape(4, 64) * 37 % 512
    states = []
    for run, words in (("start", ("optimizer.lr=0", "--steps", "1")), ("end", ())):
        traces.run(os.path.join(build, "trainer"), "--run", os.path.join(folder, run), *words)
        (weights, ) = glob.glob(os.path.join(folder, run, "checkpoints", "step-*", "model.safetensors"))
        states.append(results(safetensors_file.read(weights), width, tokens, scaling))
    moved = [(after - before).pow(2).mean().sqrt().item() for before, after in zip(*states)]
    layers = [moved[i:-1:len(NAMES)] for i in range(len(NAMES))]
    return {**{n: sum(of) / len(of) for n, of in zip(NAMES, layers)}, "logits": moved[-1]}


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--llmc", required=True)
    parser.add_argument("--folder", required=True)
    parser.add_argument("--widths", type=int, nargs="+", default=[256, 1024])
    arguments = parser.parse_args()
    os.makedirs(arguments.folder, exist_ok=True)
    text = sorted(glob.glob("/usr/lib/python3*/*.py"))[:60]
    traces.run(arguments.llmc, "data", "build", "--from", *text, "--vocab-size", "512", "--force", "-o",
               os.path.join(arguments.folder, "data"))

    def path(name):
        return os.path.join(arguments.folder, name)

    for width in (SMALL, *arguments.widths):
        with open(path(f"{width}.yaml"), "w") as file:
            file.write(
                SPEC.format(width=width, heads=width // 16, kv_heads=width // 32, hidden=width * 5 // 2, steps=STEPS))
    small = changes(arguments, path(f"{SMALL}.yaml"), "small", SMALL, 1)
    print(f"{'':12}" + "".join(f"{name:>10}" for name in small))
    print(f"{SMALL:5}       " + "".join(f"{value:10.4f}" for value in small.values()))
    wrong = []
    for rule, widths in (("mup", arguments.widths), ("none", arguments.widths[-1:])):
        for width in widths:
            scaled = path(f"{rule}-{width}.yaml")
            if os.path.exists(scaled):
                os.remove(scaled)
            traces.run(arguments.llmc, "scale", path(f"{SMALL}.yaml"), "--to", path(f"{width}.yaml"), "--rule", rule,
                       "-o", scaled)
            moved = changes(arguments, scaled, f"{rule}-{width}", width, width / SMALL if rule == "mup" else 1)
            ratios = {name: moved[name] / small[name] for name in small}
            print(f"{width:5} {rule:6}" + "".join(f"{value:10.4f}" for value in moved.values()))
            if rule == "mup":
                wrong += [
                    f"{width} {name}: {ratio:.2f}" for name, ratio in ratios.items() if not 1 / FLAT < ratio < FLAT
                ]
            elif not ratios["logits"] >= GROWS:
                wrong.append(f"{width} none, logits: {ratios['logits']:.2f} should grow")
    print("wrong: " + ", ".join(wrong) if wrong else "flat over widths under mup")
    sys.exit(1 if wrong else 0)


if __name__ == "__main__":
    main()
