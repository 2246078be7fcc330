"""A Llama in PyTorch, written for speed: one process of tests/bench/quickstart.py, and of the benchmark kit on a GPU.

Prints one JSON line: losses, seconds of each step, seconds from the process's start to the end of step 0, the precision that
the residual stream has. Exits with 12 when the device's memory is used up. --look alone prints what this PyTorch is.
"""

import argparse
import contextlib
import json
import math
import os
import pathlib
import sys
import time

import numpy as np
import torch
import torch.nn.functional as F

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent / "reference"))
import safetensors_file  # noqa: E402

OUT_OF_MEMORY = 12


def process_seconds():
    """Seconds since this process started: the interpreter's start and the imports count, as in the trainer."""
    with open("/proc/self/stat") as file:
        ticks = int(file.read().rsplit(")", 1)[1].split()[19])
    return time.clock_gettime(time.CLOCK_BOOTTIME) - ticks / os.sysconf("SC_CLK_TCK")


class Norm(torch.nn.Module):
    """RMSNorm with its weight in the type of its input: PyTorch's fused kernel supports no other."""

    def __init__(self, size, eps):
        super().__init__()
        self.weight, self.eps = torch.nn.Parameter(torch.ones(size)), eps

    def forward(self, x):
        return F.rms_norm(x, self.weight.shape, self.weight.to(x.dtype), self.eps)


class Attention(torch.nn.Module):

    def __init__(self, m, repeat_heads):
        super().__init__()
        self.heads, self.kv_heads, self.dim = m["num_attention_heads"], m["num_key_value_heads"], m["head_dim"]
        self.qkv = torch.nn.Linear(m["hidden_size"], (self.heads + 2 * self.kv_heads) * self.dim, bias=False)
        self.o = torch.nn.Linear(self.heads * self.dim, m["hidden_size"], bias=False)
        self.repeat = repeat_heads

    def forward(self, x, cos, sin):
        batch, length, _ = x.shape
        qkv = self.qkv(x).view(batch, length, self.heads + 2 * self.kv_heads, self.dim)
        turned, v = qkv.split([self.heads + self.kv_heads, self.kv_heads], dim=2)
        first, second = turned.chunk(2, dim=-1)  # q and k are rotated together
        turned = turned * cos + torch.cat((-second, first), dim=-1) * sin
        q, k = turned.split([self.heads, self.kv_heads], dim=2)
        if self.repeat:
            k, v = (each.repeat_interleave(self.heads // self.kv_heads, dim=2) for each in (k, v))
        y = F.scaled_dot_product_attention(q.transpose(1, 2), k.transpose(1, 2), v.transpose(1, 2), is_causal=True,
                                           enable_gqa=self.heads != self.kv_heads and not self.repeat)
        return self.o(y.transpose(1, 2).reshape(batch, length, self.heads * self.dim))


class Block(torch.nn.Module):

    def __init__(self, m, repeat_heads):
        super().__init__()
        hidden, ffn = m["hidden_size"], m["intermediate_size"]
        self.attention_norm = Norm(hidden, m["rms_norm_eps"])
        self.attention = Attention(m, repeat_heads)
        self.mlp_norm = Norm(hidden, m["rms_norm_eps"])
        self.gate_up = torch.nn.Linear(hidden, 2 * ffn, bias=False)
        self.down = torch.nn.Linear(ffn, hidden, bias=False)

    def forward(self, x, cos, sin):
        x = x + self.attention(self.attention_norm(x), cos, sin)
        gate, up = self.gate_up(self.mlp_norm(x)).chunk(2, dim=-1)
        return x + self.down(F.silu(gate) * up)


class Llama(torch.nn.Module):

    def __init__(self, m, length, act, repeat_heads=False):
        super().__init__()
        self.act = act
        self.embedding = torch.nn.Embedding(m["vocab_size"], m["hidden_size"])
        self.blocks = torch.nn.ModuleList(Block(m, repeat_heads) for _ in range(m["num_hidden_layers"]))
        self.norm = Norm(m["hidden_size"], m["rms_norm_eps"])
        d = m["head_dim"]
        angles = torch.outer(torch.arange(length, dtype=torch.float64),
                             m["rope_theta"]**(-torch.arange(0, d, 2, dtype=torch.float64) / d))
        angles = torch.cat((angles, angles), dim=-1)[:, None, :]
        self.register_buffer("cos", angles.cos().to(act), persistent=False)
        self.register_buffer("sin", angles.sin().to(act), persistent=False)
        for parameter in self.parameters():
            if parameter.dim() == 2:
                torch.nn.init.normal_(parameter, std=0.02)

    def load(self, weights):
        """Loads weights by Hugging Face names."""

        def put(parameter, *names):
            with torch.no_grad():
                parameter.copy_(torch.cat([torch.from_numpy(weights.pop(name)) for name in names]))

        put(self.embedding.weight, "model.embed_tokens.weight")
        put(self.norm.weight, "model.norm.weight")
        for i, block in enumerate(self.blocks):
            p = f"model.layers.{i}."
            put(block.attention_norm.weight, p + "input_layernorm.weight")
            put(block.attention.qkv.weight, *(f"{p}self_attn.{x}_proj.weight" for x in "qkv"))
            put(block.attention.o.weight, p + "self_attn.o_proj.weight")
            put(block.mlp_norm.weight, p + "post_attention_layernorm.weight")
            put(block.gate_up.weight, p + "mlp.gate_proj.weight", p + "mlp.up_proj.weight")
            put(block.down.weight, p + "mlp.down_proj.weight")
        if weights:
            raise SystemExit(f"the trace has weights that this model lacks: {sorted(weights)}")

    def stream(self, tokens):
        """The residual stream after the first block, for its precision."""
        return self.blocks[0](self.embedding(tokens).to(self.act), self.cos, self.sin)

    def forward(self, tokens, targets):
        x = self.embedding(tokens).to(self.act)  # the residual stream is in the activations' precision
        for block in self.blocks:
            x = block(x, self.cos, self.sin)
        logits = F.linear(self.norm(x), self.embedding.weight)
        return F.cross_entropy(logits.float().flatten(0, 1), targets.flatten())


def shard_batches(path, batch, length, count):
    """Random windows of a shard in llm.c's format, all read before the first step."""
    wide = np.fromfile(path, np.int32, 1)[0] == 20240801  # llm.c's format for vocabularies above 65,536
    tokens = np.memmap(path, dtype=np.uint32 if wide else np.uint16, mode="r", offset=1024)
    starts = np.random.default_rng(1).integers(0, len(tokens) - length - 1, (count, batch))
    windows = torch.from_numpy(np.stack([[tokens[s:s + length + 1] for s in row] for row in starts]).astype(np.int64))
    return [(w[:, :-1].contiguous(), w[:, 1:].contiguous()) for w in windows]


def trace_batches(trace, count):
    files = [safetensors_file.read(trace / f"step-{step}" / "tokens.safetensors") for step in range(count)]
    return [tuple(torch.from_numpy(f[name][0].astype(np.int64)) for name in ("inputs", "targets")) for f in files]


def only_attention(name):
    """A context in which scaled_dot_product_attention has only that kind; "default": PyTorch's preference."""
    if name == "default":
        return contextlib.nullcontext()
    from torch.nn.attention import SDPBackend, sdpa_kernel
    return sdpa_kernel({"cudnn": SDPBackend.CUDNN_ATTENTION, "flash": SDPBackend.FLASH_ATTENTION}[name])


def print_what_is_here():
    torch.nn.functional.rms_norm  # noqa: B018  2.4 or later has it
    gpu = torch.cuda.is_available()
    print(
        json.dumps({
            "torch": torch.__version__, "cuda": torch.version.cuda, "cudnn": torch.backends.cudnn.version(), "device":
            torch.cuda.get_device_name() if gpu else None, "free_bytes": torch.cuda.mem_get_info()[0] if gpu else None
        }))


def main():
    if sys.argv[1:] == ["--look"]:
        print_what_is_here()
        return
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--mode", choices=["eager", "compile"], required=True)
    parser.add_argument("--dtype", choices=["fp32", "bf16"], required=True)
    parser.add_argument("--threads", type=int, required=True)
    parser.add_argument("--steps", type=int, required=True)
    parser.add_argument("--model", required=True, help="config.json's keys, as JSON")
    parser.add_argument("--batch", type=int, required=True)
    parser.add_argument("--length", type=int, required=True)
    parser.add_argument("--shard", help="a file of tokens")
    parser.add_argument("--cpu-time", action="store_true", help="steps in seconds of the processor")
    parser.add_argument("--device", choices=["cpu", "cuda"], default="cpu")
    parser.add_argument("--scalar", action="store_true",
                        help="compare even where torch.compile finds no vector instructions")
    parser.add_argument("--accumulate", type=int, default=1, help="passes of --batch sequences in a step (1)")
    parser.add_argument("--then-accumulate", type=int, metavar="N",
                        help="after the steps as many more, of N passes each")
    parser.add_argument("--attention", choices=["default", "cudnn", "flash"], default="default")
    parser.add_argument("--repeat-heads", action="store_true",
                        help="for a kind of attention that takes no grouped heads")
    parser.add_argument("--trace", type=pathlib.Path, help="take weights, tokens and learning rates from this trace")
    a = parser.parse_args()
    with only_attention(a.attention):
        try:
            run(a)
        except torch.cuda.OutOfMemoryError as error:
            print(error, file=sys.stderr)
            raise SystemExit(OUT_OF_MEMORY) from None


def run(a):
    torch.set_num_threads(a.threads)
    torch.manual_seed(0)
    m = json.loads(a.model)
    bf16 = a.dtype == "bf16"
    with torch.device(a.device):
        model = Llama(m, a.length, torch.bfloat16 if bf16 else torch.float32, a.repeat_heads)
    rates = [1e-3 * min(1.0, (step + 1) / 50) for step in range(a.steps)]
    if a.trace:
        model.load(safetensors_file.read(a.trace / "step-0" / "weights.safetensors"))
        batches = trace_batches(a.trace, a.steps)
        rates = [json.loads((a.trace / f"step-{s}" / "summary.json").read_text())["lr"] for s in range(a.steps)]
    else:
        batches = shard_batches(a.shard, a.batch, a.length, a.steps * max(a.accumulate, a.then_accumulate or 0))
    batches = [(tokens.to(a.device), targets.to(a.device)) for tokens, targets in batches]
    decayed = [p for n, p in model.named_parameters() if p.dim() == 2 and not n.startswith("embedding")]
    plain = [p for n, p in model.named_parameters() if p.dim() != 2 or n.startswith("embedding")]
    parameters = list(model.parameters())
    optimizer = torch.optim.AdamW([{"params": decayed, "weight_decay": 0.1}, {"params": plain, "weight_decay": 0.0}],
                                  betas=(0.9, 0.95), eps=1e-8, fused=True)
    loss_of = torch.compile(model, fullgraph=True, dynamic=False) if a.mode == "compile" else model

    def autocast():
        return torch.autocast(a.device, dtype=torch.bfloat16, enabled=bf16)

    clock = time.process_time if a.cpu_time else time.perf_counter
    losses, first_step_end = [], None

    def train_step(step, rate, passes):
        """Runs a step; returns its seconds."""
        nonlocal first_step_end
        begin, total = clock(), 0.0
        for group in optimizer.param_groups:
            group["lr"] = rate
        for tokens, targets in batches[step * passes:(step + 1) * passes]:
            with autocast():
                loss = loss_of(tokens, targets) / passes
            loss.backward()
            total = total + loss.detach()
        torch.nn.utils.clip_grad_norm_(parameters, 1.0)
        optimizer.step()
        optimizer.zero_grad(set_to_none=True)
        losses.append(total.item())  # waits for the device
        seconds = clock() - begin
        first_step_end = first_step_end or process_seconds()
        if not math.isfinite(losses[-1]):
            raise SystemExit(f"the loss is {losses[-1]} at step {len(losses) - 1}")
        return seconds

    seconds = [train_step(step, rate, a.accumulate) for step, rate in enumerate(rates)]
    later = [train_step(step, rates[-1], a.then_accumulate) for step in range(a.steps)] if a.then_accumulate else []
    reserved = torch.cuda.max_memory_reserved() if a.device == "cuda" else 0
    with torch.no_grad(), autocast():
        residual = str(model.stream(batches[0][0]).dtype).removeprefix("torch.")
    simd = torch.backends.cpu.get_cpu_capability()
    if a.mode == "compile" and a.device == "cpu" and simd.startswith("AVX"):
        from torch._inductor.cpu_vec_isa import pick_vec_isa
        simd = str(pick_vec_isa())
        if not simd.startswith("avx") and not a.scalar:
            raise SystemExit(f"torch.compile finds no vector instructions ({simd}), which would be no fair comparison")
    print(
        json.dumps({
            "losses": losses, "steps": seconds, "accumulated_steps": later, "residual": residual, "attention":
            a.attention + (", heads repeated" if a.repeat_heads else ""), "seconds_to_first_step": first_step_end,
            "torch": torch.__version__, "simd": simd, "reserved_bytes": reserved
        }))


if __name__ == "__main__":
    main()
