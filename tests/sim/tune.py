"""trainer tune: the algorithms it keeps, their use by later runs, and files that do not match.

On the simulated device's clock the second algorithm takes half of the first one's time if k is 48 or more, twice
its time otherwise, and the third 1 % less than the first, which is too little for a change
(tests/sim/src/product.h). A backward pass by llmc's two kernels takes 1.002 ms there, cuDNN's 0.001 plus
LLMC_SIM_BACKWARD_MS."""

import json
import os
import re
import shutil
import struct

import harness


class Tuned(harness.SimTest):
    """A trainer of the text SPEC, and the tuned.json next to it."""

    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        spec = harness.runs.write_small(cls.folder, cls.SPEC)
        cls.trainer = harness.compile(spec, os.path.join(cls.folder, "build"))
        cls.file = os.path.join(cls.folder, "build", "tuned.json")

    def setUp(self):
        if os.path.exists(self.file):
            os.remove(self.file)

    def gradients(self, name, **environment):
        """Gradients of one step, and the trainer's output."""
        name = self.id().split(".")[-1] + "-" + name
        done = self.succeed(self.trainer, "--run", self.path(name), "--steps", 1, "--trace", self.path(name + "-trace"),
                            "evaluation.every=0", "sampling.every=0", "checkpoint.every=0",
                            env=harness.runs.environment(**environment))
        return harness.runs.tensors(self.path(name + "-trace", "step-0", "gradients.safetensors")), done.out

    def tune(self, sustained=0, **environment):
        self.said = self.succeed(self.trainer, "tune", "--sustained", sustained,
                                 env=harness.runs.environment(**environment)).out
        with open(self.file) as file:
            return json.load(file)

    def write(self, content):
        with open(self.file, "w") as file:
            file.write(content if isinstance(content, str) else json.dumps(content))

    def refused(self, *command, file=None, **environment):
        done = harness.runs.call(*command, env=harness.runs.environment(**environment))
        self.assertEqual(done.code, 3, done.out + done.err)
        self.assertIn(file or self.file, done.err)
        self.assertIn("run trainer tune", done.err)
        return done.err


class Tune(Tuned):
    # Narrow enough for k below 48 (o: 48, qkv: 36), wide enough for k above it (gate_up's gradients, weight gradients).
    # Loss chunks are 12 rows of 80 bytes, so they are aligned to 64.
    SPEC = harness.SMALL.replace("loss_chunk: 16", "loss_chunk: 12")

    def test_the_fastest_is_kept_where_it_gains_enough(self):
        entries = self.tune()["entries"]
        plan = json.loads(self.succeed(self.trainer, "--plan", "--json").out)
        self.assertEqual({entry["product"] for entry in entries}, {each["tuned_key"] for each in plan["products"]})
        faster = [e for e in entries if e["best_ms"] < e["first_ms"]]
        self.assertTrue(faster)
        self.assertLess(len(faster), len(entries))
        for entry in entries:
            k = int(entry["product"].split("]")[0].split(", ")[1])  # "[m, k] pitch ..."
            self.assertEqual(entry in faster, k >= 48, entry)
            self.assertGreaterEqual(entry["candidates"], 2)
            if entry in faster:
                self.assertAlmostEqual(entry["best_ms"] / entry["first_ms"], 0.5,
                                       delta=0.2)  # each launch takes a little
        first, best = map(float,
                          re.search(r"micro-batch: ([\d.]+) ms .*library.*, ([\d.]+) ms tuned", self.said).groups())
        self.assertGreater(first, sum(entry["first_ms"] for entry in entries))  # a layer's products run once a layer
        self.assertLess(best, first)

    def test_algorithms_are_chosen_for_the_alignment_of_their_operands(self):
        chosen = {}
        for entry in self.tune()["entries"]:
            aligned = tuple(map(int, entry["product"].split(", aligned ")[1].split(" ")))
            # The simulated library keeps it in the algorithm (tests/sim/src/cublaslt.cpp); its A is B.
            b, a, c, d = struct.unpack_from("<4I", bytes.fromhex(entry["algorithm"]), 32)
            self.assertEqual((a, b, c, d), aligned, entry)
            chosen.setdefault(aligned, []).append(entry["product"])
        loss = {aligned: len(products) for aligned, products in chosen.items() if min(aligned) < 256}
        self.assertEqual(loss, {(64, 256, 256, 256): 1, (256, 256, 64, 64): 1, (256, 64, 256, 256): 1}, chosen)
        self.assertEqual(len(chosen), 4, chosen)

    def test_what_is_fast_only_while_the_device_is_cool_is_not_taken(self):
        cool = self.tune(LLMC_SIM_WARM_MS="4")["entries"]
        self.assertTrue([e for e in cool if e["best_ms"] < e["first_ms"]])
        for entry in self.tune(sustained=20, LLMC_SIM_WARM_MS="4")["entries"]:
            self.assertEqual(entry["best_ms"], entry["first_ms"], entry)

    def test_the_record_says_what_the_card_did(self):
        self.assertNotIn("sm_mhz", self.tune(sustained=1)["entries"][0])  # a machine without NVML
        entries = self.tune(sustained=1, LD_LIBRARY_PATH=os.path.join(harness.BUILT, "nvml"))["entries"]
        for entry in entries:
            self.assertEqual((entry["sm_mhz"], entry["watts"], entry["throttled"]),
                             (1395, 698.5, "power cap, thermal slowdown"))
        self.succeed(self.trainer, "--run", self.path("with-a-card"), "--steps", 1, "evaluation.every=0",
                     "sampling.every=0")

    def test_its_figures_become_a_device_file(self):
        """trainer calibrate on the simulated device's clock; llmc calibrate takes its output."""
        figures, mine = self.path("figures.json"), self.path("mine.yaml")
        said = self.succeed(self.trainer, "calibrate", "--seconds", 0, "--sizes", 32, 64, "-o", figures).out
        self.assertRegex(said, r"launch +\d+\.\d\d us\nattention_forward +[\d.]+ ms, ")
        with open(figures) as file:
            measured = json.load(file)
        self.assertEqual((measured["kind"], measured["precision"], len(measured["products"]["forward"])),
                         ("cuda", "bf16", 8))
        done = harness.runs.call(harness.LLMC, "calibrate", figures, "-o", mine)
        self.assertEqual(done.code, 2)  # no device has this name
        self.assertIn("--device", done.err)
        self.assertIn("h100-sxm", done.err)
        self.succeed(harness.LLMC, "calibrate", figures, "--device", "h100-sxm", "-o", mine)
        text = harness.runs.read(mine).decode()
        self.assertRegex(
            text,
            rf"\n  launch: {{{{value: {measured['launch']:.6g}, from: \"[^\"]*llmc calibrate, ".replace("{{", "{"))
        for figure in ("peak_bf16", "product_fp32", "attention_forward_128", "link_inside"):  # of the H100, or assumed
            self.assertNotRegex(text, rf"\n  {figure}: .*llmc calibrate")

        def seconds(device):
            plan = self.succeed(harness.LLMC, "plan", self.path("small.yaml"), "--json", "target.device=" + device,
                                *harness.TARGET)
            return json.loads(plan.out)["step_seconds"]

        self.assertNotEqual(seconds(mine), seconds("h100-sxm"))

    def test_a_trainer_with_fp8_products_measures_them(self):
        figures, mine = self.path("fp8.json"), self.path("fp8.yaml")
        for words in (harness.runs.FP8, harness.runs.FP8_TENSOR):
            trainer = harness.compile(self.path("small.yaml"), self.path("fp8"), *words)
            self.succeed(trainer, "calibrate", "--seconds", 0, "--sizes", 32, 64, "-o", figures)
            with open(figures) as file:
                measured = json.load(file)["product_fp8"]
            self.assertEqual(measured["size"], 64)
            self.succeed(harness.LLMC, "calibrate", figures, "--device", "h100-sxm", "-o", mine)
            self.assertIn(f"\n  product_fp8: {{value: {measured['rate']:.6g}, from: \"measured by llmc calibrate, ",
                          harness.runs.read(mine).decode())

    def test_later_runs_use_it(self):
        before, said = self.gradients("before")
        self.assertIn("; trainer tune", said)
        self.tune()
        tuned, said = self.gradients("tuned")
        self.assertRegex(said, r"gemm +(\d+) of \1 algorithms as in ")
        error, name = harness.runs.relative_difference(tuned, before)
        # bf16 results rounded from sums in another order; the largest differ in one bit.
        self.assertLess(error, 2e-2, name)
        self.assertGreater(error, 0, "the tuned algorithms were not used")
        os.remove(self.file)
        self.assertEqual(harness.runs.relative_difference(self.gradients("after")[0], before)[0], 0)

    def test_other_devices_keep_theirs(self):
        document = self.tune()
        theirs = [dict(entry, device="another GPU with 8 SMs") for entry in document["entries"]]
        self.write(dict(document, entries=theirs))
        untuned, said = self.gradients("theirs")
        self.assertIn("; trainer tune", said)
        self.assertEqual(self.tune()["entries"], theirs + document["entries"])
        self.assertGreater(harness.runs.relative_difference(self.gradients("ours")[0], untuned)[0], 0)

    def test_releases_of_cudnn_that_are_wrong_are_refused(self):
        done = harness.runs.call(self.trainer, "--run", self.path("wrong"), "--steps", 1,
                                 env=harness.runs.environment(LLMC_SIM_CUDNN="91000"))
        self.assertEqual(done.code, 3, done.out + done.err)
        self.assert_facts(done.err, "cuDNN 9.10.0", "target.attention: portable")

    def test_what_is_no_tuned_file_is_refused(self):
        run = (self.trainer, "--run", self.path("never"), "--steps", 1)
        for content in (
                "", "{", "[]", '{"format": "llmc-tuned-3", "entries": []}', '{"format": "llmc-tuned-4"}',
                '{"format": "llmc-tuned-4", "entries": []}',
                '{"format": "llmc-tuned-4", "entries": [{"device": 1}], "attention": []}',
                '{"format": "llmc-tuned-4", "entries": [], "attention": [{"device": "a", "library": 1, "shape": "b", '
                '"backward": "own", "cudnn_ms": 1, "portable_ms": 1}]}'):
            with self.subTest(content):
                self.write(content)
                self.refused(*run)
                self.refused(self.trainer, "tune")

    def test_algorithms_that_need_more_than_an_untuned_product_may_use(self):
        splits = {"LLMC_SIM_SPLIT_WORKSPACE_MIB":
                  "50"}  # more than the 32 MiB of the heuristics, less than the arena's 64
        untuned, _ = self.gradients("untuned", **splits)
        entries = self.tune(**splits)["entries"]
        faster = [e for e in entries if e["best_ms"] < e["first_ms"]]
        self.assertTrue(faster)
        for entry in entries:
            self.assertEqual(entry["workspace"], 50 << 20 if entry in faster else 1024, entry)
        tuned, said = self.gradients("tuned", **splits)
        self.assertRegex(said, r"gemm +(\d+) of \1 algorithms as in ")
        self.assertGreater(harness.runs.relative_difference(tuned, untuned)[0], 0)
        # A budget without space for 64 MiB: a smaller arena, the same bits without the file, and a message with it.
        with open(self.path("build", "plan.json")) as file:
            arena = json.load(file)["memory"]["arena_bytes"]
        narrow = harness.compile(self.path("small.yaml"), self.path("narrow"), f"memory.budget={arena - 1}")
        with open(self.path("narrow", "plan.json")) as file:
            self.assertEqual(json.load(file)["memory"]["arena_bytes"], arena - (32 << 20))
        mine, self.trainer = self.trainer, narrow
        try:
            self.assertEqual(harness.runs.relative_difference(self.gradients("narrow", **splits)[0], untuned)[0], 0)
        finally:
            self.trainer = mine
        theirs = self.path("narrow", "tuned.json")
        shutil.copy(self.file, theirs)
        said = self.refused(narrow, "--run", self.path("narrow-refused"), "--steps", 1, file=theirs, **splits)
        self.assertRegex(said, r" 50 MiB .* 32 MiB")

    def test_an_algorithm_that_does_not_run_is_refused(self):
        document = self.tune()
        document["entries"][0]["algorithm"] = "ff" * 64
        self.write(document)
        said = self.refused(self.trainer, "--run", self.path("refused"), "--steps", 1)
        self.assertIn("cuBLASLt 13.1.0", said)
        document["entries"][0]["algorithm"] = "zz"
        self.write(document)
        self.assertIn("hexadecimal", self.refused(self.trainer, "tune"))


class TuneAttention(Tuned):
    """target.attention: auto, whose trainer contains both backward passes and starts with llmc's own."""

    SPEC = harness.SMALL.replace("attention: cudnn", "attention: auto").replace("num_attention_heads: 6",
                                                                                "num_attention_heads: 2")

    def only_attention(self, document, **changes):
        """Writes the file without its GEMMs, so that only the backward pass can change bits; its entry is changed."""
        self.write(dict(document, entries=[], attention=[dict(entry, **changes) for entry in document["attention"]]))

    def ran(self, name):
        """Backward passes that a run launches, its gradients, and its output."""
        log = self.path(self.id().split(".")[-1] + "-" + name + ".log")
        gradients, said = self.gradients(name, LLMC_SIM_LOG=log)
        with open(log) as file:
            return set(re.findall(r"^stream \d+: (attention.backward\w*)", file.read(), re.MULTILINE)), gradients, said

    def test_the_faster_way_is_taken(self):
        passes, predicted, said = self.ran("predicted")
        self.assertEqual(passes, {"attention_backward_queries", "attention_backward_keys"})
        self.assertRegex(
            said,
            r"attn +backward by llmc's kernels, predicted: 0\.\d+ ms a layer, cuDNN 9\.19\.0 0\.\d+; .*trainer tune")
        document = self.tune(LLMC_SIM_BACKWARD_MS="0.75")  # 0.751 ms, where two kernels take 1.002
        self.assertRegex(
            self.said,
            r"attention backward +predicted, ms +measured, ms\nllmc's kernels +0\.\d+ +1\.0020\ncuDNN 9\.19\.0 +0\.\d+ +0\.7510  taken\n"
        )
        (entry, ) = document["attention"]
        self.assertEqual((entry["backward"], entry["library"]), ("cudnn", 91900))
        self.assertEqual(entry["shape"],
                         "[batch 2, sequence 24, heads 2 over 2, head_dim 8] pitches 48, 16, deterministic")
        self.assertAlmostEqual(entry["cudnn_ms"], 0.751, delta=1e-4)
        self.assertAlmostEqual(entry["portable_ms"], 1.002, delta=1e-4)
        self.only_attention(document)
        passes, tuned, said = self.ran("tuned")
        self.assertEqual(passes, {"attention backward"})
        self.assertRegex(said, r"attn +backward by cuDNN 9\.19\.0.* 0\.7510 .* 1\.0020.*tuned\.json")
        error, name = harness.runs.relative_difference(tuned, predicted)
        self.assertLess(error, 2e-2, name)  # at most roundings to bf16 of sums in another order
        self.assertEqual(harness.runs.relative_difference(self.gradients("again")[0], tuned)[0], 0)

    def test_a_release_that_is_wrong_is_not_taken(self):
        document = self.tune(LLMC_SIM_BACKWARD_MS="0.75")
        self.only_attention(document, library=91500)
        said = self.gradients("wrong", LLMC_SIM_CUDNN="91500")[1]
        self.assertRegex(said, r"attn +backward by llmc's kernels, this is cuDNN 9\.15\.0, .* multiple of 128")
        document = self.tune(LLMC_SIM_CUDNN="91500")
        self.assertIn("backward by llmc's kernels, this is cuDNN 9.15.0", self.said)
        self.assertEqual([entry["library"] for entry in document["attention"]], [91500])  # not timed

    def test_two_percent_are_needed(self):
        document = self.tune(LLMC_SIM_BACKWARD_MS="0.986")  # 1.5 % less
        self.assertEqual(document["attention"][0]["backward"], "portable")
        self.assertLess(document["attention"][0]["cudnn_ms"], document["attention"][0]["portable_ms"])
        self.assertRegex(
            self.gradients("stays")[1], r"attn +backward by llmc's kernels.* 1\.0020 .* 0\.9870.*tuned\.json")
        self.assertEqual(self.tune(LLMC_SIM_BACKWARD_MS="0.95")["attention"][0]["backward"], "cudnn")  # 5 %

    def test_entries_of_others_decide_nothing(self):
        document = self.tune()
        for change in ({"device": "another GPU with 8 SMs"}, {"library": 92500}, {"shape": "another"}):
            with self.subTest(change):
                self.only_attention(document, backward="cudnn", **change)
                self.assertIn("predicted: ", self.gradients(next(iter(change)))[1])
        self.assertEqual(len(self.tune()["attention"]), 2)

    def test_a_trainer_with_one_way_does_not_ask(self):
        document = self.tune()
        self.only_attention(document, backward="portable")
        one = harness.compile(self.path("small.yaml"), self.path("one"), "target.attention=cudnn")
        shutil.copy(self.file, self.path("one", "tuned.json"))
        mine, self.trainer = self.trainer, one
        try:
            self.assertIn("backward by cuDNN 9.19.0, the only", self.gradients("one")[1])
            self.assertNotIn("attention backward", self.succeed(one, "tune").out)
        finally:
            self.trainer = mine


if __name__ == "__main__":
    harness.main()
