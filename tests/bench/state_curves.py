"""Loss curves of AdamW with moments in 8 bits and in fp32: two models, several seeds.

    python3 tests/bench/state_curves.py [--seeds 3] [--steps N] [--models quickstart 25m] [--threads N] [--spec FILE] [-o FOLDER] [OVERRIDE...]

Each seed trains once with either format, from the same weights and in the same order of samples (curves.py). Prints the last
validation loss of each run, int8's less fp32's (nats a token), and how many tokens more int8 takes to fp32's loss. Writes all
validation losses to FOLDER/curves.csv. The bound is 0.01 nats for the mean of a model's seeds; a mean above it ends with exit 1.
"""

import argparse
import sys

import curves


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    curves.add_arguments(parser, "state_curves")
    formats = [
        curves.Format("fp32", ("precision.optimizer_state=fp32", )),
        curves.Format("int8", ("precision.optimizer_state=int8", ), 0.01)
    ]
    sys.exit(0 if curves.compare(parser.parse_args(), formats) else 1)


if __name__ == "__main__":
    main()
