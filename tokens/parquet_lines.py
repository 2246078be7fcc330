#!/usr/bin/env python3
"""Writes the rows of Parquet files as JSON lines to standard output, for `llmc data build --from -`.

    tokens/parquet_lines.py FILE|FOLDER... | llmc data build --from - --vocab-size 32K -o data/NAME

A line is {"text": ...} from the column --text-field. Files of a folder are read in the order of their paths, one batch of rows
at a time. Rows without a text are skipped and counted. It needs pyarrow: pip install -r tokens/requirements-parquet.txt
All files are opened, and their columns checked, before the first row is written. Exit code 5: a file cannot be read, has no
such column of strings, or no row has a text.
"""

import argparse
import json
import os
import sys

ROWS = 1024  # of a batch
STRINGS = ("string", "large_string", "dictionary<values=string", "dictionary<values=large_string", "null"
           )  # null: no row


class DataError(Exception):
    pass


def unlistable(error):
    raise DataError(
        f"cannot list '{error.filename}': {error.strerror}. Allow reading it, or give only what is to be read")


def find_files(paths):
    found = []
    for path in paths:
        if os.path.isdir(path):
            found += [
                os.path.join(folder, name) for folder, _, names in os.walk(path, onerror=unlistable) for name in names
                if name.endswith(".parquet")
            ]
        elif os.path.exists(path):
            found.append(path)
        else:
            raise DataError(f"there is no '{path}'")
    if not found:
        raise DataError(f"there is no .parquet file in {', '.join(paths)}")
    return sorted({os.path.abspath(path): path for path in sorted(found, reverse=True)}.values())  # each file once


def check(path, field):
    """Raises DataError for a file that cannot be read, or whose column is missing or not of strings."""
    import pyarrow
    import pyarrow.parquet
    try:
        schema = pyarrow.parquet.ParquetFile(path).schema_arrow
    except (pyarrow.ArrowException, OSError) as error:
        raise DataError(f"cannot read '{path}': {error}") from None
    if field not in schema.names:
        raise DataError(f"'{path}' has no column '{field}'. Give one of {', '.join(schema.names)} as --text-field")
    if schema.names.count(field) > 1:
        raise DataError(f"'{path}' has several columns '{field}'")
    kind = str(schema.field(field).type)
    if not kind.startswith(STRINGS):
        raise DataError(f"the column '{field}' of '{path}' has {kind} instead of string. Give another --text-field")


def texts(path, field):
    """Values of a column; raises DataError for a file that cannot be read."""
    import pyarrow
    import pyarrow.parquet
    try:
        for batch in pyarrow.parquet.ParquetFile(path).iter_batches(batch_size=ROWS, columns=[field]):
            yield from batch.column(0).to_pylist()
    except UnicodeDecodeError as error:
        raise DataError(f"the column '{field}' of '{path}' is not UTF-8: {error}") from None
    except (pyarrow.ArrowException, OSError) as error:
        raise DataError(f"cannot read '{path}': {error}") from None


def main(words=None, out=None):
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--text-field", default="text", help="column of the text")
    parser.add_argument("paths", nargs="+", metavar="FILE|FOLDER")
    options = parser.parse_args(words)
    out = out or sys.stdout
    written = skipped = 0
    try:
        paths = find_files(options.paths)
        for path in paths:
            check(path, options.text_field)
        for path in paths:
            for text in texts(path, options.text_field):
                if isinstance(text, str) and text:
                    out.write(json.dumps({"text": text}) + "\n")
                    written += 1
                else:
                    skipped += 1
        out.flush()
        if not written:
            raise DataError(f"no row has a text in '{options.text_field}': {skipped:,} without one")
    except ModuleNotFoundError:
        print("error: pyarrow is not installed: pip install -r tokens/requirements-parquet.txt", file=sys.stderr)
        return 3
    except DataError as error:
        print(f"error: {error}", file=sys.stderr)
        return 5
    except BrokenPipeError:  # the reader has ended, and says why
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 1
    print(f"{written:,} rows written, {skipped:,} without a text skipped", file=sys.stderr)
    return 0


if __name__ == "__main__":
    sys.exit(main())
