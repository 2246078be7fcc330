#!/usr/bin/env python3
"""Makes the benchmark kit's archive, where llmc is: the kit, bundles and what their builds need. See README.md."""

import argparse
import json
import pathlib
import re
import shutil
import subprocess
import sys
import tarfile
import tempfile

import bundles
import third_party

ROOT = pathlib.Path(__file__).resolve().parents[3]
KIT = [
    "tests/bench/gpu", "tests/bench/step_pieces.py", "tests/bench/quickstart_torch.py", "tests/runs/harness.py",
    "tests/runs/processes.py", "tests/reference", "tests/unit/cuda", "templates"
]
SMALL = ROOT / "tests" / "bench" / "gpu" / "small.yaml"
QWEN = ROOT / "tests" / "bench" / "gpu" / "qwen.yaml"
CURVE = ROOT / "tests" / "bench" / "gpu" / "curve.yaml"
CACHE = "inductor.tar.gz"
DATA = ROOT / "data" / "quickstart"
LIMIT = 64 << 20
REFUSED = (1, 4)  # llmc's exit codes for a spec that cannot be: wrong, or too big


def emit(llmc, spec, folder, *words, may_refuse=False):
    """Emits a project; returns llmc's message if it refused this run and may do so, else nothing."""
    done = subprocess.run([llmc, "emit", spec, "-o", folder, *words], stdout=subprocess.DEVNULL, stderr=subprocess.PIPE,
                          text=True)
    if may_refuse and done.returncode in REFUSED:
        return re.search("error.*", done.stderr)[0]
    if done.returncode:
        raise SystemExit(f"llmc emit {spec} {' '.join(words)} exited with {done.returncode}:\n{done.stderr}")
    print(done.stderr, end="", file=sys.stderr)  # its warnings
    return ""


def refuse_others(plan):
    """Ends if a plan is not for Hopper alone, as the kit's own programs and small models are."""
    target = plan["target"]
    if target["kind"] != "cuda" or target["arch"] != ["90a"]:
        raise SystemExit(f"--spec has target.kind {target['kind']} and target.arch {target['arch']}, but the kit's own "
                         "programs and models are for sm_90a: write target.kind: cuda and target.arch: [90a]")


def emit_all(llmc, specs, folder):
    """Emits every bundle of the table into `folder`, the runtime with the run's; bundles.json lists refused ones with
    reasons."""
    schema = json.loads(subprocess.run([llmc, "schema"], check=True, capture_output=True, text=True).stdout)
    refusals = {}
    for row in bundles.BUNDLES:
        if row.key and not bundles.known(schema, row.key):
            continue
        if row.attention and bundles.own_attention(json.loads((folder / "run" / "plan.json").read_text())):
            refusals[row.name] = "the run's attention is llmc's own already, there is no other to compare it with"
            continue
        refusals[row.name] = emit(llmc, specs[row.spec], folder / row.name, *row.overrides,
                                  *(["--bundle"] if row.name == "run" else []), may_refuse=row.whole() or row.attention
                                  or row.curve)
        if row.name == "run":
            refuse_others(json.loads((folder / "run" / "plan.json").read_text()))
    (folder / "bundles.json").write_text(json.dumps(refusals, indent=1) + "\n")


def make(llmc, specs, archive, frontend=None, libraries=True, cache=None, text=None):
    """`specs`: {"run": the one that is timed, for CUDA in bf16, "small": the one for the sanitizer, "qwen": the model
    of llmq's figures, "curve": that of the losses}. `cache`: torch.compile's cache from an earlier session's --out, or
    None. `text`: a shard of tokens for the losses, or None."""
    with tempfile.TemporaryDirectory() as scratch:
        top = pathlib.Path(scratch) / "llmc-kit"
        for name in KIT:
            source, copy = ROOT / name, top / name
            copy.parent.mkdir(parents=True, exist_ok=True)
            if source.is_dir():
                shutil.copytree(source, copy, ignore=shutil.ignore_patterns("__pycache__"))
            else:
                shutil.copy(source, copy)
        emit_all(llmc, specs, top / "bundles")
        if cache:
            shutil.copy(cache, top / CACHE)
        if text:
            shutil.copy(text, top / bundles.TEXT)
        if libraries:
            third_party.copy(top / "third_party", frontend)
        archive.parent.mkdir(parents=True, exist_ok=True)
        with tarfile.open(archive, "w:gz") as file:
            file.add(top, top.name)
    if archive.stat().st_size > LIMIT:
        raise SystemExit(f"{archive} has {archive.stat().st_size} bytes; more than {LIMIT} do not travel")


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--llmc", type=pathlib.Path, default=ROOT / "build" / "llmc", help="the compiler (build/llmc)")
    parser.add_argument("--spec", type=pathlib.Path, default=ROOT / "specs" / "llama-1b.yaml", help="what is timed")
    parser.add_argument("--small", type=pathlib.Path, default=SMALL, help="what the sanitizer runs")
    parser.add_argument("--compiled", type=pathlib.Path,
                        help=f"{CACHE} of an earlier session's --out, from which torch.compile starts")
    parser.add_argument("--cudnn-frontend", type=pathlib.Path, default=ROOT / "build" / "cudnn-frontend" / "include",
                        help="cudnn-frontend's headers (where llmc's build puts them)")
    parser.add_argument("--text", type=pathlib.Path, default=next(iter(sorted(DATA.glob("train-*.bin"))), None),
                        help="shard of tokens, all below 4,096, for the part losses (the quick start's, where it is)")
    parser.add_argument("-o", "--out", type=pathlib.Path, default=ROOT / "build" / "gpu-kit.tar.gz")
    a = parser.parse_args()
    if not a.llmc.exists():
        parser.error(f"there is no {a.llmc}; build it, or give --llmc PATH")
    frontend = a.cudnn_frontend if (a.cudnn_frontend / "cudnn_frontend.h").exists() else None
    if not frontend:
        print(f"no cudnn_frontend.h in {a.cudnn_frontend}: the GPU's machine must have it", file=sys.stderr)
    make(a.llmc.resolve(), {"run": a.spec, "small": a.small, "qwen": QWEN, "curve": CURVE}, a.out, frontend,
         cache=a.compiled, text=a.text)
    print(f"{a.out}: {a.out.stat().st_size >> 10} KiB")


if __name__ == "__main__":
    main()
