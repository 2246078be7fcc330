"""Describes this machine. Every probe is a process with a time limit: a failing or hanging one only loses its own
line."""

import concurrent.futures
import json
import os
import pathlib
import platform
import re
import shutil
import sys
import tempfile

import bundles
import process
import toolkit
from parts import OF_PYTORCH, PARTS

PROBE_SECONDS = 20
# A library's own version; NCCL's function takes an address and returns a status.
VERSION = """
import ctypes, sys
path, function = sys.argv[1:]
library = ctypes.CDLL(path)
if function.startswith("nccl"):
    value = ctypes.c_int()
    library.ncclGetVersion(ctypes.byref(value))
    print(value.value)
else:
    call = getattr(library, function)
    call.restype = ctypes.c_size_t
    print(call())
"""
FUNCTIONS = {"cublasLt": "cublasLtGetVersion", "cudnn": "cudnnGetVersion", "nccl": "ncclGetVersion"}
GPU = "name,driver_version,memory.total,memory.used,clocks.max.sm,power.limit,compute_cap"
HOPPER = "9.0"  # the kit's compute capability: prepare.py


def output(*words, environment=None):
    """Output of a command, or None."""
    try:
        return process.run(words, {**os.environ, **(environment or {})}, PROBE_SECONDS).strip()
    except process.Failed:
        return None


def last_line(text):
    return text.split("\n")[-1] if text else None


def library_version(piece):
    if not piece or not piece.library:
        return None
    folders = ":".join(filter(None, [str(piece.library.parent), os.environ.get("LD_LIBRARY_PATH")]))
    text = output(sys.executable, "-c", VERSION, piece.library, FUNCTIONS[piece.name],
                  environment={"LD_LIBRARY_PATH": folders})
    return int(text) if text and text.isdecimal() else None


def pytorch():
    """Output of quickstart_torch.py --look, or None."""
    text = last_line(
        output(sys.executable,
               pathlib.Path(__file__).resolve().parent.parent / "quickstart_torch.py", "--look"))
    try:
        return json.loads(text) if text else None
    except ValueError:
        return None


def nvcc():
    root = toolkit.toolkit_root()
    return last_line(output(root / "bin" / "nvcc", "--version")) if root else None


def gpu():
    text = output(*toolkit.smi(f"--query-gpu={GPU}", "--format=csv,noheader"))
    return text.split("\n")[0] if text else None


def describe():
    """For the report; None for unknown values."""
    pieces = toolkit.find(toolkit.toolkit_root(), toolkit.python_packages())
    probes = {"gpu": gpu, "nvcc": nvcc, **{name: lambda name=name: library_version(pieces[name]) for name in FUNCTIONS}}
    with concurrent.futures.ThreadPoolExecutor(len(probes)) as pool:
        waiting = {name: pool.submit(probe) for name, probe in probes.items()}
        found = {name: None if future.exception() else future.result() for name, future in waiting.items()}
    if found["gpu"]:  # without values that change between commands
        found["gpu"] = ", ".join(word for i, word in enumerate(found["gpu"].split(", ")) if i != 3)
    return {
        **found, "python": platform.python_version(), "host": platform.platform(), "cores": len(os.sched_getaffinity(0))
    }


def mount_of(path):
    """(mount point, file system, flags) of the mount that contains a path."""
    best = ("", "", "")
    for line in pathlib.Path("/proc/self/mounts").read_text().splitlines():
        _, where, kind, flags, *_ = line.split(" ")
        where = where.replace("\\040", " ")
        if (path == pathlib.Path(where) or pathlib.Path(where) in path.parents) and len(where) >= len(best[0]):
            best = (where, kind, flags)
    return best


def folder_line(path):
    try:
        existing = next(each for each in (path, *path.parents) if each.exists()).resolve()
        free = shutil.disk_usage(existing).free / 2**30
        where, kind, flags = mount_of(existing)
        flagged = ", NO PROGRAMS MAY BE EXECUTED" if "noexec" in flags.split(",") else ""
        return f"{path}: {free:,.1f} GiB free, {kind} at {where} ({flags}){flagged}"
    except (OSError, StopIteration) as error:
        return f"{path}: {error}"


def memory_line():
    rows = dict(re.findall(r"^(\w+): +(\d+) kB", pathlib.Path("/proc/meminfo").read_text(), re.MULTILINE))
    return f"{int(rows['MemAvailable']) / 2**20:,.1f} of {int(rows['MemTotal']) / 2**20:,.1f} GiB, {len(os.sched_getaffinity(0))} cores"


def piece_line(name, piece, version):
    if not piece:
        return f"{name}: MISSING"
    file = piece.library or piece.include / toolkit.PIECES[name][0]
    return f"{name}: {piece.where}, {file}" + (f", version {version}" if version else "")


def lacking(pieces, tools, frontend):
    """Requirements that the build lacks."""
    names = [name for name, piece in pieces.items() if not piece and name != "cudart"]  # linked statically
    return [*names, *(name for name in PARTS[0].tools if not tools[name]), *([] if frontend else ["cudnn-frontend"])]


def look(root, work):
    """This machine in lines, and for each part whether it would run."""
    made = bundles.Made(root / "bundles")
    folder = toolkit.toolkit_root()
    pieces = toolkit.find(folder, toolkit.python_packages())
    probes = {
        "gpu": gpu, "gpus": lambda: output("nvidia-smi", "-L"), "torch": pytorch, "nvcc": nvcc,
        **{name: lambda name=name: library_version(pieces[name])
           for name in FUNCTIONS}
    }
    words = {
        "cmake": ("cmake", "--version"), "ninja": ("ninja", "--version"), "g++": ("g++", "--version"),
        "compute-sanitizer": ("compute-sanitizer", "--version"), "cuobjdump": ("cuobjdump", "--version"), "ncu":
        ("ncu", "--version")
    }
    probes.update(
        {name: lambda each=each: output(toolkit.tool(each[0]) or each[0], *each[1:])
         for name, each in words.items()})
    with concurrent.futures.ThreadPoolExecutor(len(probes)) as pool:
        waiting = {name: pool.submit(probe) for name, probe in probes.items()}
        found = {name: None if future.exception() else future.result() for name, future in waiting.items()}
    tools = {name: found[name] for name in (*words, "nvcc")}
    third = root / "third_party"
    frontend = (third / "cudnn-frontend").is_dir()
    lines = [
        f"GPU: {found['gpu'] or 'NONE that nvidia-smi names'}", f"memory: {memory_line()}; {platform.platform()}",
        f"Python: {platform.python_version()} at {sys.executable}",
        f"PyTorch: {json.dumps(found['torch']) if found['torch'] else 'NONE with rms_norm that this Python imports'}",
        f"toolkit: {folder or 'NONE'}"
    ]
    for name, text in tools.items():
        number = re.search(r"\d+\.\d[\w.]*", text or "")
        lines.append(f"  {name}: {(number[0] if number else text.splitlines()[0]) if text else 'MISSING'}")
    lines += [f"  {piece_line(name, piece, found.get(name))}" for name, piece in pieces.items()]
    lines.append("  cudnn-frontend: " +
                 ("in the archive" if frontend else "NOT in the archive; looked for in this Python and the toolkit"))
    lines += ["folders:"] + [
        f"  {folder_line(path)}" for path in dict.fromkeys([
            work,
            pathlib.Path(tempfile.gettempdir()),
            pathlib.Path("/var/tmp"),
            pathlib.Path.cwd(),
            pathlib.Path("/dev/shm")
        ])
    ]
    lines += ["bundles:"] + [
        f"  {row.name}: {made.refusals[row.name] or row.what}" for row in bundles.BUNDLES if row.name in made.refusals
    ]
    lines.append("parts:")
    missing = lacking(pieces, tools, frontend)
    for part in PARTS:
        why = [name for name in part.tools if not tools[name]] + ([] if part.name in OF_PYTORCH else missing)
        why += ["PyTorch"] if part.name in OF_PYTORCH and not found["torch"] else []
        why += [] if found["gpu"] or part.name == "build" else ["a GPU"]
        why += [] if not found["gpu"] or found["gpu"].endswith(f" {HOPPER}") else [f"compute capability {HOPPER}"]
        why += ["a second GPU"] if part.gpus > 1 and toolkit.devices(found["gpus"] or "") < part.gpus else []
        lines.append(f"  {part.name}: " +
                     (f"LACKS {', '.join(dict.fromkeys(why))}" if why else f"would run, about {part.expected} s"))
    return "\n".join(lines)
