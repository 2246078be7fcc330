#!/usr/bin/python3
"""Checks init.from with Hugging Face transformers. A run from a folder written by save_pretrained, in fp32, fp16 and bf16, in one
file and in several, starts from exactly those weights. Its first loss equals transformers' on the same tokens, and the run
equals byte for byte the one from llmc's own file of the weights. llmc decodes with a tokenizer.json the texts that the
tokenizers library encoded. Not part of ctest; the environment is check_export.py's:

    venv/bin/python tests/reference/check_import.py --llmc build/llmc --folder build/check-import

First loss: within 1e-6 of transformers' in float64, relative, from weights in fp32; the trainer computes in fp32.
"""

import filecmp
import json
import os
import shutil
import subprocess

import safetensors.torch
import tokenizers
import torch
import transformers

import check_export
import safetensors_file
import specs
from check_export import SEQUENCE, SPEC, STEPS, VALIDATION, VOCABULARY, last_line, load, run

FORMS = {
    "fp32": (torch.float32, "1GB"), "fp32-shards": (torch.float32, "20KB"), "fp16": (torch.float16, "20KB"), "bf16":
    (torch.bfloat16, "1GB")
}


def differing(ours, theirs):
    """Files that differ between two checkpoints."""
    names = sorted(set(os.listdir(ours)) | set(os.listdir(theirs)))
    return [
        name for name in names if not all(os.path.exists(os.path.join(folder, name)) for folder in (ours, theirs))
        or not filecmp.cmp(os.path.join(ours, name), os.path.join(theirs, name), shallow=False)
    ]


def check_variant(checks, llmc, folder, name, overrides):
    folder = os.path.join(folder, name)
    shutil.rmtree(folder, ignore_errors=True)
    os.makedirs(folder)
    spec = os.path.join(folder, "spec.yaml")
    with open(spec, "w") as file:
        file.write(SPEC)
    specs.write_tokens(os.path.join(folder, "train-0.bin"), VOCABULARY, 16 * SEQUENCE + 1, 1)
    specs.write_tokens(os.path.join(folder, "val-0.bin"), VOCABULARY, VALIDATION * SEQUENCE + 1, 2)
    build = os.path.join(folder, "build")
    run(llmc, "compile", spec, "-o", build, *overrides)
    config = transformers.AutoConfig.from_pretrained(build)
    config.initializer_range = 0.17
    torch.manual_seed(len(name))
    drawn = transformers.AutoModelForCausalLM.from_config(config, dtype=torch.float32)
    with torch.no_grad():  # transformers draws no biases and no norms
        for parameter in drawn.parameters():
            if parameter.dim() == 1:
                parameter.add_(0.1 * torch.randn_like(parameter))

    for form, (dtype, shard) in FORMS.items():
        where = f"{name} {form}"
        saved = os.path.join(folder, form)
        model = drawn.__class__(config)
        model.load_state_dict(drawn.state_dict())
        model.to(dtype).save_pretrained(saved, max_shard_size=shard)
        files = [file for file in os.listdir(saved) if file.endswith(".safetensors")]
        checks.expect((len(files) > 1) == (shard == "20KB"), f"{where}: {files}")
        trained, trace = os.path.join(folder, "run-" + form), os.path.join(folder, "trace-" + form)
        run(os.path.join(build, "trainer"), "--run", trained, "--trace", trace, "init.from=" + saved)

        weights = safetensors_file.read(os.path.join(trace, "step-0", "weights.safetensors"))
        state = {key: value.to(torch.float32) for key, value in model.state_dict().items()}
        weights = check_export.theirs(config.to_dict(), weights)
        wrong = [key for key, value in weights.items() if not torch.equal(value, state[key])]
        checks.expect(not wrong and set(state) - set(weights) <= {"lm_head.weight"},
                      f"{where}: weights {wrong}, {sorted(set(state) ^ set(weights))}")

        tokens = safetensors_file.read(os.path.join(trace, "step-0", "tokens.safetensors"))
        inputs, targets = (torch.tensor(tokens[key].reshape(-1, SEQUENCE)).long() for key in ("inputs", "targets"))
        exact, wrong = load(saved, dtype=torch.float64)
        checks.expect(not wrong, f"{where}: keys {wrong}")
        with torch.no_grad():
            logits = exact(input_ids=inputs).logits
        loss = torch.nn.functional.cross_entropy(logits.reshape(-1, VOCABULARY), targets.reshape(-1)).item()
        with open(os.path.join(trained, "metrics.jsonl")) as file:
            ours = json.loads(file.readline())["loss"]
        error = abs(ours - loss) / loss
        checks.expect(error <= 1e-6, f"{where}: first loss {ours}, transformers {loss}")

        own = os.path.join(folder, "own-" + form)
        os.makedirs(own)
        shutil.copy(os.path.join(build, "config.json"), own)
        safetensors.torch.save_file({key: value.contiguous()
                                     for key, value in weights.items()}, os.path.join(own, "model.safetensors"))
        again = os.path.join(folder, "again-" + form)
        run(os.path.join(build, "trainer"), "--run", again, "init.from=" + own)
        step = os.path.join("checkpoints", f"step-{STEPS:08}")
        apart = differing(os.path.join(trained, step), os.path.join(again, step))
        checks.expect(not apart, f"{where}: {apart} differ from the run that began with llmc's own file")
        checks.expect(
            last_line(trained, "metrics.jsonl")["val_loss"] == last_line(again, "metrics.jsonl")["val_loss"],
            f"{where}: validation loss")
        print(f"{where}: {type(model).__name__} in {len(files)} files, first loss {ours:.6f}, {error:.1e} apart",
              flush=True)

    if "model.attention_bias=true" in overrides:  # specs for a GPU have no biases of this width
        return
    out = os.path.join(folder, "imported.yaml")
    run(llmc, "init", "--from", os.path.join(folder, "fp32"), "-o", out)
    with open(out) as file:
        checks.expect("\n  from: fp32  # " in file.read(), f"{name}: llmc init writes no init.from")


def byte_level():
    """Same as in Llama 3 and Qwen 3."""
    made = tokenizers.Tokenizer(tokenizers.models.BPE())
    made.pre_tokenizer = tokenizers.pre_tokenizers.Sequence([
        tokenizers.pre_tokenizers.Split(
            tokenizers.Regex(
                r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+"
            ), "isolated"),
        tokenizers.pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False)
    ])
    made.decoder = tokenizers.decoders.ByteLevel()
    return made, tokenizers.trainers.BpeTrainer(vocab_size=600, special_tokens=["<|endoftext|>"],
                                                initial_alphabet=tokenizers.pre_tokenizers.ByteLevel.alphabet(),
                                                show_progress=False)


def byte_fallback():
    """Same as in Llama 2, without the blank that it puts before a text and decoding removes."""
    made = tokenizers.Tokenizer(tokenizers.models.BPE(byte_fallback=True, unk_token="<unk>", fuse_unk=True))
    made.normalizer = tokenizers.normalizers.Replace(" ", "\u2581")
    made.decoder = tokenizers.decoders.Sequence(
        [tokenizers.decoders.Replace("\u2581", " "),
         tokenizers.decoders.ByteFallback(),
         tokenizers.decoders.Fuse()])
    specials = ["<unk>", "</s>", *(f"<0x{byte:02X}>" for byte in range(256))]
    return made, tokenizers.trainers.BpeTrainer(vocab_size=600, special_tokens=specials[:2], show_progress=False,
                                                limit_alphabet=60, initial_alphabet=[]), specials[2:]


TEXTS = [
    "def f(x):\n    return x  # twice  the   space\n", "  begins with blanks", "\t\ttabs\n\n\nlines\r\n",
    "naïve café – 東京 🙂", "x" * 50, "it's 12345 o'clock"
]


def check_tokenizer(checks, llmc, folder):
    folder = os.path.join(folder, "tokenizer")
    shutil.rmtree(folder, ignore_errors=True)
    os.makedirs(folder)
    spec = os.path.join(folder, "spec.yaml")
    with open(spec, "w") as file:
        file.write(SPEC)
    specs.write_tokens(os.path.join(folder, "train-0.bin"), VOCABULARY, 16 * SEQUENCE + 1, 1)
    specs.write_tokens(os.path.join(folder, "val-0.bin"), VOCABULARY, VALIDATION * SEQUENCE + 1, 2)
    build, trained = os.path.join(folder, "build"), os.path.join(folder, "run")
    run(llmc, "compile", spec, "-o", build, "model.vocab_size=1200")
    run(os.path.join(build, "trainer"), "--run", trained)
    here = os.path.dirname(os.path.abspath(__file__))
    corpus = []
    for name in sorted(os.listdir(here)):
        if name.endswith(".py"):
            with open(os.path.join(here, name)) as file:
                corpus.append(file.read())
    for kind, (made, trainer, *extra) in (("byte-level", byte_level()), ("byte-fallback", byte_fallback())):
        made.train_from_iterator(corpus, trainer)
        path = os.path.join(folder, kind + ".json")
        if extra:  # byte tokens of the vocabulary, as sentencepiece's conversion leaves them
            data = json.loads(made.to_str())
            for token in extra[0]:
                data["model"]["vocab"].setdefault(token, len(data["model"]["vocab"]))
            made = tokenizers.Tokenizer.from_str(json.dumps(data))
        made.save(path)
        texts = TEXTS + [text[:1500] for text in corpus]
        prompts = [" ".join(map(str, made.encode(text).ids)) for text in texts]
        words = [word for prompt in prompts for word in ("--prompt", prompt)]
        done = subprocess.run([
            os.path.join(build, "trainer"), "sample", "--checkpoint", trained, "--tokenizer", path, "--tokens", "1",
            *words
        ], stdout=subprocess.PIPE, check=True)
        parts = done.stdout.split(b"\n---\n")
        checks.expect(len(parts) == len(texts), f"{kind}: {len(parts)} samples of {len(texts)} prompts")
        for text, part in zip(texts, parts):
            checks.expect(part.startswith(text.encode()), f"{kind}: {text[:60]!r} comes back as {part[:60]!r}")
        print(f"tokenizer: {kind}, {made.get_vocab_size()} tokens, {len(texts)} texts come back", flush=True)


if __name__ == "__main__":
    check_export.main(__doc__, check_variant, {"tokenizer": check_tokenizer})
