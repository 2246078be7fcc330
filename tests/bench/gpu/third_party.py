"""Parts of this Debian that a bundle's build needs and a GPU's machine may lack: headers, and libraries with all
dependencies."""

import pathlib
import re
import shutil
import subprocess

PACKAGES = ("libfmt-dev", "libxxhash-dev", "libcli11-dev", "nlohmann-json3-dev", "libsentencepiece-dev",
            "libutf8proc-dev")
NEEDED = ("/usr/include/", "/usr/lib/", "/usr/share/cmake/")
GOOGLETEST = pathlib.Path("/usr/src/googletest")
# A machine with a g++ has its own consistent set of these.
OF_THE_COMPILER = re.compile(r"(linux-vdso|ld-linux.*|lib(c|m|dl|rt|pthread|stdc\+\+|gcc_s))\.so(\.\d+)?")


def packaged(package):
    """Files of an installed package that a build needs."""
    done = subprocess.run(["dpkg", "-L", package], capture_output=True, text=True)
    if done.returncode:
        raise SystemExit(f"dpkg knows no files of {package}: ./setup.sh installs it ({done.stderr.strip()})")
    return [
        path for path in map(pathlib.Path, done.stdout.splitlines())
        if str(path).startswith(NEEDED) and not path.is_dir()
    ]


def needed_libraries(library):
    """Paths of a shared library's dependencies, without those that come with a compiler."""
    output = subprocess.run(["ldd", library], check=True, capture_output=True, text=True).stdout
    found = []
    for name, path in re.findall(r"^\s*(\S+) => (\S+|not found)", output, re.MULTILINE):
        if OF_THE_COMPILER.fullmatch(pathlib.Path(name).name):
            continue
        if not path.startswith("/"):
            raise SystemExit(f"{library} needs {name}, which this machine lacks")
        found.append(pathlib.Path(path))
    return found


def chain(path):
    """A file with every link in the chain to it, such as libfmt.so, libfmt.so.9, libfmt.so.9.1.0."""
    while path.is_symlink():
        yield path
        path = path.parent / path.readlink()
    yield path


def files():
    """All files in the archive."""
    wanted = {path for package in PACKAGES for path in packaged(package)}
    for library in [path for path in wanted if re.search(r"\.so(\.|$)", path.name)]:
        for each in (library, *needed_libraries(library)):
            # /lib is a link to /usr/lib; the archive has one of them.
            there = pathlib.Path("/usr") / each.relative_to("/") if str(each).startswith("/lib/") else each
            wanted.update(chain(there))
    return sorted(wanted)


def copy(folder, frontend):
    """Copies in the layout of the system; `frontend`: cudnn-frontend's headers, or None."""
    for path in files():
        target = folder / path.relative_to("/")
        target.parent.mkdir(parents=True, exist_ok=True)
        shutil.copy2(path, target, follow_symlinks=False)
    if not GOOGLETEST.is_dir():
        raise SystemExit(f"there is no {GOOGLETEST}: ./setup.sh installs libgtest-dev")
    shutil.copytree(GOOGLETEST, folder / "googletest", ignore=shutil.ignore_patterns("test", "docs", "samples"))
    if frontend:
        shutil.copytree(frontend, folder / "cudnn-frontend" / "include")  # its files contain that folder's name
