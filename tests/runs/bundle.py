"""A bundle builds without llmc: plain CMake in an empty folder gives the same trainer."""

import json
import os
import re
import shutil

import harness
from harness import LLMC, SOURCE, RunTest


class Bundle(RunTest):

    def test_builds_and_trains(self):
        spec = harness.write_small(self.path("small"))
        arch = "target.arch=x86-64-v3"  # native would mean the building machine
        self.succeed(LLMC, "emit", spec, "-o", self.path("emitted"), "--bundle", arch)
        # In another place, so that nothing of this checkout is found by chance.
        bundle = self.path("elsewhere")
        shutil.move(self.path("emitted"), bundle)
        for name, content in harness.tree(bundle).items():
            self.assertNotIn(SOURCE.encode(), content, name)
            self.assertNotIn(self.folder.encode(), content, name)
        self.build_without_cuda(bundle)
        theirs = os.path.join(bundle, "build", "trainer")
        ours = self.compile(spec, "ours", arch)
        base = os.path.dirname(spec)
        for trainer, run in ((theirs, "their-run"), (ours, "our-run")):
            self.succeed(trainer, "--base", base, "--run", self.path(run), "--steps", 3)
        self.assert_same_files(self.path("their-run", "checkpoints"), self.path("our-run", "checkpoints"),
                               "bundle and llmc compile")

    def build_without_cuda(self, bundle):
        """Builds with an apparent CUDA toolkit: nothing looks at it, and no CUDA part of the runtime is compiled."""
        toolkit, build = self.path("toolkit"), os.path.join(bundle, "build")
        nvcc = os.path.join(toolkit, "bin", "nvcc")
        os.makedirs(os.path.dirname(nvcc))
        with open(nvcc, "w") as file:
            file.write(f"#!/bin/sh\necho asked >> {toolkit}/calls\nexit 1\n")
        os.chmod(nvcc, 0o755)
        env = harness.environment(CUDA_HOME=toolkit, CUDA_PATH=toolkit, CUDACXX=nvcc)
        env["PATH"] = os.path.dirname(nvcc) + ":" + env["PATH"]
        # Configured like llmc's own build, so that ccache finds objects compiled there.
        said = self.succeed("cmake", "-G", "Ninja", "-S", bundle, "-B", build, "-DCMAKE_EXPORT_COMPILE_COMMANDS=ON",
                            "-DCMAKE_CXX_FLAGS_RELEASE=-O3 -DNDEBUG -Wall -Wextra -Wno-restrict",
                            "-DCMAKE_COMPILE_WARNING_AS_ERROR=ON", env=env)
        self.assertNotIn("cuda", (said.out + said.err).lower().replace(bundle.lower(), ""))
        self.succeed("cmake", "--build", build, "-j", 2, env=env)
        self.assertFalse(os.path.exists(os.path.join(toolkit, "calls")), "nvcc was called")
        with open(os.path.join(build, "compile_commands.json")) as file:
            compiled = [entry["file"] for entry in json.load(file)]
        together = [harness.read(name).decode() for name in compiled
                    if name.endswith("_cxx.cxx")]  # several sources at once
        sources = [
            os.path.relpath(name, bundle) for name in compiled + re.findall('#include "(.*)"', "".join(together))
        ]
        self.assertIn("runtime/device/cpu/device.cpp", sources)
        self.assertEqual([source for source in sources if re.search("cuda|cublas|cudnn|nccl", source)], [])

    def test_a_cuda_bundle_says_what_is_missing(self):
        """Fails during configuration: without its CUDA runtime it could not be linked. Debian 12's CMake looks for the
        toolkit as this stand-in does, and fails at parts that CUDA 13 removed."""
        project = self.path("cuda-bundle")
        os.makedirs(project)
        with open(os.path.join(project, "FindCUDAToolkit.cmake"), "w") as file:
            file.write(
                "if(CMAKE_VERSION VERSION_LESS 3.26 AND CMAKE_MINIMUM_REQUIRED_VERSION VERSION_GREATER_EQUAL 3.25)\n"
                "  set_property(TARGET CUDA::nvToolsExt PROPERTY DEPRECATION old)\nendif()\n")
        with open(os.path.join(project, "CMakeLists.txt"), "w") as file:
            file.write(f'cmake_minimum_required(VERSION 3.25)\nproject(trainer LANGUAGES CXX)\nset(LLMC_TARGET cuda)\n'
                       f'add_subdirectory("{SOURCE}/runtime" runtime)\n')
        done = harness.call("cmake", "-G", "Ninja", "-S", project, "-B", os.path.join(project, "build"),
                            f"-DCMAKE_MODULE_PATH={project}")
        self.assertNotEqual(done.code, 0)
        self.assertNotIn("nvToolsExt", done.err)
        self.assertIn("CUDA runtime: no CUDA toolkit (nvcc) on PATH", done.err)

    def test_same_bytes_everywhere(self):
        """Emitting again to another folder from another directory gives the same bytes."""
        spec = harness.write_small(self.path("bytes"))
        for style in ("specialised", "include"):
            self.succeed(LLMC, "emit", spec, "-o", self.path("one-" + style), "--style", style)
            self.succeed(LLMC, "emit", os.path.basename(spec), "-o", self.path("two", style), "--style", style,
                         cwd=os.path.dirname(spec))
            self.assert_same_files(self.path("one-" + style), self.path("two", style), style)

    def test_foreign_folder(self):
        """Refuses a folder with files that llmc did not write."""
        spec = harness.write_small(self.path("foreign"))
        before = harness.tree(self.path("foreign"))
        done = harness.call(LLMC, "emit", spec, "-o", self.path("foreign"))
        self.assertEqual(done.code, 2)
        self.assertEqual(harness.tree(self.path("foreign")), before)

    def test_stale_files_go(self):
        """Removes kernels that the new spec does not need; keeps files added by the user."""
        spec = harness.write_small(self.path("stale"))
        out = self.path("stale-out")
        self.succeed(LLMC, "emit", spec, "-o", out)
        with open(os.path.join(out, "notes.md"), "w") as file:
            file.write("mine\n")
        first = set(harness.tree(out))
        self.succeed(LLMC, "emit", spec, "-o", out, "model.attention_bias=false")
        second = set(harness.tree(out))
        self.assertIn("notes.md", second)
        self.assertTrue(any(name.startswith("kernels/column_sum") for name in first - second), first - second)


if __name__ == "__main__":
    harness.main()
