#!/usr/bin/python3
"""Checks the accuracies of `trainer evaluate --task FILE.jsonl` against lm-evaluation-harness, which runs the exported model
in Hugging Face transformers. Not part of ctest, because Debian has no such packages:

    python3 -m venv venv && venv/bin/pip install -r tests/reference/requirements-tasks.txt
    venv/bin/python tests/reference/check_harness.py --llmc build/llmc --folder build/check-harness

A small model learns sentences of a grammar; the task has its sentences with right and wrong ends of many lengths, some of
which repeat. Both must choose the same endings, so that `acc` and `acc_norm` are equal. Both compute in fp32, where
log-likelihoods of some ten tokens differ by 1e-5 nats: examples with a smaller gap than 1e-3 are rare, and none may decide.
The harness's cache of logits is off: 0.4.13 mixes up requests whose context and ending are the same tokens, but divided
elsewhere (a log-likelihood of -1.6 became -42.8).
"""

import argparse
import json
import os
import random
import shutil
import subprocess
import sys

import lm_eval

from checks import Checks

EXAMPLES, SENTENCES, STEPS, TOKENS = 300, 4000, 120, 48
CLOSE = 1e-3  # nats, or nats a character
WHO = ["The cat", "My old friend", "A dog", "Nobody here", "The naïve café owner", "Dr. O'Neil", "它"]
DOES = ["sees", "would never eat", "has bought", "doesn't like", "thinks of"]
WHAT = ["a bird", "3 apples", "the long way home", "an 1,024-page book", "nothing", "l'été", "one or two of them"]
WHEN = ["today.", "in the morning, as always.", "at 7:30!", "again and again.", "?"]
SPEC = f"""name: harness
model: {{vocab_size: 512, hidden_size: 64, num_hidden_layers: 2, num_attention_heads: 4, num_key_value_heads: 2,
  intermediate_size: 128, tie_word_embeddings: true}}
precision: {{compute: fp32}}
batch: {{sequence_length: {TOKENS}, micro_batch: 8, tokens: 384}}
memory: {{budget: 256MiB}}
optimizer: {{lr: 3.0e-3}}
schedule: {{kind: constant, steps: {STEPS}, warmup_steps: 10}}
data:
  tokenizer: data/tokenizer.json
  train: [{{path: "data/train-*.bin"}}]
  validation: [{{path: "data/val-*.bin"}}]
evaluation: {{every: {STEPS}, sequences: 8}}
checkpoint: {{every: {STEPS}}}
"""


def draw(rng):
    """One sentence."""
    return [rng.choice(part) for part in (WHO, DOES, WHAT, WHEN)]


def draw_example(rng):
    """A sentence cut after its second or third part. Wrong endings are of other sentences, or in another order."""
    sentence, cut = draw(rng), rng.randint(1, 3)
    endings = [sentence[cut:]]
    while len(endings) < rng.randint(2, 5):
        other = draw(rng)[cut:]
        rng.shuffle(other)
        endings.append(other)
    order = list(range(len(endings)))
    rng.shuffle(order)
    return {
        "context": " ".join(sentence[:cut]), "endings": [" " + " ".join(endings[i]) for i in order], "label":
        order.index(0)
    }


def call(*command):
    done = subprocess.run([str(word) for word in command], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    if done.returncode != 0:
        sys.exit(f"{' '.join(map(str, command))} ended with {done.returncode}:\n{done.stdout}{done.stderr}")
    return done.stdout


def theirs(model, task):
    """Results of lm-evaluation-harness, and each example's answers."""
    words = {
        "task": "made",
        "dataset_path": "json",
        "dataset_kwargs": {"data_files": {"test": task}},
        "test_split": "test",
        "output_type": "multiple_choice",
        "doc_to_text": "{{context}}",
        "doc_to_choice": "endings",
        "doc_to_target": "label",
        "target_delimiter": " ",  # which it does not count
        "metric_list":
        [{"metric": name, "aggregation": "mean", "higher_is_better": True} for name in ("acc", "acc_norm")]
    }
    found = lm_eval.simple_evaluate(model="hf",
                                    model_args={"pretrained": model, "dtype": "float32", "logits_cache": False},
                                    tasks=[words], device="cpu", batch_size=16, bootstrap_iters=0, log_samples=True)
    return found["results"]["made"], found["samples"]["made"]


def gap(values):
    first, second = sorted(values, reverse=True)[:2]
    return first - second


def close(sample):
    """Whether rounding may decide one of its two answers."""
    scores = [float(answer[0]) for answer in sample["filtered_resps"]]
    lengths = [len(ending) for ending in sample["doc"]["endings"]]
    return min(gap(scores), gap([score / length for score, length in zip(scores, lengths)])) < CLOSE


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--llmc", default="build/llmc")
    parser.add_argument("--folder", required=True)
    options = parser.parse_args()
    folder, checks, rng = os.path.abspath(options.folder), Checks(), random.Random(7)
    shutil.rmtree(folder, ignore_errors=True)
    os.makedirs(os.path.join(folder, "text"))
    spec, task, stripped = (os.path.join(folder, name) for name in ("spec.yaml", "task.jsonl", "stripped.jsonl"))
    with open(spec, "w") as file:
        file.write(SPEC)
    with open(os.path.join(folder, "text", "sentences.jsonl"), "w") as file:
        for _ in range(SENTENCES):
            file.write(json.dumps({"text": " ".join(" ".join(draw(rng)) for _ in range(3))}) + "\n")
    call(options.llmc, "data", "build", "--from", os.path.join(folder, "text"), "--vocab-size", 512,
         "--train-tokenizer", "bpe", "-o", os.path.join(folder, "data"))
    run, exported = os.path.join(folder, "run"), os.path.join(folder, "exported")
    call(options.llmc, "compile", spec, "-o", os.path.join(folder, "build"))
    trainer = os.path.join(folder, "build", "trainer")
    call(trainer, "--run", run)
    call(options.llmc, "checkpoint", "export", run, "-o", exported)

    def write(examples):
        for path, strip in ((task, False), (stripped, True)):
            with open(path, "w") as file:
                for example in examples:
                    endings = [ending.strip() if strip else ending for ending in example["endings"]]
                    file.write(json.dumps({**example, "endings": endings}) + "\n")

    drawn = [draw_example(rng) for _ in range(EXAMPLES)]
    drawn = [example for example in drawn if len(set(example["endings"])) == len(example["endings"])]
    write(drawn)
    _, samples = theirs(exported, stripped)
    clear = [drawn[sample["doc_id"]] for sample in samples if not close(sample)]
    checks.expect(len(clear) > 0.8 * len(drawn), f"only {len(clear)} of {len(drawn)} examples are clear")
    write(clear)
    results, _ = theirs(exported, stripped)
    wanted = (results["acc,none"], results["acc_norm,none"])
    ours = json.loads(call(trainer, "evaluate", "--json", "--checkpoint", run, "--task", task))
    got = (ours["accuracy"], ours["accuracy_norm"])
    checks.expect(ours["examples"] == len(clear), f"{ours['examples']} examples of {len(clear)}")
    checks.expect(all(abs(a - b) < 1e-9 for a, b in zip(got, wanted)), f"{got}, the harness has {wanted}")
    checks.expect(0.3 < got[0] < 1 and got[0] != got[1], f"accuracies {got} tell little")
    print(
        f"{len(clear)} examples: {got[0]:.4f} right, {got[1]:.4f} by length; lm-evaluation-harness {lm_eval.__version__}: "
        f"{wanted[0]:.4f}, {wanted[1]:.4f}")
    return 1 if checks.failed else 0


if __name__ == "__main__":
    sys.exit(main())
