"""Runs the code blocks of Markdown pages and holds them to what their comments promise."""

import ast
import re
from dataclasses import dataclass

# What may stand behind ``#`` at the end of a line as the promised value of its expression.
PROMISE = re.compile(
    r"# (array\(.*\)|True|False|None|-?\d+(?:\.\d+)?|dtype\(.*\)|'[^']*'|\(.*\)|\[.*\])$"
)
FENCE = re.compile(
    r"(?ms)^(% needs real data\n)?```(python|sh)\n(.*?)^```$(?:\n+```text\n(.*?)^```$)?"
)


@dataclass(frozen=True)
class Block:
    """A fenced block: its language, its text, whether it reads real data sets, and its output.

    A block of ``text`` right after it is what it prints, or None if there is no such block.
    """

    language: str
    text: str
    needs_data: bool
    output: str | None


def blocks_of(page):
    """Return all Python and shell blocks of a page, in order."""
    found = FENCE.findall(page.read_text(encoding="utf-8"))
    return [
        Block(language, text, bool(mark), output or None) for mark, language, text, output in found
    ]


def same_text(printed, shown):
    """Whether a page shows what was printed; spaces, numbers and cells of tables may differ.

    Numbers depend on versions and machines in their last digits, and the order of rows on them. A
    line of dots stands for any number of lines.
    """
    lines, wanted = _bare_lines(printed), _bare_lines(shown)
    if "..." not in shown.splitlines():
        return lines == wanted
    cut = wanted.index("...")
    tail = wanted[cut + 1 :]
    return lines[:cut] == wanted[:cut] and (not tail or lines[-len(tail) :] == tail)


def _bare_lines(text):
    lines = [" ".join(line.split()) for line in text.strip().splitlines()]
    lines = ["│ row" * line.count("│") if line.startswith("│") else line for line in lines]
    bare = [re.sub(r"\d[\d.,]*", "#", re.sub(r"([━─═-])\1+", r"\1", line)) for line in lines]
    return [line if line == "..." else line.replace("−", "-").replace("-#", "#") for line in bare]


def run_and_check(block, names):
    """Run a block; where a line ends in ``# value``, its expression must have that repr."""
    checked = 0
    lines = block.splitlines()
    for statement in ast.parse(block).body:
        code = ast.get_source_segment(block, statement)
        promised = PROMISE.search(lines[statement.end_lineno - 1])
        if isinstance(statement, ast.Expr) and promised:
            value = re.sub(r"^np\.(True|False)_$", r"\1", repr(eval(code, names)))
            assert value == promised[1], f"{code}\ngives {value}, not {promised[1]}"
            checked += 1
        elif isinstance(statement, ast.Expr):
            eval(code, names)
        else:
            start = min([statement.lineno, *_decorators(statement)]) - 1
            exec("\n".join(lines[start : statement.end_lineno]), names)
    return checked


def _decorators(statement):
    return [node.lineno for node in getattr(statement, "decorator_list", [])]
