"""Single GEMMs: rates of fp8 compared with bf16 by shape, the cost of scale, accumulation and output, and one
overlapped with a copy. Attention's passes by shape and mask."""

import process

SMS = (132, 124, 116, 88)  # SMs that a GEMM is planned for; a copy takes the others of an H100
# (operands, result, scale, accumulation, beta) of one shape.
FORMS = (("e4m3", "bf16", "tensor", "fast", 0), ("e4m3", "bf16", "tensor", "exact", 0),
         ("e4m3", "bf16", "none", "fast", 0), ("e4m3", "bf16", "row", "fast", 0), ("e4m3", "bf16", "row", "exact", 0),
         ("e4m3", "bf16", "block", "fast", 0), ("e4m3", "bf16", "block", "exact", 0),
         ("e5m2", "bf16", "tensor", "fast", 0), ("e4m3", "fp32", "tensor", "fast", 0),
         ("e4m3", "fp32", "tensor", "fast", 1), ("e4m3", "bf16", "tensor", "fast", 1),
         ("bf16", "bf16", "none", "fast", 1), ("bf16", "fp32", "none", "fast", 0), ("bf16", "fp32", "none", "fast", 1))


def shapes(plan):
    """(m, n, k) -> names of the run's GEMMs."""
    found = {}
    for product in plan["products"]:
        found.setdefault((product["m"], product["n"], product["k"]), []).append(product["name"])
    return found


def largest(plan):
    """The layers' GEMM with most of a step's time: forward gate and up, else the largest."""
    every = plan["products"]
    product = next((each for each in every if each["name"] == "gate_up_forward"),
                   max(every, key=lambda each: each["flops"]))
    return product["m"], product["n"], product["k"]


def word(shape, operands, result, scale, accumulation, beta, sms=0, beside=False):
    return ",".join(map(str, (*shape, operands, result, scale, accumulation, beta, f"{sms}{'+' if beside else ''}")))


def lines(kit, name, lacks, *words):
    """Output lines of a program of the kit that the simulated GPU lacks."""
    program = kit.machine.program("run", name)
    if kit.simulated and not program.exists():
        raise process.Absent(f"the simulated GPU has no {lacks}")
    kit.need("run", name)
    return kit.json_lines(kit.call(program, kit.sizes["rates"], *words))


def call(kit, words):
    """Figures of GEMMs; those unsupported by the library are absent."""
    return {"products": lines(kit, "rates", "fp8 and no copy beside a product", *words)}


def rates(kit, result):
    plan = kit.made.plan()
    every, one = shapes(plan), largest(plan)
    kit.rows(
        result, {
            "fp8, by shape": lambda: call(kit, [word(shape, "e4m3", "bf16", "tensor", "fast", 0) for shape in every]),
            "scale, accumulation and output": lambda: call(kit, [word(one, *form) for form in FORMS]), "bf16, by shape":
            lambda: call(kit, [word(shape, "bf16", "bf16", "none", "fast", 0) for shape in every])
        })


def overlap(kit, result):
    one = largest(kit.made.plan())
    words = [
        word(one, "bf16", "bf16", "none", "fast", 0, sms, beside) for sms in SMS for beside in (False, True)
        if not beside or sms < max(SMS)
    ]
    kit.rows(result, {"a product beside a copy": lambda: call(kit, words)})


def heads(kit, result):
    kit.rows(result, {"attention": lambda: {"passes": lines(kit, "heads", "time for such shapes")}})
