"""data.tokenizer as a Hugging Face tokenizer.json: samples are decoded with it, prompts are token ids, and an export
includes it."""

import json
import os
import shutil

import harness
from harness import LLMC, RunTest


def characters():
    """Character of each byte in byte-level tokens (GPT-2)."""
    other = iter(range(0x100, 0x200))
    return [
        chr(byte if 0x21 <= byte <= 0x7e or 0xa1 <= byte <= 0xac or byte >= 0xae else next(other))
        for byte in range(256)
    ]


# 97 tokens: <|endoftext|>, another special one, some of several bytes, and single bytes, also parts of characters.
TEXTS = ["the", " the", "\n\n", "é", " a", "€"]
BYTES = [text.encode() for text in TEXTS] + [
    bytes([b])
    for b in [*range(0x61, 0x7b), 0x20, 0x0a, 0xc3, 0xa9, 0xe2, 0x82, 0xac, *range(0x30, 0x3a), *range(0x41, 0x5b)]
]
BYTES = BYTES + [b"xy" + bytes([b]) for b in range(0x61, 0x61 + 95 - len(BYTES))]


def tokenizer():
    table = characters()
    vocabulary = {"".join(table[b] for b in text): i for i, text in enumerate(BYTES)}
    return {
        "version":
        "1.0", "added_tokens": [{"id": 95, "content": "<|endoftext|>", "special": True},
                                {"id": 96, "content": "<|pad|>", "special": True}], "normalizer": {"type": "NFC"},
        "pre_tokenizer": {"type": "ByteLevel", "add_prefix_space": False, "use_regex": True}, "decoder":
        {"type": "ByteLevel"}, "model": {"type": "BPE", "vocab": vocabulary, "merges": []}
    }


def tokenizer_name(i):
    return next(name for name, each in tokenizer()["model"]["vocab"].items() if each == i)


def decode(ids):
    return b"".join(BYTES[i] if i < 95 else b"" for i in ids)


class TokenizerJson(RunTest):

    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        spec = harness.SMALL.replace("data:\n", "data:\n  tokenizer: tokenizer.json\n").replace(
            "attention_bias: true", "attention_bias: false").replace("tokens: 8}", "tokens: 60, temperature: 1}")
        cls.spec = harness.write_small(cls.folder, spec)
        cls.file = os.path.join(cls.folder, "tokenizer.json")
        with open(cls.file, "w") as file:
            json.dump(tokenizer(), file)
        cls.trainer = cls.compile(cls.spec, "trainer")
        cls.run_folder = os.path.join(cls.folder, "run")
        done = harness.call(cls.trainer, "--run", cls.run_folder, "--steps", "3")
        if done.code:
            raise AssertionError(done.out + done.err)
        cls.samples = harness.json_lines(os.path.join(cls.run_folder, "samples.jsonl"))

    def test_samples_are_decoded(self):
        """The same run without a tokenizer gives the ids."""
        run = self.path("ids")
        self.succeed(self.trainer, "--run", run, "--steps", "3", "data.tokenizer=")
        for ours, theirs in zip(self.samples, harness.json_lines(os.path.join(run, "samples.jsonl")), strict=True):
            ids = [int(word) for word in theirs["text"].split()]
            ids = ids[:ids.index(95)] if 95 in ids else ids  # the end-of-document token ends a text
            self.assertEqual(ours["text"], decode(ids).decode(errors="replace"))
            self.assertEqual(ours["prompt"],
                             decode([int(word) for word in theirs["prompt"].split()]).decode(errors="replace"))
        self.assertEqual(self.samples[0]["prompt"], " the\n\né")
        self.assertTrue(any(line["text"] for line in self.samples))

    def test_text_of_samples(self):
        """In JSON it is the text itself; for people it is quoted."""
        words = ("--run", self.run_folder, "--batches", "1", "--text")
        ids = json.loads(self.succeed(self.trainer, *words, "--json", "data.tokenizer=").out)["samples"]
        texts = [sample["text"] for sample in json.loads(self.succeed(self.trainer, *words, "--json").out)["samples"]]
        self.assertEqual(
            texts, [decode([int(word) for word in sample["text"].split()]).decode(errors="replace") for sample in ids])
        self.assertTrue(any("\n" in text for text in texts), texts)
        shown = self.succeed(self.trainer, *words).out
        self.assertEqual(len(shown.splitlines()), 1 + len(texts))
        self.assertRegex(shown, r'(?m)^  \d+  train-\d.bin from token \d+  ".*\\n.*"$')

    def test_sample_command(self):
        done = self.succeed(self.trainer, "sample", "--checkpoint", self.run_folder, "--prompt", "1 2 3", "--prompt",
                            "40")
        for part, line in zip(done.out.split("---\n"), self.samples, strict=True):
            self.assertEqual(
                part.rstrip("\n").replace("\ufffd", ""),
                (line["prompt"] + line["text"]).rstrip("\n").replace("\ufffd", ""))
        done = harness.call(self.trainer, "sample", "--checkpoint", self.run_folder, "--prompt", "some text")
        self.assertEqual((done.code, done.out), (2, ""))
        self.assertIn("prompt 'some text'", done.err)

    def test_text_prompts_are_refused(self):
        done = harness.call(self.trainer, "--run", self.path("never"), 'sampling.prompts=["the"]')
        self.assertEqual((done.code, os.path.exists(self.path("never"))), (1, False), done.err)
        self.assertIn("prompt 'the'", done.err)

    def test_export_takes_it_along(self):
        out = self.path("exported")
        self.succeed(LLMC, "checkpoint", "export", self.run_folder, "-o", out)
        self.assertEqual(harness.read(os.path.join(out, "tokenizer.json")), harness.read(self.file))
        self.assertNotIn("tokenizer.model", os.listdir(out))
        config, generation = (json.loads(harness.read(os.path.join(out, name)))
                              for name in ("tokenizer_config.json", "generation_config.json"))
        self.assertEqual((config["tokenizer_class"], config["eos_token"], generation["eos_token_id"]),
                         ("PreTrainedTokenizerFast", "<|endoftext|>", 95))
        self.assertIn(b"| tokenizer | tokenizer.json, 97 tokens |", harness.read(os.path.join(out, "README.md")))
        sampled = self.succeed(self.trainer, "sample", "--checkpoint", out, "--prompt", "1 2 3", "--temperature",
                               "0").out
        self.assertEqual(
            sampled,
            self.succeed(self.trainer, "sample", "--checkpoint", self.run_folder, "--prompt", "1 2 3", "--temperature",
                         "0").out)
        # Additional tokenizer settings of a folder are kept.
        released, settings = self.path("released"), {"chat_template": "a", "model_max_length": 10**30}
        self.release(released, settings)
        config, ids = self.exported(self.run_folder, "again", released)
        self.assertEqual((config, ids), ({**settings, "model_max_length": 24, "eos_token": "<|endoftext|>"}, [95, 95]))
        # A new run from the export: its spec names weights and tokenizer.
        imported = self.succeed(LLMC, "init", "--from", out, cwd=self.folder).out
        self.assertIn("\n  from: exported  # ", imported)
        self.assertRegex(imported, r"\n  tokenizer: exported/tokenizer\.json  # .*token ids\n")
        with open(self.path("released", "config.json"), "wb") as file:
            file.write(harness.read(os.path.join(out, "config.json")))
        with open(self.path("released", "tokenizer.json"), "w") as file:
            file.write("version https://git-lfs.github.com/spec/v1\noid sha256:ab\nsize 9\n")
        pointer = self.succeed(LLMC, "init", "--from", released)
        self.assert_facts(pointer.err, "tokenizer.json'", "Git LFS")
        self.assertNotIn("tokenizer:", pointer.out)
        written = self.succeed(LLMC, "init", "--from", out, "-o", self.path("imported.yaml"), cwd=self.folder).err
        self.assertIn(
            f"  tokens/hf_to_shards.py --tokenizer {os.path.join(out, 'tokenizer.json')} -o data/exported FILES\n",
            written)

    def release(self, folder, settings):
        """Makes a folder with the tokenizer and a tokenizer_config.json."""
        os.makedirs(folder)
        shutil.copy(self.file, folder)
        with open(os.path.join(folder, "tokenizer_config.json"), "w") as file:
            json.dump(settings, file)

    def exported(self, run, name, tokenizer):
        """Returns tokenizer_config.json, and eos_token_id of both other files, of an export."""
        self.succeed(LLMC, "checkpoint", "export", run, "-o", self.path(name), "--tokenizer", tokenizer)
        config, *others = (json.loads(harness.read(self.path(name, file)))
                           for file in ("tokenizer_config.json", "config.json", "generation_config.json"))
        return config, [other["eos_token_id"] for other in others]

    def test_an_export_encodes_as_the_data(self):
        """A model of random weights has seen no token before a text, so its tokenizer adds none. Special tokens past the
        vocabulary have no row and come from no text, so they hinder nothing."""
        released = self.path("of-template")
        self.release(released, {"add_bos_token": True})
        file = os.path.join(released, "tokenizer.json")
        byte_level = {"type": "ByteLevel", "trim_offsets": False}
        template = {"type": "TemplateProcessing", "single": [{"SpecialToken": {"id": "<|pad|>", "type_id": 0}}]}
        given = tokenizer()
        given["added_tokens"].append({"id": 97, "content": "<|image|>", "special": True})
        given["post_processor"] = {"type": "Sequence", "processors": [byte_level, template, {"type": 5}]}
        with open(file, "w") as out:
            json.dump(given, out)
        run = self.path("of-template-run")
        self.succeed(self.trainer, "--run", run, "--steps", "1", "data.tokenizer=" + file)
        self.assertNotIn("vocab_size", harness.call(LLMC, "check", self.spec, "data.tokenizer=" + file).err)
        done = self.succeed(LLMC, "checkpoint", "export", run, "-o", self.path("plain"))
        self.assertIn("without the tokens that it adds around a text", done.err)
        self.assertIn(b"98 tokens; adds none around a text", harness.read(self.path("plain", "README.md")))
        written, config = (json.loads(harness.read(self.path("plain", name)))
                           for name in ("tokenizer.json", "tokenizer_config.json"))
        self.assertEqual(written, {**given, "post_processor": {"type": "Sequence", "processors": [byte_level]}})
        self.assertIs(config["add_bos_token"], False)
        # Given weights may need these tokens.
        self.succeed(self.trainer, "--run", self.path("later"), "--steps", "1", "data.tokenizer=" + file,
                     "init.from=" + self.path("plain"))
        self.succeed(LLMC, "checkpoint", "export", self.path("later"), "-o", self.path("as-given"))
        self.assertEqual(harness.read(self.path("as-given", "tokenizer.json")), harness.read(file))
        # A tokenizer whose texts have ids that the model lacks.
        given["added_tokens"][-1]["special"] = False
        with open(file, "w") as out:
            json.dump(given, out)
        self.succeed(self.trainer, "--run", self.path("too-many"), "--steps", "1", "data.tokenizer=" + file)
        done = harness.call(LLMC, "checkpoint", "export", self.path("too-many"), "-o", self.path("never"))
        self.assertEqual((done.code, os.path.exists(self.path("never"))), (5, False))
        self.assert_facts(done.err, "ids up to 97", "97 tokens", "--tokenizer none")
        self.succeed(LLMC, "checkpoint", "export", self.path("too-many"), "-o", self.path("alone"), "--tokenizer",
                     "none")
        self.assertNotIn("tokenizer.json", os.listdir(self.path("alone")))

    def test_a_text_ends_as_documents_did(self):
        """An export's end of text is the token that ended documents in training: of the spec, else the one that the
        data record, else the tokenizer's."""
        settings = {"eos_token": {"content": "<|pad|>", "lstrip": False}}
        self.release(self.path("with-pad"), settings)
        self.release(self.path("without-eos"), {})
        run = self.path("separated")
        self.succeed(self.trainer, "--run", run, "--steps", "1", "data.documents.separator=0")
        config, ids = self.exported(run, "of-spec", self.path("with-pad"))
        self.assertEqual((config["eos_token"], ids), (tokenizer_name(0), [0, 0]))
        side = {"documents": 1, "bytes": 1, "tokens": 1, "shards": []}
        record = os.path.join(self.folder, "dataset.json")
        self.addCleanup(lambda: os.path.exists(record) and os.remove(record))
        with open(record, "w") as file:
            json.dump(
                {
                    "token_type": "uint16", "tokenizer": "tokenizer.json", "separator_id": 96, "files": 1,
                    "skipped_files": 0, "train": side, "validation": side
                }, file)
        config, ids = self.exported(self.run_folder, "of-data", self.path("with-pad"))
        self.assertEqual((config, ids), ({**settings, "model_max_length": 24}, [96, 96]))
        config, ids = self.exported(self.run_folder, "of-data-too", self.path("without-eos"))
        self.assertEqual((config["eos_token"], ids), ("<|pad|>", [96, 96]))
        self.assertEqual(self.exported(run, "of-spec-first", self.path("with-pad"))[1], [0, 0])
        with open(self.path("with-pad", "tokenizer_config.json"), "w") as file:
            file.write("[" * 9)
        done = harness.call(LLMC, "checkpoint", "export", run, "-o", self.path("none"), "--tokenizer",
                            self.path("with-pad"))
        self.assertEqual(done.code, 5)
        self.assert_facts(done.err, "tokenizer_config.json'", "JSON")

    def test_data_ends_with_the_named_token(self):
        """eos_token of tokenizer_config.json ends documents, and in a data set the token that dataset.json records."""
        folder, text = self.path("named"), self.path("named-text")
        os.makedirs(folder)
        os.makedirs(text)
        with open(os.path.join(text, "a.jsonl"), "w") as file:
            file.writelines(json.dumps({"text": f"line {i}"}) + "\n" for i in range(9))
        path = os.path.join(os.path.dirname(os.path.abspath(__file__)), "tokenizers", "gpt2.json")
        with open(os.path.join(folder, "tokenizer.json"), "w") as file:
            file.write(harness.read(path).decode().replace("<|endoftext|>", "[EOS]"))
        (end, ) = [
            each["id"] for each in json.loads(harness.read(os.path.join(folder, "tokenizer.json")))["added_tokens"]
            if each["content"] == "[EOS]"
        ]

        def build(name, tokenizer):
            return harness.call(LLMC, "data", "build", "--from", text, "--tokenizer", tokenizer, "--validation", "0",
                                "-o", self.path(name))

        def separator(name):
            return json.loads(harness.read(self.path(name, "dataset.json")))["separator_id"]

        def settings(eos):
            with open(os.path.join(folder, "tokenizer_config.json"), "w") as file:
                json.dump({"eos_token": eos}, file)

        done = build("unnamed", folder)
        self.assertEqual(done.code, 5, done.err)
        self.assert_facts(done.err, f"'{folder}/tokenizer.json' ", "<|end_of_text|>, <|endoftext|>, </s>",
                          "tokenizer_config.json", "eos_token")
        settings("[END]")
        done = build("misnamed", folder)
        self.assertEqual(done.code, 5, done.err)
        self.assert_facts(done.err, f"'{folder}/tokenizer.json' ", "eos_token", "tokenizer_config.json", "'[END]'")
        for name, eos, tokenizer in (("of-name", "[EOS]", folder), ("of-object", {"content": "[EOS]"},
                                                                    os.path.join(folder, "tokenizer.json"))):
            settings(eos)
            done = build(name, tokenizer)
            self.assertEqual((done.code, separator(name)), (0, end), done.err)
        done = build("of-set", self.path("of-name"))
        self.assertEqual((done.code, separator("of-set")), (0, end), done.err)

    def test_another_tokenizer(self):
        other = tokenizer()
        other["model"]["vocab"]["zz"] = 97
        with open(self.path("larger.json"), "w") as file:
            json.dump(other, file)
        done = harness.call(LLMC, "checkpoint", "export", self.run_folder, "-o", self.path("none"), "--tokenizer",
                            self.path("larger.json"))
        self.assertEqual((done.code, os.path.exists(self.path("none"))), (5, False))
        self.assertIn("its checksum is", done.err)
        done = harness.call(self.trainer, "--run", self.run_folder, "--steps", "6",
                            "data.tokenizer=" + self.path("larger.json"))
        self.assertEqual(done.code, 6)
        self.assertIn("data.tokenizer", done.err)
        self.assertIn("model.vocab_size 97 is below the 98 tokens of",
                      harness.call(LLMC, "check", self.spec, "data.tokenizer=" + self.path("larger.json")).err)

    def test_refused(self):
        for name, change, said in (("unigram", {"model": {"type": "Unigram", "vocab": []}}, "model.vocab"),
                                   ("wordpiece", {"decoder": {"type": "WordPiece"}}, "decoder 'WordPiece'"),
                                   ("empty", {"model": {"type": "BPE", "vocab": {}}}, "has no model.vocab")):
            with open(self.path(name + ".json"), "w") as file:
                json.dump({**tokenizer(), **change}, file)
            done = harness.call(self.trainer, "--run", self.path("never"),
                                "data.tokenizer=" + self.path(name + ".json"))
            self.assertEqual((done.code, os.path.exists(self.path("never"))), (5, False), done.err)
            self.assertIn(said, done.err)
        text = self.path("text")
        os.makedirs(text)
        with open(os.path.join(text, "a.txt"), "w") as file:
            file.write("some text\n" * 100)
        done = harness.call(LLMC, "data", "build", "--from", text, "--tokenizer", self.file, "-o", self.path("never"))
        self.assertEqual((done.code, os.path.exists(self.path("never"))), (5, False), done.err)
        self.assertIn("tokens/hf_to_shards.py", done.err)


if __name__ == "__main__":
    harness.main()
