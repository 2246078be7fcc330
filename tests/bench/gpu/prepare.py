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

ROOT = pathlib.Path(__file__).resolve().parents[3]
KIT = ["tests/bench/gpu", "tests/bench/step_pieces.py", "tests/bench/quickstart_torch.py", "tests/runs/harness.py",
       "tests/reference/safetensors_file.py", "tests/unit/cuda"]
SMALL = ROOT / "tests" / "bench" / "gpu" / "small.yaml"
# Debian packages that a bundle's runtime is built with, as far as a GPU's machine may lack them.
PACKAGES = ["libfmt-dev", "libfmt9", "libxxhash-dev", "libxxhash0", "libcli11-dev", "nlohmann-json3-dev",
            "libsentencepiece-dev", "libsentencepiece0", "libprotobuf-lite32"]
NEEDED = ("/usr/include/", "/usr/lib/", "/usr/share/cmake/")
LIMIT = 64 << 20
REFUSED = (1, 4)  # llmc's exit codes for a spec that cannot be: wrong, or too big


def emit(llmc, spec, folder, *overrides, may_refuse=False):
    """Emits a bundle; what llmc said where it refused this run and may."""
    done = subprocess.run([llmc, "emit", spec, "-o", folder, "--bundle", *overrides], stdout=subprocess.DEVNULL,
                          stderr=subprocess.PIPE, text=True)
    if may_refuse and done.returncode in REFUSED:
        return re.search("error.*", done.stderr)[0]
    if done.returncode:
        raise SystemExit(f"llmc emit {spec} {' '.join(overrides)} exited with {done.returncode}:\n{done.stderr}")
    print(done.stderr, end="", file=sys.stderr)  # its warnings
    return None


def emit_portable(llmc, spec, bundles):
    """Beside the bundle `run` the same with llmc's own attention; or a file that says why there is none."""
    launches = json.loads((bundles / "run" / "plan.json").read_text())["launches"]
    if any(launch["kind"] == "attention" for launch in launches):
        refusal = emit(llmc, spec, bundles / "portable", "target.attention=portable", may_refuse=True)
    else:
        refusal = "the run's attention is llmc's own already, there is no cuDNN's to compare it with"
    if refusal:
        (bundles / "portable.refused").write_text(refusal)


def third_party(folder, frontend):
    """Headers and libraries, in the layout of the system that they come from."""
    listed = subprocess.run(["dpkg", "-L", *PACKAGES], check=True, capture_output=True, text=True).stdout.split("\n")
    for path in map(pathlib.Path, listed):
        if str(path).startswith(NEEDED) and not path.is_dir():
            copy = folder / path.relative_to("/")
            copy.parent.mkdir(parents=True, exist_ok=True)
            shutil.copy2(path, copy, follow_symlinks=False)
    shutil.copytree("/usr/src/googletest", folder / "googletest", ignore=shutil.ignore_patterns("test", "docs", "samples"))
    if frontend:
        shutil.copytree(frontend, folder / "cudnn-frontend" / "include")  # whose files name that folder


def make(llmc, spec, small, archive, frontend=None, libraries=True):
    """`spec`: of the timed run, for CUDA in bf16; `small`: of the sanitizer's."""
    with tempfile.TemporaryDirectory() as scratch:
        top = pathlib.Path(scratch) / "llmc-kit"
        for name in KIT:
            source, copy = ROOT / name, top / name
            copy.parent.mkdir(parents=True, exist_ok=True)
            if source.is_dir():
                shutil.copytree(source, copy, ignore=shutil.ignore_patterns("__pycache__"))
            else:
                shutil.copy(source, copy)
        emit(llmc, spec, top / "bundles" / "run")
        emit(llmc, spec, top / "bundles" / "free", "deterministic=false")
        emit_portable(llmc, spec, top / "bundles")
        emit(llmc, small, top / "bundles" / "small")
        if libraries:
            third_party(top / "third_party", frontend)
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
    parser.add_argument("--cudnn-frontend", type=pathlib.Path, default=ROOT / "build" / "cudnn-frontend" / "include",
                        help="cudnn-frontend's headers (where llmc's build puts them)")
    parser.add_argument("-o", "--out", type=pathlib.Path, default=ROOT / "build" / "gpu-kit.tar.gz")
    a = parser.parse_args()
    if not a.llmc.exists():
        parser.error(f"there is no {a.llmc}; build it, or give --llmc PATH")
    frontend = a.cudnn_frontend if (a.cudnn_frontend / "cudnn_frontend.h").exists() else None
    if not frontend:
        print(f"no cudnn_frontend.h in {a.cudnn_frontend}: the GPU's machine must have it", file=sys.stderr)
    make(a.llmc.resolve(), a.spec, a.small, a.out, frontend)
    print(f"{a.out}: {a.out.stat().st_size >> 10} KiB")


if __name__ == "__main__":
    main()
