"""A program as data: its source, its statements and its undefined functions. Parsing does not run the program."""

from __future__ import annotations

import functools
import subprocess
import sys

import msgspec

from .boot import boot_command
from .errors import ProgramError, SandboxError
from .languages import PYTHON, Language
from .languages.source import NotAProgram, check_readable
from .platforms import environment

_PARSE_SECONDS = 20
_MAX_WHY_CHARS = 300


class Statement(msgspec.Struct, frozen=True, array_like=True):
    """One statement, with positions and kind as in `ast`: lines count from 1, columns count UTF-8 bytes."""

    line: int
    column: int
    end_line: int
    end_column: int
    kind: str


class Use(msgspec.Struct, frozen=True, array_like=True):
    """A hole in a statement: the type expected of it, as the text of an annotation, and the statement of its stub."""

    statement: int
    name: str
    type: str
    spec: int | None = None


class Program(msgspec.Struct, frozen=True, tag_field="event", tag="program"):
    """A parsed program. `holes` are its undefined functions, `uses` their expected types, `prose` the lines that are
    not Python, `imports` those that were missing and were added; `is_hard_coded`: its answer is only a literal."""

    source: str
    statements: tuple[Statement, ...] = ()
    holes: tuple[str, ...] = ()
    uses: tuple[Use, ...] = ()
    prose: tuple[str, ...] = ()
    imports: tuple[str, ...] = ()
    is_hard_coded: bool = False
    hole_places: tuple[tuple[int, int, int], ...] = ()  # line, first and last column of each use of a hole, for readers
    language: str = "python"

    @classmethod
    def parse(cls, reply: str, language: Language = PYTHON) -> Program:
        """Parse the program in a model's reply. Raises ProgramError if there is none.

        Raises SandboxError if the parser cannot be confined. A separate process does the parsing, because deeply nested
        source can crash CPython's parser. That process is confined (`sandbox/worker_confinement.py`).
        """
        try:
            check_readable(reply)
        except NotAProgram as error:
            raise ProgramError(str(error)) from None
        needs = {
            "language": language.name,
            "package_names": language.packages,
            "package_paths": language.package_paths(),
        }
        start = b"\n".join(map(msgspec.json.encode, (needs, {"source": reply, "is_reply": True})))
        command = boot_command(sys.executable, "sandbox.parser_process")
        try:
            child = subprocess.run(
                command, input=start, capture_output=True, timeout=_PARSE_SECONDS, check=False, env=environment()
            )
        except subprocess.TimeoutExpired:
            raise ProgramError(f"the source took over {_PARSE_SECONDS} seconds to parse") from None
        if child.returncode != 0 or not child.stdout:
            raise ProgramError("the parser crashed on this source: it is nested too deeply or too large")
        parsed = msgspec.json.decode(child.stdout, type=_Reply)
        if parsed.unconfined:
            raise SandboxError(f"cannot parse a program: {parsed.unconfined[:_MAX_WHY_CHARS]}")
        if parsed.program is None:
            raise ProgramError(parsed.error)
        return msgspec.structs.replace(parsed.program, language=language.name)

    def text(self, statement: int) -> str:
        """The source of a statement, all its lines."""
        place = self.statements[statement]
        return "\n".join(_lines(self.source)[place.line - 1 : place.end_line])

    def first_line(self, statement: int) -> str:
        """The first line of a statement, in constant time."""
        place = self.statements[statement]
        lines = _lines(self.source)
        return lines[place.line - 1] if 0 < place.line <= len(lines) else ""


@functools.lru_cache(maxsize=8)
def _lines(source: str) -> list[str]:
    return source.split("\n")


class _Reply(msgspec.Struct):
    program: Program | None = None
    error: str = ""
    unconfined: str = ""  # why the parser did not begin
