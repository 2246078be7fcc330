"""Starts the ranks of a program on this machine with torchrun's variables.

torchrun.py RANKS PROGRAM [ARGUMENT...]: the exit code is the first that is not 0, once all have exited."""

import os
import socket
import subprocess
import sys


def free_port():
    """A port such that it and the next one, where rank 0 listens, were free a moment ago."""
    while True:
        with socket.socket() as first, socket.socket() as second:
            first.bind(("127.0.0.1", 0))
            port = first.getsockname()[1]
            try:
                second.bind(("127.0.0.1", port + 1))
                return port
            except (OSError, OverflowError):
                continue


def variables(rank, ranks, port):
    return {
        "RANK": str(rank), "WORLD_SIZE": str(ranks), "LOCAL_RANK": str(rank), "MASTER_ADDR": "127.0.0.1", "MASTER_PORT":
        str(port)
    }


def main():
    ranks, command = int(sys.argv[1]), sys.argv[2:]
    port = free_port()
    processes = [
        subprocess.Popen(command, env=dict(os.environ, **variables(rank, ranks, port))) for rank in range(ranks)
    ]
    codes = [process.wait() for process in processes]
    sys.exit(next((code if code > 0 else 128 - code for code in codes if code), 0))


if __name__ == "__main__":
    main()
