"""The trainers that the kit measures: one row per bundle. A further variant is one more row here."""

import dataclasses
import json

TEXT = "text.bin"  # in the archive: a shard of the quick start's tokens, for the bundles of the model `curve`


@dataclasses.dataclass(frozen=True)
class Bundle:
    name: str
    what: str  # in the report: difference from the run
    overrides: tuple = ()
    programs: tuple = ("trainer", )  # of trainer, hosted, timed: build.py
    spec: str = "run"  # or small: the model that compute-sanitizer steps through; qwen: that of llmq's figures; curve
    step: bool = False  # timed as a whole step together with the run, in the part `step`
    later: bool = False  # same, in the part `variants`
    curve: bool = False  # its losses are compared with those of the bundle `curve`
    attention: bool = False  # its attention is timed beside the run's, and trains as the run's does
    key: str = ""  # of the schema; the row is omitted if llmc has no such key

    def whole(self):
        return self.step or self.later


BUNDLES = (
    Bundle("run", "as the spec has it", programs=("trainer", "hosted", "timed")),
    Bundle("fp8", "matmul: fp8", ("precision.matmul=fp8", ), step=True, key="precision.fp8"),
    Bundle("fp8_full", "matmul: fp8_full", ("precision.matmul=fp8_full", ), ("trainer", "timed"), step=True,
           key="precision.fp8"),
    Bundle("fp8_head", "matmul: fp8_full, head: forward_dgrad",
           ("precision.matmul=fp8_full", "precision.fp8.head=forward_dgrad"), step=True, key="precision.fp8"),
    Bundle("fp8_fast", "matmul: fp8_full, fast_accumulation: all",
           ("precision.matmul=fp8_full", "precision.fp8.fast_accumulation=all"), step=True, key="precision.fp8"),
    Bundle("fp8_fastest",
           "matmul: fp8_full, head: forward_dgrad, fast_accumulation: all, recompute: none, residual: bf16",
           ("precision.matmul=fp8_full", "precision.fp8.head=forward_dgrad", "precision.fp8.fast_accumulation=all",
            "memory.recompute=none", "precision.residual=bf16"), step=True, key="precision.fp8"),
    Bundle("fp8_tensor", "matmul: fp8_tensor", ("precision.matmul=fp8_tensor", ), step=True, key="precision.fp8"),
    Bundle("chunk", "loss_chunk: 16384", ("memory.loss_chunk=16384", ), later=True),
    Bundle("lean", "recompute: none, residual: bf16", ("memory.recompute=none", "precision.residual=bf16"), later=True,
           key="precision.residual"),
    Bundle("qwen", "Qwen2.5-1.5B's sizes", spec="qwen", later=True),
    Bundle("half", "micro_batch: 8", ("batch.micro_batch=8", ), later=True),
    Bundle("double", "micro_batch: 32, recompute: auto", ("batch.micro_batch=32", "memory.recompute=auto"), later=True),
    Bundle("free", "attention: cudnn, deterministic: false", ("target.attention=cudnn", "deterministic=false"),
           ("trainer", "timed"), later=True),
    Bundle("residual", "residual: bf16", ("precision.residual=bf16", ), later=True, key="precision.residual"),
    Bundle("int8", "optimizer_state: int8", ("precision.optimizer_state=int8", ), later=True,
           key="precision.optimizer_state"),
    Bundle("split", "master: split", ("precision.master=split", ), later=True, key="precision.master"),
    Bundle("lion", "optimizer: lion", ("optimizer.kind=lion", ), later=True),
    Bundle("muon", "optimizer: muon", ("optimizer.kind=muon", ), later=True, key="optimizer.muon"),
    Bundle("cudnn", "attention: cudnn", ("target.attention=cudnn", ), ("timed", ), attention=True),
    Bundle("portable", "attention: portable", ("target.attention=portable", ), ("timed", ), attention=True),
    Bundle("curve", "matmul: bf16", spec="curve", curve=True),
    *(Bundle(f"curve_{word}", f"matmul: {word}",
             (f"precision.matmul={word}", ), spec="curve", curve=True, key="precision.fp8")
      for word in ("fp8", "fp8_full", "fp8_tensor")),
    Bundle("curve_fast", "matmul: fp8_full, head: forward_dgrad, fast_accumulation: all",
           ("precision.matmul=fp8_full", "precision.fp8.head=forward_dgrad", "precision.fp8.fast_accumulation=all"),
           spec="curve", curve=True, key="precision.fp8"),
    Bundle("curve_int8", "optimizer_state: int8", ("precision.optimizer_state=int8", ), spec="curve", curve=True,
           key="precision.optimizer_state"),
    Bundle("curve_split", "master: split", ("precision.master=split", ), spec="curve", curve=True,
           key="precision.master"),
    Bundle("small", "every kind of layer", spec="small"),
    # A row of 50,001 logits exceeds the 96 KiB from which on a cluster of blocks shares it. Also llmc's own attention:
    # by warpgroup products here, by warps in the bundle below.
    Bundle("wide", "a kernel with clusters, attention: portable",
           ("model.vocab_size=50001", "target.attention=portable"), spec="small"),
    Bundle("normed", "QK-norm, untied, recompute: full, heads of 32, optimizer_state: int8, master: split",
           ("model.qk_norm=true", "model.tie_word_embeddings=false", "memory.recompute=full", "model.head_dim=32",
            "target.attention=portable", "precision.optimizer_state=int8", "precision.master=split"), spec="small"),
)


def known(schema, key):
    """Whether `llmc schema` (parsed) has a key such as precision.residual; an empty key always counts as known."""
    for word in filter(None, key.split(".")):
        schema = schema.get("properties", {}).get(word)
        if schema is None:
            return False
    return True


def own_attention(plan):
    """Whether all of a run's attention uses llmc's own kernels."""
    return not any(launch["kind"] == "attention" for launch in plan["launches"])


class Made:
    """Bundles of an unpacked archive: those of the table that prepare.py made, and why it could not make others."""

    def __init__(self, folder):
        self.folder = folder
        self.refusals = json.loads((folder / "bundles.json").read_text())

    def rows(self):
        return [row for row in BUNDLES if row.name in self.refusals and not self.refusals[row.name]]

    def has(self, name):
        return any(row.name == name for row in self.rows())

    def refusal(self, name):
        """Reason why a bundle of the table is missing; empty if it exists."""
        return self.refusals.get(name, "llmc has no key for it")

    def plan(self, name="run"):
        return json.loads((self.folder / name / "plan.json").read_text())

    def model(self, name="run"):
        return json.loads((self.folder / name / "config.json").read_text())
