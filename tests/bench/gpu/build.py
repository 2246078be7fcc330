"""Builds bundles, each in up to three ways: as it is, with clocks in its step, and beside it the kit's own programs."""

import concurrent.futures
import importlib.util
import os
import pathlib
import re
import shutil
import sys

HERE = pathlib.Path(__file__).resolve().parent
ROOT = HERE.parents[2]
sys.path[:0] = [str(HERE.parent)]
from step_pieces import instrument  # noqa: E402


# Bundle -> the programs that the parts run.
PROGRAMS = {"run": ["trainer", "timed", "hosted"], "free": ["timed"], "portable": ["timed"], "small": ["trainer"]}


def refusal(bundles, name):
    """Why prepare.py could not make a bundle; None where it did."""
    path = bundles / f"{name}.refused"
    return path.read_text() if path.exists() else None


def programs(bundles):
    return {name: wanted for name, wanted in PROGRAMS.items() if not refusal(bundles, name)}


def timed_step(source):
    return instrument(
        source, HERE / "pieces.h", lambda name, product: f'for (bench::Piece piece(s.stream, "{name}"); piece.again();)',
        {"optimizer_step": "bench::StepEnd end;", "destroy_step": "bench::Pieces::get().write();"})


def timed_replay(source):
    """The runtime's replay of graphs with a clock around the host's part."""
    opening = "void Replay::run(const std::function<void()>& work) {"
    if source.count(opening) != 1:
        raise RuntimeError("the runtime's replay.cpp no longer has the form that build.py knows")
    return f'#include "{HERE}/pieces.h"\n' + source.replace(opening, opening + " bench::HostPart part;")


def add_clocks(folder):
    """Into a copied bundle: a step with clocks, and the CUDA runtime's replay with one."""
    (folder / "timed").mkdir()
    (folder / "timed" / "step.cu").write_text(timed_step((folder / "step.cu").read_text()))
    (folder / "timed" / "replay.cpp").write_text(timed_replay((folder / "runtime" / "device" / "cuda" / "replay.cpp").read_text()))


def python_library(name):
    """The folder of an nvidia-* package of this Python, such as nvidia/cudnn, or None."""
    spec = importlib.util.find_spec("nvidia")
    for folder in (spec.submodule_search_locations or []) if spec else []:
        if (pathlib.Path(folder) / name / "include").is_dir():
            return pathlib.Path(folder) / name
    return None


class Gpu:
    """With nvcc, by the bundle's own CMakeLists.txt."""

    def __init__(self, bundles, work, call):
        self.bundles, self.work, self.call = bundles, work, call
        self.third = ROOT / "third_party"
        libraries = str(self.third / "usr" / "lib" / "x86_64-linux-gnu")
        # What the carried libraries need of each other is found by the linker and at start.
        self.environment = {**os.environ, "CPATH": str(self.third / "usr" / "include"), "LIBRARY_PATH": libraries,
                            "LD_LIBRARY_PATH": ":".join(filter(None, [libraries, os.environ.get("LD_LIBRARY_PATH")]))}

    def options(self):
        """For CMake: where libraries are that a machine for PyTorch has in odd places, or not at all."""
        found = [f"-DCMAKE_PREFIX_PATH={self.third / 'usr'}", f"-DLLMC_KIT={ROOT}",
                 "-DDNNL_LIBRARY=dnnl"]  # of the CPU's runtime, which is not built
        if (self.third / "cudnn-frontend").is_dir():
            found.append(f"-DCUDNN_FRONTEND_INCLUDE_DIR={self.third / 'cudnn-frontend' / 'include'}")
        for name, variable in (("cudnn", "CUDNN"), ("nccl", "NCCL")):
            folder = python_library(name)
            if folder:
                library = next(iter(sorted((folder / "lib").glob(f"lib{name}.so*"))), None)
                found += [f"-D{variable}_INCLUDE_DIR={folder / 'include'}", f"-D{variable}_LIBRARY={library}"]
        return found

    def one(self, name, targets):
        folder = self.work / name
        shutil.rmtree(folder, ignore_errors=True)
        shutil.copytree(self.bundles / name, folder)
        add_clocks(folder)
        with (folder / "CMakeLists.txt").open("a") as file:
            file.write('include("${LLMC_KIT}/tests/bench/gpu/kit.cmake")\n')
        self.call("cmake", "-G", "Ninja", "-S", folder, "-B", folder / "build", *self.options(), env=self.environment)
        self.call("cmake", "--build", folder / "build", "--target", *targets, env=self.environment)

    def build(self):
        wanted = programs(self.bundles)
        tests = ["test_cuda_gpu"] if (self.third / "googletest").is_dir() else []
        wanted["run"] = [*wanted["run"], "ceilings", *tests]
        with concurrent.futures.ThreadPoolExecutor(len(wanted)) as pool:
            list(pool.map(lambda item: self.one(*item), wanted.items()))

    def program(self, bundle, name):
        return self.work / bundle / "build" / name

    def tests(self):
        if not (self.third / "googletest").is_dir():
            raise RuntimeError("the archive has no GoogleTest sources, so the tests were not built")
        return [self.program("run", "test_cuda_gpu")]


class Simulated:
    """With g++, against tests/sim's stand-ins, out of llmc's build folder. The numbers mean nothing."""

    def __init__(self, bundles, work, built):
        self.bundles, self.work, self.built, self.environment = bundles, work, pathlib.Path(built).resolve(), dict(os.environ)

    def build(self):
        os.environ["LLMC_SIM"] = str(self.built)
        cache = (self.built.parents[1] / "CMakeCache.txt").read_text()
        source = pathlib.Path(re.search(r"CMAKE_HOME_DIRECTORY:INTERNAL=(.*)", cache)[1])
        specification = importlib.util.spec_from_file_location("sim_harness", source / "tests" / "sim" / "harness.py")
        harness = importlib.util.module_from_spec(specification)
        specification.loader.exec_module(harness)
        for name, program in ((name, program) for name, wanted in programs(self.bundles).items() for program in wanted):
            folder = self.work / name / program
            shutil.copytree(self.bundles / name, folder)
            rebuild = []
            if program != "trainer":
                add_clocks(folder)
                shutil.copy(folder / "timed" / "step.cu", folder)
                shutil.copy(folder / "timed" / "replay.cpp", folder / "runtime" / "device" / "cuda")
                rebuild = [f"device/{'cpu' if program == 'timed' else 'cuda'}/replay.cpp"]
            harness.build(str(folder), str(folder), rebuild)
        words = [word for word in harness.kernel_words() if word.startswith("-I")]
        harness.link(str(self.work / "ceilings"), "-std=c++20", "-O1", *words, str(HERE / "ceilings.cpp"))

    def program(self, bundle, name):
        return self.work / name if name == "ceilings" else self.work / bundle / name / "trainer"

    def tests(self):
        return [self.built / "test_sim_runtime", "--gtest_filter=CudaDevice_gpu.*:GemmErrors_gpu.*"]
