"""Losses of one model with every kind of product and of state, compared with bf16's from the same weights and tokens."""

import statistics

import training

# Nats. The price that fp8 may have at the end of a run is 0.01. Within the first steps a loss falls by about 0.01 a step,
# so two trainings that are a step apart differ as much; a wrong scale or a transposed operand is tenths.
BOUND = 0.05
LAST = 20  # steps whose mean is compared


def losses(kit, result):
    """result[bundle]: every step's loss, and the mean of the last ones less bf16's."""
    count = kit.sizes["curve"]

    def one(bundle):
        metrics = training.train(kit, bundle, "trainer", count, 1, settings=["metrics.every=1"])[2]
        found = [line["loss"] for line in metrics]
        last = statistics.mean(found[-LAST:])
        more = {} if bundle == "curve" else {"above_bf16": last - result["curve"]["last"]}
        return {"losses": found, "last": last, **more}

    curves = [row.name for row in kit.table if row.curve]
    kit.rows(result, {name: lambda name=name: one(name) for name in curves})
    split = result.get("curve_split", {})
    if split.get("losses", result["curve"].get("losses")) != result["curve"].get("losses"):
        raise RuntimeError("split masters train to other losses than fp32 masters")
    for name in curves[1:]:
        above = result[name].get("above_bf16", 0)
        if not abs(above) <= BOUND:  # NaN is not
            raise RuntimeError(f"{name}'s last losses are {above:+.3f} nats from bf16's; bound {BOUND}")
