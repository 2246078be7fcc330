#!/usr/bin/python3
"""Checks exported checkpoints in Hugging Face transformers: loss and greedy samples against the trainer's, logits against
llama.py, weights bit for bit, the tokenizer against sentencepiece and the shards. Not part of ctest, because Debian has no
package of transformers.

    python3 -m venv venv && venv/bin/pip install -r tests/reference/requirements-export.txt
    venv/bin/python tests/reference/check_export.py --llmc build/llmc --folder build/check-export

Bounds: fp32 loss within 1e-5 of the trainer's, relative, because both add some hundred terms in different orders. fp32 logits
within 1e-5 of float64, relative to the largest. bf16: the weights are the rounded fp32 ones, and the loss is within 2^-7 of
fp32's: each weight has a rounding of 2^-9, and bf16 activations have as much.
"""

import argparse
import json
import os
import re
import shutil
import subprocess
import sys

import numpy as np
import safetensors.torch
import sentencepiece
import torch
import transformers

import llama
import safetensors_file
import specs
from checks import Checks

VOCABULARY, SEQUENCE, STEPS = 97, 24, 3
VALIDATION = 5  # samples
PROMPTS = ([1, 2, 3], [40, 7])
SAMPLED = 12  # tokens: with the prompt less than a sequence, since transformers' positions go on
SPEC = f"""name: export
model: {{vocab_size: {VOCABULARY}, hidden_size: 36, num_hidden_layers: 3, num_attention_heads: 6, num_key_value_heads: 2, head_dim: 10,
  intermediate_size: 50, tie_word_embeddings: false}}
init: {{embedding_std: 0.17}}
precision: {{compute: fp32}}
batch: {{sequence_length: {SEQUENCE}, micro_batch: 2, tokens: 96}}
memory: {{budget: 256MiB, loss_chunk: 16}}
optimizer: {{lr: 3.0e-3}}
schedule: {{kind: constant, steps: {STEPS}, warmup_steps: 0}}
data:
  train: [{{path: train-*.bin}}]
  validation: [{{path: val-*.bin}}]
evaluation: {{every: {STEPS}, sequences: {VALIDATION}}}
sampling: {{every: {STEPS}, prompts: {json.dumps([" ".join(map(str, prompt)) for prompt in PROMPTS])}, tokens: {SAMPLED}, temperature: 0}}
checkpoint: {{every: {STEPS}}}
"""
GEMMA = [
    "model.norm_place=sandwich", "model.norm_weight=one_plus", "model.hidden_act=gelu_pytorch_tanh",
    "model.embedding_multiplier=6", "model.tie_word_embeddings=true"
]
MINISTRAL3 = "type: yarn, factor: 4, original_max_position_embeddings: 10, beta_fast: 4, llama_4_scaling_beta: 0.7"
NANOCHAT = [
    "model.norm_weight=none", "model.qk_norm=true", "model.qk_norm_place=after_rope", "model.embedding_norm=true",
    "model.hidden_act=relu2", "model.mlp_gated=false", "model.final_logit_softcapping=2", "model.head_dim=6"
]
# Names and overrides. The first has neither ties nor biases.
VARIANTS = {
    "gqa": [],
    "tied": ["model.tie_word_embeddings=true"],
    "biased": ["model.attention_bias=true", "model.mlp_bias=true"],
    "one-key-head": ["model.num_key_value_heads=1", "model.head_dim=6"],
    "llama3-rope": [
        "model.rope_scaling={type: llama3, factor: 8, low_freq_factor: 1, high_freq_factor: 4, "
        "original_max_position_embeddings: 16}"
    ],
    "qk-norm": ["model.qk_norm=true"],
    "mistral": ["model.sliding_window=7"],
    "ministral": ["model.sliding_window=7", "model.layer_types=[full_attention, sliding_attention]"],
    "qk-norm-windows":
    ["model.qk_norm=true", "model.sliding_window=5", "model.layer_types=[sliding_attention, full_attention]"],
    "qwen2": ["model.attention_bias=true", "model.attention_out_bias=false"],
    "smollm3": ["model.no_rope_layers=[1]", "model.attention_bias=true"],
    "smollm3-windows":
    ["model.no_rope_layers=2", "model.sliding_window=7", "model.layer_types=[full_attention, sliding_attention]"],
    "granite": [
        "model.attention_multiplier=0.2", "model.embedding_multiplier=12", "model.residual_multiplier=0.22",
        "model.logits_scaling=8", "model.tie_word_embeddings=true"
    ],
    "olmo2": ["model.norm_place=post", "model.qk_norm=true", "model.qk_norm_over=width"],
    "olmo3": [
        "model.norm_place=post", "model.qk_norm=true", "model.qk_norm_over=width", "model.sliding_window=7",
        "model.layer_types=[sliding_attention, sliding_attention, full_attention]", "model.rope_local_theta=500000",
        "model.rope_scaling={type: yarn, factor: 4, original_max_position_embeddings: 16, beta_fast: 4}"
    ],
    "linear-rope": ["model.rope_scaling={type: linear, factor: 4}"],
    "yarn": ["model.rope_scaling={type: yarn, factor: 4, original_max_position_embeddings: 16, beta_fast: 4}"],
    "yarn-whole-ramp": [
        "model.rope_scaling={type: yarn, factor: 4, original_max_position_embeddings: 16, truncate: false, "
        "attention_factor: 1.25}"
    ],
    "gemma2": [
        *GEMMA, "model.sliding_window=7", "model.layer_types=[sliding_attention, full_attention]",
        "model.attn_logit_softcapping=0.5", "model.final_logit_softcapping=2", "model.attention_multiplier=0.25"
    ],
    "gemma3": [
        *GEMMA, "model.qk_norm=true", "model.sliding_window=5", "model.rope_local_theta=300",
        "model.layer_types=[sliding_attention, sliding_attention, full_attention]",
        "model.rope_scaling={type: linear, factor: 4}"
    ],
    "gemma2-no-window":
    GEMMA,
    "gemma3-no-window": [*GEMMA, "model.qk_norm=true"],
    "ministral3": [f"model.rope_scaling={{{MINISTRAL3}}}"],
    "ministral3-window": [f"model.rope_scaling={{{MINISTRAL3}, attention_factor: 1.1}}", "model.sliding_window=7"],
    "glm4": [
        "model.norm_place=sandwich", "model.partial_rotary_factor=0.4", "model.rope_interleaved=true",
        "model.attention_bias=true", "model.attention_out_bias=false"
    ],
    "glm4-whole-heads": ["model.norm_place=sandwich", "model.rope_interleaved=true", "model.rope_theta=10000"],
    "nanochat":
    NANOCHAT,
    "nanochat-biased": [*NANOCHAT, "model.attention_bias=true", "model.num_key_value_heads=6"],
    "qk-norm-tied-biased": ["model.qk_norm=true", "model.tie_word_embeddings=true", "model.attention_bias=true"],
}

# Keys of llama.py that a model type fixes.
OLMO2 = {"qk_norm": True, "qk_norm_over": "width", "norm_place": "post"}
GEMMA2 = {
    "norm_place": "sandwich", "norm_weight": "one_plus", "hidden_act": "gelu_pytorch_tanh", "embedding_multiplier": 6
}
FEATURES = {
    "glm4": {"norm_place": "sandwich", "rope_interleaved": True}, "nanochat":
    {"norm_weight": "none", "qk_norm": True, "qk_norm_place": "after_rope", "embedding_norm": True, "mlp_gated":
     False}, "qwen3": {"qk_norm": True}, "olmo2": OLMO2, "olmo3": OLMO2, "gemma2": GEMMA2, "gemma3_text":
    {**GEMMA2, "qk_norm": True}
}

# A Llama that transformers 5 refuses, and a Qwen 3 of the same sizes, which it loads.
ANY_WIDTH = ["model.hidden_size=38"]
VARIANTS["qk-norm-any-width"] = ["model.qk_norm=true", *ANY_WIDTH]

# Parts of names of llmc's tensors, and those of transformers.
NAMES = {
    "glm4": {
        "post_attention_layernorm": "post_self_attn_layernorm", "pre_feedforward_layernorm": "post_attention_layernorm",
        "post_feedforward_layernorm": "post_mlp_layernorm"
    }, "nanochat": {"mlp.up_proj": "mlp.fc1", "mlp.down_proj": "mlp.fc2"}
}


def theirs(config, weights):
    """Tensors by llmc's names as transformers has them: gate and up of GLM-4 are one, and q and k of nanochat, which rotates by minus
    the angle, have the second half of each head with the other sign."""
    kind, result = config["model_type"], {}
    for name, value in weights.items():
        value = torch.tensor(value)
        if kind == "glm4" and ".mlp.up_proj." in name:
            continue
        if kind == "glm4" and ".mlp.gate_proj." in name:
            up = torch.tensor(weights[name.replace("gate_proj", "up_proj")])
            name, value = name.replace("gate_proj", "gate_up_proj"), torch.cat((value, up))
        if kind == "nanochat" and (".q_proj." in name or ".k_proj." in name):
            heads = value.unflatten(0, (-1, 2, config["head_dim"] // 2))
            value = torch.stack((heads[:, 0], -heads[:, 1]), dim=1).flatten(0, 2)
        part = next((part for part in NAMES.get(kind, {}) if f".{part}." in name), None)
        result[name.replace(f".{part}.", f".{NAMES[kind][part]}.") if part else name] = value
    return result


def run(*command):
    done = subprocess.run([str(word) for word in command], stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
                          universal_newlines=True)
    if done.returncode:
        sys.exit(f"{' '.join(map(str, command))}\n{done.stdout}")
    return done.stdout


def last_line(*names):
    with open(os.path.join(*names)) as file:
        return json.loads(file.readlines()[-1])


def samples_of(path, count):
    with open(path, "rb") as file:
        tokens = np.frombuffer(file.read()[1024:], dtype=np.uint16).astype(np.int64)
    return torch.tensor(np.stack([tokens[i * SEQUENCE:i * SEQUENCE + SEQUENCE + 1] for i in range(count)]))


def loss_of(model, tokens):
    with torch.no_grad():
        logits = model(input_ids=tokens[:, :-1]).logits
    return logits, torch.nn.functional.cross_entropy(logits.double().reshape(-1, logits.shape[-1]),
                                                     tokens[:, 1:].reshape(-1)).item()


def load(folder, **options):
    """The model; checks that it uses every weight of the files and no others."""
    model, info = transformers.AutoModelForCausalLM.from_pretrained(folder, output_loading_info=True, **options)
    return model.eval(), [
        list(info[kind]) for kind in ("missing_keys", "unexpected_keys", "mismatched_keys") if info[kind]
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
    run(llmc, "compile", spec, "-o", os.path.join(folder, "build"), *overrides)
    trained = os.path.join(folder, "run")
    run(os.path.join(folder, "build", "trainer"), "--run", trained)
    run(llmc, "checkpoint", "export", trained, "-o", os.path.join(folder, "fp32"), "--dtype", "fp32")
    run(llmc, "checkpoint", "export", trained, "-o", os.path.join(folder, "bf16"), "--dtype", "bf16", "--shard-size",
        "12K")
    masters = safetensors_file.read(os.path.join(trained, "checkpoints", f"step-{STEPS:08}", "model.safetensors"))

    model, wrong = load(os.path.join(folder, "fp32"), dtype=torch.float32)
    checks.expect(not wrong, f"{name}: keys {wrong}")
    tokens = samples_of(os.path.join(folder, "val-0.bin"), VALIDATION)
    logits, loss = loss_of(model, tokens)
    ours = last_line(trained, "metrics.jsonl")["val_loss"]
    error = abs(loss - ours) / ours
    checks.expect(error <= 1e-5, f"{name}: validation loss {ours}, transformers {loss}")
    with open(os.path.join(folder, "fp32", "config.json")) as file:
        config = json.load(file)
    config.update(FEATURES.get(config["model_type"], {}))  # this and the next as in llama.py
    if "query_pre_attn_scalar" in config:
        config["attention_multiplier"] = config["query_pre_attn_scalar"]**-0.5
    parameters = config["rope_parameters"]
    config["rope_local_theta"] = parameters.get("sliding_attention", {}).get("rope_theta")
    config["no_rope_layers"] = [layer for layer, flag in enumerate(config.get("no_rope_layers", [])) if flag == 0]
    exact = llama.forward({key: torch.tensor(value, dtype=torch.float64)
                           for key, value in masters.items()}, config, tokens[:, :-1])
    apart = ((logits - exact).abs().max() / exact.abs().max()).item()
    checks.expect(apart <= 1e-5, f"{name}: logits are {apart:.1e} apart")

    with open(os.path.join(trained, "samples.jsonl")) as file:
        lines = [json.loads(line) for line in file]
    for prompt, line in zip(PROMPTS, lines):
        written = model.generate(torch.tensor([prompt]), max_new_tokens=SAMPLED, max_length=None, do_sample=False,
                                 pad_token_id=0)
        checks.expect(written[0, len(prompt):].tolist() == [int(word) for word in line["text"].split()],
                      f"{name}: generates {written.tolist()}, the trainer {line['text']}")

    files = [file for file in os.listdir(os.path.join(folder, "bf16")) if file.endswith(".safetensors")]
    rounded = {}
    for file in files:
        rounded.update(safetensors.torch.load_file(os.path.join(folder, "bf16", file)))
    exported = theirs(config, masters)
    checks.expect(len(files) > 3 and rounded.keys() == exported.keys(), f"{name}: {len(files)} files of bf16")
    for key, value in exported.items():
        expected = value.to(torch.bfloat16)
        checks.expect(torch.equal(rounded[key].view(torch.int16), expected.view(torch.int16)), f"{name}: bf16 of {key}")
    half, wrong = load(os.path.join(folder, "bf16"), dtype="auto")
    checks.expect(not wrong and half.dtype == torch.bfloat16, f"{name}: bf16 keys {wrong}, dtype {half.dtype}")
    half_loss = loss_of(half, tokens)[1]
    checks.expect(abs(half_loss - ours) <= 2**-7 * ours, f"{name}: validation loss in bf16 {half_loss}, fp32 {ours}")
    print(
        f"{name}: {type(model).__name__}, loss {ours:.6f}, {error:.1e} apart, logits {apart:.1e}; bf16 in {len(files)} files {half_loss:.4f}",
        flush=True)


def check_refused(checks, llmc, folder):
    """Checks that transformers 5 refuses an export that is said not to load."""
    folder = os.path.join(folder, "any-width")
    shutil.rmtree(folder, ignore_errors=True)
    os.makedirs(folder)
    spec = os.path.join(folder, "spec.yaml")
    with open(spec, "w") as file:
        file.write(SPEC)
    specs.write_tokens(os.path.join(folder, "train-0.bin"), VOCABULARY, 16 * SEQUENCE + 1, 1)
    specs.write_tokens(os.path.join(folder, "val-0.bin"), VOCABULARY, VALIDATION * SEQUENCE + 1, 2)
    run(llmc, "compile", spec, "-o", os.path.join(folder, "build"), *ANY_WIDTH)
    run(os.path.join(folder, "build", "trainer"), "--run", os.path.join(folder, "run"))
    said = run(llmc, "checkpoint", "export", os.path.join(folder, "run"), "-o", os.path.join(folder, "export"))
    checks.expect("transformers 5" in said and "Llama" in said, f"any-width: the export says {said}")
    try:
        load(os.path.join(folder, "export"))
        loads = True
    except Exception as error:  # a class of huggingface_hub's, which version 4 does not have
        loads = "not a multiple of the number of attention heads" not in str(error)
    checks.expect(loads == transformers.__version__.startswith("4."),
                  f"any-width: transformers {transformers.__version__} loads it: {loads}")
    print(f"any-width: {'loaded' if loads else 'refused'}, as the export says", flush=True)


TEXTS = [
    "def f(x):\n    return x  # twice  the   space\n", "  begins with blanks", "\t\ttabs\n\n\nlines\r\n",
    "naïve café – 東京 🙂 \u2581", "x" * 50
]


def text_of(pieces, ids):
    """Decodes as llmc does: byte pieces are bytes wherever they occur."""
    parts = [
        bytes([int(piece[3:5], 16)]) if pieces.is_byte(i) else piece.replace("\u2581", " ").encode()
        for i, piece in ((i, pieces.id_to_piece(i)) for i in ids)
    ]
    return b"".join(parts).decode(errors="replace")


def check_tokenizer(checks, llmc, folder):
    folder = os.path.join(folder, "tokenizer")
    shutil.rmtree(folder, ignore_errors=True)
    os.makedirs(os.path.join(folder, "text"))
    here = os.path.dirname(os.path.abspath(__file__))
    for name in os.listdir(here):
        if name.endswith(".py"):
            shutil.copy(os.path.join(here, name), os.path.join(folder, "text"))
    run(llmc, "data", "build", "--from", os.path.join(folder, "text"), "--vocab-size", 512, "--validation", 0, "-o",
        os.path.join(folder, "data"))
    with open(os.path.join(folder, "data", "dataset.json")) as file:
        vocabulary = json.load(file)["vocab_size"]
    spec = os.path.join(folder, "spec.yaml")
    with open(spec, "w") as file:
        file.write(
            SPEC.replace("train-*.bin", "data/train-*.bin").replace(
                "  validation: [{path: val-*.bin}]\n", "  tokenizer: data/tokenizer.model\n").replace(
                    f"evaluation: {{every: {STEPS}, sequences: {VALIDATION}}}\n",
                    "").replace(json.dumps([" ".join(map(str, prompt)) for prompt in PROMPTS]),
                                '["def ", "import os\\n"]'))
    run(llmc, "compile", spec, "-o", os.path.join(folder, "build"), f"model.vocab_size={vocabulary}")
    trained = os.path.join(folder, "run")
    run(os.path.join(folder, "build", "trainer"), "--run", trained)
    out = os.path.join(folder, "export")
    run(llmc, "checkpoint", "export", trained, "-o", out)

    tokenizer = transformers.AutoTokenizer.from_pretrained(out)
    pieces = sentencepiece.SentencePieceProcessor(model_file=os.path.join(out, "tokenizer.model"))
    checks.expect(tokenizer.eos_token_id == pieces.eos_id() and tokenizer.bos_token is None,
                  f"eos {tokenizer.eos_token_id}, bos {tokenizer.bos_token}")
    shard = np.fromfile(os.path.join(folder, "data", "train-00000.bin"), dtype=np.uint16)[512:].tobytes()
    texts = list(TEXTS)
    for name in os.listdir(os.path.join(folder, "text")):
        with open(os.path.join(folder, "text", name)) as file:
            texts.append(file.read())
    for number, text in enumerate(texts):
        # A text may spell "<unk>", which transformers treat as the token by default.
        ids, expected = tokenizer.encode(text, split_special_tokens=True), pieces.encode(text)
        if "\u2581" not in text:  # sentencepiece's own stand-in for a space: llmc gives its bytes
            checks.expect(ids == expected, f"text {number}: {ids[:20]}, sentencepiece {expected[:20]}")
            checks.expect(tokenizer.decode(ids) == text, f"text {number} comes back as {tokenizer.decode(ids)[:60]!r}")
        if number >= len(TEXTS):
            document = np.array(ids + [tokenizer.eos_token_id], dtype=np.uint16).tobytes()
            checks.expect(document in shard, f"text {number} is not in the shard as transformers write it")
    model, _ = load(out)
    prompt = tokenizer("def ", return_tensors="pt")
    written = model.generate(**prompt, max_new_tokens=SAMPLED, max_length=None, do_sample=False)
    with open(os.path.join(trained, "samples.jsonl")) as file:
        line = json.loads(file.readline())
    # Readers differ in the number of U+FFFD for bytes that are not UTF-8.
    ours, theirs = (re.sub("\ufffd+", "\ufffd", text)
                    for text in (line["text"], text_of(pieces, written[0, prompt["input_ids"].shape[1]:].tolist())))
    checks.expect(ours == theirs, f"'def ' goes on as {theirs!r}, the trainer's as {ours!r}")
    print(f"tokenizer: {type(tokenizer).__name__}, {len(texts)} texts as sentencepiece writes them and back",
          flush=True)


def main(documentation, check_one, others):
    """Command line of a check, with all its names: variants, and other checks."""
    parser = argparse.ArgumentParser(description=documentation, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--llmc", required=True)
    parser.add_argument("--folder", required=True, help="for specs, trainers, runs and folders of models")
    parser.add_argument("--only", nargs="+", choices=[*VARIANTS, *others], default=[*VARIANTS, *others])
    arguments = parser.parse_args()
    transformers.logging.set_verbosity_error()
    transformers.logging.disable_progress_bar()
    torch.set_num_threads(1)
    checks = Checks()
    print(f"transformers {transformers.__version__}, torch {torch.__version__}")
    for name in arguments.only:
        if name in others:
            others[name](checks, os.path.abspath(arguments.llmc), arguments.folder)
        else:
            check_one(checks, os.path.abspath(arguments.llmc), arguments.folder, name, VARIANTS[name])
    sys.exit(1 if checks.failed else 0)


if __name__ == "__main__":
    main(__doc__, check_variant, {"any-width": check_refused, "tokenizer": check_tokenizer})
