"""`llmc verify`: passes good trainers in both precisions; finds faults of templates and names their op."""

import json
import os
import shutil
import struct
import sys
import unittest

import harness
from harness import LLMC, SOURCE, RunTest

sys.path.insert(0, os.path.join(SOURCE, "tests", "mutations"))
import place  # noqa: E402

BF16 = ("precision.compute=bf16", "model.qk_norm=true", "model.tie_word_embeddings=true",
        "memory.recompute=[norms, swiglu]", "optimizer.kind=lion")
NO_ROPE = ("model.no_rope_layers=2", )
FACTORS = ("model.attention_bias=false", "model.attention_multiplier=0.2", "model.embedding_multiplier=12",
           "model.residual_multiplier=0.22", "model.logits_scaling=8")
SCALED = ("model.embedding_multiplier=12", )
# Without k's bias, whose gradient softmax nearly cancels, as in OLMo 2.
POST = ("model.norm_place=post", "model.qk_norm=true", "model.qk_norm_over=width", "model.attention_bias=false",
        "precision.compute=bf16", "memory.recompute=[norms, down]")
SANDWICH = ("model.norm_place=sandwich", )
LOCAL = ("model.sliding_window=9", "model.layer_types=[sliding_attention, full_attention]",
         "model.rope_local_theta=300", "model.attention_bias=false", "model.hidden_act=gelu_pytorch_tanh",
         "init.zero=[o_proj]")
GEMMA = ("model.norm_place=sandwich", "model.norm_weight=one_plus", "model.hidden_act=gelu_pytorch_tanh",
         "model.attention_bias=false", "model.qk_norm=true", "model.attn_logit_softcapping=0.5",
         "model.final_logit_softcapping=2", "memory.recompute=[norms]")
UNWEIGHTED = ("model.norm_weight=none", "model.qk_norm=true", "precision.compute=bf16",
              "model.final_logit_softcapping=2", "memory.recompute=[norms]")
NO_VECTORS = (*UNWEIGHTED, "model.attention_bias=false", "model.mlp_bias=false", "precision.master=split")
TURNED = ("model.qk_norm=true", "model.qk_norm_place=after_rope", "precision.compute=bf16")
DOCUMENTS = ("data.documents.mask=true", "data.documents.reset_positions=true")
# A part of each head after its norm, and pairs of neighbours before it.
PART = ("model.partial_rotary_factor=0.5", "model.head_dim=8", "model.qk_norm=true", "memory.recompute=[norms]")
NEIGHBOURS = ("model.rope_interleaved=true", "model.qk_norm=true", "model.qk_norm_place=after_rope",
              "precision.compute=bf16")
SCALED_Q = ("model.rope_scaling={type: yarn, original_max_position_embeddings: 5, llama_4_scaling_beta: 0.5}",
            "model.partial_rotary_factor=0.8", *DOCUMENTS)
EMBEDDED = ("model.embedding_norm=true", "precision.compute=bf16")
UNGATED = ("model.mlp_gated=false", "model.hidden_act=relu2", "memory.recompute=[activation]")
GELU = ("model.hidden_act=gelu_pytorch_tanh", "memory.recompute=[swiglu]")
THREE_KINDS = (*harness.FP8, *NO_ROPE)  # of three layers: the first is not in fp8, the second has no RoPE
SPLIT = (*harness.INT8, "precision.compute=bf16", "precision.master=split")
MUON = ("optimizer.kind=muon", )
POLAR = (*SPLIT[len(harness.INT8):], *MUON, "optimizer.muon.coefficients=polar_express",
         "optimizer.muon.equilibrate=true", "optimizer.muon.decay=cautious", "optimizer.weight_decay=10",
         "optimizer.muon.normalise=neurons", "metrics.per_parameter=true")
# Norms of narrow results magnify rounding beyond the usual bounds, and beyond what one draw of errors shows.
MAGNIFIED = ("precision.compute=bf16", "precision.master=split", "model.norm_place=post", "model.qk_norm=true",
             "model.hidden_size=8", "model.num_attention_heads=5", "model.num_key_value_heads=5", "model.head_dim=6",
             "model.intermediate_size=9", "model.embedding_multiplier=0.5", "batch.micro_batch=4", "batch.tokens=288",
             *MUON, "optimizer.muon.coefficients=polar_express", "optimizer.muon.normalise=neurons",
             "metrics.per_parameter=false")
SPLIT_LION = (*BF16, "precision.master=split")
# File of templates/, text there, its replacement, op to be named, overrides of the spec.
FAULTS = [
    ("rms_norm_forward.cu", "return v * r * w; });", "return v * w; });", "attention_norm", ()),
    ("rope.cu", "row % kSequence * kHeadDim", "row / kSequence * kHeadDim", "rope", ()),
    ("rope.cu", "angles -= document_begin[row] * kHeadDim;", "angles -= 0 * document_begin[row];", "rope", DOCUMENTS),
    ("qk_norm_rope_backward.cu", "angles -= document_begin[row] * kHeadDim;", "angles -= 0 * document_begin[row];",
     "qk_norm_rope_backward", (*BF16, *DOCUMENTS)),
    ("swiglu_forward.cu", "return gate * sigmoid(gate) * up;", "return sigmoid(gate) * up;", "swiglu", ()),
    ("swiglu_backward.cu", "        du = d * (x * s);\n", "        du = d * x;\n", "swiglu_backward", ()),
    ("adamw.cu", "m / fma(sqrt(v), root, eps), p * keep);", "m / fma(sqrt(v), root, eps), p);", "adamw", ()),
    ("column_reduce.cu", "total = accumulate ? total + sum : sum;", "total = sum;", "final_norm_backward_reduce", ()),
    ("embedding_backward.cu", "(dtable, run_token[run])", "(dtable, run)", "embed_backward", ()),
    ("cpu/attention_forward.cpp", "mask_below(key + i, score", "mask_below(key + i - 1, score", "attention", ()),
    ("cpu/attention_backward.cpp", "load(dkeys + t * kPaddedDim + d) * kScale,", "load(dkeys + t * kPaddedDim + d),",
     "attention_backward", ()),
    ("loss_sum.cu", "results->loss = accumulate ? results->loss + loss : loss;", "results->loss = loss;", "loss_sum",
     ()),
    ("cross_entropy.cu", "log_total - powers.weighted / powers.total;", "log_total;", "cross_entropy", ()),
    ("qk_norm_rope_backward.cu", "back2 = dy2 * c - dy1 * s;", "back2 = dy2 * c + dy1 * s;", "qk_norm_rope_backward",
     BF16),
    ("init_normal.cu", "p = fma(p, t, tail ? 1.00167406f : 0.246640727f);", "p = fma(p, t, tail ? 1.0f : 0.25f);",
     "init_normal", ("init.distribution=truncated", )),
    ("embedding_forward.cu", "if constexpr (kScaled) v *= kScale;", "if constexpr (kScaled) v *= 0.5f * kScale;",
     "embed", FACTORS),
    ("embedding_backward.cu", "if constexpr (kScaled) sum *= kScale;", "if constexpr (kScaled) sum *= 0.5f * kScale;",
     "embed_backward", FACTORS),
    ("embedding_split.cu", "if constexpr (kScaled) v *= kScale;", "if constexpr (kScaled) v *= 0.5f * kScale;", "embed",
     (*SPLIT, *SCALED)),
    ("qk_norm_rope.cu", "if constexpr (kUnrotated) c = 1.0f, s = 0.0f;", "if constexpr (kUnrotated) c = 1.0f;",
     "qk_norm_rope", (*BF16, *NO_ROPE)),
    ("qk_norm_rope_backward.cu", "if constexpr (kUnrotated) c = 1.0f, s = 0.0f;", "if constexpr (kUnrotated) c = 1.0f;",
     "qk_norm_rope_backward", (*BF16, *NO_ROPE)),
    ("rms_norm_add.cu", "to = rounded = s + v * r * w;", "to = rounded = s + v * w;", "attention_out_norm", POST),
    ("rms_norm_add.cu", "return s + v * r * w;", "return v * r * w;", "attention_out_norm", SANDWICH),
    ("rms_norm_forward.cu", "if constexpr (kOnePlus) w += 1.0f;", "if constexpr (kOnePlus) w += 0.9f;",
     "attention_norm", GEMMA),
    ("qk_norm_rope.cu", "if constexpr (kOnePlus) u1 += 1.0f, u2 += 1.0f;", "if constexpr (kOnePlus) u1 += 1.0f;",
     "qk_norm_rope", GEMMA),
    ("cross_entropy_capped.cu", "* soft_cap_slope(v, kSoftcap)", "", "cross_entropy", GEMMA),
    ("cpu/attention_forward.cpp", "score[i][v] = soft_cap(score[i][v], kSoftcap / kScale);",
     "score[i][v] = soft_cap(score[i][v], kSoftcap);", "attention", GEMMA),
    ("cpu/attention_backward.cpp", "store(score, load(score) * bends[key + i][v]);", "(void)bends;",
     "attention_backward", GEMMA),
    ("round_stream.cu", "return v; });", "return 0.5f * v; });", "attention_round", POST),
    ("qk_width_norm_rope.cu", "n1 * c - n2 * s;", "n1 * c + n2 * s;", "qk_norm_rope", POST),
    ("qk_width_norm_rope_backward.cu", "dot / (kOwn * kHeadDim)", "dot / kHeadDim", "qk_norm_rope_backward", POST),
    ("qk_rope_norm.cu", "n1 = (v1 * c - v2 * s) * r * u1;", "n1 = (v1 * c - v2 * s) * u1;", "qk_norm_rope", TURNED),
    ("qk_rope_norm_backward.cu", "back2 = dy2 * u2 * c - dy1 * u1 * s;", "back2 = dy2 * u2 * c + dy1 * u1 * s;",
     "qk_norm_rope_backward", TURNED),
    ("rope_part.cu", "segments<kOwn, kHalf, kHeadDim>(heads + kHalf)",
     "segments<kOwn, kHalf, kHeadDim>(heads + kHeadDim / 2)", "rope", PART),
    ("rope_part.cu", "b = b * c + a * s;", "b = b * c - a * s;", "rope", NEIGHBOURS),
    ("rope_part.cu", "log(1.0f + static_cast<float>(position / kOriginal))",
     "log(1.0f + static_cast<float>(position) / kOriginal)", "rope", SCALED_Q),
    ("swiglu_forward.cu", "return gelu(gate) * up;", "return gelu(gate);", "swiglu", GELU),
    ("swiglu_backward.cu", "y = gate.value * u;\n          dx = d * u * gate.slope;",
     "y = gate.value * u;\n          dx = d * gate.slope;", "swiglu_backward", GELU),
    ("activation_backward.cu", "to = d * act.slope;", "to = d * act.value;", "activation_backward", UNGATED),
    ("swiglu_backward.cu", "        y = silu * u;\n", "        y = silu;\n", "swiglu_backward", BF16),
    ("rms_norm_forward.cu", "return v * v; }) / kCols;", "return v * v; }) / kPitch;", "attention_norm", BF16),
    ("quantise.cu", "lanes.store(result, values, rounded);", "lanes.store(result, values, [](float v) { return v; });",
     "qkv_weight_e4m3", harness.FP8),
    ("quantise.cu", "[](float v) { return magnitude(v); }", "[](float v) { return v; }", "qkv_weight_e4m3",
     harness.FP8),
    ("quantise.cu", "e4m3_weight_scale(largest)", "2.0f * e4m3_weight_scale(largest)", "qkv_weight_e4m3", harness.FP8),
    ("quantise.cu", "return magnitude(v * factor);", "return magnitude(v);", "d_x_next_back_e4m3", harness.FP8),
    ("quantise.cu", "lanes.store(result, values, folded, rounded);", "lanes.store(result, values, rounded);",
     "d_x_next_back_e4m3", harness.FP8),
    ("rms_norm_forward_quantised.cu", "values, rounded);", "in, rounded);", "attention_norm", harness.FP8),
    ("rms_norm_backward_quantised.cu", "e4m3_scale(lanes.largest(values, folded",
     "0.5f * e4m3_scale(lanes.largest(values, folded", "mlp_norm_backward", harness.FP8),
    ("swiglu_forward_quantised.cu", "return gate * sigmoid(gate) * up;", "return gate * up;", "swiglu", harness.FP8),
    ("swiglu_backward_quantised.cu", "du * g;", "du * f;", "swiglu_backward", harness.FP8),
    ("rope_backward_quantised.cu", "(b * c - a * s) * g", "(b * c + a * s) * g", "rope_backward", harness.FP8),
    ("largest_magnitude.cu", "= magnitude_or_infinity(v);", "= v;", "attention_norm_out_maxima", harness.FP8_TENSOR),
    ("largest_magnitude.cu", "row < last", "row < last - 1", "attention_norm_out_maxima", harness.FP8_TENSOR),
    ("quantise_by_tensor.cu", "[](float v) { return v; }", "[](float v) { return 0.5f * v; }",
     "attention_norm_out_e4m3", harness.FP8_TENSOR),
    ("quantise_by_tensor.cu", "from_float<Code>(v * inverse)", "from_float<Code>(v)", "attention_norm_out_e4m3",
     harness.FP8_TENSOR),
    ("quantise_by_tensor.cu", ")) * of_all;", ")) * of_all * 1.0625f;", "attention_norm_out_e4m3", harness.FP8_TENSOR),
    ("quantise_by_tensor.cu", "from_float<Code>(v * inverse)", "from_float<e4m3>(v * inverse)", "d_x_next_back_e5m2",
     harness.FP8_TENSOR),
    ("quantise_blocks.cu", "values, E4m3Row<Result>(scale));", "values, [](float v) { return v; });",
     "attention_norm_out_mxfp8", harness.MXFP8),
    ("adamw_int8.cu", "return of_first.signed_part(m);", "return 0.95f * of_first.signed_part(m);", "adamw_int8",
     harness.INT8),
    ("adamw_int8.cu", "exp_avg_sq_scale[block] = of_second.scale;", "exp_avg_sq_scale[block] = of_first.scale;",
     "adamw_int8", harness.INT8),
    ("adamw_int8.cu", "fma(-rate, m / fma(sqrt(v)", "fma(-rate, old_m / fma(sqrt(v)", "adamw_int8", harness.INT8),
    ("adamw_int8.cu", "p = fma(-rate, m / fma(sqrt(v), root, eps), p * keep);",
     "p = fma(-rate, m / fma(sqrt(v), root, eps), p);", "adamw_int8_split", SPLIT),
    ("adamw_split.cu", "m = fma(beta1, m - d, d);", "m = fma(beta1, m, d);", "adamw_split", SPLIT),
    ("lion_split.cu", "direction > 0.0f ? -rate", "direction > 0.0f ? rate", "lion_split", SPLIT_LION),
    ("muon_momentum.cu", "g = fma(mu, m - clipped, clipped);", "g = m;", "muon_momentum", MUON),
    ("row_norms.cu", "norms[row] = sqrt(squares);", "norms[row] = squares;", "momentum_norms", MUON),
    ("muon_factors.cu", "equilibrate ? size * ", "!equilibrate ? size * ", "result_factors", MUON),
    ("scale_rows.cu", "const float factor = factors[row];", "const float factor = factors[0];", "scale_momentum",
     POLAR),
    ("muon_factors.cu", "mean / n * inverse : 0.0f;", "inverse : 0.0f;", "momentum_factors", POLAR),
    ("neuron_factors.cu", "x * x / kCols - v", "x * x / kRows - v", "result_factors", POLAR),
    ("muon.cu", "cautious && d * p < 0.0f ?", "cautious && d * p > 0.0f ?", "muon_split", POLAR),
    ("embedding_split.cu", "tokens[row]) * kPitch;", "tokens[row]) * kPitch + 1;", "embed", SPLIT),
    ("join_masters.cu", "lanes.store(out, lanes.run(master + at, chunk.length), [](float v) { return v; });",
     "lanes.store(out, lanes.run(master + at, chunk.length), [](float v) { return 2.0f * v; });", "join_masters",
     SPLIT),
    ("split_masters.cu", "lanes.store(lanes.split(copy, rest, ties, at, chunk.length), in, [](float v) { return v; });",
     "lanes.store(lanes.split(copy, rest, ties, at, chunk.length), in, [](float v) { return 2.0f * v; });",
     "split_masters", SPLIT),
    ("quantise_blocks.cu", "for (int row = first; row < last; ++row) {\n        lanes.map",
     "for (int row = first; row < last - 1; ++row) {\n        lanes.map", "d_x_next_back_mxfp8_down", harness.MXFP8),
]


class Verify(RunTest):

    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        cls.spec = harness.write_small(cls.folder)
        # Templates that may be overwritten, with the runtime that is already built.
        cls.home = os.path.join(cls.folder, "home")
        shutil.copytree(os.path.join(SOURCE, "templates"), os.path.join(cls.home, "templates"))
        os.symlink(os.path.join(SOURCE, "runtime"), os.path.join(cls.home, "runtime"))

    def verify(self, *words):
        """Uses one folder for each set of overrides, so that only the faulty code is recompiled."""
        name = "-".join(word.replace("=", "").replace(" ", "") for word in words if "=" in word) or "plain"
        out = self.path(name[-200:])  # file systems have limits
        os.makedirs(out, exist_ok=True)
        env = harness.environment(LLMC_HOME=self.home, LLMC_BUILD=os.path.dirname(LLMC))
        return harness.call(LLMC, "verify", self.spec, "-o", os.path.join(out, "run"), *words, cwd=out, env=env)

    def report(self, code, *words):
        done = self.verify("--json", *words)
        self.assertEqual(done.code, code, done.out + done.err)
        return json.loads(done.out)

    def test_good(self):
        for overrides in ((), BF16, NO_ROPE, (*BF16, *NO_ROPE), POST, SANDWICH, LOCAL, GEMMA, UNWEIGHTED, NO_VECTORS,
                          UNGATED, TURNED, PART, NEIGHBOURS, SCALED_Q, EMBEDDED, THREE_KINDS, FACTORS,
                          (*BF16, *FACTORS), (*SPLIT, *SCALED, "schedule.tokens=1x"), ("init.distribution=uniform", ),
                          ("init.distribution=truncated", ), harness.FP8, harness.FP8_FULL, harness.FP8_TENSOR,
                          harness.MXFP8, harness.INT8, SPLIT, MUON, POLAR, MAGNIFIED):
            self.assert_good(overrides)
        done = self.verify()
        self.assertEqual(done.code, 0, done.err)
        self.assertIn("\ngood: ", done.out)

    @unittest.skipUnless(harness.has_tiles(), "this processor has no AMX tiles")
    def test_good_in_bf16x3(self):
        self.assert_good(harness.BF16X3)

    def assert_good(self, overrides):
        report = self.report(0, *overrides)
        self.assertTrue(report["good"])
        self.assertIsNone(report["off"])
        self.assertEqual([c["name"] for c in report["classes"]],
                         ["activations", "their gradients", "loss", "gradients", "parameters", "moments"])
        for tensors in report["classes"]:
            # A run in another precision: no bits are equal.
            self.assertTrue(0 < tensors["worst"] <= tensors["bound"], tensors)
            self.assertLessEqual(tensors["usual_bound"], tensors["bound"])
        self.assertEqual("2 of 3 layers" in report["reduced"], overrides is not THREE_KINDS)
        self.assertGreater(report["ops"]["compared"], 200)
        self.assertTrue(0 < report["ops"]["worst_of_bound"] <= 1)
        # Two layers have fewer parameters; everything else is the run's own.
        self.assertEqual(report["kernels"]["others"],
                         [] if overrides in (THREE_KINDS, MAGNIFIED) else ["parameter_norms"])

    def test_faults_of_templates(self):
        for file, old, new, op, overrides in FAULTS:
            path = os.path.join(self.home, "templates", file)
            before, after = place.with_fault(path, old, new)
            place.put(path, after)
            try:
                off = self.report(7, *overrides)["off"]
            finally:
                place.put(path, before)
            self.assertEqual(off["op"], op, (file, off))
            self.assertIn("of templates/" + file, off["by"])
            self.assertGreater(off["of_bound"], 5, off)

    def test_text_names_the_op(self):
        path = os.path.join(self.home, "templates", "rope.cu")
        before, after = place.with_fault(path, *FAULTS[1][1:3])
        place.put(path, after)
        try:
            done = self.verify()
        finally:
            place.put(path, before)
        self.assertEqual(done.code, 7, done.err)
        self.assertRegex(
            done.out,
            r"(?m)^mismatch: step 1, micro-batch 1, layer 0: op rope of layer_forward\n +%qkv\[\d+, \d+\] is ")
        self.assertIn("by kernel rope of templates/rope.cu\n", done.out)

    def test_an_op_overwrites_another_tensor(self):
        """Each op alone is good: the next ones read what it left."""
        path = os.path.join(self.home, "templates", "rms_norm_forward.cu")
        old = "if (lanes.leads()) rstd[row] = r;"
        before, after = place.with_fault(
            path, old, "if (lanes.leads()) rstd[row] = r, const_cast<Residual*>(x)[row * kPitch] = 9.0f;")
        place.put(path, after)
        try:
            off = self.report(7)["off"]
        finally:
            place.put(path, before)
        self.assertEqual((off["fault"], off["layer"], off["row"], off["column"], off["found"], off["of_bound"]),
                         ("overwritten", 0, 0, 0, 9, None))

    def test_the_host_writes_other_angles(self):
        self.report(0)
        with open(self.path("plain", "run", "trainer", "trainer"), "rb") as file:
            trainer = file.read()
        second = 500000.0**-0.2  # of five pairs
        frequency = struct.pack("<d", second)
        self.assertEqual(trainer.count(frequency), 1)
        other = self.path("other-angles")
        with open(other, "wb") as file:
            file.write(trainer.replace(frequency, struct.pack("<d", 1.001 * second)))
        os.chmod(other, 0o755)
        done = self.verify("--trainer", other)
        self.assertEqual(done.code, 7, done.out + done.err)
        self.assertRegex(
            done.out, r"(?m)^mismatch: step 1, micro-batch 1, layer 0: op rope of layer_forward\n"
            r" +%rope_table\[\d+, [16]\] is \S+, where the host should have written \S+\n +read by kernel rope of ")

    def test_specs_of_the_repository(self):
        for name in ("llama-1b", "llama-8b", "tiny"):
            out = self.path(name)
            done = harness.call(LLMC, "verify", os.path.join(SOURCE, "specs", name + ".yaml"), "-o", out, "--emit-only")
            self.assertEqual(done.code, 0, done.err)
            self.assertEqual(done.out, os.path.join(out, "trainer") + "\n")
            self.assertIn(
                "s.probe.before(",
                harness.read(os.path.join(out, "trainer", "step.c" + ("pp" if name == "tiny" else "u"))).decode())

    def test_refused(self):
        self.report(0)
        trainer = self.path("plain", "run", "trainer", "trainer")
        done = harness.call(trainer, "--run", self.path("by-hand"))
        self.assertEqual(done.code, 2)
        self.assertIn("llmc verify", done.err)
        mine = self.path("mine")
        os.makedirs(os.path.join(mine, "data"))
        with open(os.path.join(mine, "data", "important"), "w") as file:
            file.write("mine")
        done = harness.call(LLMC, "verify", self.spec, "-o", mine)
        self.assertEqual(done.code, 2, done.err)
        self.assertEqual(harness.tree(mine), {"data/important": b"mine"})


if __name__ == "__main__":
    harness.main()
