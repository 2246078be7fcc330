"""Takes an emitted step apart: builds the trainer with a clock around every kernel and every GEMM."""

import concurrent.futures
import json
import os
import pathlib
import re
import shutil
import statistics
import subprocess

from step_pieces import instrument

HERE = pathlib.Path(__file__).resolve().parent


def clock(name, product):
    return f'if (bench::Piece piece("{name}", {str(product).lower()}); piece.runs())'


def build(project, llmc, folder):
    """`project`: output of `llmc compile`. Returns the timed trainer's path."""
    folder.mkdir(parents=True, exist_ok=True)
    root = HERE.parent.parent
    help_text = subprocess.run([project / "trainer", "--help"], check=True, capture_output=True, text=True).stdout
    arch = re.search(r"compiled for (\S+)\.", help_text)[1]
    options = re.search(r'COMPILE_OPTIONS "([^"]*)"', (project / "CMakeLists.txt").read_text())[1]
    flags = [flag for flag in options.split(";") if not flag.startswith("-march")]
    (folder / "step.cpp").write_text(
        instrument((project / "step.cpp").read_text(), HERE / "quickstart_pieces.h", clock,
                   {"optimizer_step": "bench::StepEnd end;"}))
    compiler = (["ccache"] if shutil.which("ccache") else []) + [os.environ.get("CXX", "g++"), "-std=c++20"]
    includes = [f"-I{path}" for path in (project, root / "runtime", root)]
    kernel = compiler + flags + [f"-march={arch}"] + includes
    host = compiler + ["-O1", f'-DLLMC_ARCH="{arch}"'] + includes
    commands, objects = [], []
    for source in [
            folder / "step.cpp", project / "program.cpp", project / "texts.S", *sorted((project / "kernels").iterdir())
    ]:
        objects.append(folder / (source.stem + ".o"))
        ours = host if source.parent == project else kernel
        commands.append(ours + ["-c", source, "-o", objects[-1], "-Xassembler", f"-I{project}"])
    with concurrent.futures.ThreadPoolExecutor(os.cpu_count()) as pool:
        list(pool.map(lambda command: subprocess.run(command, check=True), commands))
    trainer = folder / "trainer"
    build = pathlib.Path(llmc).resolve().parent
    words = (build / "runtime-cpu.link").read_text().split()
    libraries = [word if word.startswith(("-", "/")) else build / word for word in words]  # llmc's own are relative
    subprocess.run(
        [*compiler[-2:], "-fopenmp", *objects, "-Wl,--start-group", *libraries, "-Wl,--end-group", "-o", trainer],
        check=True)
    specs = (project / "spec_directory").read_text().splitlines()[0]
    (folder / "spec_directory").write_text(f"{specs}\n{folder.resolve()}\n")
    return trainer


def read(path, steps, warmup):
    """Output of a timed trainer: `warmup` + `steps` whole steps, and as many of the GEMMs alone, alternating.

    Returns medians in ms without the warm-up, and the seconds of every whole step."""
    turns = 2 * (warmup + steps)
    data = {name: p
            for name, p in json.loads(path.read_text()).items() if len(p["seconds"]) >= turns - 1}  # not start-up's

    def median(products_only, first):
        each = [
            sum(p["seconds"][i] for p in data.values() if p["product"] or not products_only)
            for i in range(2 * warmup + first, turns, 2)
        ]
        return 1e3 * statistics.median(each)

    for p in data.values():
        p["seconds"] += [0.0] * (turns - len(p["seconds"]))  # the last turn has no kernels
    each = {
        name:
        {"ms": 1e3 * statistics.median(p["seconds"][2 * warmup:turns:2]), "calls": p["calls"], "product": p["product"]}
        for name, p in data.items()
    }
    seconds = [sum(p["seconds"][i] for p in data.values()) for i in range(0, turns, 2)]
    return {
        "pieces": dict(sorted(each.items(), key=lambda item: -item[1]["ms"])), "steps": seconds, "step_ms":
        median(False, 0), "products_ms": median(True, 0), "products_alone_ms": median(True, 1)
    }
