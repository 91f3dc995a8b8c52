"""Watch marks on Python 3.11, where `sys.monitoring` is missing: a test of a flag that is a constant of the code.

Lowered code says `if $on7: $mark(7)`. Looking up `$on7` among globals and builtins costs as much as a statement, so
the compiled code is changed to load the flag from its constants; switching it off stores False there, as
`sys.monitoring` does with instructions. Measured per mark that is off: 60 ns by name, 3 ns so. Standard library only.
"""

from __future__ import annotations

import ctypes
import opcode
from types import CodeType

TYPE_CHECKING = False
if TYPE_CHECKING:  # importing it would take a guest longer than all of ours
    from typing import Any

_LOAD_CONST, _JUMP_FORWARD, _EXTENDED_ARG = (
    opcode.opmap.get(n, 0) for n in ("LOAD_CONST", "JUMP_FORWARD", "EXTENDED_ARG")
)
_LOADS = {opcode.opmap["LOAD_NAME"]: 0, opcode.opmap["LOAD_GLOBAL"]: 1}  # bits of the argument that are not the index


class Flags:
    """One flag per mark, all on at first; `builtins` holds those that the code still asks for by name."""

    def __init__(self, count: int, builtins: dict[str, Any]) -> None:
        self._builtins = builtins
        self._slots: dict[str, list[tuple[tuple[Any, ...], int]]] = {f"$on{index}": [] for index in range(count)}
        self._asked: set[str] = set()

    def switch_off(self, index: int) -> None:
        self._switch(f"$on{index}", False)

    def switch_on(self) -> None:
        """All of them, again."""
        for name in self._slots:
            self._switch(name, True)

    def _switch(self, name: str, is_on: bool) -> None:
        if name in self._asked:
            self._builtins[name] = is_on
        for constants, position in self._slots[name]:
            address = id(constants) + tuple.__basicsize__ + position * ctypes.sizeof(ctypes.c_void_p)
            slot: Any = ctypes.py_object.from_address(address)
            slot.value = is_on

    def built_into(self, code: CodeType) -> CodeType:
        """The same code with loads of flag names turned into loads of constants, nested code included."""
        constants = [self.built_into(c) if isinstance(c, CodeType) else c for c in code.co_consts]
        own = {name: len(constants) + i for i, name in enumerate(n for n in code.co_names if n in self._slots)}
        if max(len(constants) + len(own), len(code.co_names)) >= 1 << 15:  # some instruction may lack the room
            self._asked.update(own)
            self._builtins.update(dict.fromkeys(own, True))
        patched = code.replace(co_code=_patched(code, own), co_consts=(*constants, *[True] * len(own)))
        for name, position in own.items():
            self._slots[name].append((patched.co_consts, position))
        return patched


def _patched(code: CodeType, own: dict[str, int]) -> bytes:
    data = bytearray(code.co_code)
    caches: list[int] = opcode._inline_cache_entries  # type: ignore[attr-defined]
    position = extended = 0
    while position < len(data):
        op, argument = data[position], data[position + 1] | extended << 8
        if op == _EXTENDED_ARG:
            extended = argument
            position += 2
            continue
        if op in _LOADS:
            index = own.get(code.co_names[argument >> _LOADS[op]])
            if index is not None and extended <= 0xFF:  # a second EXTENDED_ARG would stay behind
                _replace(data, position, index, bool(extended), caches[op])
        extended = 0
        position += 2 + 2 * caches[op]
    return bytes(data)


def _replace(data: bytearray, position: int, constant: int, is_extended: bool, spare: int) -> None:
    """Put LOAD_CONST where a load of a name stands, and a jump over the units it leaves; or leave it, which is slow."""
    units: list[tuple[int, int]] = [(_LOAD_CONST, constant & 0xFF)]
    if is_extended and constant < 1 << 16:
        data[position - 1] = constant >> 8
    elif constant > 0xFF:
        if constant >= 1 << 16 or spare < 2:
            return
        units.insert(0, (_EXTENDED_ARG, constant >> 8))
    left = spare + 1 - len(units)
    if left:
        units.append((_JUMP_FORWARD, left - 1))
    for offset, (op, argument) in enumerate(units):
        data[position + 2 * offset : position + 2 * offset + 2] = bytes((op, argument))
