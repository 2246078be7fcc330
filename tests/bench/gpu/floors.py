"""Lower bound of a step's time, and the bytes of perfectly fused kernels."""


def launches(plan, passes):
    """(launch, times per step of `passes` micro-batches) of training."""
    for launch in plan["launches"]:
        if launch["per"] in ("micro-batch", "step"):
            yield launch, launch["times"] * (passes if launch["per"] == "micro-batch" else 1)


def fp32_stream(plan):
    """Whether the residual stream, which the norms read, is fp32."""
    return any(kernel["template"] == "rms_norm_forward"
               and kernel["params"].get("Residual", kernel["params"]["Act"]) == "float" for kernel in plan["kernels"])


def table(plan, model):
    """Rows (what, templates, bytes, formula, times per step) of perfectly fused kernels: each tensor read once and
    written once in bf16, norms and SwiGLU recomputed inside their backward kernels, RoPE in place, one pass over
    the logits for loss and gradient. (T tokens of a micro-batch, L layers, h hidden, f ffn, V vocabulary, P
    parameters.) `templates`: those whose kernels in the plan do this work; none: it happens inside GEMMs."""
    batch, stream = plan["batch"], fp32_stream(plan)
    T, L = batch["micro_batch"] * batch["sequence_length"], model["num_hidden_layers"]
    h, f, V, P = model["hidden_size"], model["intermediate_size"], model["vocab_size"], plan["parameters"]
    turned = (model["num_attention_heads"] + model["num_key_value_heads"]) * model["head_dim"]
    wider, said = ((2 * L + 1) * 2 * h * T, "; x in fp32: 2 h T more in 2 L + 1") if stream else (0, "")
    qk_norm = any(kernel["template"] == "qk_norm_rope" for kernel in plan["kernels"])
    ways = 2 - any("rotated" in kernel["name"] for kernel in plan["kernels"])  # attention may rotate its gradients
    turn = (("norms of heads and RoPE, both ways", ("qk_norm_rope", "qk_norm_rope_backward"), L * 10 * turned * T,
             "L: q and k in and out; their gradients in and out, q and k in; 10 (heads + KV) head_dim T",
             "pass") if qk_norm else
            ("RoPE, both ways" if ways == 2 else "RoPE, forward", ("rope", ), ways * L * 4 * turned * T,
             f"{ways} L: q and k in and out; 4 (heads + KV) head_dim T each", "pass"))
    rows = [("RMSNorm forward", ("rms_norm_forward", ), 2 * L * 4 * h * T + wider,
             f"2 L norms: x in, y out; 4 h T each{said}", "pass"),
            ("RMSNorm backward", ("rms_norm_backward", "column_reduce"), 2 * L * 10 * h * T + wider,
             f"2 L norms: x, dy, dresidual in, dx, y out; 10 h T each{said}", "pass"), turn,
            ("SwiGLU forward", ("swiglu_forward", ), L * 6 * f * T, "L: gate, up in, y out; 6 f T each", "pass"),
            ("SwiGLU backward", ("swiglu_backward", ), L * 12 * f * T,
             "L: gate, up, dy in, dgate, dup, y out; 12 f T each", "pass"),
            ("cross-entropy, both ways", ("cross_entropy", ), 4 * V * T, "logits in, dlogits out; 4 V T", "pass"),
            ("gradient norm", ("gradient_norm", ), 4 * P, "fp32 gradients in; 4 P", "step"),
            ("AdamW", ("adamw", ), 30 * P, "fp32 weight and two moments in and out, gradient in, bf16 weight out; 30 P",
             "step")]
    if stream:
        rows += [("fp32 stream in projections", (), 2 * L * 4 * h * T,
                  "o and down: 2 bytes more of C and of D; 4 h T each", "pass"),
                 ("fp32 stream in the embedding", (), 4 * h * T, "2 bytes more in and out; 4 h T", "pass")]
    return rows


def template_of(plan):
    return {kernel["name"]: kernel["template"] for kernel in plan["kernels"]}


def planned_bytes(plan, templates, passes=1):
    """Bytes of the plan's launches whose kernels come from these templates."""
    kernels = template_of(plan)
    return sum(times * launch["bytes"] for launch, times in launches(plan, passes)
               if kernels.get(launch["runs"]) in templates)


# Templates whose kernels move bytes that no fusion avoids; the others' work fits into the GEMMs around them.
UNAVOIDABLE = ("rms_norm_forward", "rms_norm_backward", "qk_norm_rope", "qk_norm_rope_backward", "cross_entropy",
               "gradient_norm", "adamw")


def floor(plan, passes, copy, products_ms, attention_ms):
    """ms of a step, as in docs/reference/benchmarks.md: GEMMs and attention as measured in place (ms of a
    micro-batch), norms, cross-entropy, gradient norm and AdamW at the rate of a copy (GB/s); SwiGLU, RoPE and
    column sums fused away."""
    return passes * (products_ms + attention_ms) + planned_bytes(plan, UNAVOIDABLE, passes) / (copy * 1e6)
