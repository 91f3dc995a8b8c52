"""From a model's reply to source that compiles: find the program in it, and isolate the lines that are not Python.

Runs in a guest process, where a crash of the parser does no harm. Standard library only.
"""

from __future__ import annotations

import ast
import re
import textwrap
from collections.abc import Iterator

from ...source import NotAProgram, check_readable
from .record import Data
from .statements import PROSE_NAME, TreeFacts
from .tree_making import at, call

_PLACEHOLDER = "__coc_prose_{}__"
_RECOVERY_BYTES = 5_000_000  # of source compiled while looking for prose; not seconds, which depend on the load


class Prose(Data):
    """A run of lines that are not Python: its number, its lines (1-based, inclusive) and its text."""

    number: int
    line: int
    end_line: int
    text: str


class ParsedSource(Data):
    """`source` as the author wrote it; `tree` with an expression statement `$prose(n)` for each prose statement."""

    source: str
    tree: ast.Module
    prose: tuple[Prose, ...]


def parse(reply: str, *, is_reply: bool = True) -> ParsedSource:
    """Return the program in a reply. Pseudo-code is not an error; raises NotAProgram if there is nothing to run."""
    check_readable(reply)
    text = reply.replace("\r\n", "\n").replace("\r", "\n").removeprefix("\ufeff")
    source = find_program(text) if is_reply else text
    if not source.strip():
        raise NotAProgram("there is no program: the text is empty")
    source = _dedent(source)
    runnable, prose = _isolate_prose(source)
    tree = _restore_prose(_compile(runnable), len(prose))
    return ParsedSource(source, tree, tuple(prose))


# --- which part of the reply is the program -----------------------------------------------------------------------

# Possessive quantifiers, so that the line of a fence is never scanned twice.
_FENCE = re.compile(
    r"^(?P<indent>[ \t]*+)(?P<fence>`{3,}+|~{3,}+)[ \t]*+(?P<language>[\w+-]*+)[^\n`]*+\n"
    r"(?P<body>.*?)"
    r"(?:^[ \t]*+(?P=fence)[ \t]*+$|\Z)",
    re.MULTILINE | re.DOTALL,
)
_MARKED = re.compile(
    r"^[ \t]*+#[ \t]*+CODE START[^\n]*+\n(.*?)(?:^[ \t]*+#[ \t]*+CODE END|\Z)", re.MULTILINE | re.DOTALL
)
_PYTHON_WORDS = {"python", "python3", "py", "py3", "pycon", "tool_code", "code", "ipython"}


def find_program(reply: str) -> str:
    """Return the last fenced block that is mostly Python, else the part after CODE START, else the whole reply."""
    if _FENCE.search(reply) and not _compiles(reply):  # a reply that compiles may have a fence in a string
        blocks = _python_blocks(reply)
        best = [block for block in blocks if block.strip() and _nearly_parses(block)]
        if best:
            return _join_continuing(best)
        if blocks and not "".join(blocks).strip():
            return ""
    marked = _MARKED.findall(reply)
    return str(marked[-1]) if marked else reply


def _python_blocks(reply: str) -> list[str]:
    """Return the fenced blocks marked as Python; if there are none, the unmarked ones that contain code."""
    found = [(match["language"].lower(), match["body"]) for match in _FENCE.finditer(reply)]
    marked = [body for language, body in found if language in _PYTHON_WORDS]
    return marked or [body for language, body in found if language == "" and not _is_only_values(body)]


def _is_only_values(block: str) -> bool:
    """Whether a block contains only literals: output, not code."""
    tree = _try_compile(_dedent(block))
    return tree is not None and all(
        isinstance(line, ast.Expr)
        and isinstance(line.value, (ast.Constant, ast.List, ast.Tuple, ast.Dict, ast.UnaryOp))
        for line in tree.body
    )


def _join_continuing(blocks: list[str]) -> str:
    """Return the last block after the earlier blocks that it continues, which set or change names that it needs."""
    chosen = [_dedent(blocks[-1])]
    needed = _needed_names(_readable_part(chosen[0]))
    for block in map(_dedent, reversed(blocks[:-1])):
        tree = _readable_part(block)
        provided = _provided_names(tree)
        if provided & needed:
            chosen.append(block)
            needed = _needed_names(tree) | (needed - provided)
    return "\n".join(reversed(chosen))


def _readable_part(block: str) -> ast.Module:
    tree = _try_compile(block)
    return tree if tree is not None else _compile(_isolate_prose(block)[0])


def _provided_names(tree: ast.Module) -> set[str]:
    """Names that a block binds, or whose objects it may change."""
    facts = TreeFacts(tree)
    return {name for statement in tree.body for name in facts.changed_in(statement)}


def _needed_names(tree: ast.Module) -> set[str]:
    """Names that a block reads before it binds them itself."""
    needed: set[str] = set()
    bound: set[str] = set()
    for statement in tree.body:
        for node in ast.walk(statement):
            match node:
                case ast.Name(ctx=ast.Load(), id=name) | ast.AugAssign(target=ast.Name(id=name)):
                    needed |= {name} - bound
        bound |= _provided_names(ast.Module([statement], []))
    return needed


def _nearly_parses(block: str) -> bool:
    """Whether at least half of the lines of a block are Python."""
    block = _dedent(block)
    if _compiles(block):
        return True
    lines = [line for line in block.split("\n") if line.strip()]
    _, prose = _isolate_prose(block)
    return sum(p.end_line - p.line + 1 for p in prose) * 2 <= len(lines)


def _dedent(source: str) -> str:
    """Remove the indentation that all lines share, unless the source compiles with it."""
    if not source.lstrip("\n")[:1].isspace() or _compiles(source):
        return source
    return textwrap.dedent(source)


# --- lines that are not Python ------------------------------------------------------------------------------------


def _compile(source: str) -> ast.Module:
    """`compile` as well as `ast.parse`: the latter accepts a `return` outside a function."""
    import warnings

    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        tree = ast.parse(source)
        compile(source, "<program>", "exec", dont_inherit=True)
    return tree


def _try_compile(source: str) -> ast.Module | None:
    try:
        return _compile(source)
    except (SyntaxError, ValueError, RecursionError, MemoryError, OverflowError):
        return None


def _compiles(source: str) -> bool:
    return _try_compile(source) is not None


def _error_line(source: str) -> int:
    """Return the line of the first error, 0 if there is none. A placeholder inside an expression is an error, too."""
    try:
        tree = _compile(source)
    except SyntaxError as error:
        return max(error.lineno or 1, 1)
    except (RecursionError, MemoryError):
        raise NotAProgram("the source is nested too deep for Python to compile") from None
    except (ValueError, OverflowError) as error:
        raise NotAProgram(f"Python cannot read the source: {error}") from None
    whole = {node.value for node in ast.walk(tree) if isinstance(node, ast.Expr)}
    placeholders = (
        node for node in ast.walk(tree) if isinstance(node, ast.Name) and node.id == _PLACEHOLDER.format("")
    )
    return next((node.lineno for node in placeholders if node not in whole), 0)


def _isolate_prose(source: str) -> tuple[str, list[Prose]]:
    """Return source that compiles, with placeholders for the smallest runs of lines that do not."""
    original = source.split("\n")
    lines = list(original)
    if error := _error_line(source):
        expanded = [_expand_indent(line) for line in lines]
        if _error_line("\n".join(expanded)) == 0:  # tabs and spaces mixed, but readable
            return "\n".join(expanded), []
    runs: list[tuple[int, int]] = []
    trials = _RECOVERY_BYTES // (len(source) + 1000)
    while error:
        start, end, error, used = _smallest_run(lines, min(error, len(lines)), trials)
        trials -= used
        runs = [run for run in runs if not (start <= run[0] and run[1] <= end)] + [(start, end)]
    prose = []
    for number, (start, end) in enumerate(_merge(sorted(runs), lines)):
        _blank_out(lines, start, end, _indent(lines[start - 1]))
        lines[start - 1] = lines[start - 1].replace(_PLACEHOLDER.format(""), _PLACEHOLDER.format(number))
        text = textwrap.dedent("\n".join(original[start - 1 : end])).strip()
        prose.append(Prose(number, start, end, text))
    return "\n".join(lines), prose


def _smallest_run(lines: list[str], error: int, trials: int) -> tuple[int, int, int, int]:
    """Find the smallest run of lines around an error whose removal moves the error past it, and blank it out.

    Changes `lines`; returns start, end, the next error's line and the number of trials.
    """
    used = 0
    for start, end in _runs(lines, error):
        if used >= trials:
            break
        used += 1
        after = _try_without(lines, start, end, error)
        if after is not None:
            return start, end, after, used
    # No small run helps, for example with an open bracket far above: blank out the whole block around the error.
    start = error
    while start > 1 and (not lines[start - 1].strip() or lines[start - 1][0].isspace()):
        start -= 1
    for end in [_whole_block(lines, start, error), len(lines)][used >= trials :]:
        after = _try_without(lines, start, end, error)
        if after is not None:
            return start, end, after, used
    _blank_out(lines, 1, len(lines), "")
    return 1, len(lines), 0, used


def _runs(lines: list[str], error: int) -> Iterator[tuple[int, int]]:
    """Yield runs of lines around an error, the smallest first."""
    # "expected an indented block after …": the header may be above comments and blank lines
    header = next((n for n in range(error - 1, 0, -1) if _has_content(lines[n - 1])), error)
    for size in (*range(1, 13), 16, 24, 34):
        for start in dict.fromkeys([*range(error, max(error - size, 0), -1), header, max(error - size, 1)]):
            end = _whole_block(lines, start, min(start + size - 1, len(lines)))
            if any(_has_content(line) for line in lines[start - 1 : end]):
                yield start, end


def _try_without(lines: list[str], start: int, end: int, error: int) -> int | None:
    """Blank out a run, at its own indentation or that of the line before. Returns the next error's line if it helps."""
    before = next((line for line in reversed(lines[: start - 1]) if _has_content(line)), "")
    for indent in dict.fromkeys([_indent(lines[start - 1]), _indent(before)]):
        trial = list(lines)
        _blank_out(trial, start, end, indent)
        after = _error_line("\n".join(trial))
        if after == 0 or after > max(end, error):
            lines[:] = trial
            return after
    return None


def _blank_out(lines: list[str], start: int, end: int, indent: str) -> None:
    """Replace lines start…end by a placeholder statement; the number of lines stays the same."""
    lines[start - 1] = indent + _PLACEHOLDER.format("")
    for index in range(start, end):
        lines[index] = ""


def _has_content(line: str) -> bool:
    return bool(line.strip()) and not line.lstrip().startswith("#")


def _indent(line: str) -> str:
    return line[: len(line) - len(line.lstrip(" \t"))]


def _whole_block(lines: list[str], start: int, end: int) -> int:
    """Return the end of a run, with the block of a prose header that ends in `:` and lines that cannot be code."""
    header = lines[end - 1].rstrip()
    depth = _depth(lines[start - 1])
    if header.endswith(":"):
        last = end
        for index in range(end, len(lines)):
            if lines[index].strip():
                if _depth(lines[index]) <= depth:
                    break
                last = index + 1
        return last
    while end < len(lines) and _hopeless(lines[end]) and _depth(lines[end]) == depth:
        end += 1
    return end


def _hopeless(line: str) -> bool:
    """Whether a line cannot be code in any context: it does not parse, and has no bracket, quote, colon or the like."""
    text = line.strip()
    if not text or text[0] in "#@" or any(mark in text for mark in "()[]{}'\":\\"):
        return False
    try:
        ast.parse(text)  # not `compile`: a lone `return x` is code
    except SyntaxError:
        return True
    except (ValueError, RecursionError, MemoryError):
        return False
    return False


def _depth(line: str) -> int:
    expanded = _expand_indent(line)
    return len(expanded) - len(expanded.lstrip(" "))


def _expand_indent(line: str) -> str:
    body = line.lstrip(" \t")
    return line[: len(line) - len(body)].expandtabs(8) + body


def _merge(runs: list[tuple[int, int]], lines: list[str]) -> list[tuple[int, int]]:
    """Merge adjacent runs with the same indentation into one prose statement."""
    merged: list[tuple[int, int]] = []
    for start, end in runs:
        previous = merged[-1] if merged else None
        if previous and previous[1] + 1 == start and _depth(lines[previous[0] - 1]) == _depth(lines[start - 1]):
            merged[-1] = (previous[0], end)
        else:
            merged.append((start, end))
    return merged


def _restore_prose(tree: ast.Module, count: int) -> ast.Module:
    """Replace the placeholders by `$prose(n)`, which is not valid in source code."""
    numbers = {_PLACEHOLDER.format(n): n for n in range(count)}
    if not numbers:
        return tree
    for node in ast.walk(tree):
        if isinstance(node, ast.Expr) and isinstance(node.value, ast.Name) and node.value.id in numbers:
            name = node.value
            node.value = at(name, call(PROSE_NAME, at(name, ast.Constant(numbers[name.id]))))
            at(name, node.value.func)
    return tree
