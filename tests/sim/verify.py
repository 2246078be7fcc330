"""`llmc verify` for a simulated GPU's trainer: passes it unmodified, and names the op of a modified kernel."""

import json
import os
import re

import harness


class Verify(harness.SimTest):

    def verify(self, *words, target=harness.TARGET, **environment):
        spec = os.path.join(self.folder, "small.yaml")
        return harness.runs.call(harness.LLMC, "verify", spec, *target, "-o", self.path("verify"), *words,
                                 env=harness.runs.environment(**environment))

    def test_codes_and_scales(self):
        harness.runs.write_small(self.folder, harness.SMALL)
        self.assertEqual(self.verify("--emit-only", *harness.runs.FP8_FULL).code, 0)
        kernel = self.path("verify", "trainer", "kernels", "quantise_transposed_160_96_both.cu")
        with open(kernel) as file:
            text = file.read()
        for fault, code, op in ((None, 0, None), ("value[3][e] * inverse[2]", 7, "qkv_weight_e4m3")):
            if fault:
                self.assertEqual(text.count("value[3][e] * inverse[3]"), 1)
                with open(kernel, "w") as file:
                    file.write(text.replace("value[3][e] * inverse[3]", fault))
            trainer = harness.build(self.path("verify", "trainer"), self.path("small.yaml"))
            done = self.verify("--json", "--trainer", trainer, *harness.runs.FP8_FULL)
            self.assertEqual(done.code, code, done.out + done.err)
            off = json.loads(done.out)["off"]
            self.assertEqual(off and off["op"], op)

    def test_codes_with_a_scale_a_tensor(self):
        """On an L4, whose products have no scales of rows."""
        harness.runs.write_small(self.folder, harness.SMALL)
        target, words = ("target.kind=cuda", "target.arch=[89]"), harness.runs.FP8_TENSOR
        self.assertEqual(self.verify("--emit-only", *words, target=target).code, 0)
        kernels = self.path("verify", "trainer", "kernels")
        kernel = os.path.join(kernels, next(n for n in sorted(os.listdir(kernels)) if n.endswith("_both.cu")))
        with open(kernel) as file:
            text = file.read()
        for fault, code in ((None, 0), ("value[2][e], value[2][e])", 7)):
            if fault:
                self.assertEqual(text.count("value[2][e], value[3][e])"), 1)
                with open(kernel, "w") as file:
                    file.write(text.replace("value[2][e], value[3][e])", fault))
            trainer = harness.build(self.path("verify", "trainer"), self.path("small.yaml"))
            done = self.verify("--json", "--trainer", trainer, *words, target=target, LLMC_SIM_CAPABILITY="89")
            self.assertEqual(done.code, code, done.out + done.err)
            off = json.loads(done.out)["off"]
            self.assertEqual(off and off["op"].endswith("_transposed_back_e5m2"), bool(fault) or None)

    def report(self, code):
        trainer = harness.build(self.path("verify", "trainer"), self.path("small.yaml"))
        done = self.verify("--json", "--trainer", trainer)
        self.assertEqual(done.code, code, done.out + done.err)
        return json.loads(done.out)

    def test_numbers_of_codes_without_fp8_products(self):
        """An A100 multiplies in bf16 what the codes stand for."""
        harness.runs.write_small(self.folder, harness.SMALL)
        target = ("target.kind=cuda", "target.arch=[80]")
        self.assertEqual(self.verify("--emit-only", *harness.runs.FP8_FULL, target=target).code, 0)
        kernels = os.listdir(self.path("verify", "trainer", "kernels"))
        self.assertTrue(any(name.startswith("rescale_rows") for name in kernels), kernels)
        self.assertFalse(any("transpose" in name for name in kernels), kernels)
        trainer = harness.build(self.path("verify", "trainer"), self.path("small.yaml"))
        done = self.verify("--trainer", trainer, *harness.runs.FP8_FULL, target=target, LLMC_SIM_CAPABILITY="80")
        self.assertEqual(done.code, 0, done.out + done.err)
        self.assertEqual(self.verify("--emit-only", *harness.runs.MXFP8, target=target).code, 0)
        trainer = harness.build(self.path("verify", "trainer"), self.path("small.yaml"))
        done = self.verify("--trainer", trainer, *harness.runs.MXFP8, target=target, LLMC_SIM_CAPABILITY="80")
        self.assertEqual(done.code, 0, done.out + done.err)

    def test_gradients_are_rotated_back_in_either_way(self):
        """llmc's kernels rotate dq and dk themselves, and a kernel follows cuDNN's. Blocks of two heads share copies of keys.
        """
        harness.runs.write_small(self.folder, harness.SMALL)
        words = ("target.attention=auto", "model.head_dim=128", "model.num_attention_heads=2",
                 "model.num_key_value_heads=1", "batch.sequence_length=80", "batch.micro_batch=1", "batch.tokens=160")
        self.assertEqual(self.verify("--emit-only", *words).code, 0)
        trainer = harness.build(self.path("verify", "trainer"), self.path("small.yaml"))
        by_own = {
            "attention_backward_queries_warpgroups_rotated_multicast", "attention_backward_keys_warpgroups_rotated"
        }
        for way, kernels in (("own", by_own), ("cudnn", {"attention backward", "rope_inverse"})):
            if way == "cudnn":
                self.succeed(trainer, "tune", "--sustained", 0, env=harness.runs.environment(LLMC_SIM_BACKWARD_MS="0"))
            log = self.path(way + ".log")
            done = self.verify("--trainer", trainer, *words, LLMC_SIM_LOG=log)
            self.assertEqual(done.code, 0, done.out + done.err)
            with open(log) as file:
                ran = set(re.findall(r"^stream \d+: (attention.backward\w*|rope_inverse)", file.read(), re.MULTILINE))
            self.assertEqual(ran, kernels)

    def test_good_and_off(self):
        harness.runs.write_small(self.folder, harness.SMALL)
        done = self.verify("--emit-only")
        self.assertEqual(done.code, 0, done.err)
        report = self.report(0)
        self.assertTrue(report["good"])
        self.assertGreater(report["ops"]["compared"], 200)
        kernel = self.path("verify", "trainer", "kernels", "swiglu_forward.cu")
        with open(kernel) as file:
            text = file.read()
        self.assertEqual(text.count("gate * sigmoid(gate) * up"), 1)
        with open(kernel, "w") as file:
            file.write(text.replace("gate * sigmoid(gate) * up", "gate * sigmoid(up) * up"))
        off = self.report(7)["off"]
        self.assertEqual((off["op"], off["layer"], off["step"]), ("swiglu", 0, 1))
        done = self.verify("--trainer", self.path("verify", "trainer", "trainer"), "model.intermediate_size=64")
        self.assertEqual(done.code, 2, done.err)
        self.assertIn("--emit-only", done.err)


if __name__ == "__main__":
    harness.main()
