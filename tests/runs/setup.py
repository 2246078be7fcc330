"""setup.sh while another apt runs, and downloads during CMake's configuration: each is reported. Uses stand-ins for
apt-get and pip. Also quickstart.sh and test.sh with stand-ins for CMake: each reuses the other's build."""

import os
import re
import shutil
import subprocess

import harness
from harness import SOURCE, RunTest

LOCKED = "E: Could not get lock /var/lib/dpkg/lock-frontend. It is held by process 4711 (apt-get)"
NO_RIGHTS = """E: Could not open lock file /var/lib/dpkg/lock-frontend - open (13: Permission denied)
E: Unable to acquire the dpkg frontend lock (/var/lib/dpkg/lock-frontend), are you root?"""
READ_ONLY = """E: Could not open lock file /var/lib/apt/lists/lock - open (30: Read-only file system)
E: Unable to lock directory /var/lib/apt/lists/"""
# Downloads during CMake's configuration, by CMake commands or programs that it starts.
DOWNLOADS = re.compile(
    r"FetchContent|ExternalProject|file\s*\(\s*DOWNLOAD|pip\W+download|\bwget\b|\bcurl\b|git\W+clone")


class Setup(RunTest):

    def tools(self, name, **scripts):
        """A folder of stand-in programs. Each appends its arguments to `calls` before it runs its script."""
        folder = self.path(name)
        os.makedirs(folder)
        for tool, script in scripts.items():
            path = os.path.join(folder, tool)
            with open(path, "w") as file:
                file.write(f'#!/bin/sh\necho "{tool} $*" >> {folder}/calls\n{script}\n')
            os.chmod(path, 0o755)
        return folder

    def calls(self, folder):
        path = os.path.join(folder, "calls")
        return harness.read(path).decode().splitlines() if os.path.exists(path) else []

    def setup(self, name, apt_get):
        """Runs setup.sh with no package installed and this script as apt-get."""
        folder = self.tools(name,
                            **{"dpkg-query": "exit 1", "sudo": 'exec "$@"', "sleep": "exit 0", "apt-get": apt_get})
        done = harness.call(os.path.join(SOURCE, "setup.sh"), "a-package-more",
                            env=harness.environment(PATH=f"{folder}:{os.environ['PATH']}"))
        return done, self.calls(folder)

    def test_waits_for_another_apt(self):
        """The lock is held for three attempts of each command: that is reported, and then everything is installed."""
        done, calls = self.setup(
            "locked", f"""
          count={self.path("locked")}/$1; echo >> $count
          [ $(wc -l < $count) -gt 3 ] && exit 0
          echo "{LOCKED}" >&2; exit 100""")
        self.assertEqual((done.code, done.err), (0, ""))
        self.assertEqual(done.out.count("waiting for another apt to end"), 2, done.out)
        apt = [call.split()[1:] for call in calls if call.startswith("apt-get")]
        self.assertEqual([words[0] for words in apt], ["update"] * 4 + ["install"] * 4)
        self.assertLessEqual({"g++", "ninja-build", "libclang-19-dev", "a-package-more"}, set(apt[-1]))
        self.assertEqual(sum(call.startswith("sleep") for call in calls), 6, "a pause before each new attempt")

    def test_waits_no_longer_than_minutes(self):
        done, calls = self.setup("held", f'echo "{LOCKED}" >&2; exit 100')
        self.assertEqual((done.code, done.err), (1, LOCKED + "\n"))
        self.assertEqual(calls.count("sleep 3"), 10 * 60 / 3)

    def test_other_failures_end_it(self):
        """Among them locks that no other apt holds."""
        for name, said in (("broken", "E: Unable to locate package nonsense"), ("no-rights", NO_RIGHTS), ("read-only",
                                                                                                          READ_ONLY)):
            # An apt that is called again succeeds, so that this test ends.
            done, calls = self.setup(
                name, f'[ -e {self.path(name)}/said ] && exit 0; echo "{said}" >&2; '
                f'touch {self.path(name)}/said; exit 100')
            self.assertEqual((done.code, done.err), (1, said + "\n"))
            self.assertEqual(sum(call.startswith("apt-get") for call in calls), 1)

    def test_apt_behind_sudo_asks_nothing_in_english(self):
        """sudo passes on no variables; an apt that asks a question would wait for an answer that nobody sees."""
        folder = self.tools(
            "sudo", **{
                "dpkg-query": "exit 1", "id": "echo 1000", "sudo": 'exec env -i PATH="$PATH" "$@"', "apt-get":
                f'echo "told $LC_ALL $DEBIAN_FRONTEND" >> {self.path("sudo")}/calls'
            })
        self.succeed(os.path.join(SOURCE, "setup.sh"), env=harness.environment(PATH=f"{folder}:{os.environ['PATH']}"))
        self.assertEqual([call for call in self.calls(folder) if call.startswith("told")],
                         ["told C noninteractive"] * 2)

    def test_nothing_to_install(self):
        folder = self.tools("whole", **{"dpkg-query": "echo install ok installed", "apt-get": "exit 1"})
        done = self.succeed(os.path.join(SOURCE, "setup.sh"),
                            env=harness.environment(PATH=f"{folder}:{os.environ['PATH']}"))
        self.assertEqual(done.out + done.err, "")
        self.assertFalse(any(call.startswith("apt-get") for call in self.calls(folder)))

    def script(self, name, script, built, log="", code=0):
        """Runs a script of the root in a new folder: its output, and each call of CMake with ccache's settings. `log`,
        `code`: of ctest, which empties its log when it lists tests."""
        tree = self.tools(name, **{"setup.sh": "exit 0"})
        os.makedirs(os.path.join(tree, "data", "quickstart"))
        open(os.path.join(tree, "data", "quickstart", "dataset.json"), "w").close()
        shutil.copytree(os.path.join(SOURCE, "cmake"), os.path.join(tree, "cmake"))
        shutil.copy(os.path.join(SOURCE, script), tree)
        llmc = self.tools(f"{name}/build", llmc="exit 0")
        if not built:
            os.rename(os.path.join(llmc, "llmc"), os.path.join(llmc, "to-be-built"))
        made = f"mv {llmc}/to-be-built {llmc}/llmc 2> /dev/null; env | grep ^CCACHE_ | sed s,{tree},TREE, | sort >> {tree}/told; exit 0"
        place = "build/Testing/Temporary"
        ctest = (f"mkdir -p {place}\ncase $* in *-N*) : > {place}/LastTest.log; exit 0 ;; esac\n"
                 f"cat > {place}/LastTest.log << 'END'{log}\nEND\nexit {code}")
        tools = self.tools(f"{name}/tools", cmake=made, ctest=ctest)
        environment = {
            key: value
            for key, value in harness.environment(PATH=f"{tools}:{os.environ['PATH']}").items()
            if not key.startswith("CCACHE_")
        }
        done = harness.call(os.path.join(tree, script), env=environment)
        self.assertEqual(done.code, code, done.err)
        with open(os.path.join(tree, "told")) as file:
            told = set(file.read().splitlines())
        configured, built = [call for call in self.calls(tools) if call.startswith("cmake")]
        self.assertRegex(built, "^cmake --build build ")
        return done.out, configured, told

    def test_quick_start_and_tests_build_alike(self):
        """Same CMake options and ccache settings; each prints its expected duration, a shorter one if llmc is built."""
        first, second = (self.script(script, script, False) for script in ("quickstart.sh", "test.sh"))
        self.assertEqual(first[1:], second[1:])
        self.assertEqual(len(first[2]), 4, first[2])
        for script, out, built in (("quickstart.sh", first[0], "llmc, as far as its sources have changed"),
                                   ("test.sh", second[0],
                                    "llmc is built. On two cores the tests' programs take 7 to 18 minutes")):
            self.assertRegex(out, r"\d to \d+ minutes")
            self.assertNotIn(built, out)
            self.assertIn(built, self.script(f"{script}-again", script, True)[0])

    def test_skipped_tests_are_listed(self):
        """Of GoogleTest and of Python, once each, and no others."""
        log = """
1/5 Testing: run_report
test_first (report.Report.test_first)
A line of what it does. ... skipped 'no Node.js here'
test_second (report.Report.test_second) ... ok
2/5 Testing: Sizes/Tiles.Multiply/8 x 8
/tiles_test.cpp:7: Skipped
no tiles

[  SKIPPED ] Sizes/Tiles.Multiply/0, where GetParam() = 8 x 8 (0 ms)
3/5 Testing: Sizes/Tiles.Multiply/8 x 9
/tiles_test.cpp:7: Skipped
no tiles

4/5 Testing: Tiles.Add
[       OK ] Tiles.Add (0 ms)
5/5 Testing: run_plan_page
test_third (plan_page.PlanPage.test_third) ... skipped 'no Chromium here'
"""
        out = self.script("skips", "test.sh", False, log)[0]
        self.assertIn(
            "Left out, in whole or in part, since this machine lacks something: 3\n  run_report test_first: 'no Node.js here'\n"
            "  Sizes/Tiles.Multiply: no tiles\n  run_plan_page test_third: 'no Chromium here'\n", out)

    def test_the_end_of_a_failed_test_comes_last(self):
        out = self.script(
            "fails", "test.sh", False, """
1/2 Testing: run_first
fine
Test Passed.
2/2 Testing: run_second
AssertionError: 1 != 2
Test Failed.
""", 8)[0]
        self.assertTrue(
            out.rstrip().endswith(
                "and in build/tests.log):\n  2/2 Testing: run_second\n  AssertionError: 1 != 2\n  Test Failed."), out)

    def configure(self, name, *options):
        """Configures without cudnn-frontend: CMake's output, and how often a Python was asked to download it."""
        python = os.path.join(self.tools(name, python3="exit 1"), "python3")
        project = self.path(name, "project")
        os.makedirs(project)
        with open(os.path.join(project, "CMakeLists.txt"), "w") as file:
            file.write(
                "cmake_minimum_required(VERSION 3.25)\nproject(search LANGUAGES NONE)\n"
                "set(CMAKE_FIND_USE_CMAKE_SYSTEM_PATH OFF)\nset(CMAKE_FIND_USE_SYSTEM_ENVIRONMENT_PATH OFF)\n"
                f"include({SOURCE}/runtime/math/cudnn/FindCudnnFrontend.cmake)\nmessage(NOTICE \"${{CUDNN_FRONTEND_PROBLEM}}\")\n"
            )
        done = self.succeed("cmake", "-G", "Ninja", "-S", project, "-B", self.path(name, "build"),
                            f"-DLLMC_PYTHON3={python}", *options)
        return done.out + done.err, sum("pip download" in call for call in self.calls(self.path(name)))

    def test_a_download_is_said(self):
        said, downloads = self.configure("allowed")
        self.assertEqual(downloads, 1)
        self.assertIn("cudnn-frontend: downloading its headers", said)
        self.assertIn("-DCUDNN_FRONTEND_INCLUDE_DIR=", said)  # it failed here
        said, downloads = self.configure("forbidden", "-DLLMC_DOWNLOAD=OFF")
        self.assertEqual(downloads, 0)
        self.assertNotIn("downloading", said)

    def test_another_onednn_is_refused_at_once(self):
        """Its interface differs, which the compiler would report after minutes."""
        folder = self.path("onednn")
        os.makedirs(os.path.join(folder, "include", "oneapi", "dnnl"))
        for version, code in (("2.6", 0), ("3.4", 0), ("3.10", 0), ("3.3", 1), ("1.7", 1), ("4.7", 1)):
            major, minor = version.split(".")
            with open(os.path.join(folder, "include", "oneapi", "dnnl", "dnnl_version.h"), "w") as file:
                file.write(f"#define DNNL_VERSION_MAJOR {major}\n#define DNNL_VERSION_MINOR {minor}\n")
            done = harness.call("cmake", f"-DONEDNN_INCLUDE_DIR={folder}/include", "-P",
                                os.path.join(SOURCE, "runtime", "math", "onednn", "version.cmake"))
            self.assertEqual(done.code, code, version + done.err)
        self.assert_facts(done.err, "oneDNN 4.7", "versions 2 and 3.4", "libdnnl-dev")

    def test_no_other_download(self):
        """No other file of the build downloads anything; one that does needs a test like the one above."""
        listed = subprocess.run(["git", "-C", SOURCE, "ls-files", "--cached", "--others", "--exclude-standard"],
                                stdout=subprocess.PIPE, universal_newlines=True)
        names = listed.stdout.split("\n") if listed.returncode == 0 else \
            [os.path.relpath(os.path.join(root, name), SOURCE) for root, _, files in os.walk(SOURCE) for name in files]
        build = [
            name for name in names
            if name.endswith((".cmake", "CMakeLists.txt", "cmake_printer.cpp")) and not name.startswith("build")
        ]
        self.assertGreater(len(build), 20)
        found = set()
        for name in build:
            path = os.path.join(SOURCE, name)
            if os.path.exists(path):
                text = re.sub(r"^\s*#.*$", "", harness.read(path).decode(), flags=re.MULTILINE)
                if DOWNLOADS.search(text):
                    found.add(name)
        self.assertEqual(found, {"runtime/math/cudnn/FindCudnnFrontend.cmake"})


if __name__ == "__main__":
    harness.main()
