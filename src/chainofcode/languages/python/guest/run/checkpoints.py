"""Find checkpoints in compiled code by their column, and switch them on and off in place. Standard library only.

Lowered code has one small statement per checkpoint (compiler/marks.py). A disabled checkpoint must cost next to
nothing, and must not affect how the compiler and the specialising interpreter optimise the instructions around it.

- Python ≥ 3.12: the statement becomes one jump to the next instruction. `sys.monitoring` reports jumps and can disable
  each of them without touching other instructions. (Line events would split superinstructions permanently, and looking
  up a line number takes time in proportion to the length of the code.)
- Python 3.11: the statement calls `$mark`. To disable it, its first instruction is overwritten with a jump.

If another jump follows the checkpoint, the two are merged: a checkpoint at the end of a loop costs nothing.
"""

from __future__ import annotations

import ctypes
import opcode
from collections.abc import Iterator
from types import CodeType, FunctionType

from ...compiler.marks import MARK_COLUMNS

_UNIT = 2  # bytes of an instruction without its inline caches
_MAX_ARGUMENT = 0xFF


def _op(name: str) -> int:
    return opcode.opmap.get(name, -1)


_EXTENDED_ARG, _JUMP_BACKWARD, _JUMP_FORWARD = map(_op, ("EXTENDED_ARG", "JUMP_BACKWARD", "JUMP_FORWARD"))
_LOAD_GLOBAL, _LOAD_NAME, _POP_TOP, _PUSH_NULL = map(_op, ("LOAD_GLOBAL", "LOAD_NAME", "POP_TOP", "PUSH_NULL"))
_NOP = _op("NOP")
_STATEMENT = bytes((_op("BUILD_LIST"), 0, _POP_TOP, 0))  # `[]`, which the compiler does not optimise away


def nested(code: CodeType) -> Iterator[CodeType]:
    """Yield a code object and all code objects nested in it."""
    pending = [code]
    while pending:
        current = pending.pop()
        yield current
        pending.extend(constant for constant in current.co_consts if type(constant) is CodeType)


def _columns(code: CodeType) -> list[int | None]:
    return [column for _, _, column, _ in code.co_positions()]


def _jump(data: bytearray, columns: list[int | None], offset: int, end: int) -> bytes:
    """Return a jump over a checkpoint, merged with the jump that the compiler placed after it, if any."""
    skipped = (end - offset) // _UNIT
    op, argument = data[end], data[end + 1]
    if columns[end // _UNIT] != columns[offset // _UNIT]:  # a statement of the program, such as `continue`
        op = _NOP
    if op == _JUMP_FORWARD and argument + skipped <= _MAX_ARGUMENT:
        return bytes((_JUMP_FORWARD, argument + skipped))
    if op == _JUMP_BACKWARD and argument > skipped:
        return bytes((_JUMP_BACKWARD, argument - skipped))
    return bytes((_JUMP_FORWARD, skipped - 1))


class Jumps:
    """Python ≥ 3.12: code in which every checkpoint is a jump."""

    def __init__(self, code: CodeType) -> None:
        self.at: dict[tuple[int, int], int] = {}  # (id of the code object, offset of the jump) → checkpoint
        self.code = self._built(code)

    def _built(self, code: CodeType) -> CodeType:
        data = bytearray(code.co_code)
        found = []
        columns = _columns(code)
        for unit, column in enumerate(columns):
            offset = unit * _UNIT
            if column is None or column < MARK_COLUMNS or data[offset : offset + len(_STATEMENT)] != _STATEMENT:
                continue
            jump = _jump(data, columns, offset, offset + len(_STATEMENT))
            data[offset : offset + len(_STATEMENT)] = jump + bytes(_UNIT)  # then a cache, or unreachable
            found.append((offset, column - MARK_COLUMNS))
        constants = tuple(self._built(c) if type(c) is CodeType else c for c in code.co_consts)
        built = code.replace(co_code=bytes(data), co_consts=constants)
        self.at.update(((id(built), offset), checkpoint) for offset, checkpoint in found)
        return built


def tried_from_the_start(function: FunctionType) -> None:
    """Extend the first `try` of a function to its first instruction, where the program's signal handlers may run."""
    code = function.__code__
    numbers, rest = _first_entry(code.co_exceptiontable)
    start, size, *handler = numbers
    entry = b"".join(map(_varint, (0, start + size, *handler)))
    function.__code__ = code.replace(co_exceptiontable=bytes([entry[0] | _ENTRY]) + entry[1:] + rest)


_ENTRY, _MORE, _BITS = 0x80, 0x40, 6  # exception table bytes: start-of-entry bit, continuation bit, payload bits


def _first_entry(table: bytes) -> tuple[list[int], bytes]:
    """Return start, size, target and depth of the first entry of an exception table, and the remaining entries."""
    numbers, number = [], 0
    for position, byte in enumerate(table):
        number = number << _BITS | byte & (_MORE - 1)
        if not byte & _MORE:
            numbers.append(number)
            number = 0
        if len(numbers) == 4:
            return numbers, table[position + 1 :]
    raise ValueError("the function has no `try`")


def _varint(number: int) -> bytes:
    head = _varint(number >> _BITS) if number >> _BITS else b""
    return bytes(byte | _MORE for byte in head) + bytes([number & (_MORE - 1)])


class Switches:
    """Python 3.11: code in which every checkpoint calls `$mark`, until it is switched off."""

    def __init__(self, code: CodeType) -> None:
        self._places: dict[int, list[_Switch]] = {}
        self._are_off: set[int] = set()
        self.code = self._built(code)

    def switch_off(self, checkpoint: int) -> None:
        if checkpoint not in self._are_off:
            self._are_off.add(checkpoint)
            for switch in self._places.get(checkpoint, ()):
                switch.write(switch.off)

    def switch_on(self) -> None:
        """Switch all checkpoints on again."""
        while self._are_off:
            for switch in self._places.get(self._are_off.pop(), ()):
                switch.write(switch.on)

    def _built(self, code: CodeType) -> CodeType:
        data = bytearray(code.co_code)
        found = list(_switches(code, data))
        constants = tuple(self._built(c) if type(c) is CodeType else c for c in code.co_consts)
        built = code.replace(co_code=bytes(data), co_consts=constants)
        for checkpoint, offset, on, off in found:
            self._places.setdefault(checkpoint, []).append(_Switch(built, offset, on, off))
        return built


class _Switch:
    """The first instruction of a checkpoint, in its enabled and disabled form."""

    __slots__ = ("_address", "_code", "off", "on")

    def __init__(self, code: CodeType, offset: int, on: bytes, off: bytes) -> None:
        self._code = code  # keeps the code object alive: `write` changes its memory
        self._address = id(code) + CodeType.__basicsize__ + offset
        self.on, self.off = on, off

    def write(self, instruction: bytes) -> None:
        ctypes.memmove(self._address, instruction, _UNIT)


def _switches(code: CodeType, data: bytearray) -> Iterator[tuple[int, int, bytes, bytes]]:
    """Yield checkpoint, offset, and the enabled and disabled first instruction. Replaces tests of `$on` by jumps."""
    columns = _columns(code)
    pending = _instructions(data)
    for offset, op, argument, end in pending:
        checkpoint = (columns[offset // _UNIT] or 0) - MARK_COLUMNS
        if checkpoint < 0:
            continue
        name = _loaded(code, op, argument)
        if name == "$on":
            _, op, argument, body = next(pending)
            next(pending)  # skip the start of the call that takes the returned value
            on = bytes((_JUMP_FORWARD, (body - offset) // _UNIT - 1))
            off = _far(data, offset, argument, body) if op == _op("POP_JUMP_FORWARD_IF_FALSE") else on
            data[offset : offset + _UNIT] = on
            yield checkpoint, offset, on, off
        elif name == "$mark" or op == _PUSH_NULL:  # the start of a call
            end = next(end for _, op, _, end in pending if op == _POP_TOP)
            yield checkpoint, offset, bytes(data[offset : offset + _UNIT]), _jump(data, columns, offset, end)


def _instructions(data: bytearray) -> Iterator[tuple[int, int, int, int]]:
    """Yield offset, operation, argument and next offset of each instruction, including its EXTENDED_ARG prefixes."""
    caches: list[int] = opcode._inline_cache_entries  # type: ignore[attr-defined]
    start = position = argument = 0
    while position < len(data):
        op, argument = data[position], argument << 8 | data[position + 1]
        position += _UNIT + _UNIT * caches[op]
        if op != _EXTENDED_ARG:
            yield start, op, argument, position
            start, argument = position, 0


def _loaded(code: CodeType, op: int, argument: int) -> str:
    if op == _LOAD_NAME:
        return code.co_names[argument]
    return code.co_names[argument >> 1] if op == _LOAD_GLOBAL else ""  # the lowest bit: also push NULL


def _far(data: bytearray, offset: int, argument: int, end: int) -> bytes:
    """Return a jump from an offset to the target of the conditional jump there."""
    distance = (end - offset) // _UNIT + argument - 1
    if distance <= _MAX_ARGUMENT:
        return bytes((_JUMP_FORWARD, distance))
    distance -= 1  # with EXTENDED_ARG, the jump itself is in the second unit
    if distance >> 8 > _MAX_ARGUMENT:
        return bytes((_JUMP_FORWARD, (end - offset) // _UNIT - 1))  # too far: the checkpoint stays on
    data[offset + _UNIT : offset + 2 * _UNIT] = bytes((_JUMP_FORWARD, distance & _MAX_ARGUMENT))
    return bytes((_EXTENDED_ARG, distance >> 8))
