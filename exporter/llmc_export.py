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
import secrets
import signal
import sys
import tempfile
import time

POLL_SECONDS = 2.0
MOST_SECONDS, MOST_FAILURES = 60.0, 30  # between two tries of a service that fails, and tries in a row, with --follow
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
    except (ValueError, RecursionError) as error:
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


def write(path, text):
    """Replaces a file, or the file that a link leads to, in one step. It keeps its mode. Writes into a device or a pipe."""
    if os.path.exists(path) and not os.path.isfile(path):
        with open(path, "w", encoding="utf-8", newline="") as file:
            file.write(text)
        return
    path = os.path.realpath(path)
    temporary = os.path.join(os.path.dirname(path), f".tmp-{secrets.token_hex(8)}")
    handle = os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o666)  # less the umask
    try:
        with os.fdopen(handle, "w", encoding="utf-8", newline="") as file:
            if os.path.exists(path):
                os.fchmod(file.fileno(), os.stat(path).st_mode & 0o7777)
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
            write(output, text.read())
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

    def describe(self, config):
        """Nothing: begin() has sent the config."""

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
        self.identity = identity or self.client.create_run(self.experiment, run_name=name, tags={"llmc.run": group
                                                                                                 }).info.run_id
        return self.identity

    def describe(self, config):
        from mlflow.entities import Param

        parameters = [Param(key, str(value)[:self.MOST_CHARACTERS]) for key, value in config.items()]
        for begin in range(0, len(parameters), self.MOST_PARAMETERS):
            self.client.log_batch(self.identity, params=parameters[begin:begin + self.MOST_PARAMETERS])

    def log(self, step, numbers):
        from mlflow.entities import Metric

        now = int(time.time() * 1000)
        metrics = [Metric(name, number, now, step) for name, number in numbers.items()]
        for begin in range(0, len(metrics), self.MOST_METRICS):
            self.client.log_batch(self.identity, metrics=metrics[begin:begin + self.MOST_METRICS])

    def end(self):
        self.client.set_terminated(self.identity)


class Sent:
    """State of an export to a service: the id of its run there, whether that has the config, the last step, and losses to
    detect steps that were trained anew."""

    def __init__(self, run, service):
        self.path = os.path.join(run, "state", f"export-{service}.json")
        self.identity, self.described, self.losses = None, False, {}
        if os.path.exists(self.path):
            with open(self.path, encoding="utf-8") as file:
                known = json.load(file)
            self.identity, self.losses = known["identity"], {int(step): loss for step, loss in known["losses"].items()}
            self.described = known.get("described", True)

    def save(self):
        for step in sorted(self.losses)[:-REMEMBERED]:
            del self.losses[step]
        write(self.path, json.dumps({"identity": self.identity, "described": self.described, "losses": self.losses}))

    def last(self):
        return max(self.losses, default=-1)

    def differ(self, lines):
        """The first exported step that has since been trained to another loss; None if there is none."""
        for line in lines:
            if self.losses.get(line["step"], line["loss"]) != line["loss"]:
                return line["step"]
        return None


class Export:
    """Sends the steps of a run to a service. The record is written before the first point, so that each call, also one
    after an error, continues with the same run of the service."""

    def __init__(self, run, service, name, label):
        self.run, self.service = run, service
        self.group = label or os.path.basename(os.path.abspath(run))
        self.sent = Sent(run, name)
        self.open = False

    def send(self, lines):
        """Sends the new ones of `lines`; returns their number."""
        sent = self.sent
        differing = sent.differ(lines)
        if differing is not None:
            print(f"steps from {differing} on were trained again to other losses: they go to a new run",
                  file=sys.stderr)
            self.end()
            sent.identity, sent.described = None, False
            sent.losses = {step: loss for step, loss in sent.losses.items() if step < differing}
        new = [line for line in lines if line["step"] > sent.last()]
        if not self.open and (new or not sent.losses):
            self.begin()
        try:
            for line in new:
                self.service.log(line["step"], flatten(line))
                sent.losses[line["step"]] = line["loss"]
        finally:  # a retry may be a minute away
            if new:
                sent.save()
        return len(new)

    def begin(self):
        sent, config = self.sent, config_of(self.run)
        label = self.group if not sent.losses or sent.identity else f"{self.group} from step {sent.last()}"
        sent.identity = self.service.begin(label, self.group, config, sent.identity)
        sent.save()
        if not sent.described:
            self.service.describe(config)
            sent.described = True
        self.open = True

    def end(self):
        if self.open:
            self.service.end()
        self.open = False


def follow(run, service, name, arguments):
    """Exports new steps, repeatedly with --follow, until interrupted. A service that has worked before may fail for a
    while then."""
    path = os.path.join(run, "metrics.jsonl")
    export = Export(run, service, name, arguments.name)
    worked, failures = False, 0
    try:
        while True:
            lines = complete_lines(path)
            try:
                count = export.send(lines)
                worked, failures = True, 0
            except Exception as error:  # of the service's library, which has its own
                failures += 1
                if not arguments.follow or not worked or failures > MOST_FAILURES:
                    raise
                print(f"{name}: {error}; next try in a moment", file=sys.stderr)
            if not arguments.follow:
                print(f"{count} steps sent, up to step {export.sent.last()}", file=sys.stderr)
                return
            time.sleep(min(POLL_SECONDS * 2**failures, MOST_SECONDS))
    except KeyboardInterrupt:
        if not arguments.follow:
            raise
    finally:
        export.end()


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
    except KeyboardInterrupt:
        return 130
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
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    sys.exit(main(sys.argv[1:]))
