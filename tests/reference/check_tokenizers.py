#!/usr/bin/python3
"""Checks the ids of `llmc data build --tokenizer tokenizer.json` against the package `tokenizers`, for each kind of
tokenizer that llmc encodes with: small tokenizers of tests/runs/tokenizers, and released files that are named. Not part of
ctest, because Debian has no such package:

    python3 -m venv venv && venv/bin/pip install tokenizers
    venv/bin/python tests/reference/check_tokenizers.py --llmc build/llmc --folder build/check-tokenizers --bytes 20000000
    venv/bin/python tests/reference/check_tokenizers.py ... Llama-3.2-1B/tokenizer.json Qwen3-0.6B/tokenizer.json

The text is mixed_text.py's and, of tokenizers on bytes, every code point in three surroundings. `--update` trains the
small tokenizers anew and records their ids for tests/runs/tokenizer_ids.py.
"""

import argparse
import json
import os
import shutil
import sys
import time

import tokenizers
from tokenizers import decoders, models, normalizers, pre_tokenizers, trainers

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "runs"))
import mixed_text  # noqa: E402
import tokenizer_ids  # noqa: E402

EXPRESSIONS = {
    "llama3": (r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+"
               r"|\s+(?!\S)|\s+"),
    "qwen": (r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+"
             r"|\s+(?!\S)|\s+"),
}
MARK = "\u2581"
SURROUNDINGS = ("{}", "a{}b 1", " {}\n")


def added(content, **flags):
    return tokenizers.AddedToken(content, **flags)


def on_bytes(pre_tokenizer, normalizer=None, texts=(), ignore_merges=False):
    made = tokenizers.Tokenizer(models.BPE(ignore_merges=ignore_merges))
    made.pre_tokenizer, made.decoder = pre_tokenizer, decoders.ByteLevel()
    if normalizer:
        made.normalizer = normalizer
    made.train_from_iterator(
        texts,
        trainers.BpeTrainer(vocab_size=480, initial_alphabet=pre_tokenizers.ByteLevel.alphabet(),
                            special_tokens=["<|endoftext|>"], show_progress=False))
    made.add_tokens([
        added("<think>", normalized=False),
        added("</think>", normalized=False, rstrip=True),
        added("café", lstrip=True)
    ])
    return json.loads(made.to_str())


def split(expression, behavior="isolated", invert=False):
    return pre_tokenizers.Sequence([
        pre_tokenizers.Split(tokenizers.Regex(expression), behavior, invert),
        pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False)
    ])


def on_characters(normalizer, pre_tokenizer, texts, words=True):
    """BPE with byte fallback. `words`: merges are learned within words only, else also across."""
    tokens = [f"<0x{byte:02X}>" for byte in range(256)]
    made = tokenizers.Tokenizer(models.BPE(byte_fallback=True, unk_token="<unk>", fuse_unk=True))
    if words:
        made.pre_tokenizer = pre_tokenizers.Metaspace()
    else:
        made.normalizer = normalizers.Replace(" ", MARK)
        texts = [line for text in texts for line in text.replace("</s>", "").split("\n")]
    made.train_from_iterator(
        texts,
        trainers.BpeTrainer(vocab_size=700, limit_alphabet=150, special_tokens=["<unk>", "<s>", "</s>"] + tokens,
                            show_progress=False))
    made.normalizer, made.pre_tokenizer = normalizer, pre_tokenizer
    made.decoder = decoders.Sequence([decoders.Replace(MARK, " "), decoders.ByteFallback(), decoders.Fuse()])
    file = json.loads(made.to_str())
    file["added_tokens"] = [token for token in file["added_tokens"] if token["content"] not in tokens]
    vocabulary = file["model"]["vocab"]
    file["added_tokens"].append({
        "id": vocabulary.get("<think>",
                             max(vocabulary.values()) + 1), "content": "<think>", "special": False, "single_word":
        False, "lstrip": False, "rstrip": False, "normalized": True
    })
    return file


def train():
    """Small tokenizers, by name."""
    texts = mixed_text.documents(300_000, seed=7)
    llama2 = normalizers.Sequence([normalizers.Prepend(MARK), normalizers.Replace(" ", MARK)])
    nfc = normalizers.NFC()
    return {
        "gpt2":
        on_bytes(pre_tokenizers.ByteLevel(add_prefix_space=False), None, texts),
        "neox":
        on_bytes(pre_tokenizers.ByteLevel(add_prefix_space=True), nfc, texts),
        "llama3":
        on_bytes(split(EXPRESSIONS["llama3"]), None, texts, ignore_merges=True),
        "qwen":
        on_bytes(split(EXPRESSIONS["qwen"]), nfc, texts),
        "olmo2":
        on_bytes(split(EXPRESSIONS["llama3"], "removed", True), None, texts),
        "llama2":
        on_characters(llama2, None, texts),
        "mistral":
        on_characters(None, pre_tokenizers.Metaspace(prepend_scheme="first", split=False), texts),
        "metaspace":
        on_characters(None, pre_tokenizers.Metaspace(prepend_scheme="always", split=True), texts),
        "gemma":
        on_characters(normalizers.Replace(" ", MARK), pre_tokenizers.Split(" ", "merged_with_previous"), texts,
                      words=False),
    }


def expected_ids(file, texts):
    reference = tokenizers.Tokenizer.from_file(file)
    reference.encode_special_tokens = True  # text never becomes a special token
    reference.no_truncation()  # a released file can have both
    reference.no_padding()
    start = time.monotonic()
    ids = [encoding.ids for encoding in reference.encode_batch(texts, add_special_tokens=False)]
    return ids, time.monotonic() - start


def every_point():
    points = [chr(point) for point in range(0x110000) if not 0xd800 <= point < 0xe000]
    return [
        "".join(surrounding.format(point) for point in points[first:first + 1000]) for surrounding in SURROUNDINGS
        for first in range(0, len(points), 1000)
    ]


def check(llmc, folder, file, texts):
    """Returns whether all ids are equal."""
    ids, seconds = expected_ids(file, texts)
    start = time.monotonic()
    ours = tokenizer_ids.encode(llmc, folder, file, texts)
    size = sum(len(text.encode()) for text in texts)
    print(f"{file}: {len(texts):,} documents, {size:,} bytes, {sum(map(len, ids)):,} ids; tokenizers {seconds:.2f} s, "
          f"llmc data build {time.monotonic() - start:.2f} s with reading, checks and writing")
    for text, theirs, found in zip(texts, ids, ours, strict=True):
        if theirs != found:
            at = next((i for i, pair in enumerate(zip(theirs, found)) if pair[0] != pair[1]),
                      min(len(theirs), len(found)))
            reference = tokenizers.Tokenizer.from_file(file)
            names = [[reference.id_to_token(i) for i in part[max(at - 3, 0):at + 4]] for part in (theirs, found)]
            print(f"  DIFFERS at token {at} of {text[:40]!r}: {names[0]}, llmc {names[1]}")
            return False
    return True


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--llmc", default="build/llmc")
    parser.add_argument("--folder", required=True)
    parser.add_argument("--bytes", type=int, default=1_000_000)
    parser.add_argument("--seed", type=int, default=3)
    parser.add_argument("--only", metavar="NAME",
                        help="of the small tokenizers this one, such as qwen: 100 MB take 11 GB")
    parser.add_argument("--update", action="store_true", help="train the small tokenizers and record their ids")
    parser.add_argument("files", nargs="*", help="released tokenizer.json files")
    options = parser.parse_args()
    shutil.rmtree(options.folder, ignore_errors=True)
    os.makedirs(options.folder)
    if options.update:
        recorded = {}
        for name, file in train().items():
            path = os.path.join(tokenizer_ids.FIXTURES, name + ".json")
            with open(path, "w", encoding="utf-8") as out:
                out.write(json.dumps(file, ensure_ascii=False, separators=(",", ":")) + "\n")
            recorded[name] = tokenizer_ids.summary(expected_ids(path, tokenizer_ids.texts())[0])
        with open(os.path.join(tokenizer_ids.FIXTURES, "expected", "ids.json"), "w") as out:
            out.write(json.dumps(recorded, indent=0) + "\n")
    fixtures = [os.path.join(tokenizer_ids.FIXTURES, name) for name in sorted(os.listdir(tokenizer_ids.FIXTURES))]
    if options.only:
        fixtures = [file for file in fixtures if os.path.basename(file) == options.only + ".json"]
        if not fixtures:
            parser.error(f"there is no small tokenizer '{options.only}'")
    texts = mixed_text.documents(options.bytes, options.seed)
    equal = True
    for file in [*filter(os.path.isfile, fixtures), *options.files]:
        on_bytes_too = '"ByteLevel"' in open(file, encoding="utf-8").read()
        equal &= check(options.llmc, os.path.join(options.folder, "data"), file,
                       texts + (every_point() if on_bytes_too else []))
    print("equal" if equal else "DIFFERENT")
    return 0 if equal else 1


if __name__ == "__main__":
    sys.exit(main())
