"""Ids of `llmc data build --tokenizer tokenizer.json` on 1 MB of mixed text, against those that the package `tokenizers`
gave (recorded by tests/reference/check_tokenizers.py --update), for each kind of tokenizer that llmc encodes with."""

import array
import hashlib
import json
import os
import shutil
import subprocess
import sys

import harness
from harness import LLMC, RunTest

import mixed_text  # of tests/reference

FIXTURES = os.path.join(os.path.dirname(os.path.abspath(__file__)), "tokenizers")


def texts():
    return mixed_text.documents(1_000_000)


def summary(documents):
    """Number of ids, and 8 hex digits of a hash for each ten documents."""
    hashes = []
    for first in range(0, len(documents), 10):
        ids = array.array("I", [i for document in documents[first:first + 10] for i in (*document, 0xffffffff)])
        if sys.byteorder == "big":
            ids.byteswap()
        hashes.append(hashlib.sha256(ids.tobytes()).hexdigest()[:8])
    return {"ids": sum(map(len, documents)), "hashes": hashes}


def encode(llmc, folder, tokenizer, documents):
    """Ids of each document, read from the shards that `llmc data build` writes."""
    shutil.rmtree(folder, ignore_errors=True)
    os.makedirs(folder)
    lines, out = os.path.join(folder, "text.jsonl"), os.path.join(folder, "set")
    with open(lines, "w") as file:
        file.writelines(json.dumps({"text": text}) + "\n" for text in documents)
    done = subprocess.run(
        [llmc, "data", "build", "--from", lines, "--tokenizer", tokenizer, "--validation", "0", "-o", out],
        capture_output=True, text=True)
    if done.returncode:
        raise AssertionError(done.stderr)
    with open(os.path.join(out, "dataset.json")) as file:
        record = json.load(file)
    ids = array.array("H" if record["token_type"] == "uint16" else "I")
    for shard in record["train"]["shards"]:
        ids.frombytes(harness.read(os.path.join(out, shard["file"]))[1024:])
    found, current = [], []
    for token in ids:
        if token == record["separator_id"]:
            found.append(current)
            current = []
        else:
            current.append(token)
    return found


class TokenizerIds(RunTest):

    def test_ids_are_those_of_the_package(self):
        documents = texts()
        recorded = json.loads(harness.read(os.path.join(FIXTURES, "expected", "ids.json")))
        self.assertGreater(len(recorded), 8)
        for name, expected in recorded.items():
            with self.subTest(name):
                found = encode(LLMC, self.path("data"), os.path.join(FIXTURES, name + ".json"), documents)
                self.assertEqual(summary(found), expected)

    def test_a_run_with_one(self):
        """Data, prompts, samples, bits a byte, an export and its import."""
        os.makedirs(self.path("text"))
        for number in range(40):
            with open(self.path("text", f"{number}.txt"), "w") as file:
                file.write(mixed_text.documents(400, seed=number + 1)[0].replace("\0", "") + "<|endoftext|>")
        given = os.path.join(FIXTURES, "llama3.json")
        self.succeed(LLMC, "data", "build", "--from", self.path("text"), "--tokenizer", given, "--validation", "0.2",
                     "-o", self.path("data"))
        self.assertEqual(harness.read(self.path("data", "tokenizer.json")), harness.read(given))
        record = json.loads(harness.read(self.path("data", "dataset.json")))
        self.assertEqual((record["tokenizer"], record["separator_id"], record["vocab_size"]),
                         ("tokenizer.json", 0, 483))
        self.assertEqual(record["train"]["documents"] + record["validation"]["documents"], 40)
        looked = json.loads(self.succeed(LLMC, "data", "look", self.path("data"), "--json").out)
        self.assertEqual(len(looked["tokens"]), 257)
        spec = self.path("small.yaml")
        prompt = "It's café, 1234 'ſ"
        with open(spec, "w") as file:
            file.write(
                harness.SMALL.replace("vocab_size: 97", "vocab_size: 483").replace(
                    "attention_bias: true",
                    "attention_bias: false").replace("train-*", "data/train-*").replace("val-*", "data/val-*").replace(
                        "data:\n",
                        "data:\n  tokenizer: data/tokenizer.json\n").replace('["1 2 3", "40"]',
                                                                             json.dumps([prompt], ensure_ascii=False)))
        trainer = self.compile(spec, "trainer")
        self.succeed(trainer, "--run", self.path("run"), "--steps", "3")
        sample = harness.json_lines(self.path("run", "samples.jsonl"))[0]
        self.assertEqual(sample["prompt"], prompt)
        line = harness.json_lines(self.path("run", "metrics.jsonl"))[-1]
        self.assertGreater(line["val_bits_per_byte"], 1)
        words = ("--checkpoint", self.path("run"), "--temperature", "0")
        text = self.succeed(trainer, "sample", *words, "--prompt", prompt).out
        self.assertTrue(text.startswith(prompt), text)
        # A task in JSON lines: the sum of its losses decides, so an ending that the model finds likely is chosen.
        task, word = self.path("choice.jsonl"), text[len(prompt):].split("\n")[0][:1] or "a"
        with open(task, "w") as file:
            for label in (0, 1):
                file.write(json.dumps({"context": prompt, "endings": ["\u4e00" * 5, word], "label": label}) + "\n")
        answered = json.loads(
            self.succeed(trainer, "evaluate", "--json", "--checkpoint", self.path("run"), "--task", task).out)
        self.assertEqual((answered["task"], answered["examples"], answered["accuracy"]), (task, 2, 0.5))
        self.succeed(trainer, "--run", self.path("run"), "--steps", "6", f"evaluation.tasks.choice={task}")
        line = harness.json_lines(self.path("run", "metrics.jsonl"))[-1]
        self.assertEqual((line["task/choice"], line["task/choice/norm"]), (0.5, 0.5))
        with open(task, "a") as file:
            file.write(json.dumps({"context": prompt * 9, "endings": ["a", "b"], "label": 0}) + "\n")
        long = harness.call(trainer, "--run", self.path("long"), f"evaluation.tasks.choice={task}")
        self.assertEqual((long.code, os.path.exists(self.path("long"))), (5, False), long.err)
        self.assert_facts(long.err, f"'{task}': line 3 has", "batch.sequence_length 24")
        missing = harness.call(trainer, "--run", self.path("missing"), "evaluation.tasks.choice=nowhere.bin")
        self.assertNotEqual(missing.code, 0)
        self.assertIn("evaluation.tasks.choice", missing.err)
        out = self.path("exported")
        self.succeed(LLMC, "checkpoint", "export", self.path("run"), "-o", out)
        self.assertEqual(harness.read(os.path.join(out, "tokenizer.json")), harness.read(given))
        made = self.succeed(LLMC, "init", "--from", out, "-o", self.path("imported.yaml"), cwd=self.folder)
        self.assertIn(f"llmc data build --from FOLDER --tokenizer {os.path.join(out, 'tokenizer.json')} -o", made.err)
        self.assertRegex(
            harness.read(self.path("imported.yaml")).decode(), r"\n  tokenizer: data/exported/tokenizer\.json\n")

    def test_what_it_does_not_support_is_named(self):
        os.makedirs(self.path("words"))
        with open(self.path("words", "a.txt"), "w") as file:
            file.write("some text\n" * 100)
        with open(os.path.join(FIXTURES, "qwen.json")) as file:
            other = json.load(file)
        for change, said in (({"normalizer":
                               {"type":
                                "NFKC"}}, "normalizer 'NFKC'"), ({"pre_tokenizer":
                                                                  {"type":
                                                                   "Whitespace"}}, "pre-tokenizer 'Whitespace'"),
                             ({"model": {"type": "WordPiece", "vocab":
                                         {"a": 0}}}, "'WordPiece'"), ({"model": {"type": "Unigram", "vocab":
                                                                                 []}}, "model.vocab")):
            with open(self.path("other.json"), "w") as file:
                json.dump({**other, **change}, file)
            done = harness.call(LLMC, "data", "build", "--from", self.path("words"), "--tokenizer",
                                self.path("other.json"), "-o", self.path("never"))
            self.assertEqual((done.code, os.path.exists(self.path("never"))), (5, False), done.err)
            self.assertIn(said, done.err)


if __name__ == "__main__":
    harness.main()
