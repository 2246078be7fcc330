"""The place of a fault: a text that a file has exactly once."""


class OutOfDate(Exception):
    """An entry of a list of faults that no longer says anything."""


def with_fault(path, old, new):
    """The file's text, and the same with `new` in the place of `old`."""
    try:
        with open(path) as file:
            text = file.read()
    except FileNotFoundError:
        raise OutOfDate(f"there is no {path}")
    if text.count(old) != 1:
        raise OutOfDate(f"{path} has the old text {text.count(old)} times, not once: {old!r}")
    return text, text.replace(old, new)


def put(path, text):
    with open(path, "w") as file:
        file.write(text)
