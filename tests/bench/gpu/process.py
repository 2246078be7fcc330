"""Processes with a time limit that leave no children behind, whatever groups and sessions these use."""

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
    """A measurement that is impossible here, for a reason that is no failure."""


class Failed(RuntimeError):
    """A command that did not succeed. `code`: its exit code, negative for a signal, None if it was stopped."""

    def __init__(self, message, code):
        super().__init__(message)
        self.code = code


def adopt_orphans():
    """From now on descendants whose parent has exited become this process's children."""
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
    end = time.monotonic() + 10  # a process blocked in the kernel cannot be waited for
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
    """Describes an exit code of subprocess."""
    return f"was killed by {signal.Signals(-code).name}" if code < 0 else f"exited with {code}"


def run(words, env, seconds, cwd=None):
    """Output of a command that must succeed within `seconds`; Failed otherwise, with the end of its output."""
    words = [str(word) for word in words]
    # Output goes to files: a pipe would be waited for as long as any grandchild holds it.
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
    """Runs function() in a separate process and stops it, with all its descendants, at the limit.

    Returns None if it returned, else a description of the process's end. Its results must have been written to a
    file."""
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
