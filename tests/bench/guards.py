"""Guards on clean runs: how close each window comes to its limit, and whether any update is skipped.

    python3 tests/bench/guards.py [--runs 100] [--tokens 64,128,1024,16384] [--keep FOLDER]

Needs build/llmc. A model of one layer reads the bytes of Python's standard library in batches of each size, with different
seeds for weights and data in each run, on one thread. Prints for each size the largest distance of any step from the median
of its window in spreads, of log(1 + loss) and log(norm) as in docs/reference/guards.md, the norm's largest ratio to the
median, the limits as multiples of the median, and the skipped updates. Exit code 1 if there are any. All four sizes take a
quarter of an hour on one core.
"""

import argparse
import array
import glob
import math
import os
import random
import statistics
import subprocess
import sys
import sysconfig
import tempfile

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
sys.path.insert(0, os.path.join(ROOT, "tests", "runs"))
import harness  # noqa: E402  (where files of tests lie, and how metrics are read)

WINDOW, WARM_UP, LAG = 200, 100, 2
LOSS, NORM = 10, 20  # guards.loss, guards.grad_norm
STEPS = {64: 1000, 128: 1000, 1024: 500, 16384: 220}  # others: 400
SPEC = """name: guards
model: {{vocab_size: 256, hidden_size: 32, num_hidden_layers: 1, num_attention_heads: 2, num_key_value_heads: 1, head_dim: 16,
        intermediate_size: 64, tie_word_embeddings: true}}
precision: {{compute: fp32}}
batch: {{sequence_length: {length}, micro_batch: {rows}, tokens: {tokens}}}
memory: {{budget: 512MiB}}
optimizer: {{lr: 3.0e-3}}
schedule: {{kind: cosine, steps: 400, warmup_steps: 40}}
data:
  train: [{{path: train.bin}}]
checkpoint: {{every: 0}}
metrics: {{every: 1}}
target: {{kind: cpu, arch: native}}
"""


def write_bytes_of_library(path, most=23_900_000):
    library = sysconfig.get_paths()["stdlib"]
    files = sorted(glob.glob(library + "/*.py")) + sorted(glob.glob(library + "/*/*.py"))
    random.Random(1).shuffle(files)
    text = bytearray()
    for file in files:
        text += harness.read(file)
        if len(text) >= most:
            break
    tokens = array.array("H", list(text[:most]))
    with open(path, "wb") as shard:
        shard.write(array.array("i", [20240520, 1, len(tokens), *[0] * 253]).tobytes() + tokens.tobytes())


def spreads(values, scale, floor, ceiling=math.inf):
    """For each judged step: its distance from the median of its window, and the spread there."""
    scaled = [scale(value) for value in values]
    for step in range(WARM_UP + LAG, len(scaled) + 1):
        window = scaled[max(0, step - LAG - WINDOW):step - LAG]
        median = statistics.median(window)
        spread = 1.4826 * statistics.median(abs(value - median) for value in window)
        yield scaled[step - 1] - median, min(max(spread, floor), ceiling)


def measure(trainer, folder, tokens, seed):
    run = os.path.join(folder, f"run-{tokens}-{seed}")
    subprocess.run([
        trainer, "--run", run, "--quiet", "--no-final-checkpoint", "--threads", "1",
        f"schedule.steps={STEPS.get(tokens, 400)}", f"seed={seed}", f"data.seed={seed}"
    ], check=True, stdout=sys.stderr)
    lines = harness.json_lines(os.path.join(run, "metrics.jsonl"))
    loss = max(distance / spread for distance, spread in spreads([line["loss"] for line in lines], math.log1p, 0.02))
    norms = list(spreads([line["grad_norm"] for line in lines], math.log, 0.1, 0.2))
    return {
        "loss": loss, "norm": max(distance / spread for distance, spread in norms), "ratio": math.exp(max(norms)[0]),
        "limit": math.exp(NORM * statistics.median(spread for _, spread in norms)), "skipped":
        [line["step"] for line in lines if "skipped" in line]
    }


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--runs", type=int, default=100)
    parser.add_argument("--tokens", type=lambda text: [int(word) for word in text.split(",")], default=list(STEPS))
    parser.add_argument("--keep", help="folder of the runs; by default they are deleted")
    options = parser.parse_args()
    skipped = 0
    with tempfile.TemporaryDirectory(dir=harness.SCRATCH) as scratch:
        folder = os.path.abspath(options.keep or scratch)
        os.makedirs(folder, exist_ok=True)
        write_bytes_of_library(os.path.join(folder, "train.bin"))
        print(
            f"| tokens a step | steps | loss, of {LOSS} | norm, of {NORM} | norm / median | limit / median | skipped |\n|---|---|---|---|---|---|---|"
        )
        for tokens in options.tokens:
            length = min(64, tokens // 2)
            spec = os.path.join(folder, f"tokens-{tokens}.yaml")
            with open(spec, "w") as file:
                file.write(SPEC.format(length=length, rows=min(64, tokens // length), tokens=tokens))
            build = os.path.join(folder, f"build-{tokens}")
            subprocess.run([os.path.join(ROOT, "build", "llmc"), "compile", spec, "-o", build], check=True,
                           stdout=sys.stderr)
            runs = [
                measure(os.path.join(build, "trainer"), folder, tokens, seed) for seed in range(1, options.runs + 1)
            ]
            found = sum(len(run["skipped"]) for run in runs)
            skipped += found
            print(
                f"| {tokens:,} | {STEPS.get(tokens, 400)} | " + " | ".join(f"{max(run[key] for run in runs):.1f}"
                                                                           for key in ("loss", "norm", "ratio")) +
                f" | {statistics.median(run['limit'] for run in runs):.1f} | {found or 'none'} |", flush=True)
    return 1 if skipped else 0


if __name__ == "__main__":
    sys.exit(main())
