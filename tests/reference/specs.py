"""Draws small random specs from a seed and writes them with token shards for a trainer."""

import os
import random
import struct

RECOMPUTE = [
    "none", "full", "{every: 2}", "[norms, swiglu]", "[norms, attention, swiglu]", "[qkv, residual, gate_up]",
    "[norms, qkv, attention, residual, gate_up, swiglu]"
]
# A target may not support all of them: cuDNN needs multiples of 8.
HEAD_DIMS = [4, 6, 8, 10, 16, 24, 32]
# By seed, for models without biases or with qk_norm: a window that is no multiple of a tile and shorter than all
# sequences, and the layers that use it; none: all.
WINDOWS = {
    4: (33, ["sliding", "full"]), 8: (7, []), 13: (2, ["full", "sliding"]), 14: (50, ["sliding", "full"]), 15: (50, []),
    17: (70, ["sliding", "sliding", "full"]), 22: (40, ["sliding", "full"])
}
# By seed: documents, and the number of tokens that they have on average.
DOCUMENTS = {
    3: (11, {"mask": True, "mask_first": True, "separator": 258}), 10: (9, {"mask_first": True, "separator": 7}), 16:
    (40, {"mask": True, "reset_positions": True, "separator": 0}), 17: (23, {"mask": True, "separator": 1})
}
# By seed, for models without biases of q and k, whose gradient is 0 without RoPE: the layers without RoPE.
NO_ROPE = {3: 2, 8: [0], 12: [1], 16: 3}
# By seed: a bias of attention's output that q, k and v do not have, or the reverse.
OUT_BIAS = {2: False, 5: False, 7: True, 14: False}
# By seed: scalings of RoPE; those of 4, 9 and 14 are llama3's.
SCALINGS = {
    2: {"type": "linear", "factor":
        4}, 27: {"type": "yarn", "factor": 4, "original_max_position_embeddings": 64, "attention_factor": 1.25}, 7:
    {"type": "yarn", "factor": 4, "original_max_position_embeddings": 64, "beta_fast": 8, "beta_slow": 0.5}, 15:
    {"type": "yarn", "factor": 8, "original_max_position_embeddings": 32, "truncate": False, "attention_factor": 1.25}
}
# By seed, for models without biases of o and down: factors.
FACTORS = {
    0: {"attention_multiplier": 0.3, "embedding_multiplier": 3, "residual_multiplier": 0.5, "logits_scaling": 4}, 16:
    {"attention_multiplier": 0.05, "embedding_multiplier": 0.7, "residual_multiplier": 1.5, "logits_scaling": 0.5}
}
# By seed, from 19 on: where norms stand, what those of q and k are over and whether before RoPE, their weights, the MLP's activation, and soft
# caps that bend.
NORMS = {
    19: {"norm_place": "post", "qk_norm_over": "width"}, 20:
    {"norm_place": "sandwich", "hidden_act": "gelu_pytorch_tanh"}, 21: {"norm_place": "post", "qk_norm": False}, 22:
    {"norm_place": "sandwich", "qk_norm_over": "width", "rope_local_theta": 300, "hidden_act":
     "gelu_pytorch_tanh"}, 23: {
         "norm_place": "sandwich", "norm_weight": "one_plus", "hidden_act": "gelu_pytorch_tanh",
         "attn_logit_softcapping": 0.7, "final_logit_softcapping": 1.5
     }, 24: {"norm_weight": "none", "hidden_act": "relu2", "mlp_gated": False}, 25:
    {"hidden_act": "relu2", "norm_weight": "one_plus", "norm_place": "post", "qk_norm_over": "width"}, 26: {
        "norm_weight": "none", "norm_place": "post", "qk_norm_over": "width", "final_logit_softcapping": 0.5,
        "hidden_act": "gelu_pytorch_tanh", "mlp_gated": False
    }, 27: {"qk_norm_place": "after_rope"}, 28: {
        "embedding_norm": True, "qk_norm_place": "after_rope", "norm_weight": "none", "hidden_act": "relu2",
        "mlp_gated": False, "final_logit_softcapping": 2
    }, 29: {"embedding_norm": True, "embedding_multiplier": 3}
}
# Of sequences that are longer than the original context by a factor that q's grows with.
MINISTRAL = {"type": "yarn", "factor": 4, "original_max_position_embeddings": 20, "llama_4_scaling_beta": 0.4}
# By seed: the part of each head that RoPE rotates, in sixteenths or eighths of heads that are multiples of these, and
# pairs of neighbours; with and without norms of heads, before and after it, and over the width.
ROTARY = {
    30: {"partial_rotary_factor": 0.5, "rope_interleaved": True, "norm_place": "sandwich", "qk_norm":
         False}, 31: {"partial_rotary_factor": 0.25, "qk_norm_place": "after_rope"}, 32:
    {"rope_interleaved": True, "norm_weight": "one_plus"}, 33: {"partial_rotary_factor": 0.75, "qk_norm": False}, 34:
    {"rope_interleaved": True, "qk_norm_over": "width", "norm_place": "post", "partial_rotary_factor":
     0.5}, 35: {"qk_norm": False, "rope_scaling":
                MINISTRAL}, 36: {"partial_rotary_factor": 0.5, "rope_interleaved": True, "rope_scaling": MINISTRAL}
}
# From seed 12 on: specs that differ in what they compute have the same sizes, none of which a tile or a vector divides,
# so that their trainers share most kernels, and a compiler cache compiles these once.
SIZES = {"vocab_size": 513, "hidden_size": 116, "intermediate_size": 90, "rms_norm_eps": "1.0e-5"}
SEQUENCE, MICRO_BATCH = 95, 3
# By seed: the factor of the z-loss, large enough for its part of each gradient to be above every bound.
Z_LOSS = {1: 0.01, 6: 0.03, 14: 0.01}


def draw(seed, compute, head_dims=HEAD_DIMS):
    """A spec as nested dicts. Every property that a trainer must get right appears within the first twelve seeds, each
    of which has sizes of its own. From 12 on they are Qwen 3's: with qk_norm, without biases of the MLP, heads that hidden_size does
    not give; seven have every recompute."""
    rng = random.Random(seed * 7919 + 13)
    ratio = [1, 2, 4, 8, 3, 1, 8, 2, 4, 5, 6, 7][seed % 12]
    # A single head is excluded: softmax cancels nearly all of its key bias's gradient, and the rest is rounding.
    kv_heads = rng.choice([1, 2, 3] if ratio > 1 else [2, 3])
    heads = kv_heads * ratio
    head_dim = rng.choice(head_dims)
    # Wide enough for bf16's bounds to be meaningful: in rows of a few elements nothing averages out, for autocast
    # neither.
    hidden = rng.choice([84, 96, 100, 116, 132, 148])
    hidden += -hidden % heads
    sequence = rng.choice([77, 95, 127, 130, 161])
    micro_batch = rng.choice([3, 4, 5])
    if seed >= 12:
        hidden, sequence, micro_batch = SIZES["hidden_size"], SEQUENCE, MICRO_BATCH
    micro_batches = [1, 2, 3][seed % 3]
    rows = micro_batch * sequence
    chunk = rng.choice([d for d in range(1, rows + 1) if rows % d == 0 and d * 6 >= rows])
    recompute = RECOMPUTE[seed % len(RECOMPUTE)]
    model = {
        "vocab_size": rng.choice([259, 384, 513, 1001, 1283]),
        "hidden_size": hidden,
        "num_hidden_layers": rng.choice([2, 3] if "every" in recompute else [1, 2, 3]),
        "num_attention_heads": heads,
        "num_key_value_heads": kv_heads,
        "head_dim": head_dim,
        "intermediate_size": rng.choice([33, 64, 90, 127, 160]),
        "rope_theta": rng.choice([10000, 500000]),
        "rms_norm_eps": rng.choice(["1.0e-5", "1.0e-6"]),
        "tie_word_embeddings": seed % 3 == 0,
        "attention_bias": seed % 4 in (1, 2),
        "mlp_bias": seed % 4 in (2, 3),
    }
    if seed >= 12:
        model.update(SIZES, qk_norm=True, mlp_bias=False)
        model["head_dim"] = rng.choice([d for d in head_dims if d * heads != hidden])
    if seed % 5 == 4:
        model["rope_scaling"] = {
            "type": "llama3", "factor": 8, "low_freq_factor": 1, "high_freq_factor": 4,
            "original_max_position_embeddings": 16
        }
    if seed in SCALINGS:
        model["rope_scaling"] = SCALINGS[seed]
    if seed in OUT_BIAS:
        model["attention_out_bias"] = OUT_BIAS[seed]
    model.update(NORMS.get(seed, {}))
    if seed in ROTARY:
        model["head_dim"] = rng.choice([d for d in head_dims if d % 8 == 0 and d * heads != hidden])
        model.update(ROTARY[seed])
    if not model.get("mlp_gated", True):
        recompute = recompute.replace("gate_up", "up").replace("swiglu", "activation")
    if "norm_place" in model and recompute.startswith("["):
        recompute = recompute[:-1] + ", down]"
    if seed in WINDOWS:
        model["sliding_window"], pattern = WINDOWS[seed]
        model["num_hidden_layers"] = max(model["num_hidden_layers"], len(pattern))
        if pattern:
            model["layer_types"] = [f"{word}_attention" for word in pattern]
    model.update(FACTORS.get(seed, {}))
    if seed in NO_ROPE:
        model["num_hidden_layers"] = max(model["num_hidden_layers"], 3)
        model["no_rope_layers"] = NO_ROPE[seed]
    return {
        "name": f"random-{seed}",
        "model": model,
        "compute": compute,
        "residual": "fp32",
        "sequence": sequence,
        "tokens": sequence * micro_batch * micro_batches,
        "micro_batch": micro_batch,
        "budget": "2GiB",
        "loss_chunk": chunk,
        "recompute": recompute,
        "seed": seed,
        "z_loss": Z_LOSS.get(seed, 0),
        "documents": DOCUMENTS.get(seed, (0, {}))[1],
    }


def widen(spec, step):
    """Raises widths and the sequence's length to multiples of `step`; head_dim is one already."""
    for key in ("hidden_size", "intermediate_size"):
        spec["model"][key] += -spec["model"][key] % step
    micro_batches = spec["tokens"] // (spec["sequence"] * spec["micro_batch"])
    spec["sequence"] += -spec["sequence"] % step
    rows = spec["sequence"] * spec["micro_batch"]
    spec["tokens"] = rows * micro_batches
    spec["loss_chunk"] = next(d for d in range(rows // 6, rows + 1) if rows % d == 0)


def left_open(seed):
    """The spec of draw() with all planner choices open, and more variety in their inputs: layers, both dtypes of the
    stream, sequences and their length. From seed 12 on qk_norm is drawn too."""
    rng = random.Random(seed * 104729 + 29)
    compute, residual = rng.choice([("fp32", "fp32"), ("bf16", "fp32"), ("bf16", "bf16")])
    spec = draw(seed, compute)
    model = spec["model"]
    layers, sequences = rng.choice([1, 2, 3, 4, 6, 8]), rng.choice([4, 6, 8, 12, 16, 24, 36, 48])
    if rng.random() < 0.15:  # more logits than anything else, and several chunks of them in one sequence
        model["vocab_size"], spec["sequence"] = rng.choice([4001, 8000]), rng.choice([4096, 6144])
        layers, sequences = rng.choice([1, 2]), rng.choice([1, 2])
    model["num_hidden_layers"] = layers
    model["qk_norm"] = "qk_norm" in model and rng.random() < 0.5
    if not model["qk_norm"]:
        model.pop("qk_norm_place", None)
    model["mlp_bias"] = "residual_multiplier" not in model and not model[
        "qk_norm"] and "sliding_window" not in model and rng.random() < 0.5
    if "sliding_window" in model and not model["qk_norm"]:
        model["attention_bias"] = False
    if model.pop("no_rope_layers", None) and layers > 1:
        model["no_rope_layers"] = 2
    if "layer_types" in model:
        model["layer_types"] = (["sliding_attention"] + model["layer_types"])[:layers]
    spec.update(residual=residual, tokens=spec["sequence"] * sequences, micro_batch="auto", loss_chunk="auto",
                recompute="auto")
    return spec


def config(spec):
    """config.json's keys as llama.py takes them."""
    model = dict(spec["model"])
    model["rms_norm_eps"] = float(model["rms_norm_eps"])
    model["z_loss"] = spec["z_loss"]
    model["documents"] = spec["documents"]
    return model


def yaml_text(spec):

    def value(v):
        if isinstance(v, bool):
            return "true" if v else "false"
        if isinstance(v, list):
            return "[" + ", ".join(map(str, v)) + "]"
        if isinstance(v, dict):
            return "{" + ", ".join(f"{k}: {value(x)}" for k, x in v.items()) + "}"
        return str(v)

    model = "\n".join(f"  {key}: {value(v)}" for key, v in spec["model"].items())
    documents = f"\n  documents: {value(spec['documents'])}" if spec["documents"] else ""
    return f"""name: {spec['name']}
model:
{model}
precision: {{compute: {spec['compute']}, residual: {spec['residual']}}}
loss: {{z: {spec['z_loss']}}}
batch: {{sequence_length: {spec['sequence']}, tokens: {spec['tokens']}, micro_batch: {spec['micro_batch']}}}
memory: {{budget: {spec['budget']}, recompute: {spec['recompute']}, loss_chunk: {spec['loss_chunk']}}}
optimizer: {{lr: 1.0e-3, weight_decay: 0.1, clip_norm: 1.0}}
schedule: {{kind: constant, steps: 50, warmup_steps: 0}}
data:
  train: [{{path: train-*.bin}}]
  seed: {spec['seed'] + 1}{documents}
checkpoint: {{every: 0}}
target: {{kind: cpu, arch: native}}
seed: {spec['seed']}
"""


def write_tokens(path, vocab, count, seed, documents=(0, {})):
    """llm.c's uint16 shard of uniform tokens: rows of the embedding repeat, and no token dominates the mean loss."""
    import numpy as np  # imported here only: tests/runs draws specs with just the standard library

    rng = np.random.default_rng(seed)
    tokens = rng.integers(0, vocab, size=count, dtype=np.uint16)
    length, rule = documents
    if length:
        tokens[rng.random(count) < 1 / length] = rule["separator"]
    with open(path, "wb") as file:
        file.write(struct.pack("<256i", 20240520, 1, count, *([0] * 253)))
        file.write(tokens.tobytes())


def write(spec, folder):
    """Writes spec.yaml and its shard; returns the spec's path."""
    os.makedirs(folder, exist_ok=True)
    path = os.path.join(folder, "spec.yaml")
    with open(path, "w") as file:
        file.write(yaml_text(spec))
    write_tokens(os.path.join(folder, "train-00000.bin"), spec["model"]["vocab_size"], spec["tokens"] * 12 + 1,
                 spec["seed"], DOCUMENTS.get(spec["seed"], (0, {})))
    return path
