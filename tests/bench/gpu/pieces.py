"""Every launch of a step alone, and each kind of attention compared with the run's."""

import math
import statistics

import training

# The part attention compares two trainers that add in different orders and round to bf16 at different values
# (probabilities relative to another maximum), so that single elements differ by up to 2^-8. A loss is a mean over a
# batch's tokens, in which that cancels: on the simulated GPU 2e-5 with 64 and with 512 tokens.
LOSS_BOUND = 1e-4
COMPARED_STEPS = 4  # in later ones the weights themselves have drifted apart
# The first step's gradients come from equal weights. Their norms would differ by 2^-8 if all elements were rounded in
# one direction, and by twice that, because scores' gradients are rounded before results; on the simulated GPU 1.3e-3.
# The loss hardly depends on a wrong backward pass, but these norms do: a wrong scale, mask or head is percents of one.
NORM_BOUND = 2**-7
# Repeating a launch changes the results of in-place kernels. With these settings the weights do not change, so that
# every step starts equally and no update diverges until the trainer skips it.
UNCHANGED_WEIGHTS = ("optimizer.lr=0", "optimizer.weight_decay=0")


def launches(kit, bundle, repeats, settings=()):
    """{"launches": name -> ms of a launch (median), launches per step, ms per step; "training": of the first steps}."""
    warmup = kit.sizes["warmup"]
    written, metrics = training.clocked(kit, bundle, "timed", 1, repeats, settings)
    rows = {}
    for name, times in written["launches"].items():
        kept = [ms for step, ms in times if step >= warmup]
        if kept:  # else start-up's
            steps = written["steps"] - warmup
            rows[name] = {"ms": statistics.median(kept), "a_step": len(kept) / steps, "ms_a_step": sum(kept) / steps}
    norms = {name: values["grad"] for name, values in metrics[0].get("per_parameter", {}).items()}
    return {
        "launches": rows, "training": {
            "losses": [line["loss"] for line in metrics[:COMPARED_STEPS]], "gradient_norms":
            {"all parameters": metrics[0]["grad_norm"], **norms}
        }
    }


def pieces(kit, result):
    """Every launch in its place: of the run, and of the run with fp8 in all three passes."""
    kit.rows(result, {"in_place": lambda: launches(kit, "run", 1), "fp8_full": lambda: launches(kit, "fp8_full", 1)})


def repeated(kit, result):
    """Every launch several times in a row; and in its place with the attention library's atomics allowed."""
    kit.rows(
        result, {
            "free": lambda: launches(kit, "free", 1), "on_end":
            lambda: launches(kit, "run", kit.sizes["repeats"], UNCHANGED_WEIGHTS)
        })


def relative_difference(ours, theirs):
    """|ours - theirs| / |theirs|; inf instead of NaN, which exceeds no bound."""
    difference = abs(ours - theirs) / abs(theirs) if theirs else abs(ours)
    return math.inf if math.isnan(difference) else difference


def compare(run, own):
    """Distance of two trainings."""
    losses = [relative_difference(*pair) for pair in zip(run["losses"], own["losses"])]
    # A bias of the keys shifts all scores of a query equally: its gradient is zero, and its norm only rounding.
    norms = {
        name: relative_difference(run["gradient_norms"][name], norm)
        for name, norm in own["gradient_norms"].items() if not name.endswith("k_proj.bias")
    }
    worst = max(norms, key=norms.get)
    return {
        "losses": losses, "loss_bound": LOSS_BOUND, "gradient_norm": norms[worst], "of": worst, "norm_bound": NORM_BOUND
    }


def attention(kit, result):
    """Every launch with each other attention of the bundles' table, and whether that trains like the run's."""
    variants = [row for row in kit.table if row.attention]
    refusals = [f"{row.what}: {kit.made.refusal(row.name)}" for row in variants if kit.made.refusal(row.name)]
    if len(refusals) == len(variants):
        result["absent"] = "; ".join(refusals)
        return
    run = kit.results.get("pieces", {}).get("in_place", {})
    if "training" not in run:
        raise RuntimeError("nothing to compare with: the part pieces has not run the trainer with its own attention")

    def one(name):
        figures = launches(kit, name, 1)
        return {**figures, "comparison": compare(run["training"], figures["training"])}

    kit.rows(result, {row.name: lambda name=row.name: one(name) for row in variants})
    for row in variants:
        c = result[row.name].get("comparison")
        if c and max(c["losses"]) > LOSS_BOUND:
            raise RuntimeError(
                f"the run's attention and {row.what} give losses {max(c['losses']):.1e} apart; bound {LOSS_BOUND:.0e}")
        if c and c["gradient_norm"] > NORM_BOUND:
            raise RuntimeError(f"the run's attention and {row.what} give first gradients of {c['of']} with norms "
                               f"{c['gradient_norm']:.1e} apart; bound {NORM_BOUND:.1e}")
