#!/usr/bin/env python3
"""Makes token shards of a Hugging Face dataset and a tokenizer.json, or .jsonl text for `llmc data build`.

    hf_to_shards.py --tokenizer tokenizer.json -o data/NAME FILE|FOLDER...
    hf_to_shards.py --tokenizer tokenizer.json -o data/NAME --dataset HuggingFaceFW/fineweb-edu --config sample-10BT
    hf_to_shards.py --jsonl -o text/NAME FILE|FOLDER...
    hf_to_shards.py --tokenizer tokenizer.json --ids "The meaning of life is "

Files are Parquet or JSON lines (.jsonl, .ndjson, .jsonlines; also as .gz). Other files of a folder are counted. The folder
appears when all of it is written: train-*.bin and val-*.bin in llm.c's format, uint16 or uint32 as the vocabulary needs, the
tokenizer.json and dataset.json. A document ends with the tokenizer's end-of-text token, and is on one side whole, chosen by its
content: copies of one never stand on both. Equal files and options, equal bytes.
"""

import argparse
import array
import gzip
import hashlib
import json
import os
import shutil
import signal
import struct
import sys
import time
import zlib

# Known to llmc, in this order.
ENDS = ("<|end_of_text|>", "<|endoftext|>", "</s>", "<eos>", "<\uff5cend\u2581of\u2581sentence\uff5c>")
BATCH_BYTES = 4 << 20
SAY_SECONDS = 5.0
HEADERS = {2: (20240520, 1), 4: (20240801, 7)}  # magic number and version, by bytes per token
MOST_SHARD_TOKENS = 2**31 - 1

# First bytes of other formats.
PACKED = {
    b"\x1f\x8b": "gzip", b"\x28\xb5\x2f\xfd": "Zstandard", b"\xfd7zXZ": "xz", b"PK\x03\x04": "ZIP", b"PAR1": "Parquet"
}

# Of a cut or damaged file, by gzip and pyarrow.
UNREADABLE = (EOFError, OSError, ValueError, zlib.error)


class DataError(Exception):
    """An error that the user can fix."""


class Shards:
    """Tokens in files PREFIX-00000.bin, PREFIX-00001.bin, ... of at most `most` tokens each."""

    def __init__(self, folder, prefix, width, most):
        self.folder, self.prefix, self.width, self.most = folder, prefix, width, most
        self.files, self.documents, self.bytes, self.tokens = [], 0, 0, 0
        self.out = None

    def add(self, ids, text_bytes):
        """Adds one document; `text_bytes`: size of its text."""
        tokens = array.array("H" if self.width == 2 else "I", ids)
        if sys.byteorder != "little":
            tokens.byteswap()
        self.documents += 1
        self.bytes += text_bytes
        self.tokens += len(tokens)
        done = 0
        while done < len(tokens):
            if self.out is None:
                self.files.append(
                    {"file": f"{self.prefix}-{len(self.files):05}.bin", "tokens": 0, "documents": 0, "max_id": 0})
                self.out = open(os.path.join(self.folder, self.files[-1]["file"]), "wb")
                self.out.write(bytes(1024))  # header, written when the count is known
            part = tokens[done:done + self.most - self.files[-1]["tokens"]]
            part.tofile(self.out)
            self.files[-1]["tokens"] += len(part)
            self.files[-1]["max_id"] = max(self.files[-1]["max_id"], max(part))
            done += len(part)
            self.files[-1]["documents"] += done == len(tokens)
            if self.files[-1]["tokens"] == self.most:
                self.close()

    def close(self):
        if self.out is None:
            return
        self.out.seek(0)
        self.out.write(struct.pack("<3i", *HEADERS[self.width], self.files[-1]["tokens"]))
        self.out.flush()
        os.fsync(self.out.fileno())
        self.out.close()
        self.out = None

    def summary(self):
        return {"documents": self.documents, "bytes": self.bytes, "tokens": self.tokens, "shards": self.files}


class Lines:
    """The same documents as .jsonl."""

    def __init__(self, folder):
        self.out = open(os.path.join(folder, "text-00000.jsonl"), "w", encoding="utf-8")
        self.documents = 0

    def add(self, text):
        self.documents += 1
        self.out.write(json.dumps({"text": text}, ensure_ascii=False) + "\n")

    def close(self):
        self.out.flush()
        os.fsync(self.out.fileno())
        self.out.close()


class Source:
    """Documents of files or of a dataset, and counts of those skipped."""

    def __init__(self, field):
        self.field = field
        self.files = self.skipped_lines = 0
        self.passed_over = {}

    def of_files(self, paths):
        files, self.passed_over, links = find_files(paths)
        if self.passed_over:
            kinds = ", ".join(f"{kind or 'no extension'} {count:,}" for kind, count in self.passed_over.items())
            print(f"left out for their names: {kinds}", file=sys.stderr)
        if links:
            print(f"linked folders not entered: {len(links)} ('{links[0]}'{', ...' if links[1:] else ''})",
                  file=sys.stderr)
        for path in files:
            self.files += 1
            try:
                yield from self.of_parquet(path) if path.endswith(".parquet") else self.of_jsonl(path)
            except UNREADABLE as error:
                raise DataError(
                    f"cannot read '{path}' to its end: {error}. Replace it by a whole copy, or leave it out") from None

    def of_parquet(self, path):
        parquet = need("pyarrow.parquet")
        file = parquet.ParquetFile(path)
        if self.field not in file.schema_arrow.names:
            raise DataError(
                f"'{path}' has no column '{self.field}': give one of {', '.join(file.schema_arrow.names)} as --text-field"
            )
        for batch in file.iter_batches(batch_size=1024, columns=[self.field]):
            yield from self.texts(batch.column(0).to_pylist())

    def of_jsonl(self, path):
        with (gzip.open if path.endswith(".gz") else open)(path, "rb") as file:
            for number, line in enumerate(file, 1):
                if number == 1 and line.startswith(b"version https://git-lfs.github.com/spec/"):
                    raise DataError(
                        f"'{path}' is a Git LFS pointer, not the file itself. Run `git lfs pull` to fetch the file")
                for magic, kind in PACKED.items() if number == 1 else ():
                    if line.startswith(magic):
                        raise DataError(f"'{path}' is {kind} data under a name of JSON lines: rename or unpack it")
                if not line.strip():
                    continue
                try:
                    value = json.loads(line)
                    text = value[self.field] if isinstance(value, dict) else None
                except (ValueError, KeyError, RecursionError):
                    text = None
                if not is_text(text) and self.skipped_lines < 10:
                    why = "a lone surrogate" if isinstance(text, str) else f"no object with a '{self.field}' of text"
                    print(f"skipped {path}:{number}: {why}", file=sys.stderr)
                yield from self.texts([text])

    def of_dataset(self, name, config, split):
        datasets = need("datasets")
        try:
            rows = datasets.load_dataset(name, config, split=split, streaming=True)
        except Exception as error:  # the package has no type for all of a wrong name, config and split
            raise DataError(f"dataset '{name}' with --config {config} and --split {split}: {error}") from None
        self.files = 1
        for row in rows:
            if self.field not in row:
                raise DataError(f"'{name}' has no column '{self.field}': give one of {', '.join(row)} as --text-field")
            yield from self.texts([row[self.field]])

    def skipped(self):
        return f"{self.skipped_lines:,} lines skipped"

    def texts(self, values):
        for value in values:
            if not is_text(value):
                self.skipped_lines += 1
            elif value:
                yield value


def is_text(value):
    """Whether it is a string of characters. JSON's escapes can also make a lone surrogate, which no encoding has."""
    if not isinstance(value, str):
        return False
    try:
        value.encode()
        return True
    except UnicodeEncodeError:
        return False


def need(name):
    """Imports a package of requirements.txt that only some uses need."""
    try:
        return __import__(name, fromlist=["x"])
    except ImportError:
        raise DataError(f"{name.split('.')[0]} is not installed: pip install -r tokens/requirements.txt") from None


def load_tokenizer(path):
    """Loads a tokenizer.json, to encode whole texts and nothing else: a file can also say that results are cut or padded."""
    tokenizers = need("tokenizers")
    try:
        tokenizer = tokenizers.Tokenizer.from_file(path)
    except Exception as error:  # the package raises no narrower type
        raise DataError(f"'{path}' is no tokenizer.json: {error}") from None
    tokenizer.no_truncation()
    tokenizer.no_padding()
    return tokenizer


def unlistable(error):
    raise DataError(
        f"cannot list '{error.filename}': {error.strerror}. Allow reading it, or give only what is to be read")


def once(paths):
    """The paths, sorted, without those that name a file a second time."""
    return sorted({os.path.abspath(path): path for path in sorted(paths, reverse=True)}.values())


def find_files(paths):
    """Returns the files to read, the number of other files by extension, and the links to folders, which may be loops."""
    kinds = (".parquet", ".jsonl", ".jsonl.gz", ".ndjson", ".ndjson.gz", ".jsonlines", ".jsonlines.gz")
    found, others, links = [], set(), set()
    for path in paths:
        if os.path.isdir(path):
            for folder, folders, names in os.walk(path, onerror=unlistable):
                found += [os.path.join(folder, name) for name in names if name.endswith(kinds)]
                others |= {os.path.join(folder, name) for name in names if not name.endswith(kinds) and name[0] != "."}
                links |= {name for name in (os.path.join(folder, name) for name in folders) if os.path.islink(name)}
        elif not os.path.exists(path):
            raise DataError(f"there is no '{path}'")
        elif not path.endswith(kinds):
            raise DataError(f"'{path}' is none of {', '.join(kinds)}")
        else:
            found.append(path)
    if not found:
        raise DataError(f"no file of {', '.join(kinds)} in {', '.join(paths)}")
    found = once(found)
    read = {os.path.abspath(name) for name in found}
    extensions = [os.path.splitext(name)[1].lower() for name in once(others) if os.path.abspath(name) not in read]
    return found, {kind: extensions.count(kind) for kind in sorted(set(extensions))}, sorted(links)


def is_held_out(text, part, seed):
    """A pure function of the text, so that copies of a document are on one side."""
    digest = hashlib.blake2b(text, digest_size=8, salt=struct.pack("<Q", seed)).digest()
    return int.from_bytes(digest, "little") < part * 2**64


def eos_token(config):
    """Name of the eos_token of a tokenizer_config.json, in a list; an empty list if it has none."""
    try:
        with open(config, encoding="utf-8") as file:
            values = json.load(file)
    except (ValueError, RecursionError) as error:
        raise DataError(f"'{config}' is not JSON: {error}") from None
    eos = values.get("eos_token") if isinstance(values, dict) else None
    name = eos.get("content") if isinstance(eos, dict) else eos
    return [name] if isinstance(name, str) and name else []


def end_token(tokenizer, path, named):
    """Id of the token that ends a document: from --eos, else from tokenizer_config.json in the same folder, else the
    first known one."""
    names = [named] if named else []
    config = os.path.join(os.path.dirname(path), "tokenizer_config.json")
    if not names and os.path.exists(config):
        names = eos_token(config)
    for name in names or ENDS:
        if (token := tokenizer.token_to_id(name)) is not None:
            return token
    raise DataError(f"'{path}' has no token {' or '.join(names or ENDS)} to end a document with: name one with --eos")


def batches(texts, limit):
    """Lists of documents of some megabytes in total, at most `limit` documents (0: all)."""
    batch, size, count = [], 0, 0
    for text in texts:
        batch.append(text)
        size += len(text)
        count += 1
        if size >= BATCH_BYTES:
            yield batch
            batch, size = [], 0
        if count == limit:
            break
    if batch:
        yield batch


class Progress:

    def __init__(self):
        self.last = time.monotonic()

    def say(self, documents, tokens):
        if time.monotonic() - self.last >= SAY_SECONDS:
            self.last = time.monotonic()
            print(f"{documents:,} documents, {tokens:,} tokens", file=sys.stderr, flush=True)


def write_shards(texts, encode_batch, end, vocab_size, folder, options):
    """Writes training and validation shards of `texts`; encode_batch() returns the ids of each text in a list."""
    width = 2 if vocab_size <= 65536 else 4
    train, held = (Shards(folder, prefix, width, options.shard_tokens) for prefix in ("train", "val"))
    progress = Progress()
    for batch in batches(texts, options.limit):
        for text, ids in zip(batch, encode_batch(batch)):
            raw = text.encode()
            (held if is_held_out(raw, options.validation, options.seed) else train).add([*ids, end], len(raw))
        progress.say(train.documents + held.documents, train.tokens + held.tokens)
    for side in (train, held):
        side.close()
    documents = train.documents + held.documents
    if not documents:
        raise DataError("there is no document")
    if not train.documents or (options.validation > 0 and not held.documents):
        raise DataError(
            f"of {documents} documents {'all were' if not train.documents else 'none was'} held out: give another "
            "--validation (0: none is) or --seed")
    return train, held, width


def description(source, train, held, width, vocab_size, end, options):
    """dataset.json as read by `llmc data info`."""
    count = train.tokens + held.tokens
    return {
        "format": "llmc-dataset", "version": 1, "tokenizer": "tokenizer.json", "vocab_size": vocab_size, "separator_id":
        end, "token_type": "uint16" if width == 2 else "uint32", "bytes_per_token": (train.bytes + held.bytes) / count,
        "files": source.files, "skipped_files": 0, "skipped_lines": source.skipped_lines, "passed_over":
        source.passed_over, "train": train.summary(), "validation": held.summary(), "options": {
            "text_field": options.text_field, "validation": options.validation, "shard_tokens": options.shard_tokens,
            "seed": options.seed, "limit": options.limit
        }
    }


def published(folder, fill):
    """Calls fill() with a temporary folder that is renamed to `folder` on success and removed otherwise; returns
    fill()'s result."""
    if os.path.lexists(folder.rstrip("/")) and (os.path.islink(folder.rstrip("/")) or not os.path.isdir(folder)
                                                or os.listdir(folder)):
        raise DataError(f"'{folder}' is there already: give another -o, or remove it")
    partial = f"{folder.rstrip('/')}.partial-{os.getpid()}"
    os.makedirs(partial)
    try:
        result = fill(partial)
        os.replace(partial, folder)
        return result
    finally:
        shutil.rmtree(partial, ignore_errors=True)


def make_shards(options, source, texts):
    tokenizer = load_tokenizer(options.tokenizer)
    tokenizer.encode_special_tokens = True  # as in llmc: no document can contain the token that ends one
    end, vocab_size = end_token(tokenizer, options.tokenizer,
                                options.eos), tokenizer.get_vocab_size(with_added_tokens=True)

    def encode_batch(batch):
        return [encoding.ids for encoding in tokenizer.encode_batch(batch, add_special_tokens=False)]

    def fill(folder):
        train, held, width = write_shards(texts, encode_batch, end, vocab_size, folder, options)
        shutil.copyfile(options.tokenizer, os.path.join(folder, "tokenizer.json"))
        with open(os.path.join(folder, "dataset.json"), "w", encoding="utf-8") as file:
            file.write(json.dumps(description(source, train, held, width, vocab_size, end, options), indent=2) + "\n")
        return train, held

    train, held = published(options.out, fill)
    print(f"{options.out}: {train.documents + held.documents:,} documents, {source.skipped()}, vocabulary "
          f"{vocab_size:,}, {tokenizer.id_to_token(end)} ({end}) ends a document")
    for name, side in (("train", train), ("validation", held)):
        print(f"  {name:<11} {side.tokens:>15,} tokens in {len(side.files)} shards")


def make_lines(options, source, texts):

    def fill(folder):
        lines, progress = Lines(folder), Progress()
        for batch in batches(texts, options.limit):
            for text in batch:
                lines.add(text)
            progress.say(lines.documents, 0)
        lines.close()
        return lines.documents

    print(f"{options.out}: {published(options.out, fill):,} documents, {source.skipped()}")


def parse(words):
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("from_files", nargs="*", metavar="FILE|FOLDER",
                        help="Parquet or JSON lines, or folders of them")
    parser.add_argument("--dataset", help="in place of files: a dataset's name on the Hugging Face hub, streamed")
    parser.add_argument("--config", help="of that dataset")
    parser.add_argument("--split", default="train", help="of that dataset (default: train)")
    parser.add_argument("--tokenizer", help="a model's tokenizer.json")
    parser.add_argument("--jsonl", action="store_true", help="write text for `llmc data build`, and no tokens")
    parser.add_argument("--ids", metavar="TEXT",
                        help="print the token ids of a text, as sampling.prompts takes them, and end")
    parser.add_argument("-o", "--out", metavar="DIR", help="folder to make")
    parser.add_argument("--text-field", default="text", help="column or field of the text (default: text)")
    parser.add_argument("--eos", metavar="TOKEN", help="the token that ends a document, such as '<|end_of_text|>'")
    parser.add_argument("--validation", type=float, default=0.005,
                        help="part of the documents that is held out (default: 0.005)")
    parser.add_argument("--shard-tokens", type=int, default=100_000_000,
                        help="most tokens of one file (default: 100000000)")
    parser.add_argument("--limit", type=int, default=0, metavar="N", help="documents at most (default: all)")
    parser.add_argument("--seed", type=int, default=1337, help="of the split (default: 1337)")
    options = parser.parse_args(words)
    if bool(options.tokenizer) == options.jsonl:
        parser.error("give --tokenizer tokenizer.json or --jsonl")
    if options.ids is not None:
        return options
    if bool(options.from_files) == bool(options.dataset):
        parser.error("give files or --dataset NAME")
    if not options.out:
        parser.error("give -o DIR")
    if not 0 <= options.validation <= 0.5 or not 1 <= options.shard_tokens <= MOST_SHARD_TOKENS or options.limit < 0 or \
            not 0 <= options.seed < 2**64:
        parser.error(
            f"--validation is 0 to 0.5, --shard-tokens 1 to {MOST_SHARD_TOKENS}, --limit and --seed are not negative")
    return options


def main(words=None):
    options = parse(words)
    try:
        if options.ids is not None:
            tokenizer = load_tokenizer(options.tokenizer)
            print(*tokenizer.encode(options.ids, add_special_tokens=False).ids)
            return 0
        source = Source(options.text_field)
        texts = source.of_dataset(options.dataset, options.config, options.split) if options.dataset else \
            source.of_files(options.from_files)
        (make_lines if options.jsonl else make_shards)(options, source, texts)
        return 0
    except KeyboardInterrupt:
        return 130
    except (DataError, OSError) as error:
        print(f"error: {error}", file=sys.stderr)
        return 5


def stop(number, _):
    """Ends the program by an exception, so that it removes its unfinished folder."""
    sys.exit(128 + number)


if __name__ == "__main__":
    for each in (signal.SIGTERM, signal.SIGHUP):
        if signal.getsignal(each) != signal.SIG_IGN:
            signal.signal(each, stop)
    sys.exit(main())
