"""The PyTorch parts: quickstart_torch.py on the same tokens."""

import json
import os
import pathlib
import re
import statistics
import sys
import tarfile
import tempfile

import build as builds
import process
import training

OUT_OF_MEMORY = 12  # quickstart_torch.py's exit code
CACHE = "inductor.tar.gz"  # torch.compile's: in --out, and in an archive that was made with it


def torch_run(kit, mode, attention, batch, then, *more):
    """Figures of quickstart_torch.py's process: steps of one pass, and then, with `then`, of that many."""
    plan, device = kit.made.plan()["batch"], "cpu" if kit.simulated else "cuda"
    warmup, cache = kit.sizes["warmup"], kit.work / "inductor"
    output = kit.call(sys.executable, builds.HERE.parent / "quickstart_torch.py", "--mode", mode, "--dtype", "bf16",
                      "--device", device, "--threads", os.cpu_count(),
                      "--steps", warmup + kit.sizes["steps"], "--attention", attention, "--model",
                      json.dumps(kit.made.model()), "--batch", batch, "--length", plan["sequence_length"], "--shard",
                      training.data_of(kit, "run"), *(["--then-accumulate", then] if then else []),
                      *(["--scalar"] if kit.simulated else []), *more, environment=dict(os.environ),
                      TORCHINDUCTOR_CACHE_DIR=str(cache), TRITON_CACHE_DIR=str(cache))
    figures = json.loads(output.splitlines()[-1])
    seconds = figures["steps"][warmup:]
    row = {
        "batch": batch, "passes": 1, "ms": 1e3 * statistics.median(seconds), "seconds": seconds, "start_up_seconds":
        figures["seconds_to_first_step"] - statistics.median(seconds),
        **{key: figures[key]
           for key in ("torch", "reserved_bytes", "residual", "attention")}
    }
    if then:
        later = figures["accumulated_steps"][warmup:]
        row["accumulated"] = {"passes": then, "ms": 1e3 * statistics.median(later), "seconds": later}
    return row


def torch_fitting(kit, mode, attention, then=0):
    """With the run's micro-batch, or the largest half, quarter, ... of it that fits; reports those that did not."""
    batch, too_large, more = kit.made.plan()["batch"]["micro_batch"], [], []
    while True:
        try:
            return {**torch_run(kit, mode, attention, batch, then, *more), "out_of_memory_at": too_large}
        except process.Failed as error:
            if error.code == OUT_OF_MEMORY and batch > 1:
                too_large.append(batch)
                batch //= 2
            elif not re.search("No (available kernel|viable backend)", str(error)):
                raise
            elif more:
                raise process.Absent(f"PyTorch has no {attention} attention for this model here") from None
            else:
                more = ["--repeat-heads"]


def pack(cache, archive):
    """Writes the archive of a cache completely or not at all."""
    part = archive.with_name(archive.name + ".part")
    with tarfile.open(part, "w:gz") as file:
        file.add(cache, cache.name)
    part.replace(archive)


def unpack(archive, cache):
    """Unpacks it completely or not at all."""
    with tempfile.TemporaryDirectory(dir=cache.parent) as scratch:
        with tarfile.open(archive) as file:
            file.extractall(scratch)
        pathlib.Path(scratch, cache.name).rename(cache)


def look():
    return sys.executable, builds.HERE.parent / "quickstart_torch.py", "--look"


def absent(kit, result):
    """Whether PyTorch is missing, which is then reported."""
    try:
        kit.call(*look(), environment={**os.environ})
    except process.Failed as error:
        if error.code is None:  # stopped at the part's limit
            raise
        result["absent"] = f"no PyTorch with rms_norm (2.4 or later) in {sys.executable}: {str(error).splitlines()[-1]}"
    return "absent" in result


def compiled(kit, result):
    """The same model by torch.compile with flash attention (the faster one on an H100), from the cache carried in the
    archive."""
    if absent(kit, result):
        return
    cache, carried = kit.work / "inductor", builds.ROOT / CACHE
    if carried.exists() and not cache.exists():
        unpack(carried, cache)
    kit.rows(result,
             {"compile, flash": lambda: {**torch_fitting(kit, "compile", "flash"), "carried": carried.exists()}})
    if kit.out and cache.is_dir():
        pack(cache, kit.out / CACHE)


def others(kit, result):
    """torch.compile with cuDNN's attention; the faster one again from its cache, and accumulated; eager."""
    if absent(kit, result):
        return

    def faster():
        """The faster of the two kinds of attention; the default if neither ran."""
        rows = {
            "flash": kit.results.get("compiled", {}).get("compile, flash", {}), "cudnn":
            result.get("compile, cudnn", {})
        }
        ran = {name: row["ms"] / row["batch"] for name, row in rows.items() if "ms" in row}
        return min(ran, key=ran.get) if ran else "default"

    kit.rows(
        result, {
            "compile, cudnn": lambda: torch_fitting(kit, "compile", "cudnn"), "compile, again":
            lambda: torch_fitting(kit, "compile", faster(), kit.sizes["accumulated"]), "eager":
            lambda: torch_fitting(kit, "eager", faster())
        })
