#!/usr/bin/python3
"""Checks everything of a run except its steps against PyTorch in float64: initial weights, loss on validation data, greedy samples.

Initial weights: mean and standard deviation of each tensor, and correlations between all tensors and between two seeds, are
within 6 standard errors of what the rules of `init` say. About 1,000 numbers are looked at, and one of them is further off in
1 of 500,000 draws; the draws are fixed by the seeds.
Validation loss: fp32 within 1e-6 of the reference; bf16 within 1e-3, where each of some hundred logits has a rounding of 2^-9,
and one sample left out changes the loss by 1e-2.
Samples: the reference's logit of each token is the largest, up to the rounding of two logits of size 4: 1e-5 in fp32, 2^-5 in
bf16, whose layers each add one; typical gaps to the second are 0.3.
"""

import argparse
import json
import math
import os
import sys

import torch

import check_gradients as traces
import llama
import safetensors_file
import specs
from checks import Checks, nan_as_inf

HIDDEN, LAYERS, VOCABULARY, SEQUENCE, MICRO_BATCH = 36, 3, 97, 24, 2
EMBEDDING_STD = 0.17  # of the head, too: logits and sampled losses must differ from step 1
SHARDS = (4, 3)  # samples of the validation shards
PROMPTS = ("1 2 3", "40", " ".join(str(7 * i % VOCABULARY)
                                   for i in range(SEQUENCE + 2)))  # more tokens than rows, and one prompt too long
SAMPLED = 30  # tokens: more than a sequence, so that the context moves
ERRORS = 6  # standard errors


def spec_text(compute, head_dim):
    return f"""name: run
model: {{vocab_size: {VOCABULARY}, hidden_size: {HIDDEN}, num_hidden_layers: {LAYERS}, num_attention_heads: 6, num_key_value_heads: 2,
  head_dim: {head_dim}, intermediate_size: 50, tie_word_embeddings: false, attention_bias: true,
  rope_scaling: {{type: llama3, factor: 8, low_freq_factor: 1, high_freq_factor: 4, original_max_position_embeddings: 16}}}}
init: {{embedding_std: {EMBEDDING_STD}}}
precision: {{compute: {compute}}}
batch: {{sequence_length: {SEQUENCE}, micro_batch: {MICRO_BATCH}, tokens: 96}}
memory: {{budget: 256MiB, loss_chunk: 16}}
optimizer: {{lr: 3.0e-3}}
schedule: {{kind: constant, steps: 8, warmup_steps: 0}}
data:
  train: [{{path: train-*.bin}}]
  validation: [{{path: val-*.bin}}]
evaluation: {{every: 1}}
sampling: {{every: 1, prompts: {json.dumps(PROMPTS)}, tokens: {SAMPLED}, temperature: 0}}
checkpoint: {{every: 0}}
metrics: {{every: 1}}
seed: 11
"""


def train(folder, name, *overrides):
    """Trains two steps; returns the folders of the run and of its trace."""
    run, trace = (os.path.join(folder, f"{name}-{kind}") for kind in ("run", "trace"))
    traces.run("rm", "-rf", run, trace)
    traces.run(os.path.join(folder, "build", "trainer"), "--run", run, "--steps", "2", "--resume", "none", "--trace",
               trace, *overrides)
    return run, trace


def weights(trace, step):
    return safetensors_file.read(os.path.join(trace, f"step-{step}", "weights.safetensors"))


def json_lines(*names):
    with open(os.path.join(*names)) as file:
        return [json.loads(line) for line in file]


def expected_std(name):
    if name in ("model.embed_tokens.weight", "lm_head.weight"):
        return EMBEDDING_STD
    if name.endswith(("o_proj.weight", "down_proj.weight")):
        return 1 / math.sqrt(2 * LAYERS * HIDDEN)
    return 1 / math.sqrt(HIDDEN)  # all others read the residual stream


def check_initial_weights(checks, first, other):
    """`other`: weights of another seed."""
    normal = {}
    for name, array in first.items():
        values = torch.tensor(array, dtype=torch.float64).flatten()
        if values.numel() == array.shape[-1]:  # a vector
            checks.expect(bool((values == (1 if "norm" in name else 0)).all()),
                          f"{name} begins as {values.unique().tolist()}")
            continue
        std, count = expected_std(name), values.numel()
        checks.expect(abs(values.mean().item()) < ERRORS * std / math.sqrt(count), f"{name}: mean {values.mean():.2e}")
        measured = values.pow(2).mean().sqrt().item()
        checks.expect(
            abs(measured / std - 1) < ERRORS / math.sqrt(2 * count),
            f"{name}: std {measured:.5f}, by its rule {std:.5f}")
        normal[name] = values / std
        normal[name + " of another seed"] = torch.tensor(other[name], dtype=torch.float64).flatten() / std
    names = list(normal)
    for i, one in enumerate(names):
        for two in names[:i]:
            count = min(normal[one].numel(), normal[two].numel())
            correlation = (normal[one][:count] * normal[two][:count]).mean().item()
            checks.expect(
                abs(correlation) < ERRORS / math.sqrt(count), f"{one} and {two}: correlation {correlation:.3f}")
    print(f"initial weights: {len(names)} matrices of two seeds, std and correlations")


def validation_samples(folder):
    """All samples of the shards, in the order of their paths."""
    samples = []
    for shard, count in enumerate(SHARDS):
        path = os.path.join(folder, f"val-{shard}.bin")
        tokens = torch.tensor(list(memoryview(open(path, "rb").read()[1024:]).cast("H")))
        samples += [tokens[i * SEQUENCE:i * SEQUENCE + SEQUENCE + 1] for i in range(count)]
    return samples


def check_validation_loss(checks, model, parameters, samples, ours, tolerance, what):
    tokens = torch.stack(samples)
    logits = llama.forward(parameters, model, tokens[:, :-1])
    exact = torch.nn.functional.cross_entropy(logits.reshape(-1, VOCABULARY), tokens[:, 1:].reshape(-1)).item()
    error = abs(ours - exact) / exact
    print(f"validation loss of {what}: {ours:.7f}, PyTorch {exact:.7f}, {error:.1e} apart")
    checks.expect(error <= tolerance, f"validation loss of {what}")


def check_samples(checks, model, parameters, lines, tolerance):
    checks.expect([line["prompt"] for line in lines] == list(PROMPTS),
                  f"samples of {[line['prompt'] for line in lines]}")
    worst = 0.0
    for line in lines:
        ids, written = [int(word) for word in line["prompt"].split()], [int(word) for word in line["text"].split()]
        checks.expect(len(written) == SAMPLED, f"{len(written)} tokens after '{line['prompt']}'")
        for token in written:
            logits = llama.forward(parameters, model, torch.tensor([ids[-SEQUENCE:]]))[0, -1]
            worst = max(worst, nan_as_inf((logits.max() - logits[token]).item()))
            ids.append(token)
    print(
        f"greedy samples: {len(lines)} of {SAMPLED} tokens; the largest logit is at most {worst:.1e} above the chosen one's"
    )
    checks.expect(worst <= tolerance, "a token that is not the most likely one")


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--llmc", required=True)
    parser.add_argument("--folder", required=True, help="for the spec, the trainer and its runs")
    parser.add_argument("--compute", choices=["fp32", "bf16"], required=True)
    parser.add_argument("--head-dim", type=int, default=10)
    arguments = parser.parse_args()
    torch.set_num_threads(1)
    folder = arguments.folder
    os.makedirs(folder, exist_ok=True)
    spec = os.path.join(folder, "spec.yaml")
    with open(spec, "w") as file:
        file.write(spec_text(arguments.compute, arguments.head_dim))
    specs.write_tokens(os.path.join(folder, "train-0.bin"), VOCABULARY, 8 * SEQUENCE + 1, 1)
    for shard, count in enumerate(SHARDS):
        specs.write_tokens(os.path.join(folder, f"val-{shard}.bin"), VOCABULARY, count * SEQUENCE + 1 + 5 * shard,
                           2 + shard)
    traces.run(arguments.llmc, "compile", spec, "-o", os.path.join(folder, "build"))
    with open(os.path.join(folder, "build", "config.json")) as file:
        model = json.load(file)

    checks = Checks()
    loss_tolerance, logit_tolerance = (1e-6, 1e-5) if arguments.compute == "fp32" else (1e-3, 2**-5)
    samples = validation_samples(folder)
    run, trace = train(folder, "some", "evaluation.sequences=5")
    other_run, other_trace = train(folder, "all", "evaluation.sequences=100", "seed=12")
    check_initial_weights(checks, weights(trace, 0), weights(other_trace, 0))
    # Evaluation and sampling after step 1 use the weights that step 2 of the trace begins with.
    for name, at, of, chosen in (("5 samples of 7", run, trace, [i * 7 // 5 for i in range(5)]),
                                 ("all 7 samples", other_run, other_trace, range(7))):
        parameters = {n: torch.tensor(array, dtype=torch.float64) for n, array in weights(of, 1).items()}
        line = json_lines(at, "metrics.jsonl")[0]
        check_validation_loss(checks, model, parameters, [samples[i] for i in chosen], line["val_loss"], loss_tolerance,
                              name)
    check_samples(checks, model, parameters,
                  [line for line in json_lines(other_run, "samples.jsonl") if line["step"] == 1], logit_tolerance)
    sys.exit(1 if checks.failed else 0)


if __name__ == "__main__":
    main()
