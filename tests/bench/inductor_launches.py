"""Lists torch.compile's launches on an H100 for forward and backward of quickstart_torch.py's model, as one JSON line, without a
GPU: tensors are fake, the device is paper_gpu.cpp, and no compiled code runs. Run by torch_compile_launches.py."""

import argparse
import json
import re
import types
import warnings

import torch
import torch._functorch.config
import torch._inductor.config
import triton
from torch._inductor.dependencies import StarDep
from torch._inductor.fx_passes.joint_graph import UniformValueConstantFolder
from torch._inductor.graph import GraphLowering
from torch._inductor.scheduler import ExternKernelSchedulerNode, NopKernelSchedulerNode
from torch._inductor.virtualized import V
from torch._subclasses.fake_tensor import FakeTensorMode
from torch.utils._python_dispatch import TorchDispatchMode
from triton.backends.compiler import GPUTarget

import quickstart_torch


class Compiled(Exception):
    """Raised when both passes are compiled, instead of running them."""


class ConstantsOnHost(TorchDispatchMode):
    """Inductor finds constants by running the ops that make them, on the device."""

    def __torch_dispatch__(self, op, types, args=(), kwargs=None):
        kwargs = dict(kwargs or {})
        if kwargs.get("device") is not None:
            kwargs["device"] = torch.device("cpu")
        return op(*args, **kwargs)


def fold_constants(self, run=UniformValueConstantFolder.run):
    with ConstantsOnHost():
        return run(self)


def elements(dependencies, name):
    """Elements of one tensor that a kernel reads, or writes, each counted once."""
    counts = set()
    for dependency in dependencies:
        if isinstance(dependency, StarDep):
            return int(V.graph.get_numel(name))
        if dependency.is_indirect():  # rows of an embedding: as many as are looked up
            numel = 1
            for size in dependency.size:
                numel *= int(size)
        else:
            numel = int(dependency.get_numel())
        counts.add((dependency.index, numel))
    return min(int(V.graph.get_numel(name)), sum(numel for _, numel in counts))


def moved(graph, node):
    """Bytes that a kernel must read and write: intermediate results that it writes and reads count once, registers not
    at all, and accumulated tensors twice."""
    reads = [dependency for dependency in node.read_writes.reads if getattr(dependency, "mode", None) != "atomic_add"]
    writes = list(node.read_writes.writes)
    written = {dependency.name for dependency in writes}
    total = 0
    for side, left_out in ((reads, written), (writes, set())):
        for name in {dependency.name for dependency in side} - left_out - set(graph.removed_buffers):
            of_it = [dependency for dependency in side if dependency.name == name]
            times = 2 if any(getattr(dependency, "mode", None) == "atomic_add" for dependency in of_it) else 1
            total += times * elements(of_it, name) * graph.get_dtype(name).itemsize
    return total


def launch(graph, node):
    """None if it launches nothing."""
    if isinstance(node, NopKernelSchedulerNode):
        return None
    part = {"pass": "backward" if graph.is_backward else "forward"}
    if isinstance(node, ExternKernelSchedulerNode):
        kernel = getattr(node.node, "python_kernel_name", None)
        if kernel is None:
            return None  # one of several results
        if kernel == "extern_kernels.mm":
            (m, k), (_, n) = ([int(size) for size in tensor.get_size()] for tensor in node.node.inputs)
            return {**part, "kind": "product", "m": m, "n": n, "k": k, "bytes": moved(graph, node)}
        if "scaled_dot_product" in kernel:
            return {**part, "kind": "attention"}
        raise SystemExit(f"torch.compile calls {kernel}, whose price is not known here")
    ops = {
        origin.meta["original_aten"]
        for one in node.get_nodes() for origin in one.node.get_origins() if "original_aten" in origin.meta
    }
    return {**part, "kind": "kernel", "ops": sorted({str(op).split(".")[1] for op in ops}), "bytes": moved(graph, node)}


def launches(graph, code):
    body = code[code.index("def call("):]
    # Sums over rows that kernels leave in parts, written and then read: the code calls torch.sum for them.
    sums = {
        name: 2 * 4 * int(rows) * int(columns)
        for name, rows, columns in re.findall(r"(\w+) = workspace_\d+\[.*?\]\.view\((\d+), (\d+)\)\.sum\(", body)
    }
    with V.set_graph_handler(graph):
        nodes = [node for node in graph.scheduler.nodes if not node.get_buffer_names() <= sums.keys()]
        found = [one for one in (launch(graph, node) for node in nodes) if one]
    for kind, call in (("kernel", r"triton_\w+\.run\("), ("product", r"extern_kernels\.\w+\("),
                       ("attention", r"= torch\.ops\.\w+\.\w+\.")):
        called, counted = len(re.findall(call, body)), sum(one["kind"] == kind for one in found)
        if called != counted:
            raise SystemExit(f"the code calls {called} of kind {kind}, and {counted} were understood")
    return found + [{"pass": "backward", "kind": "kernel", "ops": ["sum"], "bytes": size} for size in sums.values()]


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--model", required=True, help="config.json's keys, as JSON")
    parser.add_argument("--batch", type=int, required=True)
    parser.add_argument("--length", type=int, required=True)
    parser.add_argument("--residual", choices=["bf16", "fp32"], required=True)
    a = parser.parse_args()
    warnings.filterwarnings("ignore", message="dynamo_pgo")  # a cache as well
    torch._functorch.config.force_non_lazy_backward_lowering = True
    torch._inductor.config.force_disable_caches = True
    torch._inductor.config.compile_threads = 1
    UniformValueConstantFolder.run = fold_constants
    triton.runtime.driver.set_active(types.SimpleNamespace(get_current_target=lambda: GPUTarget("cuda", 90, 32)))
    found = []

    def stop(*_):
        raise Compiled

    def instead_of_loading(graph):
        code, _ = graph.codegen()
        found.extend(launches(graph, code.value))
        return types.SimpleNamespace(call=stop, __file__="", runner=None)

    GraphLowering.compile_to_module = instead_of_loading
    with FakeTensorMode():
        with torch.device("cuda"):
            model = quickstart_torch.Llama(json.loads(a.model), a.length,
                                           {"bf16": torch.bfloat16, "fp32": torch.float32}[a.residual])
            tokens = torch.zeros(a.batch, a.length, dtype=torch.int64)
        compiled = torch.compile(model, fullgraph=True, dynamic=False)
        try:
            with quickstart_torch.only_attention("cudnn"), torch.autocast("cuda", dtype=torch.bfloat16):
                compiled(tokens, tokens)
        except Compiled:
            pass
    if {one["pass"] for one in found} != {"forward", "backward"}:
        raise SystemExit("torch.compile has not compiled both passes")
    print(
        json.dumps({
            "torch": torch.__version__, "parameters": [parameter.numel() for parameter in model.parameters()],
            "launches": found
        }))


if __name__ == "__main__":
    main()
