"""The GPU benchmark kit without a GPU: its archive from a clean copy of the sources, its search for CUDA's libraries,
its description of a machine. tests/sim/bench_kit.py tests its measurements."""

import json
import os
import pathlib
import re
import shutil
import subprocess
import sys
import tarfile
from unittest import mock

import harness
from harness import LLMC, SOURCE, RunTest

KIT = pathlib.Path(SOURCE, "tests", "bench", "gpu")
sys.path.insert(0, str(KIT))
sys.dont_write_bytecode = True
import build as builds  # noqa: E402
import bundles  # noqa: E402
import card  # noqa: E402
import floors  # noqa: E402
import parts  # noqa: E402
import process  # noqa: E402
import pytorch  # noqa: E402
import raw  # noqa: E402
import run as command  # noqa: E402
import steps  # noqa: E402
import third_party  # noqa: E402
import toolkit  # noqa: E402
import training  # noqa: E402


def clean_copy(folder):
    """The sources as in a clone, including uncommitted changes."""
    listed = subprocess.run(["git", "-C", SOURCE, "ls-files", "-z", "--cached", "--others", "--exclude-standard"],
                            capture_output=True, text=True)
    if listed.returncode == 0:
        for name in filter(None, listed.stdout.split("\0")):
            source, target = os.path.join(SOURCE, name), os.path.join(folder, name)
            if os.path.exists(source):
                os.makedirs(os.path.dirname(target), exist_ok=True)
                shutil.copy(source, target)
    else:  # no repository
        shutil.copytree(SOURCE, folder, dirs_exist_ok=True,
                        ignore=shutil.ignore_patterns("build*", ".git", "__pycache__"))


def needed(library):
    output = subprocess.run(["readelf", "-d", library], check=True, capture_output=True, text=True).stdout
    return re.findall(r"\(NEEDED\).*\[(.*)\]", output)


class GpuKit(RunTest):

    def unpacked(self, archive, name):
        with tarfile.open(archive) as file:
            file.extractall(self.path(name))
        return pathlib.Path(self.path(name, "llmc-kit"))

    def test_the_archive_of_a_clean_copy(self):
        """Without a build folder, cudnn-frontend or anything else that only this checkout has."""
        clone = self.path("clone")
        os.makedirs(clone)
        clean_copy(clone)
        archive = self.path("kit.tar.gz")
        done = self.succeed(sys.executable, os.path.join(clone, "tests", "bench", "gpu", "prepare.py"), "--llmc", LLMC,
                            "-o", archive, env=harness.environment(LLMC_HOME=clone))
        self.assertIn("no cudnn_frontend.h", done.err)
        top = self.unpacked(archive, "unpacked")
        made = bundles.Made(top / "bundles")
        self.assertEqual(made.refusals, {row.name: "" for row in bundles.BUNDLES if row.name in made.refusals})
        schema = json.loads(self.succeed(LLMC, "schema").out)
        self.assertEqual(set(made.refusals), {row.name for row in bundles.BUNDLES if bundles.known(schema, row.key)})
        for row in made.rows():
            self.assertTrue((top / "bundles" / row.name / "step.cu").is_file(), row.name)
            self.assertEqual((top / "bundles" / row.name / "runtime").is_dir(), row.name == "run")
        cluster = (top / "bundles" / "wide" / "kernels" / "cross_entropy_gradient.cu").read_text()
        self.assertRegex(cluster, r"kCluster = [248],")
        for header, library in (("fmt/core.h", "libfmt.so"), ("xxhash.h", "libxxhash.so"), ("CLI/CLI.hpp", None),
                                ("nlohmann/json.hpp", None), ("sentencepiece_processor.h",
                                                              "libsentencepiece.so"), ("utf8proc.h", "libutf8proc.so")):
            self.assertTrue((top / "third_party" / "usr" / "include" / header).is_file(), header)
            if library:
                found = list((top / "third_party" / "usr" / "lib").rglob(library))
                self.assertEqual(len(found), 1, library)
                self.assertTrue(found[0].resolve().is_relative_to(top.resolve()), "a link leaves the archive")
        # Every library's dependencies are in the archive, or come with a compiler.
        carried = {path.name: path for path in (top / "third_party").rglob("*.so*")}
        self.assertGreater(len(carried), 6)
        for path in carried.values():
            self.assertTrue(path.exists(), f"{path} leads nowhere")
            for name in needed(path):
                self.assertTrue(name in carried or third_party.OF_THE_COMPILER.fullmatch(name),
                                f"{path.name} needs {name}")
        self.check_counts(made)
        self.check_look(top)

    def check_look(self, top):
        look = self.succeed(sys.executable, top / "tests" / "bench" / "gpu" / "run.py", "--look").out
        for line in (r"memory: [\d,.]+ of [\d,.]+ GiB, \d+ cores", r"  g\+\+: \d+\.", "  cublasLt: ",
                     "  run: as the spec has it", "  /dev/shm: "):
            self.assertRegex(look, "(?m)^" + line)
        for part in parts.PARTS:
            self.assertRegex(look, rf"(?m)^  {part.name}: (would run, about {part.expected} s|LACKS .+)$")

    def test_a_package_that_is_not_installed_is_named(self):
        with self.assertRaisesRegex(SystemExit, "libnowhere-dev: ./setup.sh installs it"):
            third_party.packaged("libnowhere-dev")

    def library(self, path, text):
        """A shared library whose function probe() returns `text`."""
        path.parent.mkdir(parents=True, exist_ok=True)
        source = path.with_suffix(".c")
        source.write_text(
            f'const char* probe_{re.sub("[^a-z]", "", path.name.split(".")[0])}(void) {{ return "{text}"; }}\n')
        self.succeed("gcc", "-shared", "-fPIC", f"-Wl,-soname,{path.name}", source, "-o", path)
        source.unlink()

    def header(self, path, text):
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(f'#define {re.sub("[^A-Z]", "", path.name.upper())}_FROM "{text}"\n')

    def test_libraries_of_python_packages(self):
        """CUDA 13's packages: nvidia/cu13/{include,lib} with libX.so.13 only; cuDNN and NCCL have separate folders."""
        root, site = pathlib.Path(self.path("toolkit")), pathlib.Path(self.path("site", "nvidia"))
        nowhere = pathlib.Path(self.path("nowhere"))
        for name in ("cuda_runtime.h", "nvrtc.h"):
            self.header(root / "include" / name, "toolkit")
        self.library(root / "lib64" / "libcudart.so", "toolkit")
        self.library(root / "lib64" / "libcudnn.so.9", "toolkit")
        self.header(root / "include" / "cudnn_graph.h", "toolkit")
        (root / "lib64" / "libcudart_static.a").write_bytes(b"!<arch>\n")
        for name in ("cublasLt.h", "nvrtc.h", "cuda_runtime.h", "nvtx3/nvToolsExt.h"):
            self.header(site / "cu13" / "include" / name, "python")
        for name in ("libcublasLt.so.13", "libnvrtc.so.13", "libcudart.so.13"):
            self.library(site / "cu13" / "lib" / name, "python")
        self.library(site / "cudnn" / "lib" / "libcudnn.so.9", "python")
        self.header(site / "cudnn" / "include" / "cudnn_graph.h", "python")
        before = {path: path.stat().st_mtime_ns for path in site.rglob("*")}

        found = toolkit.find(root, [site], nowhere)
        self.assertEqual(
            {name: piece and piece.where
             for name, piece in found.items()},
            {
                "cudart": "toolkit",
                "cudart_static": "toolkit",
                "cublasLt": "Python's nvidia/cu13",
                "nvrtc": "Python's nvidia/cu13",  # the toolkit has its header, but no library
                "nvtx": "Python's nvidia/cu13",
                "cudnn": "Python's nvidia/cudnn",
                "nccl": None
            })
        links = toolkit.Links(found, pathlib.Path(self.path("links")))
        options = dict(word[2:].split("=") for word in links.options())
        self.assertEqual(set(options),
                         {"CUDA_cublasLt_LIBRARY", "CUDA_nvrtc_LIBRARY", "CUDNN_LIBRARY", "CUDNN_INCLUDE_DIR"})
        self.assertEqual({path: path.stat().st_mtime_ns
                          for path in site.rglob("*")}, before, "nothing is written into Python's packages")

        program = pathlib.Path(self.path("program.cpp"))
        headers = ("cublasLt.h", "nvtx3/nvToolsExt.h", "cuda_runtime.h", "cstdio")
        program.write_text(
            "".join(f"#include <{name}>\n" for name in headers) +
            'extern "C" const char *probe_libcublast(), *probe_libnvrtc(), *probe_libcudart();\n'
            'int main() { std::puts(CUBLASLTH_FROM); std::puts(CUDARUNTIMEH_FROM); std::puts(probe_libcublast());'
            ' std::puts(probe_libnvrtc()); std::puts(probe_libcudart()); }\n')
        environment = links.environment(harness.environment())
        # Same as in a bundle's build: CMake gets the paths, -isystem the toolkit's headers.
        self.succeed("g++", program, "-isystem", root / "include", options["CUDA_cublasLt_LIBRARY"], "-lnvrtc",
                     root / "lib64" / "libcudart.so", "-o", self.path("program"), env=environment)
        environment["LD_LIBRARY_PATH"] += f":{root / 'lib64'}"
        self.assertEqual(
            self.succeed(self.path("program"), env=environment).out.split(),
            ["python", "toolkit", "python", "python", "toolkit"])

        # Before CUDA 13 each package had a folder.
        old = pathlib.Path(self.path("old", "nvidia"))
        self.header(old / "cublas" / "include" / "cublasLt.h", "old")
        self.library(old / "cublas" / "lib" / "libcublasLt.so.12", "old")
        self.assertEqual(toolkit.find(root, [old], nowhere)["cublasLt"].where, "Python's nvidia/cublas")
        self.assertIsNone(toolkit.find(None, [], nowhere)["cublasLt"])

    def test_the_readme_has_the_table_of_parts(self):
        text = (KIT / "README.md").read_text()
        rows = re.findall(r"^\| (\w+) \|.*\| (\d+) s \| (\d+) s \|.*\|$", text, re.MULTILINE)
        self.assertEqual(rows, [(part.name, str(part.expected), str(part.limit)) for part in parts.PARTS])
        first, last = (sum(part.expected for part in some) for some in (parts.FIRST, parts.SECOND))
        self.assertIn(f"The first {len(parts.FIRST)} take {first} s, the others {last} s", text)
        several = sum(part.expected for part in parts.PARTS if part.gpus > 1)
        self.assertIn(f"of which devices take {several} on several GPUs and none on one", text)
        self.assertLessEqual(max(first, last - several), 540 - command.ENDING)

    def check_counts(self, made):
        """Compilations and tuned bundles, as the README counts them."""
        text = (KIT / "README.md").read_text()
        machine = mock.Mock(made=made, work=pathlib.Path(self.path("work-of-no-build")))
        names, sources = zip(*re.findall(r"kit_objects\((\S+) .* SOURCES (.*)\)", builds.Gpu.script(machine)))
        self.assertEqual(len(set(names)), len(names))
        kernels = {builds.body(path) for row in made.rows() for path in (made.folder / row.name / "kernels").iterdir()}
        (said, of_kernels), = re.findall(r"about (\d+) compilations of the bundles' files, of which (\d+) are kernels",
                                         text)
        self.assertAlmostEqual(int(said), sum(len(each.split()) for each in sources), delta=15)
        self.assertAlmostEqual(int(of_kernels), len(kernels), delta=15)
        tuned, own = ["run"], {"step": 0, "variants": 0}
        for part, row in [("step", row) for row in made.rows() if row.step] + [("variants", row)
                                                                               for row in made.rows() if row.later]:
            if not steps.covered(made.plan(row.name), map(made.plan, tuned)):
                tuned.append(row.name)
                own[part] += 1
        for part, number in own.items():
            self.assertRegex(text, rf"(?m)^\| {part} \|.* {number} tune products of their own \|$")
        self.assertIn("fp8_fast", tuned)

    def test_a_command_ends_within_its_minutes(self):
        """A last part that does not end by itself gets the time that is left, without that for stopping it."""
        part = parts.Part("tune", None, 100, 600)
        kit = mock.Mock(simulated=False, results={"tune": {}})
        a = mock.Mock(minutes=9.0, only=["tune"])
        with mock.patch.multiple(command, order=lambda *_: [part], write_report=lambda *_: "",
                                 time=mock.Mock(monotonic=lambda: 300.0)):
            command.measure(kit, a, {}, {"tune": 600}, 0.0)
        kit.run.assert_called_once_with(part, 540 - 300 - command.ENDING)
        self.assertGreater(command.ENDING, 10)  # process.stop_descendants()

    def test_the_floors_of_the_large_run(self):
        """GB per micro-batch (per step for the last two) of perfectly fused kernels, with the formulas computed by
        hand."""
        folder = pathlib.Path(SOURCE, "generated", "llama-1b")
        plan, model = (json.loads((folder / name).read_text()) for name in ("plan.json", "config.json"))
        narrow = json.loads(json.dumps(plan))
        for kernel in narrow["kernels"]:
            kernel["params"].pop("Residual", None)  # a residual stream in bf16
        rows = {what: round(bytes / 1e9, 1) for what, _, bytes, _, _ in floors.table(narrow, model)}
        stream = sum(row[2] for row in floors.table(plan, model)) - sum(row[2] for row in floors.table(narrow, model))
        self.assertEqual(
            rows, {
                "RMSNorm forward": 8.6, "RMSNorm backward": 21.5, "RoPE, forward": 5.4, "SwiGLU forward": 25.8,
                "SwiGLU backward": 51.5, "cross-entropy, both ways": 17.2, "gradient norm": 5.0, "AdamW": 37.2
            })
        self.assertAlmostEqual(stream / 1e9, 17.7, delta=0.05)
        # As measured: GEMMs 339 ms, attention 13.7 + 38.9; 40.2 GB of norms, 17.2 of cross-entropy, 5.0 and 37.2 at
        # 3,026 GB/s.
        self.assertAlmostEqual(floors.floor(plan, 1, 3026, 339, 52.6), 425, delta=0.6)
        self.assertAlmostEqual(floors.floor(plan, 4, 3026, 339, 52.6), 4 * 425 - 3 * (5.0 + 37.2) / 3.026, delta=2.4)

    def test_what_the_card_did_in_a_row(self):
        """Between two times: the total energy, and averages over samples in which the card was busy."""
        samples = [(0.0, 100.0, 345, 70.0, 30, 0x1), (1.0, 170.0, 1980, 300.0, 35, 0x0),
                   (2.0, 470.0, 1755, 695.0, 50, 0x4), (3.0, 1165.0, 1740, 700.0, 55, 0x4),
                   (4.0, 1865.0, 345, 90.0, 52, 0x1)]
        row = card.figures(samples, 0.5, 3.5)
        self.assertAlmostEqual(row["joules"], 1515 - 135)
        self.assertEqual((row["mhz"], row["celsius"], row["samples"]),
                         ({"least": 1740, "median": 1755, "most": 1980}, 55, 3))
        self.assertEqual(row["held"], {"power cap": 2 / 3})
        self.assertEqual(
            card.figures(samples, 2.2, 2.8)["mhz"], {"least": 1740, "median": 1747.5, "most": 1755}, "those around it")
        self.assertIsNone(card.figures(samples, 3.5, 9.0), "idle")
        self.assertIsNone(card.figures(samples[:1], 0.0, 9.0))

    def test_a_card_that_cannot_be_read_any_more_loses_no_row(self):
        readings = iter([(0.0, 100.0, 1980, 300.0, 35, 0x0), (2.0, 700.0, 1980, 300.0, 35, 0x0)])

        def sample():
            reading = next(readings, None)
            if not reading:
                raise OSError("the GPU is lost")
            return reading

        with mock.patch.object(card, "Nvml", lambda: mock.Mock(sample=sample)), mock.patch.object(card, "PERIOD", 3600):
            watch = card.Watch()
            self.assertEqual(watch.figures(0.0, 2.0)["joules"], 600)
            self.assertEqual(watch.figures(0.0, 2.0)["joules"], 600)
            self.assertEqual(watch.problem, "the GPU is lost")
            watch.finish()

    def test_memory_that_was_not_read_is_unknown(self):
        answers = iter([5 << 30])  # before the run; nothing later
        with mock.patch.object(training.MemoryWatch, "used", staticmethod(lambda: next(answers, None))):
            self.assertIsNone(training.MemoryWatch().finish())

    def test_archives_of_a_cache_are_whole(self):
        cache, archive = (pathlib.Path(self.path(name)) for name in ("inductor", "inductor.tar.gz"))
        cache.mkdir()
        (cache / "kernel").write_text("compiled\n")
        pytorch.pack(cache, archive)
        before = archive.read_bytes()
        with mock.patch.object(tarfile.TarFile, "add", side_effect=OSError("no space")), self.assertRaises(OSError):
            pytorch.pack(cache, archive)
        self.assertEqual(archive.read_bytes(), before)
        work = pathlib.Path(self.path("work"))
        work.mkdir()
        archive.write_bytes(before[:len(before) // 2])
        with self.assertRaises(EOFError):
            pytorch.unpack(archive, work / "inductor")
        self.assertEqual(list(work.iterdir()), [])
        archive.write_bytes(before)
        pytorch.unpack(archive, work / "inductor")
        self.assertEqual((work / "inductor" / "kernel").read_text(), "compiled\n")

    def test_a_slow_import_is_not_a_missing_pytorch(self):
        result = {}
        stopped = mock.Mock(call=mock.Mock(side_effect=process.Failed("was still running", None)))
        with self.assertRaises(process.Failed):
            pytorch.absent(stopped, result)
        self.assertEqual(result, {})
        self.assertTrue(pytorch.absent(mock.Mock(call=mock.Mock(side_effect=process.Failed("no module", 1))), result))

    def test_a_folder_of_results_remembers_its_gpu(self):
        work = pathlib.Path(self.path("remembered"))
        work.mkdir()
        for gpu in ("H200", None, "H200"):
            command.check_work(work, {"gpu": gpu}, False)
        command.check_work(work, {"gpu": None}, False)
        with self.assertRaisesRegex(SystemExit, "of another gpu .H200, now H100."):
            command.check_work(work, {"gpu": "H100"}, False)

    def test_raw_results_have_a_line_a_product(self):
        plan = {
            "name": "run", "fingerprint": "f", "products":
            [{"name": "qkv", "m": 1, "n": 2, "k": 3, "operands": "bf16", "result": "bf16", "flops":
              12}], "kernels": [{"name": "rope", "template": "rope"}]
        }
        launches = {"qkv": {"ms": 1.0}, "rope": {"ms": 0.5}}
        rows = list(
            raw.rows({
                "simulated": False, "machine": {}, "bundles": {}, "plan": plan, "results": {
                    "rates": {"seconds": 1, "fp8": {"took": 1, "products": [{"product": "1,2,3", "sustained": 5}]}},
                    "pieces": {"in_place": {"took": 2, "launches":
                                            launches}}, "tests": {"seconds": 3, "ran": 9, "failures": ["Gemm.IsRight"]}
                }
            }))
        self.assertEqual(rows[-1], {"part": "tests", "seconds": 3, "ran": 9, "failures": ["Gemm.IsRight"]})
        self.assertEqual(rows[0]["spec"], "run")
        self.assertIn({"part": "rates", "row": "fp8", "product": "1,2,3", "sustained": 5}, rows)
        self.assertIn(
            {
                "part": "pieces", "row": "in_place", "launch": "qkv", "ms": 1.0, "m": 1, "n": 2, "k": 3, "operands":
                "bf16", "result": "bf16", "flops": 12
            }, rows)
        self.assertIn({"part": "pieces", "row": "in_place", "launch": "rope", "template": "rope", "ms": 0.5}, rows)
        self.assertEqual(len(rows), 9)


if __name__ == "__main__":
    harness.main()
