"""`llmc data build --train-tokenizer bpe`: the tokenizer.json gives the ids of the trained model, and an export has both."""

import json
import os
import random

import harness
from harness import LLMC, RunTest

WORDS = [
    "def", "return", "the", "lemma", "naïve", "Größe", "über", "мир", "日本語", "🙂", "x_1", "λ", "0x7f", "'", "{}", "—",
    "ﬁ"
]


def document(rng):
    """Indented lines of words of several scripts, runs of blanks and tabs, and characters that the vocabulary lacks."""
    lines = []
    for _ in range(rng.randrange(1, 30)):
        words = [rng.choice(WORDS) + rng.choice(["", "", "s", "(", "."]) for _ in range(rng.randrange(0, 12))]
        lines.append(" " * rng.choice([0, 4, 8, 3]) + rng.choice([" ", "  ", "\t"]).join(words))
    rare = "".join(chr(rng.randrange(0x3000, 0xd7ff)) for _ in range(rng.randrange(3)))
    return "\n".join(lines) + rare + rng.choice(["", "\n", "\r\n", "  ", "\n\n\n"])


class Trained(RunTest):

    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        rng = random.Random(1)
        os.makedirs(os.path.join(cls.folder, "text"))
        with open(os.path.join(cls.folder, "text", "all.jsonl"), "w") as file:
            for _ in range(400):
                file.write(json.dumps({"text": document(rng)}) + "\n")
        cls.data = os.path.join(cls.folder, "data")
        cls.words = (LLMC, "data", "build", "--from", os.path.join(cls.folder, "text"))
        done = harness.call(*cls.words, "--train-tokenizer", "bpe", "--vocab-size", 600, "-o", cls.data)
        assert done.code == 0, done.err

    def test_ids_are_those_of_the_model(self):
        again = self.path("again")
        self.succeed(*self.words, "--tokenizer", os.path.join(self.data, "tokenizer.json"), "-o", again)
        for name in ("train-00000.bin", "val-00000.bin"):
            self.assertEqual(harness.read(os.path.join(self.data, name)), harness.read(os.path.join(again, name)))
        # Without the option there is one file less, and nothing else differs.
        plain = self.path("plain")
        self.succeed(*self.words, "--vocab-size", 600, "-o", plain)
        ours, theirs = harness.tree(self.data), harness.tree(plain)
        self.assertEqual(sorted(ours), sorted([*theirs, "tokenizer.json"]))
        record = json.loads(ours.pop("dataset.json"))
        self.assertEqual(len(record.pop("tokenizer_json_xxh3")), 16)
        self.assertEqual(record, json.loads(theirs.pop("dataset.json")))
        ours.pop("tokenizer.json")
        self.assertEqual(ours, theirs)

    def test_verify_reads_it(self):
        self.assertIn("4 files", self.succeed(LLMC, "data", "verify", self.data).out)
        copy = self.path("damaged")
        self.succeed("cp", "-r", self.data, copy)
        with open(os.path.join(copy, "tokenizer.json"), "a") as file:
            file.write(" ")
        done = harness.call(LLMC, "data", "verify", copy)
        self.assertEqual(done.code, 5)
        self.assert_facts(done.out + done.err, "tokenizer.json", "has the checksum")

    def test_refusals(self):
        for words, facts in ((("--train-tokenizer", "unigram", "--vocab-size", 600),
                              ("unigram", "bpe")), (("--train-tokenizer", "bpe"), ("--vocab-size", )),
                             (("--train-tokenizer", "bpe", "--tokenizer", self.data), ("--tokenizer", "Leave",
                                                                                       "--train-tokenizer"))):
            done = harness.call(*self.words, *words, "-o", self.path("refused"))
            self.assertEqual(done.code, 2, done.err)
            self.assert_facts(done.err, *facts)

    def test_an_export_has_it(self):
        spec = self.path("run.yaml")
        with open(spec, "w") as file:
            file.write(
                harness.SMALL.replace("vocab_size: 97", "vocab_size: 640").replace("path: train-",
                                                                                   "path: data/train-").replace(
                                                                                       "path: val-", "path: data/val-"))
        trainer = self.compile(spec, "trainer")
        self.succeed(trainer, "--run", self.path("run"), "--steps", 1)
        self.succeed(LLMC, "checkpoint", "export", self.path("run"), "-o", self.path("model"))
        for name in ("tokenizer.model", "tokenizer.json"):
            self.assertEqual(harness.read(self.path("model", name)), harness.read(os.path.join(self.data, name)))
        # One that was not made from the model stays behind.
        path = os.path.join(self.data, "tokenizer.json")
        text = harness.read(path)
        with open(path, "ab") as file:
            file.write(b"\n")
        self.succeed(LLMC, "checkpoint", "export", self.path("run"), "-o", self.path("other"))
        with open(path, "wb") as file:
            file.write(text)
        self.assertNotIn("tokenizer.json", os.listdir(self.path("other")))


if __name__ == "__main__":
    harness.main()
