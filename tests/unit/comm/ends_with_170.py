"""Checks that every rank of a program ends with exit code 170, and that one names a collective and the code.

ends_with_170.py RANKS LAUNCHER... -- PROGRAM [ARGUMENT...]: a shell of each rank notes its program's exit code, because
launchers merge the codes of their ranks. It stays until all have ended: mpirun ends the others after the first."""

import os
import re
import subprocess
import sys
import tempfile

RANK = """"$@"
echo $? > "$0/$$.part"
mv "$0/$$.part" "$0/$$"
while [ $(ls "$0" | grep -cv part) -lt %d ]; do sleep 0.02; done
"""


def main():
    ranks, words = int(sys.argv[1]), sys.argv[2:]
    at = words.index("--")
    with tempfile.TemporaryDirectory() as folder:
        command = [*words[:at], "sh", "-c", RANK % ranks, folder, *words[at + 1:]]
        done = subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, errors="replace")
        codes = []
        for name in os.listdir(folder):
            with open(os.path.join(folder, name)) as file:
                codes.append(file.read().strip())
    print(done.stdout)
    if codes != ["170"] * ranks:
        sys.exit(f"the ranks ended with {codes}")
    if not re.search("collective.*ends with exit code 170", done.stdout):
        sys.exit("no rank names a collective and the exit code")


if __name__ == "__main__":
    main()
