"""Builds the bundles' programs, a trainer as it is and two with clocks, and the kit's own.

`timed` launches each kernel itself, by the CPU's Replay, so that events lie between them; `hosted` replays graphs,
with a clock around that. All programs of all bundles share the runtime, and equal kernels."""

import concurrent.futures
import hashlib
import importlib.util
import itertools
import os
import pathlib
import re
import shutil
import sys

import process
import toolkit

HERE = pathlib.Path(__file__).resolve().parent
ROOT = HERE.parents[2]
sys.path[:0] = [str(HERE.parent)]
from step_pieces import instrument  # noqa: E402


def timed_step(source):
    return instrument(source, HERE / "pieces.h",
                      lambda name, product: f'for (bench::Piece piece(s.stream, "{name}"); piece.again();)',
                      {"optimizer_step": "bench::StepEnd end;", "destroy_step": "bench::Pieces::get().write();"})


def timed_replay(source):
    """The runtime's replay of graphs with a clock around the host's part."""
    opening = "void Replay::run(const std::function<void()>& work, bool eager) {"
    if source.count(opening) != 1:
        raise RuntimeError("the runtime's replay.cpp no longer has the form that build.py knows")
    return f'#include "{HERE}/pieces.h"\n' + source.replace(opening, opening + " bench::HostPart part;")


OF_THE_KIT = ("ceilings", "rates", "heads", "collectives")  # its own programs, of the bundle `run`'s runtime
# Parts without a stand-in on the simulated GPU: fp8 formats, SMs that a GEMM leaves to a copy, shapes of a large run.
NOT_SIMULATED = (("run", "rates"), ("run", "heads"), ("run", "tests"))  # llmc's own build has its tests


def body(path):
    """A kernel's file without its first comment, which names its run in one line or two: equal bodies are equal
    kernels."""
    lines = path.read_text().split("\n")
    return "\n".join(itertools.dropwhile(lambda line: line.startswith("//"), lines))


def wanted_programs(made):
    """(bundle, program) for everything except the kit's own programs and tests."""
    return [(row.name, program) for row in made.rows() for program in row.programs]


class Machine:
    """Programs in `work`/bin/BUNDLE/, from the unpacked archive's bundles."""

    def __init__(self, made, work):
        self.made, self.work, self.environment = made, work, dict(os.environ)

    def program(self, bundle, name):
        return self.work / "bin" / bundle / name

    def missing(self, programs):
        return [each for each in programs if not self.program(*each).exists()]

    def write_clocks(self):
        """Writes the steps and the replay with clocks; unchanged files are left alone."""
        for row in self.made.rows():
            if "timed" in row.programs:
                self.write(self.clocked_step(row.name), timed_step(
                    (self.made.folder / row.name / "step.cu").read_text()))
        replay = self.made.folder / "run" / "runtime" / "device" / "cuda" / "replay.cpp"
        self.write(self.work / "clocks" / "replay.cpp", timed_replay(replay.read_text()))

    def clocked_step(self, bundle):
        return self.work / "clocks" / bundle / "step.cu"

    @staticmethod
    def write(path, text):
        path.parent.mkdir(parents=True, exist_ok=True)
        if not path.exists() or path.read_text() != text:
            path.write_text(text)

    def complain(self, programs, said):
        missing = self.missing(programs)
        if missing:
            raise RuntimeError(f"not built: {', '.join(f'{bundle}/{name}' for bundle, name in missing)}; {said}")


class Gpu(Machine):
    """Builds with nvcc at once: the CMakeLists.txt of the bundle `run` with kit.cmake at its end."""

    def __init__(self, made, work, call):
        super().__init__(made, work)
        self.call, self.third = call, ROOT / "third_party"
        libraries = self.third / "usr" / "lib" / "x86_64-linux-gnu"
        self.links = toolkit.Links(toolkit.find(toolkit.toolkit_root(), toolkit.python_packages()), work / "toolkit")
        before = {**os.environ, "CPATH": str(self.third / "usr" / "include")}
        for name in ("LIBRARY_PATH", "LD_LIBRARY_PATH"):  # the carried libraries' dependencies are found there
            before[name] = ":".join(filter(None, [str(libraries), os.environ.get(name)]))
        self.environment = self.links.environment(before)

    def options(self):
        """CMake options: locations that differ or are missing on a machine set up for PyTorch."""
        found = [
            f"-DCMAKE_PREFIX_PATH={self.third / 'usr'}", f"-DKIT_ROOT={ROOT}", f"-DKIT_BIN={self.work / 'bin'}",
            "-DDNNL_LIBRARY=dnnl"
        ]  # of the CPU's runtime, which is not built
        if (self.third / "cudnn-frontend").is_dir():
            found.append(f"-DCUDNN_FRONTEND_INCLUDE_DIR={self.third / 'cudnn-frontend' / 'include'}")
        root = toolkit.toolkit_root()
        if root:
            found.append(f"-DCMAKE_CUDA_COMPILER={root / 'bin' / 'nvcc'}")
        return found + self.links.options()

    def script(self):
        """Content of kit-programs.cmake."""
        lines, kernels = [], {}
        for row in self.made.rows():
            folder = self.made.folder / row.name
            text = (folder / "CMakeLists.txt").read_text()
            options = re.search(r"target_compile_options\(trainer PRIVATE (.*)\)", text)[1]

            def objects(name, *sources, folder=folder, options=options):
                files = " ".join(f'"{source}"' for source in sources)
                lines.append(f'kit_objects({name} "{folder}" OPTIONS {options} SOURCES {files})')
                return name

            shared = []
            for path in sorted((folder / "kernels").iterdir()):
                key = hashlib.sha256((options + body(path)).encode()).hexdigest()[:12]
                if key not in kernels:
                    kernels[key] = objects(f"{path.stem}-{key}", path)
                shared.append(kernels[key])
            shared.append(objects(f"{row.name}-texts", folder / "program.cpp", folder / "texts.S"))
            if "trainer" in row.programs:
                step = objects(f"{row.name}-step", folder / "step.cu")
                lines.append(f"kit_program({row.name} trainer OBJECTS {' '.join(shared)} {step})")
            if "timed" in row.programs:
                clocked = objects(f"{row.name}-clocked", self.clocked_step(row.name))
                replays = {
                    "timed": "${LLMC_RUNTIME}/device/cpu/replay.cpp", "hosted": self.work / "clocks" / "replay.cpp"
                }
                lines += [
                    f"kit_program({row.name} {program} OBJECTS {' '.join(shared)} {clocked} SOURCES \"{replay}\")"
                    for program, replay in replays.items() if program in row.programs
                ]
        # Objects come before the programs linked from them.
        return "\n".join(sorted(lines, key=lambda line: line.startswith("kit_program"))) + "\n"

    def configure(self):
        folder = self.work / "sources" / "run"
        cache = folder / "build" / "CMakeCache.txt"
        if (folder / "build" /
                "build.ninja").exists() and f"={ROOT}\n" in cache.read_text():  # of this unpacked archive
            return
        shutil.rmtree(folder, ignore_errors=True)
        shutil.copytree(self.made.folder / "run", folder)
        self.write_clocks()
        self.write(folder / "kit-programs.cmake", self.script())
        with (folder / "CMakeLists.txt").open("a") as file:
            file.write('include("${KIT_ROOT}/tests/bench/gpu/kit.cmake")\n')
        self.call("cmake", "-G", "Ninja", "-S", folder, "-B", folder / "build", *self.options())

    def build(self, programs):
        if ("run", "tests") in programs and not (self.third / "googletest").is_dir():
            raise RuntimeError("the archive has no GoogleTest sources, so the tests cannot be built")
        self.configure()
        targets = [f"{bundle}-{name}" for bundle, name in programs]
        try:
            self.call("ninja", "-C", self.work / "sources" / "run" / "build", "-k", "0", *targets)
        except process.Failed as error:
            self.complain(programs, str(error))

    def tests(self):
        return [self.program("run", "tests")]

    def devices(self):
        return toolkit.devices(self.call("nvidia-smi", "-L"))


class Simulated(Machine):
    """Builds with g++ against tests/sim's stand-ins, from llmc's build folder. The numbers mean nothing."""

    def __init__(self, made, work, built):
        super().__init__(made, work)
        self.built = pathlib.Path(built).resolve()

    def harness(self):
        os.environ["LLMC_SIM"] = str(self.built)
        cache = (self.built.parents[1] / "CMakeCache.txt").read_text()
        source = pathlib.Path(re.search(r"CMAKE_HOME_DIRECTORY:INTERNAL=(.*)", cache)[1])
        specification = importlib.util.spec_from_file_location("sim_harness", source / "tests" / "sim" / "harness.py")
        harness = importlib.util.module_from_spec(specification)
        specification.loader.exec_module(harness)
        return harness

    def build(self, programs):
        programs = [each for each in programs if each not in NOT_SIMULATED]
        self.write_clocks()
        harness = self.harness()
        objects, links = {}, []  # (kind, content, folder for all but kernels) -> (number of the object, source, folder)

        def compiled(kind, source, folder):
            content = body(source) if kind == "kernel" else (source, folder)
            objects.setdefault((kind, content), (len(objects), source, folder))
            return self.work / "objects" / f"{objects[kind, content][0]}-{source.name}.o"

        for bundle, name in programs:
            folder = self.made.folder / bundle
            needs = []
            if name in OF_THE_KIT:
                needs.append(compiled("host", HERE / f"{name}.cpp", HERE))
            else:
                step = folder / "step.cu" if name == "trainer" else self.clocked_step(bundle)
                needs += [compiled("kernel", path, folder) for path in sorted((folder / "kernels").iterdir())]
                needs += [
                    compiled("host", step, folder),
                    compiled("host", folder / "program.cpp", folder),
                    compiled("texts", folder / "texts.S", folder)
                ]
                if name != "trainer":
                    replay = self.work / "clocks" / "replay.cpp"
                    if name == "timed":
                        replay = self.made.folder / "run" / "runtime" / "device" / "cpu" / "replay.cpp"
                    needs.append(compiled("host", replay, self.made.folder / "run"))
            links.append((bundle, name, needs))

        (self.work / "objects").mkdir(exist_ok=True)
        said = []

        def compile_one(item):
            (kind, _), (number, source, folder) = item
            target = self.work / "objects" / f"{number}-{source.name}.o"
            target.unlink(missing_ok=True)
            # A relative name if possible, for ccache.
            name = source.relative_to(folder) if source.is_relative_to(folder) else source
            done = harness.call_compiler(kind, name, target, folder, timeout=3000)
            if done.code:
                said.append(done.err[-1500:])

        with concurrent.futures.ThreadPoolExecutor(2) as pool:
            list(pool.map(compile_one, objects.items()))
        for bundle, name, needs in links:
            if all(path.exists() for path in needs):
                self.program(bundle, name).parent.mkdir(parents=True, exist_ok=True)
                harness.link(str(self.program(bundle, name)), *map(str, needs))
        self.complain(programs, "\n".join(said))

    def tests(self):
        return [self.built / "test_sim_runtime", "--gtest_filter=CudaDevice_gpu.*:GemmErrors_gpu.*"]

    @staticmethod
    def devices():
        return int(os.environ.get("LLMC_SIM_GPUS", 1))

    def missing(self, programs):
        return super().missing([each for each in programs if each not in NOT_SIMULATED])
