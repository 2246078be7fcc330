"""Trainers on the simulated GPU: llmc emits a project for CUDA, g++ compiles all of it against the stand-ins."""

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


# Of the same name as this file, so not importable by it.
runs = _load("runs_harness", os.path.join(SOURCE, "tests", "runs", "harness.py"))

LLMC = os.environ.get("LLMC_REAL", os.path.join(SOURCE, "build", "llmc"))
BUILT = os.environ.get("LLMC_SIM", os.path.join(SOURCE, "build", "tests", "sim"))  # kernel.flags, host.flags and trainer.link
TARGET = ("target.kind=cuda", "target.arch=[90a]")
REPORTED = 97  # a trainer's exit code when the simulator found it wrong: src/report.h

# The small spec of the CPU's tests, as far as cuDNN goes: bf16, heads of a multiple of 8.
SMALL = (runs.SMALL.replace("compute: fp32", "compute: bf16").replace("head_dim: 10", "head_dim: 8")
         .replace("kind: cpu, arch: native", "kind: cuda, arch: [90a], attention: cudnn"))


def _words(name):
    with open(os.path.join(BUILT, name)) as file:
        return file.read().split("\n")[:-1]


def compiler_words(kind, sources=SOURCE):
    """What g++ is called with for a `kernel`, for what runs on the `host`, or for `texts`, in the folder of its project."""
    if kind == "texts":
        return ["-I."]
    return [*_words(kind + ".flags"), "-I.", *("-I" + os.path.join(sources, name) for name in ("runtime", "", "templates"))]


def _run(*command, cwd=None):
    done = runs.call(*command, cwd=cwd)
    if done.code != 0:
        sys.exit(f"{' '.join(map(str, command))} exited with {done.code}:\n{done.out}{done.err}")


def compile(spec, folder, *arguments, edit=None, sources=SOURCE, rebuild=()):
    """Emits `spec` with further arguments of `llmc emit` into `folder`, and builds it there; the trainer's path.

    edit(folder): changes the emitted project before it is compiled. `sources`: a changed copy of the repository's runtime/
    and templates/, of which kernels use the headers and `rebuild` names the files of the runtime to compile again."""
    folder = os.path.abspath(folder)
    shutil.rmtree(folder, ignore_errors=True)
    _run(LLMC, "emit", spec, "-o", folder, *arguments, *TARGET)
    if edit:
        edit(folder)
    trainer = build(folder, sources, rebuild)
    with open(os.path.join(folder, "spec_directory"), "w") as file:  # as llmc compile does
        file.write(os.path.dirname(os.path.realpath(spec)) + "\n" + os.path.realpath(folder) + "\n")
    return trainer


def build(folder, sources=SOURCE, rebuild=()):
    """Compiles the emitted project in `folder` into its trainer."""
    os.makedirs(os.path.join(folder, "objects"), exist_ok=True)
    files = [("kernel", name) for name in sorted(glob.glob("kernels/*.cu", root_dir=folder))]
    files += [("host", "step.cu"), ("host", "program.cpp"), ("texts", "texts.S")]
    files += [("host", os.path.join(sources, "runtime", name)) for name in rebuild]
    commands = [[*compiler_words(kind, sources), "-c", name] for kind, name in files]
    objects = [os.path.join("objects", os.path.basename(command[-1]) + ".o") for command in commands]
    with concurrent.futures.ThreadPoolExecutor(2) as pool:
        # By relative names: ccache then knows a kernel again in another folder.
        list(pool.map(lambda pair: _run("g++", *pair[0], "-o", pair[1], cwd=folder), zip(commands, objects)))
    link("trainer", *objects, cwd=folder)
    return os.path.join(folder, "trainer")


def link(program, *words, cwd=None):
    """g++ with the simulator and the runtime after `words`."""
    _run("g++", "-o", program, *words, *_words("trainer.link"), cwd=cwd)


class SimTest(runs.RunTest):
    """A run test whose trainers are simulated. compile(spec, name, ...): into <folder>/<name>."""

    def compile(self, spec, name, *arguments, **options):
        return compile(spec, self.path(name), *arguments, **options)

    def reported(self, *command, **options):
        """What the simulator says of a program that it must find wrong."""
        done = runs.call(*command, **options)
        self.assertEqual(done.code, REPORTED, done.out + done.err)
        return done.err


main = runs.main
