#!/usr/bin/python3
"""Trains 300 steps on real text twice, from the same weights and on the same tokens: a trainer in bf16, and PyTorch
with the products of bf16 autocast. The mean loss of the last 20 steps must agree within 1 %: both round differently at
every step, and a wrong scale, schedule or decay moves a curve by more.
"""

import argparse
import glob
import json
import math
import os
import sys

import torch

import check_gradients as traces
import llama
import safetensors_file

STEPS, LAST = 300, 20
MODEL = {
    "vocab_size": 512, "hidden_size": 64, "num_hidden_layers": 2, "num_attention_heads": 4, "num_key_value_heads": 2,
    "head_dim": 16, "intermediate_size": 160, "rope_theta": 10000, "rms_norm_eps": 1e-5, "tie_word_embeddings": True,
    "attention_bias": False, "mlp_bias": False
}
SPEC = """name: curve
model: {{vocab_size: 512, hidden_size: 64, num_hidden_layers: 2, num_attention_heads: 4, num_key_value_heads: 2, head_dim: 16,
  intermediate_size: 160, rope_theta: 10000, rms_norm_eps: 1.0e-5, tie_word_embeddings: true}}
precision: {{compute: bf16}}
batch: {{sequence_length: 64, tokens: 512, micro_batch: 8}}
memory: {{budget: 1GiB}}
optimizer: {{lr: 3.0e-3, weight_decay: 0.1, clip_norm: 1.0}}
schedule: {{kind: cosine, steps: {steps}, warmup_steps: 20, min_lr_ratio: 0.1}}
data: {{train: [{{path: data/train-*.bin}}], seed: 3}}
checkpoint: {{every: 0}}
metrics: {{every: 1}}
"""


def learning_rate(step):
    """Warm-up over 20 steps, then a cosine from step 20 to a tenth at the last step."""
    if step < 20:
        return 3e-3 * (step + 1) / 20
    return 3e-3 * (0.1 + 0.45 * (1 + math.cos(math.pi * (step - 20) / (STEPS - 1 - 20))))


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--llmc", required=True)
    parser.add_argument("--folder", required=True)
    arguments = parser.parse_args()
    folder = arguments.folder
    os.makedirs(folder, exist_ok=True)
    traces.forget(folder)
    text = sorted(glob.glob("/usr/lib/python3*/*.py"))[:60]
    traces.run(arguments.llmc, "data", "build", "--from", *text, "--vocab-size", "512", "--force", "-o",
               os.path.join(folder, "data"))
    spec = os.path.join(folder, "spec.yaml")
    with open(spec, "w") as file:
        file.write(SPEC.format(steps=STEPS))
    build, trace, run = (os.path.join(folder, name) for name in ("build", "trace", "run"))
    traces.run(arguments.llmc, "compile", spec, "-o", build)
    traces.run(os.path.join(build, "trainer"), "--run", run, "--resume", "none", "--trace", trace)
    with open(os.path.join(run, "metrics.jsonl")) as file:
        ours = [json.loads(line)["loss"] for line in file]

    torch.set_num_threads(1)
    start = safetensors_file.read(os.path.join(trace, "step-0", "weights.safetensors"))
    parameters = {name: torch.tensor(array, requires_grad=True) for name, array in start.items()}
    decayed = [n for n, p in parameters.items() if p.dim() == 2 and n != "model.embed_tokens.weight"]
    optimizer = torch.optim.AdamW(
        [{"params": [parameters[n] for n in decayed], "weight_decay": 0.1},
         {"params": [p for n, p in parameters.items() if n not in decayed], "weight_decay": 0.0}], lr=1.0,
        betas=(0.9, 0.95), eps=1e-8)
    theirs = []
    for step in range(STEPS):
        tokens = safetensors_file.read(os.path.join(trace, f"step-{step}", "tokens.safetensors"))
        logits = llama.forward(parameters, MODEL, torch.tensor(tokens["inputs"][0], dtype=torch.int64), products="bf16")
        loss = torch.nn.functional.cross_entropy(
            logits.reshape(-1, 512).float(), torch.tensor(tokens["targets"].reshape(-1), dtype=torch.int64))
        optimizer.zero_grad()
        loss.backward()
        torch.nn.utils.clip_grad_norm_(parameters.values(), 1.0)
        for group in optimizer.param_groups:
            group["lr"] = learning_rate(step)
        optimizer.step()
        theirs.append(loss.item())
    end_ours, end_theirs = sum(ours[-LAST:]) / LAST, sum(theirs[-LAST:]) / LAST
    for step in range(0, STEPS, 50):
        print(f"step {step:3}: ours {ours[step]:.4f} PyTorch {theirs[step]:.4f}")
    difference = abs(end_ours - end_theirs) / end_theirs
    print(f"last {LAST} steps: ours {end_ours:.4f} PyTorch {end_theirs:.4f}, {100 * difference:.2f} % apart")
    learned = end_ours < 0.8 * ours[0]
    sys.exit(0 if difference <= 0.01 and learned and len(ours) == STEPS else 1)


if __name__ == "__main__":
    main()
