"""Loss curves of Muon and AdamW at equal steps, each at the best of several learning rates.

    python3 tests/bench/optimizer_curves.py [--rates 5] [--seeds 3] [--steps N] [--models quickstart 25m] [--threads N] [--spec FILE] [-o FOLDER] [OVERRIDE...]

The first seed trains once with each rate: 0.002 (25m: 0.001) times 1/4, 1/2, 1, 2, 4. The other seeds train with the best one of
each optimizer. Prints the last validation loss of each run, and writes all validation losses to FOLDER/curves.csv. Ends with exit 1 if
AdamW's mean is the lower one.
"""

import argparse
import statistics
import sys

import curves

KINDS = ("adamw", "muon")
RATES = {"quickstart": 2.0e-3, "25m": 1.0e-3}  # in the middle
FACTORS = (1, 2, 0.5, 4, 0.25)  # in the order of --rates


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rates", type=int, choices=range(1, len(FACTORS) + 1), default=len(FACTORS))
    curves.add_arguments(parser, "optimizer_curves")
    arguments = parser.parse_args()
    rows, good = [], True
    for model in arguments.models:
        means, steps = {}, curves.steps_of(arguments, model)
        print(f"{model}\noptimizer       lr  seed  validation loss")
        for kind in KINDS:
            trainer = curves.compile_trainer(arguments, model, kind, f"optimizer.kind={kind}")
            last = {}

            def train(rate, seed):
                points = curves.train(trainer, arguments, steps, seed, f"optimizer.lr={rate:g}")
                rows.extend((model, f"{kind}, lr {rate:g}", seed, *point) for point in points)
                print(f"{kind:9} {rate:8g} {seed:5} {points[-1][1]:16.4f}", flush=True)
                return points[-1][1]

            for factor in sorted(FACTORS[:arguments.rates]):
                last[RATES[model] * factor] = train(RATES[model] * factor, 1)
            best = min(last, key=last.get)
            means[kind] = statistics.mean([last[best], *(train(best, seed) for seed in range(2, arguments.seeds + 1))])
        print("  ".join(f"{kind} {mean:.4f}"
                        for kind, mean in means.items()) + f": means of {arguments.seeds} seeds of {steps} steps")
        good &= means["muon"] < means["adamw"]
    curves.write(arguments, rows)
    sys.exit(0 if good else 1)


if __name__ == "__main__":
    main()
