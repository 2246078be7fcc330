#!/usr/bin/python3
"""Checks a run's tensorboard/ with TensorBoard's own reader, its Python package. A run is killed at many places, in steps and in
saves, and resumed. After each kill every file is read, by a reader that stays open throughout and by new ones. Each scalar
must equal that of metrics.jsonl, under the names of the exporter. Not part of ctest; the environment:

    python3 -m venv venv && venv/bin/pip install -r tests/reference/requirements-tensorboard.txt
    venv/bin/python tests/reference/check_tensorboard.py --llmc build/llmc --folder build/check-tensorboard

An event is a 32-bit float, and so is the number in metrics.jsonl that it is compared with. After a kill, the files may lack the
step that was being written.
"""

import argparse
import json
import logging
import math
import os
import random
import shutil
import signal
import subprocess
import sys
import time

import numpy as np
from tensorboard.backend.event_processing import event_accumulator, event_file_loader, plugin_event_accumulator

import specs
from checks import Checks

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "..", "exporter"))
from llmc_export import flatten  # noqa: E402

STEPS, KILLS, VOCABULARY, SEQUENCE = 240, 24, 97, 24
SPEC = f"""\
name: tensorboard
model: {{vocab_size: {VOCABULARY}, hidden_size: 36, num_hidden_layers: 2, num_attention_heads: 3, num_key_value_heads: 1, head_dim: 12,
  intermediate_size: 50}}
precision: {{compute: fp32}}
batch: {{sequence_length: {SEQUENCE}, tokens: {4 * SEQUENCE}, micro_batch: 2}}
memory: {{budget: 256MiB}}
schedule: {{steps: {STEPS}, warmup_steps: 10}}
data:
  train: [{{path: train-*.bin}}]
  validation: {{path: val-*.bin, web: val-*.bin}}
evaluation: {{every: 5, sequences: 4}}
sampling: {{every: 7, prompts: ["1 2 3", "40"], tokens: 4}}
checkpoint: {{every: 3, keep_last: 2, best: web}}
metrics: {{every: 4}}
"""
EVERYTHING = {event_accumulator.SCALARS: 0, event_accumulator.TENSORS: 0}


def whole_lines(path):
    """Objects of the complete lines; none if the file does not exist yet."""
    if not os.path.exists(path):
        return []
    with open(path, "rb") as file:
        return [json.loads(line) for line in file.read().split(b"\n")[:-1]]


class Readers:
    """Reads scalars, and texts as TensorBoard's server does: the other reader does not forget texts that a resume took
    back."""

    def __init__(self, folder):
        self.scalars = event_accumulator.EventAccumulator(folder, size_guidance=EVERYTHING)
        self.texts = plugin_event_accumulator.EventAccumulator(folder, tensor_size_guidance={"text": 0})

    def reload(self):
        self.scalars.Reload()
        self.texts.Reload()


def read_each_file(folder):
    """Number of events of each file, by the loader of TensorBoard's server."""
    return {
        name: sum(1 for _ in event_file_loader.EventFileLoader(os.path.join(folder, name)).Load())
        for name in sorted(os.listdir(folder))
    }


def check_scalars(checks, reader, run, where, killed):
    """Compares each scalar of the reader with metrics.jsonl, and the other way round."""
    lines = whole_lines(os.path.join(run, "metrics.jsonl"))
    expected = {}
    for line in lines:
        for name, value in flatten(line).items():
            expected.setdefault(name, {})[line["step"]] = np.float32(value)
    last = lines[-1]["step"] if lines else 0
    found = {}
    for tag in reader.scalars.Tags()["scalars"]:
        events = [event for event in reader.scalars.Scalars(tag) if math.isfinite(event.value)]
        steps = [event.step for event in events]
        checks.expect(steps == sorted(set(steps)), f"{where}: steps of {tag} do not ascend, or one stands twice")
        found[tag] = {event.step: np.float32(event.value) for event in events}
    for tag in sorted(set(expected) | set(found)):
        ours, theirs = expected.get(tag, {}), found.get(tag, {})
        # A line is written before its event, so a kill may come between them.
        missing = [step for step in ours if step not in theirs and not (killed and step == last)]
        checks.expect(not missing, f"{where}: {tag} lacks the steps {missing[:5]}")
        checks.expect(not set(theirs) - set(ours),
                      f"{where}: {tag} has steps that metrics.jsonl has not: {sorted(set(theirs) - set(ours))[:5]}")
        other = [step for step in theirs if step in ours and theirs[step] != ours[step]]
        checks.expect(not other, f"{where}: {tag} has other values at the steps {other[:5]}")
    return len(found), sum(map(len, found.values()))


def start_and_kill(trainer, run, stop_at, delay):
    """Starts the trainer and kills it `delay` seconds after metrics.jsonl has reached `stop_at`; returns whether it
    was killed."""
    process = subprocess.Popen([trainer, "--run", run, "--quiet"], stdout=subprocess.DEVNULL, stderr=subprocess.PIPE)
    path = os.path.join(run, "metrics.jsonl")
    try:
        while process.poll() is None:
            lines = whole_lines(path)
            if lines and lines[-1]["step"] >= stop_at:
                time.sleep(delay)
                break
            time.sleep(0.002)
    finally:
        process.kill()
    error = process.communicate()[1].decode(errors="replace")
    if process.returncode not in (0, -signal.SIGKILL):
        sys.exit(f"the trainer ended with {process.returncode}\n{error}")
    return process.returncode == -signal.SIGKILL


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--llmc", required=True)
    parser.add_argument("--folder", required=True)
    parser.add_argument("--seed", type=int, default=1)
    arguments = parser.parse_args()
    logging.getLogger("tensorboard").setLevel(logging.ERROR)  # it logs each step that it forgets at a resume
    folder, run = os.path.abspath(arguments.folder), os.path.join(os.path.abspath(arguments.folder), "run")
    shutil.rmtree(folder, ignore_errors=True)
    os.makedirs(folder)
    with open(os.path.join(folder, "spec.yaml"), "w") as file:
        file.write(SPEC)
    specs.write_tokens(os.path.join(folder, "train-0.bin"), VOCABULARY, 64 * SEQUENCE + 1, 1)
    specs.write_tokens(os.path.join(folder, "val-0.bin"), VOCABULARY, 8 * SEQUENCE + 1, 2)
    done = subprocess.run(
        [arguments.llmc, "compile",
         os.path.join(folder, "spec.yaml"), "-o",
         os.path.join(folder, "build")], stdout=subprocess.PIPE, stderr=subprocess.STDOUT)
    if done.returncode:
        sys.exit(done.stdout.decode(errors="replace"))
    trainer, events = os.path.join(folder, "build", "trainer"), os.path.join(run, "tensorboard")

    checks, draw, live, kills = Checks(), random.Random(arguments.seed), None, 0
    for start in range(KILLS):
        stop_at = (start + 1) * STEPS // (KILLS + 2) + draw.randrange(4)
        kills += start_and_kill(trainer, run, stop_at, draw.choice([0, 0, 0.001, 0.003, 0.01]))
        where = f"after kill {start + 1}"
        live = live or Readers(events)
        for reader in (live, Readers(events)):
            reader.reload()
            check_scalars(checks, reader, run, f"{where}, {'the open' if reader is live else 'a new'} reader", True)
        read_each_file(events)
    checks.expect(kills >= KILLS // 2, f"{kills} of {KILLS} starts were killed: the others ended before")
    checks.expect(not start_and_kill(trainer, run, STEPS + 1, 0), "the last start was killed")
    for reader in (live, Readers(events)):
        reader.reload()
        tags, values = check_scalars(checks, reader, run,
                                     f"at the end, {'the open' if reader is live else 'a new'} reader", False)
        samples = whole_lines(os.path.join(run, "samples.jsonl"))
        for number, prompt in ((1, "1 2 3"), (2, "40")):
            ours = [line["step"] for line in samples if line["prompt"] == prompt]
            theirs = [event.step for event in reader.texts.Tensors(f"samples/{number}")]
            checks.expect(ours == theirs and ours, f"samples/{number} has the steps {theirs}, samples.jsonl {ours}")
    checks.expect(
        whole_lines(os.path.join(run, "metrics.jsonl"))[-1]["step"] == STEPS, "the run has not reached its last step")
    files = read_each_file(events)
    print(
        f"{kills} kills, {len(files)} event files with {sum(files.values())} events: {tags} tags with {values} values are those of metrics.jsonl"
        if not checks.failed else f"{checks.failed} checks failed")
    return 1 if checks.failed else 0


if __name__ == "__main__":
    sys.exit(main())
