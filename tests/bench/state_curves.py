"""Loss curves of AdamW with moments in 8 bits and in fp32: two models, several seeds.

    python3 tests/bench/state_curves.py [--seeds 3] [--steps 700] [--models quickstart 25m] [--threads N] [-o FOLDER] [OVERRIDE...]

Each seed trains once with either format, from the same weights and in the same order of samples (curves.py). Prints the last
validation loss of each run and int8's less fp32's (nats a token), and writes all validation losses to FOLDER/curves.csv. The bound is
0.01 nats for the mean of a model's seeds; a mean above it ends with exit 1.
"""

import argparse
import statistics
import sys

import curves

FORMATS = ("fp32", "int8")
BOUND = 0.01  # nats


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    curves.add_arguments(parser, "state_curves")
    arguments = parser.parse_args()
    rows, good = [], True
    for model in arguments.models:
        trainers = [
            curves.compile_trainer(arguments, model, state, f"precision.optimizer_state={state}") for state in FORMATS
        ]
        differences = []
        print(f"{model}\nseed      fp32      int8  difference")
        for seed in range(1, arguments.seeds + 1):
            both = [curves.train(trainer, arguments, seed) for trainer in trainers]
            rows += [(model, state, seed, *point) for state, points in zip(FORMATS, both) for point in points]
            wide, narrow = (points[-1][1] for points in both)
            differences.append(narrow - wide)
            print(f"{seed:4} {wide:9.4f} {narrow:9.4f} {differences[-1]:+11.4f}", flush=True)
        mean = statistics.mean(differences)
        good &= mean < BOUND
        print(f"mean difference {mean:+.4f} nats over {len(differences)} seeds of {arguments.steps} steps")
    curves.write(arguments, ("model", "state", "seed", "step", "validation_loss"), rows)
    sys.exit(0 if good else 1)


if __name__ == "__main__":
    main()
