"""tests/bench/torch_compile_launches.py prices a GEMM and a kernel as `llmc plan` does."""

import json
import os
import pathlib
import sys
import unittest

SOURCE = pathlib.Path(__file__).resolve().parent.parent.parent
sys.path.insert(0, str(SOURCE / "tests" / "bench"))
import torch_compile_launches as bench  # noqa: E402


def plan(*overrides):
    return json.loads(bench.run(os.environ["LLMC"], "plan", bench.SPEC, "--json", *overrides))


class Prices(unittest.TestCase):

    def hold(self, *overrides):
        found = plan(*overrides)
        prices = bench.Prices(found["device"]["figures"])
        shapes = {product["name"]: product for product in found["products"]}
        launches = {(launch["region"], launch["op"], launch["runs"]): launch for launch in found["launches"]}
        seen = set()
        for timed in found["time"]["launches"]:
            launch = launches.get((timed["region"], timed["op"], timed["runs"]))
            if launch is None or launch["kind"] not in ("gemm",
                                                        "kernel") or timed["op"].startswith("attention_backward"):
                continue
            if launch["kind"] == "gemm":
                shape = shapes[timed["runs"]]
                price = prices.product(shape["m"], shape["n"], shape["k"], launch["bytes"])
            else:
                price = prices.kernel(launch["bytes"])
            with self.subTest(op=timed["op"]):
                self.assertAlmostEqual(price / timed["seconds"], 1,
                                       delta=1e-6)  # doubles; plan.json keeps all their digits
            seen.add(launch["kind"])
        self.assertEqual(seen, {"gemm", "kernel"})

    def test_of_the_large_run(self):
        self.hold(*bench.RUN)

    def test_of_small_products(self):
        """Few tiles: smaller ones, and k in parts. Operands that fit into a cache."""
        small = ("batch.micro_batch=1", "memory.recompute=none", "model.vocab_size=4096", "target.device=h100-sxm")
        for length, hidden in ((1024, 2048), (2048, 512), (1024, 512), (256, 512)):
            self.hold(*small, f"batch.sequence_length={length}", f"batch.tokens={length}",
                      f"memory.loss_chunk={length}", f"model.hidden_size={hidden}",
                      f"model.num_attention_heads={hidden // 64}", "model.num_key_value_heads=2")


class Classes(unittest.TestCase):

    def test_of_kernels(self):
        for ops, name in ((["_fused_rms_norm", "_to_copy", "embedding_dense_backward"], "the embedding's gradient"),
                          (["_to_copy", "add"], "the embedding's gradient"), (["cat", "silu",
                                                                               "silu_backward"], "SwiGLU"),
                          (["add", "cat", "mul"], "RoPE"), (["_to_copy", "t"], "casts of weights and gradients")):
            self.assertEqual(bench.class_of({"ops": ops}), name)

    def test_an_unknown_kernel_is_refused(self):
        with self.assertRaisesRegex(SystemExit, "no class has the ops.*topk"):
            bench.class_of({"ops": ["topk"]})


if __name__ == "__main__":
    unittest.main()
