"""Draws loss curves of fp8_curves.py, state_curves.py or optimizer_curves.py.

    python3 tests/bench/plot_curves.py FOLDER/curves.csv -o FILE.svg

One plot a model, one line a kind of run: the mean of its seeds, in a band from their lowest to their highest. Needs matplotlib.
"""

import argparse
import collections
import csv
import statistics

import matplotlib.pyplot


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("csv")
    parser.add_argument("-o", "--out", required=True)
    arguments = parser.parse_args()
    models = collections.defaultdict(lambda: collections.defaultdict(lambda: collections.defaultdict(list)))
    with open(arguments.csv, newline="") as file:
        for row in csv.DictReader(file):
            models[row["model"]][row["run"]][int(row["step"])].append(float(row["validation_loss"]))
    matplotlib.rcParams["svg.hashsalt"] = "curves"  # the same bytes each time
    figure, plots = matplotlib.pyplot.subplots(1, len(models), figsize=(5.5 * len(models), 4), squeeze=False)
    for plot, (model, runs) in zip(plots[0], models.items()):
        for name, points in runs.items():
            steps = sorted(points)
            plot.plot(steps, [statistics.mean(points[step]) for step in steps], label=name, linewidth=1)
            plot.fill_between(steps, [min(points[step]) for step in steps], [max(points[step]) for step in steps],
                              alpha=0.2)
        plot.set(title=model, xlabel="step", ylabel="validation loss, nats a token")
        plot.legend()
    figure.tight_layout()
    figure.savefig(arguments.out, metadata={"Date": None})


if __name__ == "__main__":
    main()
