"""The checked-in kernels and step of the large run parse against the stand-ins, in the sizes that no test here can run."""

import concurrent.futures
import glob
import os
import unittest

import harness


class Generated(unittest.TestCase):
    def test_llama_1b(self):
        folder = os.path.join(harness.SOURCE, "generated", "llama-1b")
        files = sorted(glob.glob("kernels/*.cu", root_dir=folder)) + ["step.cu"]
        self.assertGreater(len(files), 15)
        with concurrent.futures.ThreadPoolExecutor(2) as pool:
            results = pool.map(lambda name: harness.runs.call("g++", *harness.compiler_words("kernel"), "-fsyntax-only", name, cwd=folder), files)
            for name, done in zip(files, results):
                self.assertEqual(done.code, 0, f"{name}\n{done.err}")


if __name__ == "__main__":
    unittest.main()
