#!/usr/bin/env python3
"""Brings the metrics of an llmc run to CSV, Weights & Biases or MLflow, while it trains (--follow) or afterwards.

    llmc_export.py csv RUN -o FILE
    llmc_export.py wandb RUN --project NAME [--entity NAME] [--follow]
    llmc_export.py mlflow RUN --experiment NAME [--tracking-uri URI] [--follow]

A run that goes back to a checkpoint trains steps a second time. If their values are equal, the exported points stay. If they
differ, the rest becomes a new W&B or MLflow run of the same group, so that no point is logged twice. Exported steps are
recorded in RUN/state/export-SERVICE.json, and the next call continues from there.
"""

import argparse
import csv
import json
import math
import os
import sys
import tempfile
import time

POLL_SECONDS = 2.0
REMEMBERED = 100_000  # steps whose losses are kept, to detect a run that went back and trained them to other losses


class ExportError(Exception):
    """An error that the user can fix."""


def complete_lines(path):
    """The JSON objects of a file that a trainer may be writing; an incomplete last line is skipped."""
    try:
        with open(path, "rb") as file:
            text = file.read()
    except FileNotFoundError:
        raise ExportError(f"there is no '{path}': give the folder of a run that has begun to train") from None
    lines = text.split(b"\n")[:-1]
    try:
        return [json.loads(line) for line in lines if line]
    except ValueError as error:
        raise ExportError(f"'{path}' is damaged: {error}") from None


def flatten(line, per_parameter=True):
    """name -> number for one line of metrics.jsonl, with TensorBoard's names. Skips `step` and non-finite values."""
    flat = {}

    def add(name, value):
        if isinstance(value, (int, float)) and not isinstance(value, bool) and math.isfinite(value):
            flat[name] = value

    for key, value in line.items():
        if key == "per_parameter":
            for parameter, norms in value.items() if per_parameter else ():
                for norm, number in norms.items():
                    add(f"{norm}/{parameter}", number)
        elif key.startswith("val_"):
            add("validation/" + key[len("val_"):], value)
        elif key in ("audit_loss", "audit_difference"):
            add(key.replace("_", "/"), value)
        elif key.startswith("task/"):
            add(key, value)
        elif isinstance(value, list):
            add("train/" + key, len(value))
        elif key != "step":
            add("train/" + key, value)
    return flat


def config_of(run):
    """The run's spec as a flat dict with dotted keys."""
    import yaml

    with open(os.path.join(run, "spec.yaml"), encoding="utf-8") as file:
        spec = yaml.safe_load(file)
    flat = {}

    def walk(prefix, value):
        if isinstance(value, dict):
            for key, inner in value.items():
                walk(f"{prefix}.{key}" if prefix else str(key), inner)
        else:
            flat[prefix] = value

    walk("", spec)
    return flat


def write_atomically(path, text):
    folder = os.path.dirname(os.path.abspath(path))
    handle, temporary = tempfile.mkstemp(dir=folder, prefix=".tmp-")
    try:
        with os.fdopen(handle, "w", encoding="utf-8", newline="") as file:
            file.write(text)
            file.flush()
            os.fsync(file.fileno())
        os.replace(temporary, path)
    except BaseException:
        os.unlink(temporary)
        raise


def export_csv(run, output, per_parameter):
    """Writes a row per step and a column per number; empty if a step has none."""
    rows = [{"step": line["step"], **flatten(line, per_parameter)}
            for line in complete_lines(os.path.join(run, "metrics.jsonl"))]
    columns = ["step"] + sorted({name for row in rows for name in row} - {"step"})
    if output == "-":
        writer = csv.DictWriter(sys.stdout, columns)
        writer.writeheader()
        writer.writerows(rows)
        return
    with tempfile.TemporaryFile("w+", newline="") as text:
        writer = csv.DictWriter(text, columns)
        writer.writeheader()
        writer.writerows(rows)
        text.seek(0)
        try:
            write_atomically(output, text.read())
        except OSError as error:  # names the temporary file
            raise ExportError(f"cannot write '{output}': {error.strerror}") from None


class Wandb:
    """Runs of Weights & Biases. The service requires rising steps, so each is logged once."""

    def __init__(self, arguments):
        self.project, self.entity = arguments.project, arguments.entity
        self.run = None

    def begin(self, name, group, config, identity):
        import wandb

        self.run = wandb.init(project=self.project, entity=self.entity, name=name, group=group, config=config,
                              id=identity, resume="allow")
        return self.run.id

    def log(self, step, numbers):
        self.run.log(numbers, step=step)

    def end(self):
        self.run.finish()


class Mlflow:
    """Runs of an MLflow experiment."""

    MOST_PARAMETERS, MOST_METRICS, MOST_CHARACTERS = 100, 1000, 500  # of one call, by MLflow's interface

    def __init__(self, arguments):
        from mlflow.tracking import MlflowClient

        self.client = MlflowClient(tracking_uri=arguments.tracking_uri)
        experiment = self.client.get_experiment_by_name(arguments.experiment)
        self.experiment = experiment.experiment_id if experiment else self.client.create_experiment(
            arguments.experiment)
        self.identity = None

    def begin(self, name, group, config, identity):
        from mlflow.entities import Param

        self.identity = identity
        if identity:
            return identity
        self.identity = self.client.create_run(self.experiment, run_name=name, tags={"llmc.run": group}).info.run_id
        parameters = [Param(key, str(value)[:self.MOST_CHARACTERS]) for key, value in config.items()]
        for begin in range(0, len(parameters), self.MOST_PARAMETERS):
            self.client.log_batch(self.identity, params=parameters[begin:begin + self.MOST_PARAMETERS])
        return self.identity

    def log(self, step, numbers):
        from mlflow.entities import Metric

        now = int(time.time() * 1000)
        metrics = [Metric(name, number, now, step) for name, number in numbers.items()]
        for begin in range(0, len(metrics), self.MOST_METRICS):
            self.client.log_batch(self.identity, metrics=metrics[begin:begin + self.MOST_METRICS])

    def end(self):
        self.client.set_terminated(self.identity)


class Sent:
    """State of an export to a service: the id of its run there, the last step, and losses to detect steps that were
    trained anew."""

    def __init__(self, run, service):
        self.path = os.path.join(run, "state", f"export-{service}.json")
        self.identity, self.losses = None, {}
        if os.path.exists(self.path):
            with open(self.path, encoding="utf-8") as file:
                known = json.load(file)
            self.identity, self.losses = known["identity"], {int(step): loss for step, loss in known["losses"].items()}

    def save(self):
        for step in sorted(self.losses)[:-REMEMBERED]:
            del self.losses[step]
        write_atomically(self.path, json.dumps({"identity": self.identity, "losses": self.losses}))

    def last(self):
        return max(self.losses, default=-1)

    def differ(self, lines):
        """The first exported step that has since been trained to another loss; None if there is none."""
        for line in lines:
            if self.losses.get(line["step"], line["loss"]) != line["loss"]:
                return line["step"]
        return None


def follow(run, service, name, arguments):
    """Exports new steps, repeatedly with --follow, until interrupted."""
    path = os.path.join(run, "metrics.jsonl")
    lines = complete_lines(path)
    group = arguments.name or os.path.basename(os.path.abspath(run))
    sent = Sent(run, name)
    open_run = False
    try:
        while True:
            differing = sent.differ(lines)
            if differing is not None:
                print(f"steps from {differing} on were trained again to other losses: they go to a new run",
                      file=sys.stderr)
                if open_run:
                    service.end()
                open_run, sent.identity = False, None
                sent.losses = {step: loss for step, loss in sent.losses.items() if step < differing}
            new = [line for line in lines if line["step"] > sent.last()]
            if not open_run and (new or not sent.losses):
                label = group if not sent.losses or sent.identity else f"{group} from step {sent.last()}"
                sent.identity = service.begin(label, group, config_of(run), sent.identity)
                open_run = True
            for line in new:
                service.log(line["step"], flatten(line))
                sent.losses[line["step"]] = line["loss"]
            if new:
                sent.save()
            if not arguments.follow:
                print(f"{len(new)} steps sent, up to step {sent.last()}", file=sys.stderr)
                return
            time.sleep(POLL_SECONDS)
            lines = complete_lines(path)
    except KeyboardInterrupt:
        sent.save()
    finally:
        if open_run:
            service.end()


def parse(words):
    parser = argparse.ArgumentParser(description=__doc__.split("\n", 1)[0])
    commands = parser.add_subparsers(dest="command", required=True)

    def command(name, what):
        sub = commands.add_parser(name, help=what)
        sub.add_argument("run", metavar="RUN", help="a run folder, with metrics.jsonl")
        return sub

    table = command("csv", "a table with a row a step")
    table.add_argument("-o", "--output", default="-", metavar="FILE", help="default: standard output")
    table.add_argument("--per-parameter", action="store_true", help="norms of every parameter, too")
    for name, what in (("wandb", "Weights & Biases"), ("mlflow", "MLflow")):
        sub = command(name, what)
        sub.add_argument("--follow", action="store_true", help="go on with what the run adds, until Ctrl-C")
        sub.add_argument("--name", help="of the run there; default: the folder's")
        if name == "wandb":
            sub.add_argument("--project", required=True)
            sub.add_argument("--entity")
        else:
            sub.add_argument("--experiment", required=True)
            sub.add_argument("--tracking-uri", help="default: MLFLOW_TRACKING_URI")
    return parser.parse_args(words)


def main(words):
    arguments = parse(words)
    try:
        if arguments.command == "csv":
            export_csv(arguments.run, arguments.output, arguments.per_parameter)
            return 0
        complete_lines(os.path.join(arguments.run, "metrics.jsonl"))  # fails before contacting a service
        service = {"wandb": Wandb, "mlflow": Mlflow}[arguments.command](arguments)
        follow(arguments.run, service, arguments.command, arguments)
        return 0
    except ExportError as error:
        print(f"error: {error}", file=sys.stderr)
        return 1
    except ImportError as error:
        print(
            f"error: {error.name} is not installed: pip install -r "
            f"{os.path.join(os.path.dirname(os.path.abspath(__file__)), 'requirements.txt')}", file=sys.stderr)
        return 1
    except Exception as error:  # of the service's library, which has its own
        print(f"error: {arguments.command}: {error}", file=sys.stderr)
        return 1


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
