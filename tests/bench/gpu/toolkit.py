"""Finds CUDA's headers and libraries: in the toolkit, the system, or a Python's nvidia-* packages.

Python's packages contain libraries as libX.so.13 only, in nvidia/cu13/lib (CUDA 13) or nvidia/PACKAGE/lib (before
it, and cuDNN and NCCL). Links in a folder of the kit give them the names that linkers expect."""

import dataclasses
import importlib.util
import os
import pathlib
import shutil

# Name -> header, libX (None: headers only), folders below Python's nvidia/, CMake's variable for the library.
PIECES = {
    "cudart": ("cuda_runtime.h", "cudart", ("cu13", "cuda_runtime"), "CUDA_CUDART"),
    "cudart_static": ("cuda_runtime.h", "cudart_static", ("cu13", "cuda_runtime"), "CUDA_cudart_static_LIBRARY"),
    "cublasLt": ("cublasLt.h", "cublasLt", ("cu13", "cublas"), "CUDA_cublasLt_LIBRARY"),
    "nvrtc": ("nvrtc.h", "nvrtc", ("cu13", "cuda_nvrtc"), "CUDA_nvrtc_LIBRARY"),
    "nvtx": ("nvtx3/nvToolsExt.h", None, ("cu13", "nvtx"), None),
    "cudnn": ("cudnn_graph.h", "cudnn", ("cudnn", "cu13"), "CUDNN_LIBRARY"),
    "nccl": ("nccl.h", "nccl", ("nccl", "cu13"), "NCCL_LIBRARY"),
}
OF_PYTHON_FIRST = ("cudnn", "nccl")  # prefer those that PyTorch runs with; a toolkit may contain others
SYSTEM = pathlib.Path("/usr")


@dataclasses.dataclass(frozen=True)
class Piece:
    name: str
    include: pathlib.Path  # folder of its header
    library: pathlib.Path | None
    where: str  # toolkit, system, or the folder of Python's packages


def python_packages():
    """Folders of Python's namespace package nvidia."""
    spec = importlib.util.find_spec("nvidia")
    return [pathlib.Path(folder) for folder in (spec.submodule_search_locations or [])] if spec else []


def toolkit_root():
    """Folder whose bin/ contains nvcc, or None."""
    for nvcc in (shutil.which("nvcc"), "/usr/local/cuda/bin/nvcc"):
        if nvcc and os.access(nvcc, os.X_OK):
            return pathlib.Path(nvcc).resolve().parent.parent
    return None


def tool(name):
    """A program of the toolkit, on the PATH or not; None if missing."""
    root = toolkit_root()
    return shutil.which(name) or (shutil.which(name, path=f"{root}/bin:{root}/compute-sanitizer") if root else None)


def smi(*words):
    """nvidia-smi's arguments for a question about the first visible GPU."""
    shown = os.environ.get("CUDA_VISIBLE_DEVICES", "").split(",")[0]
    return ["nvidia-smi", *(["-i", shown] if shown else []), *words]


def devices(listed):
    """Number of visible GPUs; `listed`: output of `nvidia-smi -L`."""
    shown = os.environ.get("CUDA_VISIBLE_DEVICES")
    if shown is not None:
        return len(list(filter(None, shown.split(","))))
    return sum(line.startswith("GPU ") for line in listed.splitlines())


def _library(folders, name):
    for folder in folders:
        for pattern in (f"lib{name}.so", f"lib{name}.a", f"lib{name}.so.*"):
            for path in sorted(folder.glob(pattern)):
                return path
    return None


def _look(name, root, where, packaged):
    header, library_name, *_ = PIECES[name]
    folders = ("lib", ) if packaged else ("lib64", "lib", "targets/x86_64-linux/lib", "lib/x86_64-linux-gnu")
    library = _library([root / folder for folder in folders], library_name) if library_name else None
    for folder in ("include", "targets/x86_64-linux/include", "include/x86_64-linux-gnu"):
        if (root / folder / header).exists() and (library or not library_name):
            return Piece(name, root / folder, library, where)
    return None


def find(root, packages, system=SYSTEM):
    """Name -> Piece, or None if not found. `root`: the toolkit's, or None; `packages`: Python's nvidia folders."""
    found = {}
    for name, (_, _, folders, _) in PIECES.items():
        installed = [(path, where, False) for path, where in ((root, "toolkit"), (system, "system")) if path]
        python = [(path / folder, f"Python's nvidia/{folder}", True) for path in packages for folder in folders]
        places = python + installed if name in OF_PYTHON_FIRST else installed + python
        found[name] = next(filter(None, (_look(name, *place) for place in places)), None)
    return found


class Links:
    """A folder with links to the content of Python's packages, and settings for compilers and CMake."""

    def __init__(self, pieces, folder):
        self.folder = folder
        self.packaged = [piece for piece in pieces.values() if piece and piece.where.startswith("Python")]
        shutil.rmtree(folder, ignore_errors=True)
        folder.mkdir(parents=True)
        for piece in self.packaged:
            if not piece.library:
                continue
            for name in {self.linked(piece).name, piece.library.name}:
                (folder / name).symlink_to(piece.library)

    def linked(self, piece):
        """Name for linking a program with a piece of Python's packages."""
        ending = ".a" if piece.library.suffix == ".a" else ".so"
        return self.folder / f"lib{PIECES[piece.name][1]}{ending}"

    def options(self):
        """Options for CMake."""
        words = []
        for piece in self.packaged:
            variable = PIECES[piece.name][3]
            if variable:
                words.append(f"-D{variable}={self.linked(piece)}")
            if piece.name in ("cudnn", "nccl"):
                words.append(f"-D{piece.name.upper()}_INCLUDE_DIR={piece.include}")
            if piece.name == "cudart":
                words.append(f"-DCUDAToolkit_INCLUDE_DIR={piece.include}")
        return words

    def environment(self, before):
        """`before` with the folders added. Headers go after all others, so that a toolkit's own come first."""

        def added(name, folders):
            return ":".join([*dict.fromkeys(map(str, folders)), *filter(None, [before.get(name)])])

        libraries = [piece.library.parent for piece in self.packaged if piece.library]
        return {
            **before, "CPLUS_INCLUDE_PATH": added("CPLUS_INCLUDE_PATH", [piece.include for piece in self.packaged]),
            "LIBRARY_PATH": added("LIBRARY_PATH",
                                  [self.folder]), "LD_LIBRARY_PATH": added("LD_LIBRARY_PATH", [self.folder, *libraries])
        }
