"""Reads a checkpoint of the small state with an independent reader and compares every number.

Usage: check_safetensors.py SAVE_PROGRAM
"""
import json
import struct
import subprocess
import sys
import tempfile
from pathlib import Path

import numpy as np

# name: (offset, rows, cols), rows padded to 8 elements; None: a vector. Same as in small_state.h.
PARAMETERS = {
    "model.embed_tokens.weight": (0, 11, 6),
    "model.layers.0.input_layernorm.weight": (128, None, 6),
    "model.layers.0.self_attn.q_proj.weight": (192, 8, 6),
    "model.layers.0.self_attn.k_proj.weight": (256, 4, 6),
    "model.layers.0.self_attn.v_proj.weight": (288, 4, 6),
    "model.layers.0.mlp.down_proj.weight": (384, 6, 13),
    "model.norm.weight": (576, None, 6),
}


def read_safetensors(path):
    data = path.read_bytes()
    (length, ) = struct.unpack_from("<Q", data)
    assert length % 8 == 0, path
    header = json.loads(data[8:8 + length])
    assert header.pop("__metadata__") == {"format": "pt"}
    tensors, position = {}, 0
    for name, entry in header.items():
        begin, end = entry["data_offsets"]
        assert begin == position and entry["dtype"] == "F32", name
        tensors[name] = np.frombuffer(data[8 + length + begin:8 + length + end], "<f4").reshape(entry["shape"])
        position = end
    assert 8 + length + position == len(data), path
    return tensors


def expected(name, kind, seed):
    offset, rows, cols = PARAMETERS[name]
    pitch = (cols + 7) // 8 * 8
    index = offset + np.arange(rows or 1)[:, None] * pitch + np.arange(cols)[None, :]
    argument = np.float32(seed) * np.float32(3.7) + (kind * 1000 + index).astype(np.float32)
    return np.sin(argument) if rows else np.sin(argument)[0]


def main():
    step = 4
    with tempfile.TemporaryDirectory() as run:
        subprocess.run([sys.argv[1], run, str(step)], check=True)
        checkpoint = Path(run) / "checkpoints" / f"step-{step:08d}"
        weight_map = json.loads((checkpoint / "model.safetensors.index.json").read_text())["weight_map"]
        assert set(weight_map) == set(PARAMETERS), weight_map
        files = {name: read_safetensors(checkpoint / name) for name in sorted(set(weight_map.values()))}
        moments = {}
        for path in checkpoint.glob("optimizer-*.safetensors"):
            moments.update(read_safetensors(path))
        assert len(files) == 2 and len(moments) == 2 * len(PARAMETERS)
        for name in PARAMETERS:
            for kind, found in enumerate(
                [files[weight_map[name]][name], moments["exp_avg." + name], moments["exp_avg_sq." + name]]):
                want = expected(name, kind, step + 1)
                assert found.shape == want.shape, (name, found.shape)
                # Two implementations of a float sine for arguments up to 3,000: half an ulp each.
                assert np.allclose(found, want, rtol=0, atol=2e-7), name
        state = json.loads((checkpoint / "state.json").read_text())
        assert state["step"] == step and state["seed"] == 2**64 - 1 and state["tokens"] == 16, state
        for name, record in json.loads((checkpoint / "manifest.json").read_text())["files"].items():
            assert (checkpoint / name).stat().st_size == record["bytes"], name
    print("ok")


main()
