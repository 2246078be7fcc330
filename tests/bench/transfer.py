"""Learning rates tuned at a narrow model and carried to a wide one, with muP and without.

    python3 tests/bench/transfer.py [--widths 64 256] [--steps 300] [--rates 8] [--seeds 4 1] [--jobs 2] [-o FOLDER]

Sweeps the rate at both widths (llmc sweep), at the wide one once under each rule of llmc scale, over rates that double. Prints the last
validation loss of each rate, and where the best rate of the narrow model lies from the best one of the wide model. Ends with exit 1
unless that is within a factor of 1.5 under mup and outside of it under none. The best rate is the minimum of a parabola through the
lowest loss and its neighbours, over the logarithm of the rate. The same command resumes a bench that was stopped.
"""

import argparse
import json
import math
import os
import subprocess
import sys

SOURCE = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
SPEC = """name: width-{width}
model: {{vocab_size: 1024, hidden_size: {width}, num_hidden_layers: 3, num_attention_heads: {heads}, num_key_value_heads: {kv_heads},
  head_dim: 32, intermediate_size: {hidden}, tie_word_embeddings: false}}
precision: {{compute: fp32}}
batch: {{sequence_length: 128, tokens: 1024, micro_batch: 8}}
memory: {{budget: 4GiB}}
optimizer: {{weight_decay: 0}}
schedule: {{kind: cosine, steps: {steps}, warmup_steps: 20, min_lr_ratio: 0.1}}
data:
  train: [{{path: data/train-*.bin}}]
  validation: [{{path: data/val-*.bin}}]
evaluation: {{every: {steps}, sequences: 256}}
checkpoint: {{every: 0}}
"""
LEAST = 2.0**-11  # the first rate


def run(*command):
    if subprocess.run([str(word) for word in command], stdout=subprocess.DEVNULL).returncode != 0:
        sys.exit(f"{' '.join(map(str, command))} failed")


def write_spec(folder, width, steps):
    path = os.path.join(folder, f"{width}.yaml")
    with open(path, "w") as file:
        file.write(SPEC.format(width=width, heads=width // 32, kv_heads=width // 32, hidden=width * 5 // 2,
                               steps=steps))
    return path


def swept(arguments, spec, name, seeds):
    """The mean validation loss of each rate; of one that did not finish infinity."""
    out = os.path.join(arguments.out, name)
    rates = [LEAST * 2**i for i in range(arguments.rates)]
    words = ["optimizer.lr=" + ",".join(f"{rate:g}" for rate in rates)]
    if seeds > 1:
        words.append("seed=" + ",".join(map(str, range(1, seeds + 1))))
    run(arguments.llmc, "sweep", spec, *words, "--jobs", arguments.jobs, "-o", out)
    with open(os.path.join(out, "sweep.json")) as file:
        record = json.load(file)
    losses = {}
    for entry in record["runs"]:
        loss = entry["val_loss"] if entry["state"] == "finished" else None
        known = isinstance(loss, float)  # else null or "nan"
        losses.setdefault(float(entry["values"]["optimizer.lr"]), []).append(loss if known else math.inf)
    return {rate: sum(of) / len(of) for rate, of in losses.items()}


def best(losses):
    """Rate of the lowest loss, between the rates of the sweep."""
    rates = sorted(losses)
    at = min(range(len(rates)), key=lambda i: losses[rates[i]])
    if not 0 < at < len(rates) - 1 or math.isinf(losses[rates[at - 1]]) or math.isinf(losses[rates[at + 1]]):
        return rates[at]
    left, middle, right = (losses[rates[i]] for i in (at - 1, at, at + 1))
    return rates[at] * 2**((left - right) / (2 * (left - 2 * middle + right)))


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--llmc", default=os.path.join(SOURCE, "build", "llmc"))
    parser.add_argument("--widths", type=int, nargs=2, default=(64, 256))
    parser.add_argument("--steps", type=int, default=300)
    parser.add_argument("--rates", type=int, default=8)
    parser.add_argument("--seeds", type=int, nargs=2, default=(4, 1), help="of each width")
    parser.add_argument("--jobs", type=int, default=2)
    parser.add_argument("-o", "--out", default=os.path.join(SOURCE, "build", "transfer"))
    arguments = parser.parse_args()
    os.makedirs(arguments.out, exist_ok=True)
    if not os.path.isdir(os.path.join(arguments.out, "data")):
        run(arguments.llmc, "data", "build", "--from", f"/usr/lib/python3.{sys.version_info.minor}", "--glob", "*.py",
            "--vocab-size", "1024", "-o", os.path.join(arguments.out, "data"))
    narrow, wide = (write_spec(arguments.out, width, arguments.steps) for width in arguments.widths)
    tables = {str(arguments.widths[0]): swept(arguments, narrow, "narrow", arguments.seeds[0])}
    for rule in ("mup", "none"):
        scaled = os.path.join(arguments.out, f"{rule}.yaml")
        if os.path.exists(scaled):
            os.remove(scaled)
        run(arguments.llmc, "scale", narrow, "--to", wide, "--rule", rule, "-o", scaled)
        tables[f"{arguments.widths[1]} {rule}"] = swept(arguments, scaled, rule, arguments.seeds[1])
    print("      rate" + "".join(f"{name:>12}" for name in tables))
    for rate in sorted(tables[str(arguments.widths[0])]):
        print(f"{rate:10.3g}" + "".join(f"{losses[rate]:12.4f}" for losses in tables.values()))
    rates = {name: best(losses) for name, losses in tables.items()}
    print("      best" + "".join(f"{rate:12.3g}" for rate in rates.values()))
    found, good = rates.pop(str(arguments.widths[0])), True
    for name, rate in rates.items():
        factor = max(found / rate, rate / found)
        print(f"{name}: the rate of width {arguments.widths[0]} is {factor:.2f} times off the best one")
        good &= (factor <= 1.5) == name.endswith("mup")
    sys.exit(0 if good else 1)


if __name__ == "__main__":
    main()
