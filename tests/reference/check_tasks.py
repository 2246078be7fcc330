#!/usr/bin/python3
"""Checks the answers to multiple-choice tasks against PyTorch in float64: accuracies as metrics of a run on one and on several
ranks, and of trainer evaluate.

The tasks leave out examples of which two endings are as close as 1e-4 nats, or 1e-4 nats a token, in bf16 0.1, where each of
some twenty losses has an error of 1e-3. Typical gaps are 0.5. All accuracies are equal then.
"""

import argparse
import json
import os
import random
import shutil
import struct
import subprocess
import sys

import torch

import check_gradients as traces
import llama
import safetensors_file
import specs
from checks import Checks

VOCABULARY, SEQUENCE, EXAMPLES = 97, 24, 60
CLOSE = {"fp32": 1e-4, "bf16": 0.1}
SPEC = f"""name: tasks
model: {{vocab_size: {VOCABULARY}, hidden_size: 36, num_hidden_layers: 3, num_attention_heads: 6, num_key_value_heads: 2,
  head_dim: HEAD_DIM, intermediate_size: 50, tie_word_embeddings: false}}
init: {{embedding_std: 0.17}}
precision: {{compute: COMPUTE}}
batch: {{sequence_length: {SEQUENCE}, micro_batch: 3, tokens: 288}}
memory: {{budget: 256MiB, loss_chunk: 24}}
optimizer: {{lr: 3.0e-3}}
schedule: {{kind: constant, steps: 8, warmup_steps: 0}}
data:
  train: [{{path: train-*.bin}}]
  validation: [{{path: val-*.bin}}]
evaluation: {{every: 1, sequences: 3, tasks: {{choice: choice.bin, few: {{path: choice.bin, examples: 2}}}}}}
checkpoint: {{every: 1}}
metrics: {{every: 1}}
seed: 11
"""


def draw_example(rng):
    """Context, endings and label. Tokens repeat, and a whole example may fill the sequence."""
    context = [rng.randrange(VOCABULARY) for _ in range(rng.randint(1, 12))]
    endings = [[rng.randrange(VOCABULARY) for _ in range(rng.randint(1, SEQUENCE + 1 - len(context)))]
               for _ in range(rng.randint(2, 5))]
    return context, endings, rng.randrange(len(endings))


def write_task(path, examples):
    """llm.c's format: dev/data/data_common.py."""
    stream = []
    for number, (context, endings, label) in enumerate(examples):
        body = [number, label, len(endings), len(context), *context]
        for ending in endings:
            body += [len(ending), *ending]
        stream += [65535, 2 * (len(body) + 2), *body]
    with open(path, "wb") as file:
        file.write(
            struct.pack("<256i", 20240522, 1, len(examples), *[0] * 253) + struct.pack(f"<{len(stream)}H", *stream))


def likelihoods(weights, model, example):
    context, endings, _ = example
    found = []
    for ending in endings:
        tokens = torch.tensor([context + ending])
        logits = torch.log_softmax(llama.forward(weights, model, tokens[:, :-1]), -1)[0]
        found.append(sum(logits[len(context) - 1 + i, token].item() for i, token in enumerate(ending)))
    return found


def gap(values):
    first, second = sorted(values, reverse=True)[:2]
    return first - second


def answers(weights, model, examples):
    """For each example whether its right ending is chosen, plainly and by length; and its smaller gap."""
    result = []
    for example in examples:
        plain = likelihoods(weights, model, example)
        norm = [value / len(ending) for value, ending in zip(plain, example[1])]
        result.append(
            (plain.index(max(plain)) == example[2], norm.index(max(norm)) == example[2], min(gap(plain), gap(norm))))
    return result


def accuracies(found):
    return tuple(sum(each[i] for each in found) / len(found) for i in range(2))


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--llmc", required=True)
    parser.add_argument("--folder", required=True)
    parser.add_argument("--compute", default="fp32", choices=CLOSE)
    parser.add_argument("--head-dim", type=int, default=10)
    parser.add_argument("--most-ranks", type=int, default=4, help="1: none are started by mpirun")
    options = parser.parse_args()
    os.environ.update(OMPI_ALLOW_RUN_AS_ROOT="1", OMPI_ALLOW_RUN_AS_ROOT_CONFIRM="1", OMP_NUM_THREADS="1")
    checks = Checks()
    folder = os.path.abspath(options.folder)
    shutil.rmtree(folder, ignore_errors=True)
    os.makedirs(folder)
    spec, task = os.path.join(folder, "spec.yaml"), os.path.join(folder, "choice.bin")
    with open(spec, "w") as file:
        file.write(SPEC.replace("COMPUTE", options.compute).replace("HEAD_DIM", str(options.head_dim)))
    specs.write_tokens(os.path.join(folder, "train-0.bin"), VOCABULARY, 20 * SEQUENCE + 1, 1)
    specs.write_tokens(os.path.join(folder, "val-0.bin"), VOCABULARY, 3 * SEQUENCE + 1, 2)
    rng = random.Random(5)
    drawn = [draw_example(rng) for _ in range(EXAMPLES)]
    write_task(task, drawn)
    traces.run(options.llmc, "compile", spec, "-o", os.path.join(folder, "build"))
    traces.run(options.llmc, "compile", spec, "parallel.shard=parameters", "-o", os.path.join(folder, "sharded"))
    trainer = os.path.join(folder, "build", "trainer")

    def train(name, trainer, ranks):
        launch = ("mpirun", "-n", ranks, "--oversubscribe", "--bind-to", "none") if ranks > 1 else ()
        traces.run(*map(str, launch), trainer, "--run", os.path.join(folder, name), "--steps", "1", "--resume", "none")
        with open(os.path.join(folder, name, "metrics.jsonl")) as file:
            return json.loads(file.readlines()[-1])

    # The examples whose answers are clear after a first run; a run of equal steps has equal weights.
    train("first", trainer, 1)
    weights = {
        name: torch.from_numpy(value).double()
        for name, value in safetensors_file.read(
            os.path.join(folder, "first", "checkpoints", "step-00000001", "model.safetensors")).items()
    }
    with open(os.path.join(folder, "first", "checkpoints", "step-00000001", "config.json")) as file:
        model = json.load(file)
    found = answers(weights, model, drawn)
    clear = [i for i, each in enumerate(found) if each[2] > CLOSE[options.compute]]
    found = [found[i] for i in clear]
    write_task(task, [drawn[i] for i in clear])
    plain, norm = accuracies(found)
    checks.expect(len(clear) > EXAMPLES / 3, f"only {len(clear)} of {EXAMPLES} examples are clear")
    checks.expect(0 < plain < 1 and 0 < norm < 1 and plain != norm, f"accuracies {plain}, {norm} tell little")

    ranks = range(1, (options.most_ranks if shutil.which("mpirun") else 1) + 1)
    for kind, binary in (("build", trainer), ("sharded", os.path.join(folder, "sharded", "trainer"))):
        for count in ranks:
            if kind == "sharded" and count == 1:
                continue
            line = train(f"{kind}-{count}", binary, count)
            got = (line["task/choice"], line["task/choice/norm"], line["task/few"], line["task/few/norm"])
            checks.expect(got == (plain, norm, *accuracies(found[:2])),
                          f"{kind}, {count} ranks: {got}, PyTorch {plain}, {norm}, {accuracies(found[:2])}")
    done = subprocess.run(
        [trainer, "evaluate", "--json", "--checkpoint",
         os.path.join(folder, "first"), "--task", task], check=True, stdout=subprocess.PIPE, text=True)
    line = json.loads(done.stdout)
    checks.expect((line["examples"], line["accuracy"], line["accuracy_norm"]) == (len(clear), plain, norm),
                  f"trainer evaluate: {line}")
    print(f"{len(clear)} examples: {plain:.4f} right, {norm:.4f} by length")
    return 1 if checks.failed else 0


if __name__ == "__main__":
    sys.exit(main())
