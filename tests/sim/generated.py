"""Kernels and steps of large runs compile against the stand-ins, in sizes that no test here can run."""

import concurrent.futures
import glob
import os
import tempfile
import unittest

import harness


class Generated(unittest.TestCase):

    def test_llama_1b(self):
        self.parse(os.path.join(harness.SOURCE, "generated", "llama-1b"))

    def test_llama_8b_on_8_and_64_gpus(self):
        spec = os.path.join(harness.SOURCE, "specs", "llama-8b.yaml")
        for shard, ranks in (("gradients", 8), ("parameters", 64)):
            with tempfile.TemporaryDirectory() as folder:
                done = harness.runs.call(harness.LLMC, "emit", spec, f"parallel.shard={shard}",
                                         f"parallel.world_size={ranks}", "-o", folder)
                self.assertEqual(done.code, 0, done.err)
                self.parse(folder)

    def test_a_head_past_the_range_of_int(self):
        """Untied, its bytes begin past 2^31."""
        spec = os.path.join(harness.SOURCE, "specs", "llama-1b.yaml")
        with tempfile.TemporaryDirectory() as folder:
            done = harness.runs.call(harness.LLMC, "emit", spec, "model.tie_word_embeddings=false",
                                     "memory.budget=200GiB", "-o", folder)
            self.assertEqual(done.code, 0, done.err)
            self.parse(folder)

    def test_cudnn_alone_and_rotation(self):
        """The budget has no room for llmc's own backward attention, so a kernel rotates what cuDNN leaves."""
        spec = os.path.join(harness.SOURCE, "specs", "llama-1b.yaml")
        small = ("model.num_hidden_layers=1", "model.vocab_size=512", "model.hidden_size=64", "model.head_dim=64",
                 "model.intermediate_size=192", "batch.sequence_length=256", "batch.micro_batch=1021",
                 "batch.tokens=261376", "memory.loss_chunk=auto", "memory.recompute=none", "memory.budget=5800MiB")
        with tempfile.TemporaryDirectory() as folder:
            done = harness.runs.call(harness.LLMC, "emit", spec, *small, "-o", folder)
            self.assertEqual(done.code, 0, done.err)
            step = harness.runs.read(os.path.join(folder, "step.cu")).decode()
            self.assertNotIn("own_attention_backward", step)
            self.assertIn("void rotate_gradients_back(", step)
            self.parse(folder)

    def parse(self, folder):
        files = sorted(glob.glob("kernels/*.cu", root_dir=folder)) + ["step.cu"]
        self.assertGreater(len(files), 15)
        with concurrent.futures.ThreadPoolExecutor(2) as pool:
            results = pool.map(
                lambda name: harness.runs.call("g++", *harness.compiler_words("kernel"), "-fsyntax-only",
                                               "-Werror=overflow", name, cwd=folder), files)
            for name, done in zip(files, results):
                self.assertEqual(done.code, 0, f"{name}\n{done.err}")


if __name__ == "__main__":
    unittest.main()
