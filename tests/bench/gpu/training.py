"""Runs of the kit's trainers: their tokens, command line and results."""

import json
import re
import shutil
import statistics
import subprocess
import threading

import harness  # tests/runs: shards, and output of a trainer
import toolkit
from bundles import TEXT


def data_of(kit, bundle):
    """A shard of tokens for a bundle's vocabulary; enough for every run. Text for the bundles of the model `curve`, if
    the archive has some."""
    text = kit.made.folder.parent / TEXT
    if text.exists() and any(row.name == bundle and row.curve for row in kit.table):
        return text
    plan, vocabulary = kit.made.plan(bundle), kit.made.model(bundle)["vocab_size"]
    batch = plan["batch"]
    count = batch["micro_batch"] * batch["sequence_length"] * 16 + 1
    folder = kit.work / "data"
    folder.mkdir(exist_ok=True)
    shard = folder / f"tokens-{vocabulary}-{count}.bin"
    if not shard.exists():
        harness.write_shard(folder / "being-written", count, 1, vocabulary)
        (folder / "being-written").rename(shard)
    return shard


def settings_of(kit, bundle, passes, ranks=1):
    """Overrides that make a bundle train on the kit's tokens, with `passes` micro-batches per rank, and nothing else.
    """
    batch = kit.made.plan(bundle)["batch"]
    tokens = batch["micro_batch"] * batch["sequence_length"] * passes * ranks
    spec = (kit.made.folder / bundle / "spec.yaml").read_text()
    # A spec without prompts has no key for their interval.
    sampling = ["sampling.every=0"] if re.search(r"prompts: \[[^]]", spec) else []
    return [
        f"data.train.path={data_of(kit, bundle)}", "data.tokenizer=", "data.validation.path=", f"batch.tokens={tokens}",
        *sampling, "checkpoint.every=0", "checkpoint.keep_every=0"
    ]


def trainer_words(kit, bundle, program, count, passes, folder, ranks):
    return [
        kit.machine.program(bundle, program), "--run", folder / "run", "--resume", "none", "--no-final-checkpoint",
        "--timing", folder / "timing.json", "--steps", count, f"schedule.steps={max(1000, count)}",
        "schedule.warmup_steps=10", *settings_of(kit, bundle, passes, ranks), *(["--ranks", ranks] if ranks > 1 else [])
    ]


def train(kit, bundle, program, count, passes, prefix=(), settings=(), ranks=1, **environment):
    """One run with `passes` micro-batches per rank: its --timing file, its output, and its metrics. A run with a
    skipped update has failed: such a step omits work, so that its time does not count."""
    kit.need(bundle, program)
    folder = kit.work / "training"
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir()
    output = kit.call(*prefix, *trainer_words(kit, bundle, program, count, passes, folder, ranks), *settings,
                      **environment)
    timing = json.loads((folder / "timing.json").read_text())
    metrics = harness.json_lines(folder / "run" / "metrics.jsonl")
    shutil.rmtree(folder)
    skipped = [
        line["step"] for line in metrics if "skipped" in line or line["grad_norm"] is None or line["loss"] is None
    ]
    if skipped:
        raise RuntimeError(
            f"{bundle}/{program} skipped the updates of steps {skipped}: loss or gradients were not finite, or the "
            f"norm was out of its window; the times of such steps are not a step's")
    return timing, output, metrics


class MemoryWatch(threading.Thread):
    """Peak device memory in use while it runs, from nvidia-smi, minus that in use before; None if unknown."""

    def __init__(self):
        super().__init__(daemon=True)
        self.stopped, self.before, self.most = threading.Event(), self.used(), 0
        self.start()

    @staticmethod
    def used():
        try:
            text = subprocess.run(toolkit.smi("--query-gpu=memory.used", "--format=csv,noheader,nounits"),
                                  capture_output=True, text=True, timeout=10).stdout
            return int(text.split()[0]) << 20
        except (OSError, subprocess.TimeoutExpired, IndexError, ValueError):
            return None

    def run(self):
        while self.before is not None and not self.stopped.wait(0.5):
            self.most = max(self.most, self.used() or 0)

    def finish(self):
        self.stopped.set()
        self.join()
        return None if self.before is None or not self.most else self.most - self.before


def whole_steps(kit, bundle, passes, ranks=1):
    """The unmodified trainer: figures of a step of `passes` micro-batches on each of `ranks` devices."""
    warmup, count = kit.sizes["warmup"], kit.sizes["steps"]
    watch = MemoryWatch()
    try:
        timing, output, _ = train(kit, bundle, "trainer", warmup + count, passes, ranks=ranks)
    finally:
        taken = watch.finish()
    plan = kit.made.plan(bundle)
    median = statistics.median(timing["steps"][warmup:])
    return {
        "passes": passes, "micro_batch": plan["batch"]["micro_batch"], "sequence_length":
        plan["batch"]["sequence_length"], "flops_per_token": plan["flops"]["model_per_token"], "tokens":
        plan["batch"]["micro_batch"] * plan["batch"]["sequence_length"] * passes * ranks, "ms": 1e3 * median, "seconds":
        timing["steps"][warmup:], "first_step_end": timing["seconds_to_first_step"], "start_up_seconds":
        timing["seconds_to_first_step"] - median, "arena_bytes": harness.allocated_bytes(output), "plan_bytes":
        plan["memory"]["arena_bytes"], "device_bytes": taken
    }


def clocked(kit, bundle, program, passes, repeats, settings=()):
    """Output of the clocks in the step, and the run's metrics."""
    path = kit.work / "pieces.json"
    path.unlink(missing_ok=True)
    _, _, metrics = train(kit, bundle, program, kit.sizes["warmup"] + kit.sizes["steps"], passes,
                          settings=["metrics.every=1",
                                    *settings], LLMC_PIECES=str(path), LLMC_PIECES_REPEATS=str(repeats))
    return json.loads(path.read_text()), metrics


def host_ms(kit, passes):
    """The host's time to launch a step's graphs: of its micro-batches, and of the optimizer."""
    host = clocked(kit, "run", "hosted", passes, 0)[0]["host"]
    graphs = passes + 1
    each = [sum(host[i:i + graphs]) for i in range(0, len(host), graphs)]
    return {"ms": statistics.median(each[kit.sizes["warmup"]:])}
