"""Correctness of trainers on this device: gradients against PyTorch in float64, equal bits in a second run and after a
resume."""

import json
import os
import shutil
import sys

import build as builds
import harness  # tests/runs
import process
import training


def gradients(kit, bundle):
    """The traces of the first steps of several trainings, and the output of gradients.py on them."""
    kit.need(bundle, "trainer")
    folder = fresh(kit, "traces")
    traces = []
    for draw in range(kit.sizes["draws"]):
        trace = folder / f"trace-{draw}"
        kit.call(kit.machine.program(bundle, "trainer"), "--run", folder / f"run-{draw}", "--resume", "none",
                 "--no-final-checkpoint", "--steps", 1, "--trace", trace, f"seed={1000 * draw + 1}",
                 f"data.seed={1000 * draw + 2}", *training.settings_of(kit, bundle, 2))
        traces.append(trace / "step-0")
    script = builds.HERE / "gradients.py"
    try:
        output = kit.call(sys.executable, script, "--model", kit.made.folder / bundle / "config.json", *traces,
                          environment=dict(os.environ))
    except process.Failed as error:
        if "No module named" in str(error):
            raise process.Absent(f"{sys.executable} has no PyTorch or no NumPy") from None
        raise
    finally:
        shutil.rmtree(folder)
    return {"line": json.loads(output.splitlines()[-1])["line"]}


def resumed(kit, bundle):
    """A run, a repetition, and one that was stopped and resumed: metrics and last checkpoints are equal, byte for
    byte."""
    kit.need(bundle, "trainer")
    folder, steps = fresh(kit, "resumed"), kit.sizes["resumed"]

    def train(name, count):
        kit.call(kit.machine.program(bundle, "trainer"), "--run", folder / name, "--steps", count,
                 f"schedule.steps={steps}", "schedule.warmup_steps=1", "metrics.every=1",
                 *training.settings_of(kit, bundle, 2))

    train("whole", steps)
    train("again", steps)
    train("stopped", steps // 2)
    train("stopped", steps)
    whole, *others = (state(folder / name) for name in ("whole", "again", "stopped"))
    for name, other in zip(("the same run again", "a run stopped after half its steps"), others):
        different = sorted(each for each in {*whole, *other} if whole.get(each) != other.get(each))
        if different:
            raise RuntimeError(f"{name} differs in {', '.join(different)}")
    shutil.rmtree(folder)
    return {"files": len(whole), "steps": steps}


def twice(kit, bundle):
    """Losses and gradient norms of the same steps of two trainings, equal to the bit."""
    first, second = ([
        (line["loss"], line["grad_norm"])
        for line in training.train(kit, bundle, "trainer", kit.sizes["steps"], 1, settings=["metrics.every=1"])[2]
    ] for _ in range(2))
    if first != second:
        raise RuntimeError(f"two trainings gave {first} and {second}")
    return {"steps": len(first), "losses": [loss for loss, _ in first]}


def fresh(kit, name):
    folder = kit.work / name
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir()
    return folder


def state(run):
    """Result of a run: name -> bytes of its last checkpoint's files, and its metrics without times."""
    last = max((run / "checkpoints").iterdir())
    return {**harness.tree(last), "metrics": harness.without_timing(harness.json_lines(run / "metrics.jsonl"))}


def correctness(kit, result):
    # Takes minutes on the simulated GPU, where its kernels have their own tests.
    wide = [] if kit.simulated else ["wide"]
    rows = {
        f"gradients, {bundle}": lambda bundle=bundle: gradients(kit, bundle)
        for bundle in ("small", *wide, "normed")
    }
    rows.update({f"resumed, {bundle}": lambda bundle=bundle: resumed(kit, bundle) for bundle in ("small", *wide)})
    rows["twice, run"] = lambda: twice(kit, "run")
    kit.rows(result, rows)
