"""Loss curves of products in fp8 and in bf16: two models, several seeds.

    python3 tests/bench/fp8_curves.py [--seeds 3] [--steps N] [--models quickstart 25m] [--matmul fp8 ...] [--threads N] [--spec FILE] [-o FOLDER] [OVERRIDE...]

Each seed trains once with each arithmetic, from the same weights and in the same order of samples (curves.py). Prints the last
validation loss of each run, its difference to bf16's (nats a token), and how many tokens more it takes to bf16's loss. Writes all
validation losses to FOLDER/curves.csv. The bound is 0.01 nats for the mean of a model's seeds, but for fp8_tensor, which has none; a
mean above it ends with exit 1.
"""

import argparse
import sys

import curves

BOUNDS = {"fp8": 0.01, "fp8_full": 0.01, "fp8_tensor": None}  # nats


def words(matmul):
    return "precision.compute=bf16", f"precision.matmul={matmul}"


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--matmul", nargs="+", choices=BOUNDS, default=list(BOUNDS))
    curves.add_arguments(parser, "fp8_curves")
    arguments = parser.parse_args()
    formats = [curves.Format(word, words(word), BOUNDS[word]) for word in arguments.matmul]
    sys.exit(0 if curves.compare(arguments, [curves.Format("bf16", words("auto")), *formats]) else 1)


if __name__ == "__main__":
    main()
