"""An independent Llama in PyTorch, after transformers' LlamaForCausalLM, for any dtype that PyTorch has; with qk_norm, after
Qwen3ForCausalLM: q and k of each head are normalised before RoPE; with sliding_window, after MistralForCausalLM, or with
layer_types, which repeat, after MinistralForCausalLM: a query of a sliding layer sees so many keys, its own included; with
no_rope_layers after SmolLM3ForCausalLM, and with multipliers and logits_scaling after GraniteForCausalLM; with norm_place post
and qk_norm_over width after Olmo2ForCausalLM; with norm_weight one_plus, soft caps and gelu_pytorch_tanh after
Gemma2ForCausalLM; with qk_norm_place after_rope after NanoChatForCausalLM, whose angles have the other sign; with
partial_rotary_factor and rope_interleaved after Glm4ForCausalLM, and with llama_4_scaling_beta after Ministral3ForCausalLM. Biases are those that the parameters have.

Parameters are a dict of tensors under Hugging Face names; a model is a plain dict of config.json's keys.
"""

import functools
import math

import torch


def inverse_frequencies(model, dtype):
    """RoPE frequencies of pairs and the factor of sines and cosines, scaled as in transformers' _compute_llama3_parameters,
    _compute_linear_scaling_rope_parameters and _compute_yarn_parameters."""
    d, theta = int(model["head_dim"] * model.get("partial_rotary_factor", 1)), float(model["rope_theta"])
    exponents = torch.arange(0, d, 2, dtype=torch.float64) / d
    frequencies, factor = 1.0 / (theta**exponents), 1.0
    scaling = model.get("rope_scaling") or {"type": "none"}
    kind = scaling.get("type") or scaling["rope_type"]
    if kind == "linear":
        frequencies = frequencies / scaling["factor"]
    elif kind == "llama3":
        frequencies = llama3(frequencies, scaling)
    elif kind == "yarn":
        factor = scaling.get("attention_factor") or 0.1 * math.log(scaling["factor"]) + 1
        frequencies = yarn(frequencies, scaling, d, theta)
    return frequencies.to(dtype), factor


def llama3(frequencies, scaling):
    original = scaling["original_max_position_embeddings"]
    low, high, factor = scaling["low_freq_factor"], scaling["high_freq_factor"], scaling["factor"]
    wavelengths = 2 * math.pi / frequencies
    smooth = (original / wavelengths - low) / (high - low)
    between = (1 - smooth) * frequencies / factor + smooth * frequencies
    return torch.where(wavelengths > original / low, frequencies / factor,
                       torch.where(wavelengths < original / high, frequencies, between))


def yarn(frequencies, scaling, d, theta):

    def pair_of(rotations):
        original = scaling["original_max_position_embeddings"]
        return d * math.log(original / (rotations * 2 * math.pi)) / (2 * math.log(theta))

    first, last = pair_of(scaling.get("beta_fast", 32)), pair_of(scaling.get("beta_slow", 1))
    if scaling.get("truncate", True):
        first, last = math.floor(first), math.ceil(last)
    first, last = max(first, 0), min(last, d - 1)
    last += 0.001 if first == last else 0
    scaled = torch.clamp((torch.arange(d // 2, dtype=torch.float64) - first) / (last - first), 0, 1)
    return frequencies / scaling["factor"] * scaled + frequencies * (1 - scaled)


def factor_of_q(model, length, dtype):
    """Of each position, as in modeling_ministral3.py's get_llama_4_attn_scale."""
    scaling = model.get("rope_scaling") or {}
    positions = torch.arange(length, dtype=torch.float64)
    steps = torch.floor(positions / scaling.get("original_max_position_embeddings", length))
    return (1 + scaling.get("llama_4_scaling_beta", 0) * torch.log(1 + steps)).to(dtype)[:, None]


def has_rope(model, layer):
    """no_rope_layers as in a spec: every N-th layer, or a list of layers."""
    without = model.get("no_rope_layers") or []
    return layer not in without if isinstance(without, list) else (layer + 1) % without != 0


def rotate_half(x):
    half = x.shape[-1] // 2
    return torch.cat((-x[..., half:], x[..., :half]), dim=-1)


def rotate_neighbours(x):
    """As in modeling_glm4.py."""
    return torch.stack((-x[..., 1::2], x[..., 0::2]), dim=-1).flatten(-2)


def rotate(x, cos, sin, model):
    """RoPE of the first elements of heads, as many as cos has; their pairs are neighbours, or i and i + half."""
    turned, rest = x[..., :cos.shape[-1]], x[..., cos.shape[-1]:]
    turn = rotate_neighbours if model.get("rope_interleaved") else rotate_half
    return torch.cat((turned * cos + turn(turned) * sin, rest), dim=-1)


def rms_norm(x, weight, model):
    """`weight`: None without one."""
    variance = x.pow(2).mean(-1, keepdim=True)
    normed = x * torch.rsqrt(variance + model["rms_norm_eps"])
    if weight is None:
        return normed
    return (1 + weight if model.get("norm_weight") == "one_plus" else weight) * normed


def soft_cap(x, cap):
    return cap * torch.tanh(x / cap) if cap else x


def types_of(model):
    """The type of each layer."""
    types = model.get("layer_types") or ["sliding_attention" if model.get("sliding_window") else "full_attention"]
    return [types[layer % len(types)] for layer in range(model["num_hidden_layers"])]


def rotations(model, length, dtype):
    """RoPE's cosines and sines [length, rotated elements] of each layer. With rope_local_theta sliding layers have these angles, unscaled,
    as in Gemma3ForCausalLM and Olmo3ForCausalLM."""
    local = {**model, "rope_theta": model.get("rope_local_theta"), "rope_scaling": None}
    tables = {}
    for kind in set(types_of(model)):
        own = local if kind == "sliding_attention" and model.get("rope_local_theta") else model
        frequencies, factor = inverse_frequencies(own, torch.float64)
        angles = torch.outer(torch.arange(length, dtype=torch.float64), frequencies)
        interleaved = model.get("rope_interleaved")
        angles = angles.repeat_interleave(2, dim=-1) if interleaved else torch.cat((angles, angles), dim=-1)
        tables[kind] = (factor * angles.cos()).to(dtype), (factor * angles.sin()).to(dtype)
    return [tables[kind] for kind in types_of(model)]


def masks(model, tokens, dtype):
    """Masks added to the scores [batch or 1, 1, query, key] of each layer."""
    length = tokens.shape[1]
    query, key = torch.arange(length)[:, None], torch.arange(length)[None, :]
    window = model.get("sliding_window")
    seen = {"full_attention": (key <= query)[None, None]}
    if model.get("documents", {}).get("mask"):
        ends = (tokens == model["documents"]["separator"]).long()
        document = ends.cumsum(1) - ends  # the separator belongs to the document that it ends
        seen["full_attention"] = seen["full_attention"] & (document[:, :, None] == document[:, None, :])[:, None]
    if window:
        seen["sliding_attention"] = seen["full_attention"] & (key > query - window)
    added = {
        word: torch.zeros(sees.shape, dtype=dtype).masked_fill(~sees, float("-inf"))
        for word, sees in seen.items()
    }
    return [added[kind] for kind in types_of(model)]


class Bf16Product(torch.autograd.Function):
    """[.., m, k] x [.., k, n] of bf16 matrices, summed in fp32 and rounded to bf16 once, in both passes. PyTorch's own sums are in
    bf16 on processors without AVX-512."""

    @staticmethod
    def forward(ctx, a, b):
        ctx.save_for_backward(a, b)
        return torch.matmul(a.float(), b.float()).bfloat16()

    @staticmethod
    def backward(ctx, gradient):
        a, b = (operand.float().transpose(-1, -2) for operand in ctx.saved_tensors)
        gradient = gradient.float()
        return torch.matmul(gradient, b).bfloat16(), torch.matmul(a, gradient).bfloat16()


def bf16_product(a, b):
    """As autocast multiplies: operands of any type are rounded to bf16. A batch of `a` shares a matrix `b`."""
    a, b = a.bfloat16(), b.bfloat16()
    if b.dim() == 2:
        return Bf16Product.apply(a.flatten(0, -2), b).unflatten(0, a.shape[:-1])
    return Bf16Product.apply(a, b)


def bf16_linear(x, weight, bias=None):
    y = bf16_product(x, weight.t())
    return y if bias is None else y + bias.bfloat16()


def nearest(x, mantissa_bits, least_exponent):
    """The nearest numbers of a format, ties to even; x is at most its largest one in magnitude."""
    exponent = torch.frexp(x)[1] - 1  # x = m * 2^exponent, 1 <= m < 2
    step = torch.ldexp(torch.ones_like(x), torch.clamp(exponent, min=least_exponent) - mantissa_bits)
    return torch.round(x / step) * step


def e4m3(x):
    return nearest(x, 3, -6)


def by_rows(x, least=2.0**-100):
    """x [rows, columns] in e4m3 with a power of two, at least `least`, for each row, and those powers [rows, 1]."""
    largest = x.abs().amax(dim=1, keepdim=True)
    scale = torch.exp2(torch.ceil(torch.log2(torch.clamp(largest / 448, min=least))))
    return e4m3(x / scale) * scale, scale


class Fp8Product(torch.autograd.Function):
    """[m, k] x [n, k]^T with operands in e4m3. In the backward pass the scales of the weight's rows are part of the gradient when
    that is rounded. The weight's own gradient is a bf16 product, or with `full` one of e4m3 numbers of one scale."""

    @staticmethod
    def forward(ctx, x, weight, full):
        ctx.full = full
        x, weight = x.bfloat16(), weight.bfloat16()
        rounded, scales = by_rows(weight.float(), 2.0**-16)
        ctx.save_for_backward(x, rounded, scales.t())
        return torch.matmul(by_rows(x.float())[0], rounded.t()).bfloat16()

    @staticmethod
    def backward(ctx, gradient):
        x, weight, scales = ctx.saved_tensors
        gradient, x = gradient.float(), x.float()
        rounded, of_rows = by_rows(gradient * scales)
        to_x = torch.matmul(rounded / scales, weight).bfloat16()
        if ctx.full:
            gradient, x = with_one_scale(rounded, of_rows) / scales, with_one_scale(*by_rows(x))
        return to_x, torch.matmul(gradient.t(), x), None


def with_one_scale(x, scales):
    """e4m3 numbers whose rows have a scale each, rounded for the largest of them."""
    return e4m3(x / scales.max()) * scales.max()


def by_tensor(x, mantissa_bits=3, least_exponent=-6, largest=448):
    """x in a format of 8 bits with one power of two."""
    scale = torch.exp2(torch.ceil(torch.log2(torch.clamp(x.abs().max() / largest, min=2.0**-100))))
    return nearest(x / scale, mantissa_bits, least_exponent) * scale


class Fp8TensorProduct(torch.autograd.Function):
    """[m, k] x [n, k]^T with one scale a tensor: operands in e4m3, their product's gradient in e5m2. The weight's own gradient is
    one of these numbers, or without `full` a bf16 product."""

    @staticmethod
    def forward(ctx, x, weight, full):
        ctx.full, exact = full, x.bfloat16().float()
        x, weight = by_tensor(exact), by_tensor(weight.bfloat16().float())
        ctx.save_for_backward(x if full else exact, weight)
        return torch.matmul(x, weight.t()).bfloat16()

    @staticmethod
    def backward(ctx, gradient):
        x, weight = ctx.saved_tensors
        exact = gradient.float()
        gradient = by_tensor(exact, 2, -14, 57344)
        return torch.matmul(gradient, weight).bfloat16(), torch.matmul((gradient if ctx.full else exact).t(), x), None


def by_blocks(x):
    """x [rows, columns] in e4m3 with a power of two for each 32 columns of a row."""
    return by_rows(x.reshape(-1, 32))[0].view(x.shape)


class Mxfp8Product(torch.autograd.Function):
    """[m, k] x [n, k]^T. Each of the three products rounds its operands in blocks along its own sum."""

    @staticmethod
    def forward(ctx, x, weight):
        x, weight = x.bfloat16().float(), weight.bfloat16().float()
        ctx.save_for_backward(x, weight)
        return torch.matmul(by_blocks(x), by_blocks(weight).t()).bfloat16()

    @staticmethod
    def backward(ctx, gradient):
        x, weight = ctx.saved_tensors
        gradient = gradient.float()
        to_x = torch.matmul(by_blocks(gradient), by_blocks(weight.t()).t()).bfloat16()
        return to_x, torch.matmul(by_blocks(gradient.t()), by_blocks(x.t()).t())


def fp8_linear(product, x, weight, bias=None):
    y = product(x.flatten(0, -2), weight).unflatten(0, x.shape[:-1])
    return y if bias is None else y + bias.bfloat16()


FP8_LINEAR = functools.partial(fp8_linear, lambda x, w: Fp8Product.apply(x, w, False))
FP8_TENSOR_LINEAR = functools.partial(fp8_linear, lambda x, w: Fp8TensorProduct.apply(x, w, True))


def tf32(x):
    """Without the 13 bits of the mantissa that tensor cores do not read."""
    return (x.contiguous().view(torch.int32) & ~0x1fff).view(torch.float32)


class Tf32Product(torch.autograd.Function):
    """[m, k] x [n, k]^T with operands in tf32, in both passes."""

    @staticmethod
    def forward(ctx, x, weight):
        x, weight = tf32(x), tf32(weight)
        ctx.save_for_backward(x, weight)
        return torch.matmul(x, weight.t())

    @staticmethod
    def backward(ctx, gradient):
        x, weight = ctx.saved_tensors
        gradient = tf32(gradient)
        return torch.matmul(gradient, weight), torch.matmul(gradient.t(), x)


def tf32_linear(x, weight, bias=None):
    y = Tf32Product.apply(x.flatten(0, -2), weight).unflatten(0, x.shape[:-1])
    return y if bias is None else y + bias


# Functions of products by their arithmetic: of a layer's linear parts, of the head, of two activations.
PRODUCTS = {
    "exact": (torch.nn.functional.linear, torch.nn.functional.linear, torch.matmul),
    "tf32": (tf32_linear, tf32_linear, torch.matmul),
    "bf16": (bf16_linear, bf16_linear, bf16_product),
    "fp8": (FP8_LINEAR, bf16_linear, bf16_product),
    "fp8_full": (functools.partial(fp8_linear, lambda x, w: Fp8Product.apply(x, w, True)), bf16_linear, bf16_product),
    "fp8_head": (FP8_LINEAR, FP8_LINEAR, bf16_product),
    "fp8_tensor": (FP8_TENSOR_LINEAR, bf16_linear, bf16_product),
    "fp8_tensor_head":
    (FP8_TENSOR_LINEAR, functools.partial(fp8_linear, lambda x, w: Fp8TensorProduct.apply(x, w, False)), bf16_product),
    "mxfp8": (functools.partial(fp8_linear, Mxfp8Product.apply), bf16_linear, bf16_product),
}

ACTIVATIONS = {
    "relu2": lambda x: torch.relu(x).square(), "silu": torch.nn.functional.silu, "gelu_pytorch_tanh":
    functools.partial(torch.nn.functional.gelu, approximate="tanh")
}


def forward(parameters, model, tokens, stream=None, products="exact"):
    """tokens i64 [batch, sequence] -> logits [batch, sequence, vocab]. `stream`: a dtype that the residual stream, and with it
    its gradient, is rounded to after the embedding and after each addition. `products`: a key of
    PRODUCTS; bf16 as autocast makes them."""
    linear_of, head, matmul = PRODUCTS[products]
    batch, length = tokens.shape
    heads, kv_heads, d = model["num_attention_heads"], model["num_key_value_heads"], model["head_dim"]
    table = parameters["model.embed_tokens.weight"]
    turns = rotations(model, length, table.dtype)
    mask = masks(model, tokens, table.dtype)

    def rounded(value):
        return value if stream is None else value.to(stream)

    activation = ACTIVATIONS[model.get("hidden_act", "silu")]
    added, place = model.get("residual_multiplier", 1), model.get("norm_place", "pre")
    x = rounded(torch.nn.functional.embedding(tokens, table) * model.get("embedding_multiplier", 1))
    if model.get("embedding_norm"):
        x = rounded(rms_norm(x, None, model))
    for layer in range(model["num_hidden_layers"]):
        prefix = f"model.layers.{layer}."

        def weight(name):
            return parameters[prefix + name]

        def norm(value, name):
            return rms_norm(value.to(table.dtype), parameters.get(f"{prefix}{name}.weight"), model)

        def before(value, name):
            """The operand of a block."""
            return value if place == "post" else norm(value, name)

        def after(value, name):
            """The part of the stream that a block adds."""
            return value if place == "pre" else norm(value, name)

        def linear(value, *names):
            """Results of several linear parts. In fp8 they are one product, so that a row of their gradients has one scale."""
            weights = [weight(name + ".weight") for name in names]
            biases = [parameters.get(prefix + name + ".bias") for name in names]
            if products != "mxfp8" and not products.startswith("fp8"):
                return [linear_of(value, *pair) for pair in zip(weights, biases)]
            y = linear_of(value, torch.cat(weights), None if biases[0] is None else torch.cat(biases))
            return y.split([len(w) for w in weights], dim=-1)

        h = before(x, "input_layernorm")
        q, k, v = linear(h, "self_attn.q_proj", "self_attn.k_proj", "self_attn.v_proj")
        width = model.get("qk_norm_over") == "width"
        if model.get("qk_norm") and width:
            q, k = norm(q, "self_attn.q_norm"), norm(k, "self_attn.k_norm")
        q, k = q.view(batch, length, heads, d), k.view(batch, length, kv_heads, d)
        v = v.view(batch, length, kv_heads, d).transpose(1, 2)
        after_rope = model.get("qk_norm_place") == "after_rope"
        if model.get("qk_norm") and not width and not after_rope:
            q, k = norm(q, "self_attn.q_norm"), norm(k, "self_attn.k_norm")
        q, k = q.transpose(1, 2), k.transpose(1, 2)
        if has_rope(model, layer):
            cos, sin = turns[layer]
            q, k = rotate(q, cos, sin, model), rotate(k, cos, sin, model)
            q = q * factor_of_q(model, length, q.dtype)
        if model.get("qk_norm") and after_rope:
            q, k = norm(q, "self_attn.q_norm"), norm(k, "self_attn.k_norm")
        k, v = (t.repeat_interleave(heads // kv_heads, dim=1) for t in (k, v))
        scores = matmul(q, k.transpose(2, 3)) * model.get("attention_multiplier", d**-0.5)
        scores = soft_cap(scores, model.get("attn_logit_softcapping")) + mask[layer]
        wide = torch.float64 if scores.dtype == torch.float64 else torch.float32
        p = torch.softmax(scores, dim=-1, dtype=wide).to(q.dtype)
        attended = matmul(p, v).transpose(1, 2).reshape(batch, length, heads * d)
        x = rounded(x + added * after(linear(attended, "self_attn.o_proj")[0], "post_attention_layernorm"))
        h = before(x, "post_attention_layernorm" if place == "pre" else "pre_feedforward_layernorm")
        if model.get("mlp_gated", True):
            gate, up = linear(h, "mlp.gate_proj", "mlp.up_proj")
            inner = activation(gate) * up
        else:
            inner = activation(linear(h, "mlp.up_proj")[0])
        x = rounded(x + added * after(linear(inner, "mlp.down_proj")[0], "post_feedforward_layernorm"))
    x = rms_norm(x.to(table.dtype), parameters.get("model.norm.weight"), model)
    logits = head(x, parameters.get("lm_head.weight", table)) / model.get("logits_scaling", 1)
    return soft_cap(logits, model.get("final_logit_softcapping"))


class Figures:
    """A step's figures over targets that are not -1: fraction with the largest logit (ties count), mean and largest log-sum-exp,
    mean entropy of the softmax, and the z-loss."""

    def __init__(self):
        self.correct, self.lse, self.entropy = [], [], []

    def add(self, logits, targets):
        """logits [targets, vocab]; targets [targets], none of which is -1."""
        self.correct.append(logits.gather(1, targets[:, None])[:, 0] == logits.max(dim=1).values)
        lse = logits.logsumexp(dim=1)
        self.lse.append(lse)
        logarithms = logits - lse[:, None]
        self.entropy.append(-(logarithms.exp() * logarithms).sum(dim=1))

    def result(self, model):
        lse = torch.cat(self.lse)
        figures = {
            "top1": torch.cat(self.correct).double().mean().item(), "lse_mean": lse.mean().item(), "lse_max":
            lse.max().item(), "entropy": torch.cat(self.entropy).mean().item()
        }
        if model.get("z_loss"):
            figures["z_loss"] = model["z_loss"] * lse.square().mean().item()
        return figures


def loss_and_gradients(weights, model, inputs, targets, dtype, products="exact", stream=None, figures=None):
    """Mean cross-entropy over targets that are not -1, and the gradients of it and of the z-loss, z_loss * mean(lse^2).
    `figures`: Figures to which the logits are added.

    weights: name -> array; inputs, targets: int arrays [micro-batches, micro_batch, sequence].
    `products`, `stream`: as forward's; bf16 as PyTorch's mixed precision makes them on fp32 parameters.
    """
    parameters = {name: torch.tensor(array, dtype=dtype, requires_grad=True) for name, array in weights.items()}
    count = int((targets >= 0).sum())
    total = 0.0
    for rows, wanted in zip(inputs, targets):
        logits = forward(parameters, model, torch.tensor(rows, dtype=torch.int64), stream, products)
        flat, wanted = logits.reshape(-1, logits.shape[-1]), torch.tensor(wanted.reshape(-1), dtype=torch.int64)
        flat = flat if dtype == torch.float64 else flat.float()
        loss = torch.nn.functional.cross_entropy(flat, wanted, ignore_index=-1, reduction="sum") / count
        z_loss = model.get("z_loss", 0) * flat[wanted >= 0].logsumexp(dim=1).square().sum() / count
        if figures:
            figures.add(flat.detach()[wanted >= 0], wanted[wanted >= 0])
        (loss + z_loss).backward()
        total += float(loss.detach())
    return total, {name: p.grad.detach() for name, p in parameters.items()}
