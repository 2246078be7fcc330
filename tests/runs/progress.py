"""Output of a trainer: its first screen, and a progress line that fits the terminal."""

import fcntl
import os
import pty
import re
import struct
import termios

import harness
from harness import RunTest


class Progress(RunTest):

    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        cls.trainer = cls.compile(harness.write_small(cls.folder), "a")

    def on_terminal(self, columns, *words, **environment):
        """Output of the trainer on a terminal of this width, without colour codes."""
        master, slave = pty.openpty()
        fcntl.ioctl(slave, termios.TIOCSWINSZ, struct.pack("HHHH", 24, columns, 0, 0))
        process = self.start(self.trainer, "--run", self.path(f"run-{columns}"), *words, stdout=slave, stderr=slave,
                             env={**os.environ, "TERM": "xterm", **environment})
        os.close(slave)
        output = harness.read_terminal(master)
        self.assertEqual(process.wait(timeout=harness.HANGS), 0, output)
        return re.sub(r"\x1b\[\d*m", "", output.decode())

    def test_fits_the_terminal(self):
        fields = {}
        for columns in (30, 60, 200):
            text = self.on_terminal(columns)
            lines = [line for line in re.split(r"[\r\n]|\x1b\[K", text) if line.startswith("step ") and "loss" in line]
            self.assertGreater(len(lines), 1, text)
            for line in lines:
                self.assertLess(len(line), columns, line)
            fields[columns] = {
                word
                for word in ("max", "val", "lr", "norm", "tok/s", "ETA") if any(f" {word}" in line for line in lines)
            }
        self.assertEqual(fields[200] - {"max"}, {"val", "lr", "norm", "tok/s", "ETA"})
        self.assertTrue(fields[30] < fields[60] < fields[200], fields)
        self.assertIn("ETA", fields[60])

    def test_a_line_every_so_many_steps_in_a_file(self):
        text = self.succeed(self.trainer, "--run", self.path("file"), "metrics.every=5", "evaluation.every=0").out
        self.assertEqual(re.findall(r"(?m)^step +(\d+)/12  loss", text), ["1", "5", "10", "12"])
        self.assertNotIn("\r", text)

    def test_first_screen(self):

        def screen(name, *words, **environment):
            done = self.succeed(self.trainer, "--run", self.path(name), "--steps", "1", *words,
                                env={**os.environ, **environment})
            return done.out, done.err

        blocks, errors = screen("utf8", LC_ALL="C.UTF-8")
        self.assertRegex(blocks, r"(?m)^model   \d+ layers, hidden 36, ")
        self.assertRegex(blocks, r"(?m)^step    \d+ micro-batch")
        self.assertRegex(blocks, r"(?m)^lr      [▁▂▃▄▅▆▇█]{32}  ")
        self.assertRegex(blocks, r"(?m)^data    .* epochs$")
        self.assertRegex(blocks, r"(?m)^loss    begins near ln \d+ = \d+\.\d\d$")
        self.assertRegex(blocks, r"(?m)^weights random, seed 42$")
        self.assertEqual(errors, "")
        letters, _ = screen("ascii", LC_ALL="C")
        self.assertRegex(letters, r"(?m)^lr      [_.~=+*#-]{32}  ")
        self.assertTrue(letters.isascii())
        # Same run, resumed: its weights are not fresh.
        again = self.succeed(self.trainer, "--run", self.path("ascii"), "--steps", "2").out
        self.assertNotRegex(again, "(?m)begins near|^weights ")

    def test_a_first_loss_that_is_far_off(self):
        """Data of one token and tied embeddings: the model copies the token before learning anything."""
        with open(self.path("same.bin"), "wb") as file:
            file.write(struct.pack("<256i", 20240520, 1, 400, *([0] * 253)) + struct.pack("<400H", *([7] * 400)))
        tied = self.compile(os.path.join(self.folder, "small.yaml"), "tied", "model.tie_word_embeddings=true",
                            "init.embedding_std=1")
        done = self.succeed(tied, "--run", self.path("same"), "--steps", "1",
                            f"data.train.path={self.path('same.bin')}")
        self.assertRegex(done.err,
                         r"^warning: .*first loss is 0\.\d+, .*ln\(vocab_size\) = 4\.5747, at least .*long runs")
        again = self.succeed(tied, "--run", self.path("same"), "--steps", "2")
        self.assertNotIn("first loss", again.err)
        self.assertEqual(self.succeed(tied, "--run", self.path("fine"), "--steps", "1").err, "")


if __name__ == "__main__":
    harness.main()
