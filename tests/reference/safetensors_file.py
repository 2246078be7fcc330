"""Reads and writes safetensors files with numpy only, so that the reference shares no code with llmc."""

import json
import struct

import numpy as np

DTYPES = {"F32": np.float32, "U8": np.uint8, "F64": np.float64, "I32": np.int32, "I64": np.int64}


def read(path):
    """Name -> array, in the file's order."""
    with open(path, "rb") as file:
        (size, ) = struct.unpack("<Q", file.read(8))
        header = json.loads(file.read(size))
        data = file.read()
    header.pop("__metadata__", None)
    tensors = {}
    for name, entry in header.items():
        begin, end = entry["data_offsets"]
        array = np.frombuffer(data[begin:end], dtype=DTYPES[entry["dtype"]])
        tensors[name] = array.reshape(entry["shape"]).copy()
    return tensors
