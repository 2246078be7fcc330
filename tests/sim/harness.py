"""Trainers on the simulated GPU: llmc emits a project for CUDA, g++ compiles it against the stand-ins."""

import concurrent.futures
import glob
import importlib.util
import os
import shutil
import sys

SIM = os.path.dirname(os.path.abspath(__file__))
SOURCE = os.path.dirname(os.path.dirname(SIM))


def _load(name, path):
    spec = importlib.util.spec_from_file_location(name, path)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


sys.path.append(os.path.join(SOURCE, "tests", "runs"))
# Has the same name as this file, so it cannot be imported normally.
runs = _load("runs_harness", os.path.join(SOURCE, "tests", "runs", "harness.py"))

sys.path.insert(0, os.path.join(SOURCE, "tests", "mutations"))
import place  # noqa: E402

LLMC = os.environ.get("LLMC_REAL", os.path.join(SOURCE, "build", "llmc"))
BUILT = os.environ.get("LLMC_SIM", os.path.join(SOURCE, "build", "tests",
                                                "sim"))  # kernel.flags, host.flags and trainer.link
TARGET = ("target.kind=cuda", "target.arch=[90a]")
REPORTED = 97  # a trainer's exit code when the simulator found it wrong: src/report.h

# The small spec of the CPU's tests, adapted to cuDNN: bf16, heads of a multiple of 8.
SMALL = (runs.SMALL.replace("compute: fp32", "compute: bf16").replace("head_dim: 10", "head_dim: 8").replace(
    "kind: cpu, arch: native", "kind: cuda, arch: [90a], attention: cudnn"))
# Overrides of it: the least of a step, for runs of many.
SHORT = ("model.num_hidden_layers=2", "batch.micro_batch=1", "batch.tokens=48", "memory.loss_chunk=12")


def _words(name):
    with open(os.path.join(BUILT, name)) as file:
        return file.read().split("\n")[:-1]


def compiler_words(kind, sources=SOURCE):
    """g++ arguments for a `kernel`, for `host` code, or for `texts`, in the folder of its project."""
    if kind == "texts":
        return ["-I."]
    return [
        *_words(kind + ".flags"), "-I.", *("-I" + os.path.join(sources, name) for name in ("runtime", "", "templates"))
    ]


def call_compiler(kind, source, target, folder, sources=SOURCE, timeout=runs.HANGS):
    """g++'s exit code and output. A relative name lets ccache recognise a kernel in another folder. With -MD and
    CCACHE_DEPEND it does not preprocess what it has not seen, which takes a tenth of such a kernel's time. It would not
    see what texts include by .incbin, and take those of another run."""
    headers = [] if kind == "texts" else ["-MD"]
    return runs.call("g++", *compiler_words(kind, sources), *headers, "-c", source, "-o", target, cwd=folder,
                     env=runs.environment(CCACHE_DEPEND="1"), timeout=timeout)


def _run(*command, cwd=None):
    done = runs.call(*command, cwd=cwd)
    if done.code != 0:
        sys.exit(f"{' '.join(map(str, command))} exited with {done.code}:\n{done.out}{done.err}")


def compile(spec, folder, *arguments):
    """Emits `spec` with further arguments of `llmc emit` into `folder` and builds it; returns the trainer's path."""
    folder = os.path.abspath(folder)
    shutil.rmtree(folder, ignore_errors=True)
    _run(LLMC, "emit", spec, "-o", folder, *arguments, *TARGET)
    return build(folder, spec)


def changed(project, spec, folder, files, sources=SOURCE, edit=None):
    """Builds a trainer in `folder` that differs from the one in `project` only by `files`; returns its path. `files`,
    of the project or (runtime/...) of the runtime, are recompiled with `sources`, a modified copy of the
    repository's runtime/ and templates/, after edit(folder), which modifies the copied project."""
    folder = os.path.abspath(folder)
    shutil.copytree(project, folder)
    if edit:
        edit(folder)
    return build(folder, spec, files, sources)


def _without_header(path):
    """Empties the comment that begins an emitted kernel. It names the run and its counts; without it equal kernels of
    two runs share an object in ccache, as those of llmc compile do. Lines keep their numbers."""
    with open(path) as file:
        lines = file.read().split("\n")
    end = next(at for at, line in enumerate(lines) if not line.startswith("//"))
    with open(path, "w") as file:
        file.write("\n".join(["//"] * end + lines[end:]))


def build(folder, spec, files=None, sources=SOURCE):
    """Compiles `files` (default: all) of the emitted project in `folder` and links its trainer."""
    os.makedirs(os.path.join(folder, "objects"), exist_ok=True)
    if files is None:
        files = [*sorted(glob.glob("kernels/*.cu", root_dir=folder)), "step.cu", "program.cpp", "texts.S"]

    def compiled(name):
        kind = "kernel" if name.startswith("kernels/") else "texts" if name.endswith(".S") else "host"
        if kind == "kernel":
            _without_header(os.path.join(folder, name))
        path = os.path.join(sources, name) if name.startswith("runtime/") else name
        target = os.path.join("objects", os.path.basename(name) + ".o")
        done = call_compiler(kind, path, target, folder, sources)
        if done.code != 0:
            sys.exit(f"g++ of {path} in {folder} exited with {done.code}:\n{done.err}")

    with concurrent.futures.ThreadPoolExecutor(2) as pool:
        list(pool.map(compiled, files))
    link("trainer", *sorted(glob.glob("objects/*.o", root_dir=folder)), cwd=folder)
    with open(os.path.join(folder, "spec_directory"), "w") as file:  # as in llmc compile
        file.write(os.path.dirname(os.path.realpath(spec)) + "\n" + os.path.realpath(folder) + "\n")
    return os.path.join(folder, "trainer")


def changed_sources(folder, file, before, after):
    """A copy of the runtime and the templates in `folder`, in which `before`, which occurs once in <file>, is replaced
    by `after`."""
    for part in ("runtime", "templates"):
        shutil.copytree(os.path.join(SOURCE, part), os.path.join(folder, part))
    path = os.path.join(folder, file)
    place.put(path, place.with_fault(path, before, after)[1])
    return folder


def link(program, *words, cwd=None):
    """Links `words` with the simulator and the runtime by g++."""
    _run("g++", "-o", program, *words, *_words("trainer.link"), cwd=cwd)


class SimTest(runs.RunTest):
    """A run test with simulated trainers. compile(spec, name, ...): into <folder>/<name>."""

    def compile(self, spec, name, *arguments):
        return compile(spec, self.path(name), *arguments)

    def reported(self, *command, **options):
        """The simulator's report on a program that it must reject."""
        done = runs.call(*command, **options)
        self.assertEqual(done.code, REPORTED, done.out + done.err)
        return done.err


main = runs.main
