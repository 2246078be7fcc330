"""Processes with a time limit that leave no children behind, whatever these have done with groups and sessions."""

import contextlib
import ctypes
import os
import pathlib
import signal
import subprocess
import tempfile
import time

PR_SET_PDEATHSIG, PR_SET_CHILD_SUBREAPER = 1, 36  # <sys/prctl.h>
_libc = ctypes.CDLL(None)


class Absent(RuntimeError):
    """What cannot be measured here, for a reason that is no failure."""


class Failed(RuntimeError):
    """A command that did not succeed. `code`: its exit code, less than 0 for a signal, None for one that was stopped."""

    def __init__(self, message, code):
        super().__init__(message)
        self.code = code


def adopt_orphans():
    """From now on a descendant whose parent has ended is this process's child."""
    _libc.prctl(PR_SET_CHILD_SUBREAPER, 1)


def die_with_parent():
    _libc.prctl(PR_SET_PDEATHSIG, int(signal.SIGKILL))


def descendants(root):
    """Process ids below a process, of any group or session."""
    children = {}
    for folder in pathlib.Path("/proc").glob("[0-9]*"):
        with contextlib.suppress(OSError, ValueError, IndexError):
            parent = int((folder / "stat").read_text().rsplit(")", 1)[1].split()[1])
            children.setdefault(parent, []).append(int(folder.name))
    found, look = [], [root]
    while look:
        below = children.get(look.pop(), [])
        found += below
        look += below
    return found


def stop_descendants():
    """Kills everything below this process; returns when it is gone."""
    end = time.monotonic() + 10  # a process that the kernel holds cannot be waited for
    while time.monotonic() < end:
        left = descendants(os.getpid())
        for each in left:
            with contextlib.suppress(ProcessLookupError):
                os.kill(each, signal.SIGKILL)
        for each in left:
            with contextlib.suppress(ChildProcessError):
                os.waitpid(each, os.WNOHANG)
        if not left:
            return
        time.sleep(0.01)


def why(code):
    """An exit code of subprocess in words."""
    return f"was killed by {signal.Signals(-code).name}" if code < 0 else f"exited with {code}"


def run(words, env, seconds, cwd=None):
    """Output of a command that must succeed within `seconds`; Failed otherwise, with the end of what it printed."""
    words = [str(word) for word in words]
    # Into files: a pipe would be waited for as long as any grandchild holds it.
    with tempfile.TemporaryFile() as out, tempfile.TemporaryFile() as err:

        def text(file):
            file.seek(0)
            return file.read().decode(errors="replace")

        try:
            child = subprocess.Popen(words, env=env, cwd=cwd, stdin=subprocess.DEVNULL, stdout=out, stderr=err,
                                     start_new_session=True, preexec_fn=die_with_parent)
        except OSError as error:
            raise Failed(f"{words[0]}: {error.strerror}", 127) from error
        try:
            code = child.wait(timeout=max(0.0, seconds))
        except subprocess.TimeoutExpired:
            code = None
            below = descendants(child.pid)  # before they lose their parent
            child.kill()
            child.wait()
            for each in below:
                with contextlib.suppress(ProcessLookupError):
                    os.kill(each, signal.SIGKILL)
        if code == 0:
            return text(out)
        said = (text(out) + text(err))[-3000:]
        if code is None:
            raise Failed(f"{words[0]} was still running at the part's time limit and was stopped: {said}", None)
        raise Failed(f"{' '.join(words)} {why(code)}: {said}", code)


def apart(function, seconds):
    """Runs function() in a process of its own and stops it, with everything below it, at the limit.

    Returns None when it returned, else what happened to the process. What it found it must have written to a file."""
    child = os.fork()
    if child == 0:
        status = 1
        try:
            die_with_parent()
            os.setsid()
            signal.signal(signal.SIGTERM, signal.SIG_DFL)
            adopt_orphans()
            function()
            stop_descendants()
            status = 0
        finally:
            os._exit(status)
    try:
        end = time.monotonic() + seconds
        while time.monotonic() < end:
            done, status = os.waitpid(child, os.WNOHANG)
            if done:
                code = os.waitstatus_to_exitcode(status)
                return None if code == 0 else f"the part's process {why(code)}"
            time.sleep(0.02)
        return f"stopped at its limit of {seconds:.0f} s"
    finally:
        stop_descendants()
