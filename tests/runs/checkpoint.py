"""llmc checkpoint: listing, comparing, removing and exporting checkpoints of trainers with one rank and two."""

import fcntl
import glob
import json
import os
import shutil
import struct
import subprocess

import harness
from harness import LLMC, RunTest


class Checkpoint(RunTest):

    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        cls.trainer = cls.compile(harness.write_small(cls.folder), "trainer", "checkpoint.every=2")
        cls.run_folder = cls.trained("run")

    @classmethod
    def trained(cls, name, *words):
        run = os.path.join(cls.folder, name)
        done = harness.call(cls.trainer, "--run", run, "--steps", "6", *words)
        if done.code:
            raise AssertionError(done.out + done.err)
        return run

    def step(self, step, run=None):
        return os.path.join(run or self.run_folder, "checkpoints", f"step-{step:08}")

    def copy(self, name):
        return shutil.copytree(self.run_folder, self.path(name))

    def json(self, *words, code=0):
        done = harness.call(LLMC, "checkpoint", *words, "--json")
        self.assertEqual((done.code, done.err), (code, ""), done.out)
        return json.loads(done.out)

    def flip(self, path, at=-1):
        with open(path, "r+b") as file:
            file.seek(at, os.SEEK_END)
            byte = file.read(1)[0]
            file.seek(at, os.SEEK_END)
            file.write(bytes([byte ^ 1]))

    def test_ls(self):
        listed = self.json("ls", self.run_folder)
        self.assertEqual([entry["step"] for entry in listed], [2, 4, 6])
        losses = {
            line["step"]: line["val_loss"]
            for line in harness.json_lines(os.path.join(self.run_folder, "metrics.jsonl")) if "val_loss" in line
        }
        self.assertEqual({entry["step"]: entry["val_loss"] for entry in listed if "val_loss" in entry}, {6: losses[6]})
        for entry in listed:
            self.assertTrue(entry["complete"])
            self.assertEqual(entry["bytes"],
                             sum(os.path.getsize(path) for path in glob.glob(os.path.join(entry["path"], "*"))))
        lines = self.succeed(LLMC, "checkpoint", "ls", self.run_folder).out.splitlines()
        self.assertEqual(len(lines), 4)
        self.assertRegex(lines[3],
                         rf"^ +6  20\d\d-\d\d-\d\dT\d\d:\d\d:\d\dZ +\d+\.\d\d KiB +{losses[6]:.4f}  complete$")

    def test_show(self):
        shown = self.json("show", self.run_folder)
        self.assertEqual(shown, self.json("show", self.step(6)))
        state = json.loads(harness.read(os.path.join(self.step(6), "state.json")))
        self.assertEqual((shown["step"], shown["tokens"], shown["model"]),
                         (6, state["tokens"], state["model_fingerprint"]))
        sizes = {entry["name"]: entry["shape"] for entry in shown["tensors"]}
        weights = harness.tensors(os.path.join(self.step(6), "model.safetensors"))
        moments = harness.tensors(os.path.join(self.step(6), "optimizer.safetensors"))
        self.assertEqual(set(sizes), set(weights) | set(moments))
        self.assertEqual(sizes["model.layers.1.mlp.up_proj.weight"], [50, 36])
        self.assertEqual(shown["parameters"], sum(map(len, weights.values())))
        out = self.succeed(LLMC, "checkpoint", "show", self.step(6)).out
        for text in ("exp_avg, exp_avg_sq", "lm_head.weight", "[97, 36]", state["model_fingerprint"]):
            self.assertIn(text, out)

    def test_verify(self):
        run = self.copy("damaged")
        done = self.succeed(LLMC, "checkpoint", "verify", run)
        self.assertEqual([line.split(": ")[1].split(" (")[0] for line in done.out.splitlines()], ["complete"] * 3)
        self.flip(os.path.join(self.step(4, run), "optimizer.safetensors"))
        done = harness.call(LLMC, "checkpoint", "verify", self.step(2, run), run)
        self.assertEqual(done.code, 6)
        self.assertEqual(done.out.count("complete ("), 3)
        self.assertIn(f"{self.step(4, run)}: damaged\n  optimizer.safetensors: ", done.out)
        verdict = self.json("verify", self.step(4, run), code=6)[0]
        self.assertEqual([(entry["file"], entry.get("tensor")) for entry in verdict["damage"]],
                         [("optimizer.safetensors", None)])
        # Comparing with a damaged checkpoint locates the damage: its tensor is the only one that differs.
        found = self.json("diff", self.step(4), self.step(4, run), code=1)
        last = list(harness.tensors(os.path.join(self.step(4), "optimizer.safetensors")))[-1]
        self.assertEqual([entry["name"] for entry in found["tensors"]], [last])
        self.assertEqual(found["equal_tensors"], len(self.json("show", self.step(4))["tensors"]) - 1)

    def test_damage_that_sizes_show(self):
        run = self.copy("cut")
        os.truncate(os.path.join(self.step(6, run), "model.safetensors"), 100000)
        self.assertEqual([entry["complete"] for entry in self.json("ls", run)], [True, True, False])
        shown = self.succeed(LLMC, "checkpoint", "show", run, "--json").out
        self.assertEqual(json.loads(shown)["step"], 4, "the newest that is complete")
        for words in (["show", run], ["diff", self.step(4), run], ["export", run, "-o", self.path("of_cut")]):
            done = self.succeed(LLMC, "checkpoint", *words)
            self.assert_facts(done.err, "warning: ", f"'{self.step(6, run)}'", "damaged", "skipped",
                              "model.safetensors")
        for words in (["show", self.step(6, run)], ["diff", self.step(4, run), self.step(6, run)]):
            done = harness.call(LLMC, "checkpoint", *words)
            self.assertEqual((done.code, done.out), (6, ""))
            self.assertIn("model.safetensors has 100000 bytes instead of", done.err)

    def test_diff(self):
        other = self.trained("other", "optimizer.lr=1e-3")
        done = self.succeed(LLMC, "checkpoint", "diff", self.step(4), self.step(4, self.copy("same")))
        self.assertIn("are equal (", done.out)
        found = self.json("diff", self.run_folder, other, code=1)
        self.assertEqual([(entry["key"], entry["after"]) for entry in found["keys"]], [("optimizer.lr", "0.001")])
        self.assertEqual((found["state"], found["removed"], found["added"]), ([], [], []))
        for stem in ("model", "optimizer"):
            ours, theirs = (harness.tensors(os.path.join(self.step(6, run), stem + ".safetensors"))
                            for run in (self.run_folder, other))
            for entry in found["tensors"]:
                if entry["name"] in ours:
                    name = entry["name"]
                    relative, _ = harness.relative_difference({name: theirs[name]}, {name: ours[name]})
                    self.assertAlmostEqual(entry["relative"] / relative, 1, places=6)
                    self.assertEqual(entry["largest"], max(abs(a - b) for a, b in zip(ours[name], theirs[name])))
        text = harness.call(LLMC, "checkpoint", "diff", self.step(2), self.step(4))
        self.assertEqual(text.code, 1)
        self.assertIn("  step: 2 -> 4\n", text.out)

    def test_prune(self):
        run = self.copy("pruned")
        prune = (LLMC, "checkpoint", "prune", run, "--keep-last", "1", "--keep-every", "4")
        before = sorted(harness.tree(run))
        done = self.succeed(*prune)
        self.assertEqual(done.out, f"would remove {self.step(2, run)}\n1 checkpoint to remove, 2 kept\n")
        self.assertEqual(sorted(harness.tree(run)), before)
        with open(os.path.join(run, "state", "lock")) as held:
            fcntl.flock(held, fcntl.LOCK_EX)  # as a trainer does
            done = harness.call(*prune, "--yes")
            self.assertEqual(done.code, 6)
            self.assert_facts(done.err, "another trainer", f"'{run}'")
            self.assertEqual(sorted(harness.tree(run)), before)
        done = self.succeed(*prune, "--yes")
        self.assertEqual(done.out, f"removed {self.step(2, run)}\n1 checkpoint removed, 2 kept\n")
        self.assertEqual(os.listdir(os.path.join(run, "checkpoints")).count("step-00000002"), 0)
        self.assertEqual([entry["step"] for entry in self.json("ls", run)], [4, 6])
        self.succeed(self.trainer, "--run", run, "--steps", "8")  # resumes from the remaining one
        self.assertEqual(harness.json_lines(os.path.join(run, "history.jsonl"))[-1]["step"], 6)

    def test_two_ranks(self):
        run = self.trained("ranks", "--ranks", "2")
        self.assertEqual(self.json("verify", run)[-1]["damage"], [])
        self.assertEqual([entry["step"] for entry in self.json("ls", run)], [2, 4, 6])
        found = self.json("diff", self.run_folder, run, code=1)
        self.assertEqual((found["state"], found["keys"], found["removed"], found["added"]), ([], [], [], []))
        # Gradients are summed in another order, and AdamW divides small ones, such as those of key biases, by their own
        # size. Matrices have enough large ones (see ranks.py).
        matrices = [
            entry["relative"] for entry in found["tensors"]
            if not entry["name"].startswith("exp_avg") and entry["name"].endswith("weight")
        ]
        self.assertTrue(matrices)
        for error in matrices:
            self.assertLess(error, 1e-4)

    def test_export(self):
        out = self.path("exported")
        done = self.succeed(LLMC, "checkpoint", "export", self.run_folder, "-o", out)
        self.assertIn(" as fp32 in 1 file, ", done.out)
        self.assert_facts(done.err, "no tokenizer", "exported")
        self.assertEqual(sorted(os.listdir(out)),
                         ["README.md", "config.json", "generation_config.json", "model.safetensors"])
        # Masters are fp32, and so is the run: the files equal the checkpoint's.
        for name in ("model.safetensors", "config.json"):
            self.assertEqual(harness.read(os.path.join(out, name)), harness.read(os.path.join(self.step(6), name)),
                             name)
        card = harness.read(os.path.join(out, "README.md")).decode()
        losses = [
            line["val_loss"] for line in harness.json_lines(os.path.join(self.run_folder, "metrics.jsonl"))
            if "val_loss" in line
        ]
        for text in ("# exported\n", "| steps | 6 |", f"| validation loss | {losses[-1]:.4f} nats a token |",
                     "vocab_size: 97\n"):
            self.assertIn(text, card)
        self.assertNotIn(self.folder, card)
        again = self.path("again")
        self.succeed(LLMC, "checkpoint", "export", self.step(6), "-o", again)
        self.assertEqual({k: v
                          for k, v in harness.tree(out).items() if k != "README.md"},
                         {k: v
                          for k, v in harness.tree(again).items() if k != "README.md"})
        done = harness.call(LLMC, "checkpoint", "export", self.step(6), "-o", again)
        self.assertEqual((done.code, done.out), (6, ""))
        self.assertIn("is not empty", done.err)

    def test_export_bf16(self):
        """In several files; every value is the nearest in bf16, ties to even."""
        out = self.path("rounded")
        self.succeed(LLMC, "checkpoint", "export", self.run_folder, "-o", out, "--dtype", "bf16", "--shard-size", "30K")
        self.assertEqual(json.loads(harness.read(os.path.join(out, "config.json")))["dtype"], "bfloat16")
        index = json.loads(harness.read(os.path.join(out, "model.safetensors.index.json")))
        masters = harness.tensors(os.path.join(self.step(6), "model.safetensors"))
        self.assertEqual(set(index["weight_map"]), set(masters))
        self.assertEqual(index["metadata"]["total_size"], 2 * sum(map(len, masters.values())))
        self.assertGreater(len(set(index["weight_map"].values())), 2)
        for file in set(index["weight_map"].values()):
            data = harness.read(os.path.join(out, file))
            (size, ) = struct.unpack("<Q", data[:8])
            header = json.loads(data[8:8 + size])
            self.assertEqual(header.pop("__metadata__"), {"format": "pt"})
            self.assertEqual({name for name, of in index["weight_map"].items() if of == file}, set(header))
            for name, entry in header.items():
                self.assertEqual(entry["dtype"], "BF16")
                begin, end = entry["data_offsets"]
                words = struct.unpack(f"<{(end - begin) // 2}H", data[8 + size + begin:8 + size + end])
                for word, exact in zip(words, masters[name]):
                    below, value, above = (struct.unpack("<f", struct.pack("<I", w << 16))[0]
                                           for w in (max(word - 1, 0), word, word + 1))
                    apart = abs(value - exact)
                    self.assertLessEqual(apart, min(abs(below - exact), abs(above - exact)), name)
                    if apart and apart in (abs(below - exact), abs(above - exact)):
                        self.assertEqual(word % 2, 0, name)

    def test_export_with_tokenizer(self):
        text = self.path("text")
        os.makedirs(text)
        with open(os.path.join(text, "a.txt"), "w") as file:
            file.write("".join(f"line {i} of {i * i}\n" for i in range(400)))
        folder = self.path("tokens")
        build = (LLMC, "data", "build", "--from", text, "--validation", "0")
        self.succeed(*build, "--vocab-size", "330", "-o", os.path.join(folder, "data"))
        self.succeed(*build, "--vocab-size", "325", "-o", self.path("other-data"))
        named = harness.SMALL.replace("data:\n", "data:\n  tokenizer: data/tokenizer.model\n").replace(
            '["1 2 3", "40"]', '["line "]')
        beside = "".join(line for line in harness.SMALL.splitlines(True) if not line.startswith("sampling"))
        model = harness.read(os.path.join(folder, "data", "tokenizer.model"))
        for name, spec in (("named", named), ("beside", beside)):
            spec = spec.replace("vocab_size: 97",
                                "vocab_size: 336").replace("attention_bias: true", "attention_bias: false").replace(
                                    "train-*.bin",
                                    "data/train-*.bin").replace("  validation: [{path: val-*.bin}]\n",
                                                                "").replace("evaluation: {every: 3, sequences: 4}\n",
                                                                            "")
            path = os.path.join(folder, name + ".yaml")
            with open(path, "w") as file:
                file.write(spec)
            trainer, run, out = self.compile(path, name), self.path("run-of-" + name), self.path("out-of-" + name)
            self.succeed(trainer, "--run", run, "--steps", "1")
            self.succeed(LLMC, "checkpoint", "export", run, "-o", out)
            self.assertEqual(harness.read(os.path.join(out, "tokenizer.model")), model)
            config, generation, ours = (json.loads(harness.read(os.path.join(out, name)))
                                        for name in ("tokenizer_config.json", "generation_config.json", "config.json"))
            self.assertEqual((config["tokenizer_class"], config["eos_token"], config["unk_token"]),
                             ("LlamaTokenizer", "</s>", "<unk>"))
            self.assertEqual((config["bos_token"], config["add_prefix_space"], config["legacy"]), (None, False, False))
            self.assertEqual((generation["eos_token_id"], ours["eos_token_id"], ours["bos_token_id"]), (1, 1, None))
        # An export gives a spec of the same model, whose data is made with the same tokenizer.
        imported = self.succeed(LLMC, "init", "--from", out).out
        for line in ("  vocab_size: 336\n", "  head_dim: 10\n", "  num_key_value_heads: 2\n", f"--tokenizer {out} "):
            self.assertIn(line, imported)
        done = harness.call(LLMC, "checkpoint", "export", self.path("run-of-named"), "-o", self.path("none"),
                            "--tokenizer", self.path("other-data"))
        self.assertEqual((done.code, done.out), (5, ""))
        self.assertIn("its checksum is", done.err)
        done = harness.call(LLMC, "checkpoint", "export", self.run_folder, "-o", self.path("none"), "--tokenizer",
                            self.path("other-data"))
        self.assertEqual(done.code, 5)
        self.assert_facts(done.err, "ids up to 324", "97 tokens")
        self.assertFalse(os.path.exists(self.path("none")))

    def test_a_terminal_obeys_no_name(self):
        """A folder and a manifest from elsewhere, with terminal escape sequences."""
        run = self.copy("a\x1b]0;b")
        with open(os.path.join(self.step(6, run), "manifest.json"), "r+b") as file:
            text = file.read().replace(b'"config.json"', rb'"\u001b[2J\u009b"')
            file.seek(0)
            file.write(text)
            file.truncate()
        self.assertIn("\x1b]0;b", self.json("ls", run)[0]["path"])
        self.assertIn("\x1b", self.json("verify", run, code=6)[2]["damage"][0]["what"])
        for code, words in ((0, ["ls", run]), (6, ["show", self.step(6, run)]), (0, ["show", run]),
                            (6, ["verify", run]), (1, ["diff", self.step(2),
                                                       run]), (6, ["show", os.path.join(run, "nothing")]),
                            (0, ["prune", run, "--keep-last", "1"]), (0, ["export", run, "-o",
                                                                          self.path("c\x1bd")])):
            done = harness.call(LLMC, "checkpoint", *words)
            self.assertEqual(done.code, code, done.out + done.err)
            self.assertIn("\\x1b", done.out + done.err, words)
            self.assertNotRegex(done.out + done.err, "[\x1b\x9b]", words)
        for code, words in ((6, ["--resume", os.path.join(run, "nothing")]), (0, ["--steps", "6"])):
            done = harness.call(self.trainer, "--run", run, *words)
            self.assertEqual(done.code, code, done.out + done.err)
            self.assertIn("\\x1b]0;b", done.out + done.err, words)
            self.assertNotRegex(done.out + done.err, "[\x1b\x9b]", words)

    def assert_removed_meanwhile(self, run, note):
        """Removes two checkpoints of a run while `verify` waits to print that of step 2, of which it prints `note`."""
        reader, writer = os.pipe()
        fcntl.fcntl(writer, fcntl.F_SETPIPE_SZ, 4096)
        os.write(writer, bytes(4096))
        process = self.start(LLMC, "checkpoint", "verify", run, stdout=writer, stderr=subprocess.PIPE, text=True)
        os.close(writer)
        self.assertIn(note, process.stderr.readline())
        for step in (4, 6):
            shutil.rmtree(self.step(step, run))
        with os.fdopen(reader, "rb") as file:
            out = file.read()[4096:].decode()
        said = process.communicate()[1]
        self.assertEqual(process.returncode, 0, said)
        self.assertEqual(out.count("complete"), 1, out)
        self.assertEqual([line.count("was removed") for line in said.splitlines()], [1, 1], said)

    def test_strangers(self):
        run = self.copy("strange")
        with open(os.path.join(run, "checkpoints", "step-2"), "w"):
            pass
        with open(os.path.join(self.step(2, run), "notes"), "w"):
            pass
        os.makedirs(self.path("empty", "checkpoints"))
        done = self.succeed(LLMC, "checkpoint", "ls", run)
        self.assert_facts(done.err, '"step-2"', "not a checkpoint")
        self.assert_removed_meanwhile(run, '"notes"')
        self.assertEqual(self.succeed(LLMC, "checkpoint", "ls", self.path("empty")).out, "no checkpoints\n")
        empty = self.path("empty")
        for words, facts in ((["ls", self.folder], (self.folder, "no run")), (["show",
                                                                               self.folder], (self.folder, "neither")),
                             (["verify", self.path("nothing")], ("no checkpoint", self.path("nothing"))),
                             (["ls",
                               self.step(6)], (self.step(6), "is a checkpoint")), (["show",
                                                                                    empty], (empty, "no complete")),
                             (["verify",
                               empty], (empty, "no checkpoints")), (["prune", empty, "--keep-last", "1",
                                                                     "--yes"], (empty, "no state/model"))):
            done = harness.call(LLMC, "checkpoint", *words)
            self.assertEqual((done.code, done.out), (6, ""), words)
            self.assert_facts(done.err, *facts)


if __name__ == "__main__":
    harness.main()
