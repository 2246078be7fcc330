"""The scripts of tokens/, with stand-ins for the packages that they need: text and tokens of other formats become data."""

import array
import contextlib
import gzip
import importlib.util
import io
import json
import os
import subprocess
import sys
import time
import types

import harness
from harness import LLMC, RunTest

HF_TO_SHARDS = os.path.join(harness.SOURCE, "tokens", "hf_to_shards.py")


def hf_to_shards():
    """The script as a module of its own."""
    spec = importlib.util.spec_from_file_location("hf_to_shards", HF_TO_SHARDS)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


class DataScripts(RunTest):

    def test_hf_to_shards(self):
        """The script's own code, with a stub for the tokenizer package: both widths, whole documents with ends, a
        split by content. Also its .jsonl output."""
        module = hf_to_shards()
        texts = [f"document {number} " * (number % 7 + 1) for number in range(200)]
        os.makedirs(self.path("hf"))
        with gzip.open(self.path("hf", "a.jsonl.gz"), "wt") as file:
            file.writelines(json.dumps({"id": 1, "body": text}) + "\n" for text in texts[:150])
        with open(self.path("hf", "b.jsonl"), "w") as file:
            file.write('{"body": 7}\nno json\n\n[1]\n{"body": "half of a pair \\ud83d"}\n' +
                       "".join(json.dumps({"body": text}) + "\n" for text in texts[150:]))
        for name in ("c.jsonl.zst", "d.json.gz", "e.JSON.gz", "Makefile", ".gitattributes"):
            with open(self.path("hf", name), "w"):
                pass
        os.symlink(self.path("hf"), self.path("hf", "loop"))

        class Tokenizer:

            def __init__(self, size):
                self.size = size
                self.whole = {"truncation": False, "padding": False}  # the file asks for both

            @classmethod
            def from_file(cls, file):
                try:
                    return cls(int(harness.read(file)))
                except ValueError:
                    raise Exception("Model missing") from None

            def no_truncation(self):
                self.whole["truncation"] = True

            def no_padding(self):
                self.whole["padding"] = True

            def encode_batch(self, batch, add_special_tokens):
                assert not add_special_tokens
                assert all(self.whole.values())
                return [types.SimpleNamespace(ids=[self.size - 1 - byte for byte in text.encode()]) for text in batch]

            def token_to_id(self, name):
                return {"</s>": 2}.get(name)

            def id_to_token(self, token):
                return "</s>"

            def get_vocab_size(self, with_added_tokens):
                return self.size

        whole = module.need
        module.need = lambda name: types.SimpleNamespace(Tokenizer=Tokenizer) if name == "tokenizers" else whole(name)
        for size, kind in ((65536, "uint16"), (65537, "uint32")):
            tokenizer, out = self.path(f"tokenizer-{kind}.json"), self.path("hf-" + kind)
            with open(tokenizer, "w") as file:
                file.write(str(size))
            words = ["--tokenizer", tokenizer, "--text-field", "body", "--validation", "0.1", self.path("hf")]
            with contextlib.redirect_stdout(io.StringIO()) as said, contextlib.redirect_stderr(
                    io.StringIO()) as skipped:
                self.assertEqual(module.main([*words, "--shard-tokens", "5000", "-o", out]), 0)
                self.assertEqual(module.main([*words, "-o", out]), 5)  # the folder exists
            self.assertIn("200 documents, 4 lines skipped", said.getvalue())
            self.assertIn("b.jsonl:2: no object", skipped.getvalue())
            self.assertIn("b.jsonl:5: a lone surrogate", skipped.getvalue())
            self.assertIn("left out for their names: no extension 1, .gz 2, .zst 1\n", skipped.getvalue())
            self.assertIn(f"linked folders not entered: 1 ('{self.path('hf', 'loop')}')\n", skipped.getvalue())
            info = json.loads(self.succeed(LLMC, "data", "info", out, "--json").out)
            self.assertEqual({(file["format"], file["type"]) for file in info["files"]}, {("llm.c " + kind, kind)})
            self.assertEqual(info["tokens"], sum(len(text) + 1 for text in texts))
            self.assertEqual(info["source"]["skipped_lines"], 4)
            self.assertEqual(info["source"]["passed_over"], {"": 1, ".gz": 2, ".zst": 1})
            with open(os.path.join(out, "dataset.json")) as file:
                dataset = json.load(file)
            self.assertEqual(dataset["skipped_files"], 0)
            recorded = {shard["file"]: shard for side in ("train", "validation") for shard in dataset[side]["shards"]}
            for file in info["files"]:
                self.assertEqual(recorded[os.path.basename(file["path"])]["max_id"], file["max_id"])
            for side in ("train", "validation"):
                self.assertEqual(sum(shard["documents"] for shard in dataset[side]["shards"]),
                                 info["sides"][side]["documents"])
                self.assertEqual(dataset[side]["documents"], info["sides"][side]["documents"])
            found = {}
            for side in ("train", "val"):
                ids = array.array("H" if kind == "uint16" else "I")
                for name in sorted(name for name in os.listdir(out) if name.startswith(side)):
                    data = harness.read(os.path.join(out, name))[1024:]
                    self.assertLessEqual(len(data), 5000 * ids.itemsize)
                    ids.frombytes(data)
                self.assertEqual(ids[-1], 2)
                text = "".join("\n" if token == 2 else chr(size - 1 - token) for token in ids)
                found[side] = text.splitlines()
            self.assertEqual(sorted(found["train"] + found["val"]), sorted(texts))
            self.assertTrue(5 <= len(found["val"]) <= 40, len(found["val"]))
        with contextlib.redirect_stdout(io.StringIO()), contextlib.redirect_stderr(io.StringIO()) as said:
            self.assertEqual(
                module.main(
                    ["--jsonl", "--text-field", "body", "--limit", "170",
                     self.path("hf"), "-o",
                     self.path("hf-text")]), 0)
            self.assertEqual(module.main(["--jsonl", self.path("nothing"), "-o", self.path("hf-none")]), 5)
        self.assertIn("there is no", said.getvalue())
        self.assertEqual([line["text"] for line in harness.json_lines(self.path("hf-text", "text-00000.jsonl"))],
                         texts[:170])
        with open(self.path("empty.json"), "w") as file:
            file.write("{}")

        def load_dataset(name, config, split, streaming):
            raise ValueError("Config name is missing.")

        datasets = types.SimpleNamespace(load_dataset=load_dataset)
        stubs = module.need
        module.need = lambda name: datasets if name == "datasets" else stubs(name)
        for words, error in ((["--tokenizer",
                               self.path("empty.json"),
                               self.path("hf"), "-o",
                               self.path("hf-no")], f"'{self.path('empty.json')}' is no tokenizer.json: Model missing"),
                             (["--tokenizer", self.path("empty.json"), "--ids", "a"], "is no tokenizer.json"),
                             (["--jsonl", "--dataset", "org/name", "-o",
                               self.path("hf-no")],
                              "dataset 'org/name' with --config None and --split train: Config name is missing.")):
            with contextlib.redirect_stderr(io.StringIO()) as said:
                self.assertEqual(module.main(words), 5)
            self.assertIn(error, said.getvalue())

    def test_hf_to_shards_of_bad_files(self):
        """A line of deep nesting is skipped, a truncated file ends the script, and a signal removes its folder."""
        os.makedirs(self.path("bad"))
        with open(self.path("bad", "a.jsonl"), "w") as file:
            file.write('{"text": "one"}\n' + "[" * 100_000 + '\n{"text": "two"}\n')
        words = [sys.executable, HF_TO_SHARDS, "--jsonl", "-o", self.path("of-bad")]
        relative = os.path.relpath(self.path("bad"))
        done = self.succeed(*words, self.path("bad"), relative)
        self.assertIn(": 2 documents, 1 lines skipped", done.out)
        packed = gzip.compress(harness.read(self.path("bad", "a.jsonl")))
        with open(self.path("bad", "b.jsonl.gz"), "wb") as file:
            file.write(packed[:-9])
        words[-1] = self.path("of-cut")
        done = harness.call(*words, self.path("bad"))
        self.assertEqual((done.code, done.out), (5, ""), done.err)
        self.assert_facts(done.err, "error: ", self.path("bad", "b.jsonl.gz"))
        with open(self.path("c.jsonl"), "wb") as file:
            file.write(packed)
        words[-1] = self.path("of-packed")
        done = harness.call(*words, self.path("c.jsonl"))
        self.assertEqual((done.code, done.out), (5, ""), done.err)
        self.assert_facts(done.err, self.path("c.jsonl"), "gzip")
        os.makedirs(self.path("empty"))
        os.symlink("empty", self.path("linked"))
        words[-1] = self.path("linked")
        self.assertIn("is there already", harness.call(*words, self.path("bad", "a.jsonl")).err)
        os.mkfifo(self.path("endless.jsonl"))
        words[-1] = self.path("signals", "out")
        process = self.start(*words, self.path("endless.jsonl"))
        while process.poll() is None and not os.path.exists(self.path(f"signals/out.partial-{process.pid}")):
            time.sleep(0.01)
        process.terminate()
        self.assertEqual((process.wait(timeout=harness.HANGS), os.listdir(self.path("signals"))), (143, []))

    def test_end_of_a_tokenizer_config(self):
        module, config = hf_to_shards(), self.path("config", "tokenizer_config.json")
        os.makedirs(self.path("config"))
        for text, names in (("null", []), ('{"eos_token": {"content": null}}', []), ('{"eos_token": 7}', []),
                            ('{"eos_token": "</s>"}', ["</s>"]), ('{"eos_token": {"content": "a"}}', ["a"])):
            with open(config, "w") as file:
                file.write(text)
            self.assertEqual(module.eos_token(config), names, text)
        for text in ("{", "[" * 100_000):
            with open(config, "w") as file:
                file.write(text)
            with self.assertRaises(module.DataError):
                module.eos_token(config)

    def test_parquet_lines(self):
        """The script's own code, with a stand-in for pyarrow whose files are JSON: rows in the order of paths, rows without
        a text skipped, a pipe into llmc data build, and refusals."""
        script = os.path.join(harness.SOURCE, "tokens", "parquet_lines.py")
        os.makedirs(self.path("stand-in", "pyarrow"))
        with open(self.path("stand-in", "pyarrow", "__init__.py"), "w") as file:
            file.write("class ArrowException(Exception):\n    pass\n")
        with open(self.path("stand-in", "pyarrow", "parquet.py"), "w") as file:
            file.write("""import json, types
import pyarrow
class ParquetFile:
    def __init__(self, path):
        try:
            self.rows = json.load(open(path))
        except ValueError:
            raise pyarrow.ArrowException("no magic bytes")
        kind = lambda name: "int64" if isinstance(self.rows[name][0], int) else "string"
        self.schema_arrow = types.SimpleNamespace(
            names=list(self.rows), field=lambda name: types.SimpleNamespace(type=kind(name)))
    def iter_batches(self, batch_size, columns):
        values = self.rows[columns[0]]
        if values[0] == "not UTF-8":
            b"\\xff".decode()
        for first in range(0, len(values), 2):
            part = types.SimpleNamespace(to_pylist=lambda first=first: values[first:first + 2])
            yield types.SimpleNamespace(column=lambda number, part=part: part)
""")
        os.makedirs(self.path("rows", "deeper"))
        texts = [f"row {number} of «text»\n" * 20 for number in range(60)]
        for name, values in (("a.parquet", texts[:31]), ("deeper/b.parquet", [*texts[31:], None, "", 7])):
            with open(self.path("rows", name), "w") as file:
                json.dump({"id": [1], "body": values}, file)
        env = dict(os.environ, PYTHONPATH=self.path("stand-in"), PYTHONDONTWRITEBYTECODE="1")

        def lines(*words, **options):
            return subprocess.run([sys.executable, script, *words], capture_output=True, text=True,
                                  env=options.get("env", env), timeout=harness.HANGS)

        done = lines("--text-field", "body", self.path("rows"), os.path.relpath(self.path("rows")))
        self.assertEqual((done.returncode, [json.loads(line) for line in done.stdout.splitlines()]),
                         (0, [{"text": text} for text in texts]), done.stderr)
        self.assertIn("60 rows written, 3 without", done.stderr)
        built = subprocess.run([
            LLMC, "data", "build", "--from", "-", "--vocab-size", "330", "--validation", "0", "-o",
            self.path("of-rows")
        ], input=done.stdout, capture_output=True, text=True, timeout=harness.HANGS)
        self.assertEqual(built.returncode, 0, built.stderr)
        record = json.loads(harness.read(self.path("of-rows", "dataset.json")))
        self.assertEqual((record["train"]["documents"], record["train"]["bytes"]),
                         (60, sum(len(text.encode()) for text in texts)))
        # The rows of the first file are not written if the second is bad.
        for name, content in (("damaged", "PAR1"), ("empty", '{"text": [null, ""]}'), ("bytes",
                                                                                       '{"text": ["not UTF-8"]}')):
            with open(self.path(f"{name}.parquet"), "w") as file:
                file.write(content)
        first = self.path("rows", "a.parquet")
        cases = [
            (("--text-field", "body", first, self.path("empty.parquet")), "empty.parquet' has no column 'body'"),
            (("--text-field", "id", first), "int64 instead of string"),
            ((self.path("empty.parquet"), ), "no row has a text"),
            ((self.path("bytes.parquet"), ), "bytes.parquet' is not UTF-8"),
            ((self.path("rows"), ), "no column 'text'. Give one of id, body"),
            ((self.path("damaged.parquet"), ), "no magic bytes"),
            ((self.path("nowhere"), ), "there is no '"),
            ((self.path("stand-in"), ), "no .parquet file"),
        ]
        for words, fact in cases:
            done = lines(*words)
            self.assertEqual((done.returncode, done.stdout), (5, ""), done.stderr)
            self.assertIn(fact, done.stderr)
        os.makedirs(self.path("without", "pyarrow"))
        with open(self.path("without", "pyarrow", "__init__.py"), "w") as file:
            file.write("raise ModuleNotFoundError('pyarrow')\n")
        done = lines(self.path("rows"), env=dict(env, PYTHONPATH=self.path("without")))
        self.assertEqual((done.returncode, done.stdout), (3, ""))
        self.assertIn("tokens/requirements-parquet.txt", done.stderr)


if __name__ == "__main__":
    harness.main()
