#!/usr/bin/env python3
"""Rate and memory of `llmc data build` with a tokenizer.json, against the package `tokenizers` with as many threads.

    python3 -m venv venv && venv/bin/pip install tokenizers
    venv/bin/python tests/bench/tokenizer_rate.py [--llmc build/llmc] [--bytes 1000000000] [--sample 100000000] [--folder DIR] [FOLDER...]

The text is what the folders hold, by default /usr: programs, headers and documentation, again from the start if that is not
enough. The package learns a vocabulary of 32,768 tokens from a fifth of the sample, on bytes and with GPT-2's words. Then in turn
the package encodes the sample, llmc builds a data set of all the text, and the package encodes the sample again. llmc's time has
reading, checks and writing; the package's has encoding alone, of documents in memory. Prints bytes a second, the ratio to the faster
of the package's two, and llmc's peak memory for the sample and for all of it.
"""
import argparse
import contextlib
import os
import pathlib
import subprocess
import sys
import tempfile
import time

NAMES = {".py", ".h", ".hpp", ".cuh", ".txt", ".rst", ".md", ".html", ".c", ".cpp", ".pl", ".pm", ".el", ".js", ".xml"}
LONGEST = 1 << 20  # characters of a document
BATCH = 1000  # documents that the package gets at once


def documents(folders, most):
    """Texts of files, of at most `most` bytes in all."""
    found, total = [], 0
    for folder in folders:
        for path in sorted(pathlib.Path(folder).rglob("*")):
            if path.suffix not in NAMES or not path.is_file() or path.is_symlink() or total >= most:
                continue
            try:
                text = path.read_text(encoding="utf-8")
            except (OSError, UnicodeDecodeError):
                continue
            if text.strip() and len(text) <= LONGEST:
                found.append(text)
                total += len(text.encode())
    if not found:
        sys.exit("the folders hold no text")
    return found, total


def write(folder, texts, wanted):
    """Writes files of `wanted` bytes together, the texts again from the start if need be; returns their bytes."""
    written, number = 0, 0
    while written < wanted:
        data = texts[number % len(texts)].encode()
        place = folder / f"{number // 1000:04}"
        place.mkdir(parents=True, exist_ok=True)
        (place / f"{number:07}.txt").write_bytes(data)
        written, number = written + len(data), number + 1
    return written


def build(llmc, folder, tokenizer, out):
    """Seconds of a process, and its peak resident bytes."""
    start, peak = time.monotonic(), 0
    process = subprocess.Popen([llmc, "data", "build", "--from", folder, "--tokenizer", tokenizer, "-o", out],
                               stdout=subprocess.DEVNULL)
    # The kernel's own maximum (getrusage) has this process's memory at the fork.
    while process.poll() is None:
        with contextlib.suppress(OSError, StopIteration):
            with open(f"/proc/{process.pid}/status") as file:
                peak = 1024 * int(next(line for line in file if line.startswith("VmHWM")).split()[1])
        time.sleep(0.05)
    if process.returncode:
        sys.exit(f"llmc data build ended with {process.returncode}")
    return time.monotonic() - start, peak


def first(texts, wanted):
    """The first texts, of `wanted` bytes together if there are as many."""
    chosen, size = [], 0
    for text in texts:
        if size >= wanted:
            break
        chosen.append(text)
        size += len(text.encode())
    return chosen, size


def learned(tokenizers, texts):
    """A tokenizer of 32,768 tokens on bytes, with GPT-2's words."""
    made = tokenizers.Tokenizer(tokenizers.models.BPE())
    made.pre_tokenizer = tokenizers.pre_tokenizers.ByteLevel(add_prefix_space=False)
    made.decoder = tokenizers.decoders.ByteLevel()
    made.train_from_iterator(
        texts,
        tokenizers.trainers.BpeTrainer(vocab_size=32768,
                                       initial_alphabet=tokenizers.pre_tokenizers.ByteLevel.alphabet(),
                                       special_tokens=["<|endoftext|>"], show_progress=False))
    return made


def encode(tokenizer, texts):
    """Seconds of the package."""
    start = time.monotonic()
    for at in range(0, len(texts), BATCH):
        tokenizer.encode_batch_fast(texts[at:at + BATCH], add_special_tokens=False)
    return time.monotonic() - start


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--llmc", default="build/llmc")
    parser.add_argument("--bytes", type=int, default=10**9)
    parser.add_argument("--sample", type=int, default=10**8)
    parser.add_argument("--folder",
                        help="where text and data sets are written; default: the system's for temporary files")
    parser.add_argument("folders", nargs="*", default=["/usr"])
    options = parser.parse_args()
    os.environ["RAYON_NUM_THREADS"] = str(os.cpu_count())
    os.environ["TOKENIZERS_PARALLELISM"] = "true"
    import tokenizers

    texts, size = documents(options.folders, options.bytes)
    sample, sample_size = first(texts, options.sample)
    with tempfile.TemporaryDirectory(dir=options.folder) as name:
        work = pathlib.Path(name)
        written = write(work / "text", texts, options.bytes)
        write(work / "sample", sample, sample_size)
        tokenizer, file = learned(tokenizers, sample[::5]), work / "tokenizer.json"
        tokenizer.save(str(file))
        print(f"{size:,} bytes of text in {len(texts):,} files; the data set is of {written:,} bytes, the sample of "
              f"{sample_size:,}; {os.cpu_count()} threads")
        before = encode(tokenizer, sample)
        seconds, peak = build(options.llmc, work / "text", file, work / "set")
        after = encode(tokenizer, sample)
        _, small_peak = build(options.llmc, work / "sample", file, work / "sample-set")
    ours, theirs = written / seconds, sample_size / min(before, after)
    print(
        f"llmc data build {seconds:.1f} s, {ours / 1e6:.2f} MB/s; tokenizers {tokenizers.__version__} {before:.1f} and "
        f"{after:.1f} s, {theirs / 1e6:.2f} MB/s; ratio {ours / theirs:.2f}")
    print(f"peak memory of llmc {peak / 2**20:,.0f} MiB, of the sample {small_peak / 2**20:,.0f} MiB")


if __name__ == "__main__":
    main()
