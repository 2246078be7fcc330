"""Documents for tests of tokenizers: prose, code, many scripts, emoji, odd white space and any code point. Equal on every
machine and version of Python, because the numbers are drawn here."""

PROSE = (
    "It's said they'll come: we've seen I'm sure he'd THEY'RE don'T can't \"quoted\" (in 1999, 12345678 times) at 3.14%, "
    "l'été, naïve café; see http://a-b.example/c?d=e_f&g=1#h ... end. Mr. O'Neil's dog, 'tis rock'n'roll").split(" ")
CODE = (
    "def value(x):\n\treturn {'a': x ** 2,\n\t        'b': [i for i in range(10)]}\n\n\n#include <vector>\r\nint main() "
    "{ return 0x1F + 077; }  // end\n    if (a && b || !c) { s += \"\\n\"; }\n\n<div class=\"x\">text</div>\n"
    "SELECT * FROM t WHERE id IN (1,2,33,444,5555);\n").split(" ")
RANGES = [(0x20, 0x7e), (0xa1, 0x17f), (0x300, 0x36f), (0x391, 0x3c9), (0x400, 0x45f), (0x5d0, 0x5ea), (0x620, 0x64a),
          (0x660, 0x669), (0x904, 0x97f), (0xe01, 0xe5b), (0x1100, 0x11ff), (0x1e00, 0x1eff), (0x2000, 0x206f),
          (0x2150, 0x218b), (0x3041, 0x30ff), (0x4e00, 0x4fff), (0xac00, 0xad00), (0x1d400, 0x1d500),
          (0x20000, 0x20100)]
SPACES = [
    " ", "  ", "   ", "\t", "\n", "\r\n", "\n\n", "\r", "\v", "\f", "\x1c", "\x85", "\xa0", "\u180e", "\u2003",
    "\u2028", "\u200b", "\u3000", " \n ", "\n    ", "\ufeff"
]
ODD = [
    "👩‍👩‍👧‍👦", "🏳️‍🌈", "👍🏽", "🇺🇳", "é", "e\u0301", "가", "\u1100\u1161", "\u2581", "a\u2581b", "\u2581\u2581", "'\u017f",
    "\x00", "<|endoftext|>", "</s>", "<think>", "</think> ", "<0x0A>", "\ufffd", "\u1e9b\u0323", "\U00011bc0\U00013460",
    "\u212b"
]


class Draws:
    """xorshift64* (Vigna 2016, https://arxiv.org/abs/1402.6246)."""

    def __init__(self, seed):
        self.state = seed * 0x9e3779b97f4a7c15 + 1 & 0xffffffffffffffff

    def below(self, bound):
        self.state ^= self.state >> 12
        self.state ^= self.state << 25 & 0xffffffffffffffff
        self.state ^= self.state >> 27
        return ((self.state * 0x2545f4914f6cdd1d & 0xffffffffffffffff) >> 33) % bound

    def of(self, values):
        return values[self.below(len(values))]


def any_point(draws):
    point = draws.below(0x110000 - 0x800)
    return chr(point if point < 0xd800 else point + 0x800)


def script(draws):
    first, last = draws.of(RANGES)
    return "".join(chr(first + draws.below(last - first + 1)) for _ in range(1 + draws.below(12)))


def part(draws):
    kind = draws.below(12)
    if kind < 4:
        return draws.of(PROSE) + " "
    if kind < 6:
        return draws.of(CODE) + draws.of(SPACES)
    if kind < 9:
        return script(draws) + draws.of(("", " ", " ", draws.of(SPACES)))
    if kind == 9:
        return draws.of(SPACES) + draws.of(SPACES)
    if kind == 10:
        return draws.of(ODD)
    return "".join(any_point(draws) for _ in range(1 + draws.below(4)))


def random_bytes(draws, count):
    """Bytes as characters of Latin-1, because the package `tokenizers` takes only text."""
    return "".join(chr(draws.below(256)) for _ in range(count))


def documents(size, seed=1):
    """Documents of at least `size` bytes of UTF-8 in total; some are one long word."""
    draws, made, total = Draws(seed), [], 0
    while total < size:
        number = len(made)
        if number % 50 == 20:
            text = draws.of(("x", "ab", "é", "7", " ", "\n", "'s", "字", "\u2581", "!=")) * (1 + draws.below(3000))
        elif number % 50 == 40:
            text = random_bytes(draws, 1 + draws.below(3000))
        else:
            text = "".join(part(draws) for _ in range(1 + draws.below(300)))
        made.append(text)
        total += len(text.encode())
    return made
