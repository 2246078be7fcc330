"""Finds the declarations of a C++ or CUDA source by name. Parses brackets and semicolons, not the language."""

import re

# Comments, directives and strings. The remaining text has only real brackets.
OPAQUE = re.compile(
    r"""//[^\n]*|/\*.*?\*/|^[ \t]*\#(?:[^\n\\]|\\.)*|R"(\w*)\(.*?\)\1"|"(?:[^"\\\n]|\\.)*"|(?<!\w)'(?:[^'\\\n]|\\.)*'""",
    re.DOTALL | re.MULTILINE)
FUNCTION = re.compile(
    r"([\w:~]+|(?:\w+::)*operator\W*?\w*)\s*\(\)\s*(?:(?:const|noexcept|override|final|mutable|try|&+|\(\)|->.*|requires.*)\s*)*$"
)
SCOPE = re.compile(r"(?:inline\s+)?(namespace|extern|class|struct|union)\b\s*(?:\[\[.*?\]\]|\w+\(\)|__\w+)?\s*([\w:]*)")


def plain(text):
    """The text with opaque parts blanked, so that offsets are kept."""
    return OPAQUE.sub(lambda found: re.sub(r"[^\n]", " ", found.group()), text)


def closing(text):
    """Position of the closing bracket for every opening one."""
    places, opened = {}, []
    for found in re.finditer(r"[][(){}]", text):
        if found.group() in "([{":
            opened.append(found.start())
        elif opened:
            places[opened.pop()] = found.start()
    return places


def simple(head):
    """The text before a body, a value or a semicolon, without parameters, values and template arguments."""
    head = re.sub(r"\b(public|private|protected)\s*:", " ", head.replace("->", " "))
    for brackets, left in ((r"\([^()]*\)", "\0"), (r"<[^<>]*>", "")):
        while head != (head := re.sub(brackets, left, head)):
            pass
    head = head.replace("\0", "()")
    head = re.sub(r"\btemplate\b", "", head)
    return re.split(r"(?<![:\w]):(?!:)|(?<=\w):(?!:)|(?<!operator)(?<![=!<>])=(?!=)|\{", head)[0].strip()


def name_of(head):
    """Names declared by the head, such as ("Schedule", "walk")."""
    function = FUNCTION.search(head)
    if function:
        return tuple(function.group(1).split("::"))
    words = re.findall(r"[\w:~]+", re.sub(r"\[.*", "", head))
    return tuple(words[-1].split("::")) if words else ()


def declarations(text):
    """(names from the outermost scope on, begin, end) of each declaration outside of functions."""
    text = plain(text)
    ends = closing(text)

    def within(begin, end, outer):
        start = at = begin
        while found := re.compile(r"[;({\[]").search(text, at, end):
            place = found.start()
            at = (ends.get(place, end) if found.group() != ";" else place) + 1
            if found.group() in "([":
                continue
            raw = text[start:place]
            head = simple(raw)
            if found.group() == ";":
                name = outer + name_of(head)
            else:
                scope = SCOPE.match(head)
                name = outer + (tuple(filter(None, scope.group(2).split("::"))) if scope else name_of(head))
                if scope:
                    yield from within(place + 1, at - 1, name)
                    if scope.group(1) not in ("namespace", "extern"):
                        continue  # up to the semicolon
                elif not FUNCTION.search(head) or re.search(r"\)[^:]*:[^:].*[\w>]\s*$", raw, re.DOTALL):
                    continue  # a value, or a member's initialiser
            yield name, start, at
            start = at

    return list(within(0, len(text), ()))


def functions(text):
    """(names from the outermost scope on, first line, last line) of each function with a body, without comments before it."""
    found, blank = [], plain(text)
    for name, begin, end in declarations(text):
        head, _, body = blank[begin:end].partition("{")
        if body and not SCOPE.match(simple(head)) and FUNCTION.search(simple(head)):
            begin += len(head) - len(head.lstrip())
            found.append((name, text.count("\n", 0, begin) + 1, text.count("\n", 0, end) + 1))
    return found
