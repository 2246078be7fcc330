"""Commands on saved weights: trainer evaluate and trainer sample."""

import array
import json
import math
import os
import shutil
import struct
import subprocess

import harness
from harness import LLMC, RunTest

TIED = harness.SMALL.replace("tie_word_embeddings: false",
                             "tie_word_embeddings: true").replace("attention_bias: true", "attention_bias: false")


class SavedWeights(RunTest):

    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        cls.spec = harness.write_small(cls.folder)
        cls.trainer = cls.compile(cls.spec, "trainer")
        cls.run_folder = os.path.join(cls.folder, "run")
        done = harness.call(cls.trainer, "--run", cls.run_folder, "--steps", "6")
        if done.code:
            raise AssertionError(done.out + done.err)
        cls.top1 = {
            line["step"]: line["val_top1"]
            for line in harness.json_lines(os.path.join(cls.run_folder, "metrics.jsonl")) if "val_top1" in line
        }
        cls.losses = {
            line["step"]: line["val_loss"]
            for line in harness.json_lines(os.path.join(cls.run_folder, "metrics.jsonl")) if "val_loss" in line
        }

    def step(self, step, run=None):
        return os.path.join(run or self.run_folder, "checkpoints", f"step-{step:08}")

    def refused(self, code, *words, **options):
        done = harness.call(self.trainer, *words, **options)
        self.assertEqual((done.code, done.out), (code, ""), f"{words}\n{done.out}{done.err}")
        self.assertTrue(done.err.startswith("error: "), done.err)
        return done.err

    def evaluate(self, *words, trainer=None):
        return json.loads(self.succeed(trainer or self.trainer, "evaluate", "--json", "--checkpoint", *words).out)

    def sample(self, *words, trainer=None, **options):
        return self.succeed(trainer or self.trainer, "sample", "--checkpoint", *words, **options).out

    def test_evaluate_is_what_training_wrote(self):
        before = harness.tree(self.run_folder)
        self.assertEqual(sorted(self.losses), [3, 6])
        for step, loss in self.losses.items():
            found = self.evaluate(self.step(step))
            self.assertEqual((found["step"], found["loss"], found["top1"], found["sequences"], found["tokens"]),
                             (step, loss, self.top1[step], 4, 96))
        self.assertNotEqual(*self.losses.values())
        newest = self.evaluate(self.run_folder)
        self.assertEqual((newest["step"], newest["loss"]), (6, self.losses[6]))
        self.assertEqual(self.evaluate(self.run_folder, "--threads", "1")["loss"], self.losses[6])
        text = self.succeed(self.trainer, "evaluate", "--checkpoint", self.run_folder).out
        for part in (self.step(6), "step 6", "4 of 6 sequences, 96 tokens", f"{self.losses[6]:.6f} nats a token"):
            self.assertIn(part, text)
        self.assertEqual(harness.tree(self.run_folder), before, "nothing is written")

    def test_evaluate_sets_by_name(self):
        harness.write_shard(self.path("code.bin"), 5 * 24 + 1, 11)
        run = self.path("sets")
        self.succeed(self.trainer, "--run", run, "--steps", "3", "data.validation.code=" + self.path("code.bin"),
                     "checkpoint.best=code")
        line = harness.json_lines(os.path.join(run, "metrics.jsonl"))[-1]
        found = [
            json.loads(text)
            for text in self.succeed(self.trainer, "evaluate", "--json", "--checkpoint", run).out.splitlines()
        ]
        self.assertEqual([(one.get("validation"), one["loss"], one["top1"]) for one in found],
                         [(None, line["val_loss"], line["val_top1"]),
                          ("code", line["val_loss/code"], line["val_top1/code"])])
        self.assertEqual(self.evaluate(run, "--validation", "code"), found[1])
        self.assertEqual(self.evaluate(run, "--validation", "validation"), found[0])
        text = self.succeed(self.trainer, "evaluate", "--checkpoint", run).out
        for one in found:
            self.assertIn(f"{one['loss']:.6f} nats a token", text)
        self.assertIn("set        code\n", text)
        self.assertIn("mean code?", self.refused(2, "evaluate", "--checkpoint", run, "--validation", "cod"))
        self.refused(2, "evaluate", "--checkpoint", run, "--validation", "code", "--data", self.path("code.bin"))
        # Several ranks divide the sequences of each set.
        ranks = self.path("sets-of-ranks")
        self.succeed(self.trainer, "--run", ranks, "--ranks", "2", "--steps", "3",
                     "data.validation.code=" + self.path("code.bin"))
        theirs = harness.json_lines(os.path.join(ranks, "metrics.jsonl"))[-1]
        for key in ("val_loss", "val_loss/code", "val_top1/code"):
            self.assertAlmostEqual(theirs[key], line[key], delta=1e-4)
        # Tables show the set of checkpoint.best.
        listed = json.loads(self.succeed(LLMC, "runs", run, "--json").out)["runs"][0]
        self.assertEqual((listed["val_loss"], listed["val_step"]), (line["val_loss/code"], 3))
        self.assertIn(f"{line['val_loss/code']:.4f}", self.succeed(LLMC, "checkpoint", "ls", run).out)

    def test_evaluate_other_data(self):
        shards = os.path.join(self.folder, "val-*.bin")
        self.assertEqual(self.evaluate(self.run_folder, "--data", shards)["loss"], self.losses[6])
        all_of_it = self.evaluate(self.run_folder, "--data", shards, "--sequences", "all")
        self.assertEqual((all_of_it["sequences"], all_of_it["tokens"]), (6, 144))
        self.assertNotEqual(all_of_it["loss"], self.losses[6])
        self.assertEqual(all_of_it, self.evaluate(self.run_folder, "--data", shards, "--sequences", "1000"))
        # A mean over sequences: that of all is the mean of single ones.
        harness.write_shard(self.path("one.bin"), 2 * 24 + 1, 9)
        single = self.evaluate(self.run_folder, "--data", self.path("one.bin"), "--sequences", "1")
        both = self.evaluate(self.run_folder, "--data", self.path("one.bin"))
        self.assertEqual((single["sequences"], both["sequences"]), (1, 2))
        self.assertNotEqual(single["loss"], both["loss"])
        with open(self.path("raw.bin"), "wb") as file:
            file.write(harness.read(self.path("one.bin"))[1024:])
        raw = self.evaluate(self.run_folder, "--data", self.path("raw.bin"), "--format", "nanogpt")
        self.assertEqual(raw["loss"], both["loss"])
        with open(self.path("raw.bin"), "rb") as narrow, open(self.path("raw32.bin"), "wb") as file:
            file.write(array.array("I", array.array("H", narrow.read())).tobytes())
        self.assertEqual(
            self.evaluate(self.run_folder, "--data", self.path("raw32.bin"), "--format", "nanogpt32")["loss"],
            both["loss"])
        halves = self.succeed(self.trainer, "evaluate", "--checkpoint", self.run_folder, "--data",
                              self.path("raw32.bin"), "--format", "nanogpt")
        self.assert_facts(halves.err, "warning: ", f"'{self.path('raw32.bin')}'", "every second uint16", "0 or 1")

    def test_evaluate_takes_the_runs_values(self):
        run = self.path("other-values")
        self.succeed(self.trainer, "--run", run, "--steps", "3", "evaluation.sequences=2")
        loss = harness.json_lines(os.path.join(run, "metrics.jsonl"))[-1]["val_loss"]
        found = self.evaluate(self.step(3, run))
        self.assertEqual((found["loss"], found["sequences"]), (loss, 2))

    def test_weights_alone_suffice(self):
        """Missing or damaged optimizer state does not matter; damaged weights do."""
        copy = shutil.copytree(self.step(6), self.path("weights"))
        os.remove(os.path.join(copy, "optimizer.safetensors"))
        self.assertEqual(self.evaluate(copy)["loss"], self.losses[6])
        model = os.path.join(copy, "model.safetensors")
        data = bytearray(harness.read(model))
        data[-1] ^= 1
        with open(model, "wb") as file:
            file.write(data)
        error = self.refused(6, "evaluate", "--checkpoint", copy)
        self.assertIn("model.safetensors", error)
        self.assertIn("is damaged", error)

    def test_exported(self):
        """A Hugging Face folder of the same weights, in one file and in several."""
        for name, words in (("one", []), ("several", ["--shard-size", "30K"])):
            out = self.path("export-" + name)
            self.succeed(LLMC, "checkpoint", "export", self.run_folder, "-o", out, *words)
            found = self.evaluate(out)
            self.assertEqual((found["loss"], found["step"]), (self.losses[6], None), name)

    def test_average(self):
        """The mean of checkpoints: evaluated and trained from, equal to the mean computed here."""
        out, swapped, again = self.path("mean"), self.path("mean-swapped"), self.path("mean-several")
        said = self.succeed(LLMC, "checkpoint", "average", self.step(3), self.run_folder, "-o", out)
        self.assertTrue(said.out.endswith(f"the mean of\n  {self.step(3)}\n  {self.step(6)}\n"), said.out)
        self.assertEqual(sorted(os.listdir(out)),
                         ["README.md", "config.json", "generation_config.json", "model.safetensors"])
        tensors = [
            self.tensors(os.path.join(folder, "model.safetensors")) for folder in (self.step(3), self.step(6), out)
        ]
        self.assertEqual(tensors[2].keys(), tensors[0].keys())
        for name, mean in tensors[2].items():
            expected = array.array("f", ((a + b) / 2 for a, b in zip(tensors[0][name], tensors[1][name])))
            self.assertEqual(mean, expected, name)
        found = self.evaluate(out)
        self.assertIsNone(found["step"])
        self.assertNotIn(found["loss"], self.losses.values())
        self.assertLess(abs(found["loss"] - sum(self.losses.values()) / 2), 0.5)
        # A sum of two numbers is exact in both orders.
        self.succeed(LLMC, "checkpoint", "average", self.step(6), self.step(3), "-o", swapped, "--shard-size", "30K")
        self.assertEqual(self.evaluate(swapped)["loss"], found["loss"])
        # A run starts from it: its first evaluation without an update has the same loss.
        run = self.path("from-mean")
        self.succeed(self.trainer, "--run", run, "--steps", "3", "init.from=" + out, "optimizer.lr=1e-30",
                     "optimizer.weight_decay=0")
        self.assertEqual(self.evaluate(os.path.join(run, "checkpoints", "step-00000003"))["loss"], found["loss"])
        # Refused without a trace.
        other = self.path("average-other.yaml")
        with open(other, "w") as file:
            file.write(harness.SMALL.replace("num_hidden_layers: 3", "num_hidden_layers: 2"))
        theirs = self.path("average-run")
        self.succeed(self.compile(other, "average-trainer"), "--run", theirs, "--steps", "1")
        for code, words, facts in ((6, [self.step(3),
                                        theirs], ("step-00000001", self.step(3), "model.num_hidden_layers 3 -> 2")),
                                   (2, [self.step(6), self.run_folder], (self.step(6), "named twice")),
                                   (2, [self.run_folder], ("two or more", "checkpoint export")),
                                   (6, [self.step(3), self.path("nothing")], ("there is no checkpoint", "nothing"))):
            done = harness.call(LLMC, "checkpoint", "average", *words, "-o", again)
            self.assertEqual((done.code, done.out), (code, ""), done.err)
            self.assert_facts(done.err, *facts)
            self.assertFalse(os.path.exists(again))

    def tensors(self, path):
        """Elements of each tensor of a file in fp32."""
        data = harness.read(path)
        (size, ) = struct.unpack("<Q", data[:8])
        header = json.loads(data[8:8 + size])
        header.pop("__metadata__", None)
        return {
            name: array.array("f", data[8 + size + entry["data_offsets"][0]:8 + size + entry["data_offsets"][1]])
            for name, entry in header.items()
        }

    def test_sample_is_what_training_wrote(self):
        of_run = [
            line for line in harness.json_lines(os.path.join(self.run_folder, "samples.jsonl")) if line["step"] == 6
        ]
        out = self.sample(self.run_folder, "--prompt", "1 2 3", "--prompt", "40")
        self.assertEqual(out, "---\n".join(f"{line['prompt']} {line['text']}\n" for line in of_run))
        self.assertEqual(
            self.sample(self.run_folder, "--prompt", "1 2 3", "--prompt", "40", "--top-p", "1", "--temperature", "0.8",
                        "--tokens", "8", "--seed", "42"), out)
        longer = self.sample(self.run_folder, "--prompt", "1 2 3", "--tokens", "40")
        self.assertTrue(longer.startswith(out.split("\n")[0]))
        self.assertEqual(len(longer.split()), 43)
        self.assertNotEqual(self.sample(self.run_folder, "--prompt", "1 2 3", "--seed", "7", "--tokens", "40"), longer)
        greedy = self.sample(self.run_folder, "--prompt", "1 2 3", "--temperature", "0")
        self.assertEqual(self.sample(self.run_folder, "--prompt", "1 2 3", "--temperature", "5", "--top-p", "1e-9"),
                         greedy)
        self.assertNotEqual(self.sample(self.run_folder, "--prompt", "1 2 3", "--temperature", "5"), greedy)

    def test_samples_end_with_the_document(self):
        """At data.documents.separator, which here is a token that the text would have, and without a tokenizer."""
        wide = ("--temperature", "5", "--tokens", "40")
        whole = self.sample(self.run_folder, "--prompt", "1 2 3", *wide).split()
        end = next(i for i in range(4, len(whole)) if whole[i] not in whole[3:i])
        run = self.path("ended")
        self.succeed(self.trainer, "--run", run, f"data.documents.separator={whole[end]}", "sampling.temperature=5",
                     "sampling.prompts=[\"1 2 3\"]", "sampling.tokens=40", "--steps", 6)
        self.assertEqual(self.sample(run, "--prompt", "1 2 3", *wide).split(), whole[:end])
        last = harness.json_lines(os.path.join(run, "samples.jsonl"))[-1]
        self.assertEqual((last["step"], f"{last['prompt']} {last['text']}".split()), (6, whole[:end]))

    def test_sample_reads_standard_input(self):
        done = subprocess.run([self.trainer, "sample", "--checkpoint", self.run_folder, "--prompt", "-"],
                              input="1 2 3\n", stdout=subprocess.PIPE, stderr=subprocess.PIPE, universal_newlines=True,
                              env=harness.environment(), timeout=harness.HANGS)
        self.assertEqual((done.returncode, done.stderr), (0, ""))
        self.assertEqual(done.stdout, self.sample(self.run_folder, "--prompt", "1 2 3"))

    def test_sample_streams(self):
        """Tokens are written one by one: the first arrive while the process is still running."""
        process = self.start(self.trainer, "sample", "--checkpoint", self.run_folder, "--prompt", "1 2 3", "--tokens",
                             1000000, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL)
        text = b""
        while text.count(b" ") < 30:
            piece = os.read(process.stdout.fileno(), 4096)
            self.assertTrue(piece, text)
            text += piece
        self.assertIsNone(process.poll())

    def test_text_prompts(self):
        text = self.path("text")
        os.makedirs(text)
        with open(os.path.join(text, "a.txt"), "w") as file:
            file.write("".join(f"zeile {i} für {i * i} €\n" for i in range(400)))
        data = self.path("tokens", "data")
        build = (LLMC, "data", "build", "--from", text, "--validation", "0")
        self.succeed(*build, "--vocab-size", "330", "-o", data)
        self.succeed(*build, "--vocab-size", "325", "-o", self.path("other-data"))
        spec = (TIED.replace("data:\n", "data:\n  tokenizer: data/tokenizer.model\n").replace(
            '["1 2 3", "40"]', '["zeile ", "€"]').replace("vocab_size: 97", "vocab_size: 336").replace(
                "train-*.bin", "data/train-*.bin").replace("  validation: [{path: val-*.bin}]\n", "").replace(
                    "evaluation: {every: 3, sequences: 4}\n",
                    "").replace("compute: fp32",
                                "compute: bf16").replace("metrics: {every: 1}",
                                                         "metrics: {every: 1}\nparallel: {shard: parameters}").replace(
                                                             "tokens: 8}", "tokens: 30, temperature: 1.5, top_p: 0.9}"))
        path = self.path("tokens", "small.yaml")
        with open(path, "w") as file:
            file.write(spec)
        trainer, run = self.compile(path, "text-trainer"), self.path("text-run")
        self.succeed(trainer, "--run", run, "--steps", "3")
        expected = [line["prompt"] + line["text"] for line in harness.json_lines(os.path.join(run, "samples.jsonl"))]
        done = subprocess.run([trainer, "sample", "--checkpoint", run, "--prompt", "zeile ", "--prompt", "€"],
                              stdout=subprocess.PIPE, env=harness.environment(), timeout=harness.HANGS)
        self.assertEqual(done.returncode, 0)
        # samples.jsonl is JSON, which has U+FFFD for bytes that are not UTF-8.
        self.assertEqual([part.rstrip("\n") for part in done.stdout.decode(errors="replace").split("---\n")],
                         [part.rstrip("\n") for part in expected])
        # An export includes its tokenizer; one of another run is refused.
        out = self.path("text-export")
        self.succeed(LLMC, "checkpoint", "export", run, "-o", out, "--dtype", "fp32")
        self.assertEqual(self.sample(out, "--prompt", "zeile ", "--temperature", "0", trainer=trainer),
                         self.sample(run, "--prompt", "zeile ", "--temperature", "0", trainer=trainer))
        done = harness.call(trainer, "sample", "--checkpoint", run, "--prompt", "a", "--tokenizer",
                            self.path("other-data", "tokenizer.model"))
        self.assertEqual((done.code, done.out), (6, ""))
        self.assertIn("its checksum is", done.err)
        # Without validation data nothing is substituted.
        done = harness.call(trainer, "evaluate", "--checkpoint", run)
        self.assertEqual((done.code, done.out), (5, ""))
        self.assertIn("--data PATH", done.err)
        self.assertGreater(self.evaluate(run, "--data", os.path.join(data, "train-*.bin"), trainer=trainer)["loss"], 0)

    def test_bits_per_byte(self):
        """Where the tokenizer of the data is known, with data.tokenizer or without: of metrics, of evaluate, and of an
        export. Its text is that of the targets."""
        text = self.path("bits-text")
        os.makedirs(text)
        for number in range(12):
            with open(os.path.join(text, f"{number}.txt"), "w") as file:
                file.write("".join(f"zeile {number} für {i * i} €\n" for i in range(60)))
        data = self.path("bits-data")
        self.succeed(LLMC, "data", "build", "--from", text, "--vocab-size", "330", "--validation", "0.3", "-o", data)
        spec = harness.write_small(
            self.path("bits-small"),
            harness.SMALL.replace("train-*.bin", "../bits-data/train-*.bin").replace(
                "val-*.bin", "../bits-data/val-*.bin").replace("vocab_size: 97", "vocab_size: 336"))
        trainer, run = self.compile(spec, "bits-trainer"), self.path("bits-run")
        self.succeed(trainer, "--run", run, "--steps", "3")
        line = harness.json_lines(os.path.join(run, "metrics.jsonl"))[-1]
        found = self.evaluate(run, trainer=trainer)
        self.assertEqual((found["loss"], found["bits_per_byte"]), (line["val_loss"], line["val_bits_per_byte"]))
        self.assertIn(f"bits       {found['bits_per_byte']:.6f} a byte",
                      self.succeed(trainer, "evaluate", "--checkpoint", run).out)
        # All samples: the text of their targets is what llmc data look shows.
        whole = self.evaluate(run, "--sequences", "all", trainer=trainer)
        size = 0
        for number in range(whole["sequences"]):
            shown = self.succeed(LLMC, "data", "look", data, "--validation", "--sequence-length", "24", "--sample",
                                 str(number), "--json").out
            tokens = json.loads(shown)["tokens"][1:]
            size += sum(
                len(token["text"].encode()) if "\ufffd" not in token["text"] else 1 for token in tokens
                if token["text"] != "</s>")
        self.assertAlmostEqual(whole["bits_per_byte"], whole["loss"] / math.log(2) * whole["tokens"] / size, delta=1e-9)
        # Shards alone: the text is unknown, unless the weights have a tokenizer.
        os.makedirs(self.path("bits-bare"))
        bare = shutil.copy(os.path.join(data, "val-00000.bin"), self.path("bits-bare"))
        self.assertNotIn("bits_per_byte", self.evaluate(run, "--data", bare, trainer=trainer))
        out = self.path("bits-export")
        self.succeed(LLMC, "checkpoint", "export", run, "-o", out, "--dtype", "fp32")
        self.assertEqual(self.evaluate(out, "--data", bare, trainer=trainer)["bits_per_byte"], found["bits_per_byte"])
        # Another tokenizer in the spec changes only samples; a warning names both.
        other = self.path("bits-other")
        self.succeed(LLMC, "data", "build", "--from", text, "--vocab-size", "325", "-o", other)
        named = os.path.join(other, "tokenizer.model")
        said = self.succeed(trainer, "--run", self.path("bits-named"), "--steps", "3", "data.tokenizer=" + named,
                            "sampling.every=0")
        self.assertEqual(
            harness.json_lines(self.path("bits-named", "metrics.jsonl"))[-1]["val_bits_per_byte"],
            line["val_bits_per_byte"])
        self.assert_facts(said.out + said.err, "was made with another tokenizer than data.tokenizer", named)

    def test_another_model(self):
        other = self.path("other.yaml")
        with open(other, "w") as file:
            file.write(harness.SMALL.replace("num_hidden_layers: 3", "num_hidden_layers: 2"))
        trainer = self.compile(other, "other-trainer")
        exported = self.path("export-other")
        self.succeed(LLMC, "checkpoint", "export", self.run_folder, "-o", exported)
        for folder, remedy in ((self.run_folder, "llmc compile "), (self.step(3), "llmc compile "),
                               (exported, "llmc init --from ")):
            for words in (["evaluate"], ["sample", "--prompt", "1"]):
                done = harness.call(trainer, *words, "--checkpoint", folder)
                self.assertEqual((done.code, done.out), (6, ""), words)
                self.assertRegex(done.err, "model.num_hidden_layers 3 -> 2.*`" + remedy)

    def test_refused(self):
        folder = self.run_folder
        for code, words, said in ((2, ["evaluate"], "--checkpoint is required"), (2, ["sample", "--checkpoint",
                                                                                      folder], "--prompt is required"),
                                  (2, ["evaluate", "--checkpoint", folder, "--ranks", "2"],
                                   "Leave out --ranks"), (2, ["--ranks", "2", "evaluate", "--checkpoint",
                                                              folder], "Leave out --ranks"),
                                  (2, ["--run", folder, "sample", "--checkpoint", folder, "--prompt", "1"],
                                   "Leave out --run"), (2, ["evaluate", "--checkpoint", folder,
                                                            "optimizer.lr=1"], "optimizer.lr=1"),
                                  (2, ["evaluate", "--checkpoint", folder, "--sequences", "0"], "1 to 1000000000"),
                                  (2, ["evaluate", "--checkpoint", folder, "--sequences",
                                       "many"], "or all"), (2, ["evaluate", "--checkpoint", folder, "--format",
                                                                "llmc"], "--format applies"),
                                  (2, ["sample", "--checkpoint", folder, "--prompt", "1", "--top-p", "1.5"],
                                   "--top-p"), (2, ["sample", "--checkpoint", folder, "--prompt", "some text"],
                                                "token ids"), (5, ["sample", "--checkpoint", folder, "--prompt",
                                                                   "97"], "has token 97"),
                                  (5, ["sample", "--checkpoint", folder, "--prompt", "a", "--tokenizer",
                                       self.spec], "small.yaml"),
                                  (5, ["evaluate", "--checkpoint", folder, "--data",
                                       self.path("nothing-*.bin")], "nothing-*.bin"), (5, [
                                           "evaluate", "--checkpoint", folder, "--data", self.spec
                                       ], "small.yaml"), (6, ["evaluate", "--checkpoint",
                                                              self.path("nothing")],
                                                          "no folder"), (6, ["evaluate", "--checkpoint",
                                                                             self.folder], "config.json")):
            self.assertIn(said, self.refused(code, *words))
        ranks = dict(RANK="0", WORLD_SIZE="2", LOCAL_RANK="0", MASTER_ADDR="localhost", MASTER_PORT="29500")
        self.assertIn("torchrun started 2 ranks",
                      self.refused(2, "evaluate", "--checkpoint", folder, env=harness.environment(**ranks)))

    def test_tensors_that_do_not_fit(self):
        """Untrusted headers with the config.json of the right model: each refusal names file and tensor."""
        good = harness.read(os.path.join(self.step(6), "model.safetensors"))
        (size, ) = struct.unpack("<Q", good[:8])
        header, data = json.loads(good[8:8 + size]), good[8 + size:]
        name = "model.layers.1.mlp.up_proj.weight"

        def changed(edit):
            copy = json.loads(json.dumps(header))
            edit(copy)
            return copy

        folder = self.path("stranger")
        os.makedirs(folder)
        shutil.copy(os.path.join(self.step(6), "config.json"), folder)

        def write(header, data=data):
            text = json.dumps(header).encode()
            with open(os.path.join(folder, "model.safetensors"), "wb") as file:
                file.write(struct.pack("<Q", len(text)) + text + data)

        write(header)
        self.assertEqual(self.evaluate(folder)["loss"], self.losses[6])
        write(header, struct.pack("<2f", 1e30, -1e30) * (len(data) // 8))
        self.assertIsNone(self.evaluate(folder)["loss"])
        self.assertRegex(
            self.succeed(self.trainer, "evaluate", "--checkpoint", folder).out,
            "loss +nan nats a token\nperplexity nan\n")
        for edit, said in ((lambda h: h.update({"more": h.pop(name)}),
                            f"'{name}'.*'model.layers.1.mlp.gate_up_proj.weight'"),
                           (lambda h: h.update({"more": h.pop("model.norm.weight")}), "tensor 'model.norm.weight'"),
                           (lambda h: h[name].update(shape=[36, 50]), rf"'{name}' .*\[36, 50\].*\[50, 36\]"),
                           (lambda h: h[name].update(dtype="I32"),
                            f"'{name}' is I32"), (lambda h: h[name]["data_offsets"].reverse(), "model.safetensors")):
            write(changed(edit))
            self.assertRegex(self.refused(6, "evaluate", "--checkpoint", folder), said)


if __name__ == "__main__":
    harness.main()
