"""Dialogs of the debugger: a question, or a long text."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, ClassVar

from rich.text import Text
from textual.app import ComposeResult
from textual.binding import BindingType
from textual.containers import Vertical, VerticalScroll
from textual.screen import ModalScreen
from textual.widgets import Input, Static

from ...errors import ChainOfCodeError
from ...render import cut, plain


class Ask(ModalScreen[Any]):
    """Asks for a line of text. `read` converts the line, or raises an error, which is shown. Esc returns None."""

    DEFAULT_CSS = """
    Ask { align: center middle; }
    Ask Vertical { width: 90%; max-width: 100; height: auto; border: round $primary; padding: 0 1; }
    Ask Static { height: auto; }
    Ask #wrong { color: $text-error; }
    """
    BINDINGS: ClassVar[list[BindingType]] = [("escape", "leave", "leave")]

    def __init__(self, title: str, read: Callable[[str], Any], value: str = "") -> None:
        super().__init__()
        self._title, self._read, self._value = title, read, value

    def compose(self) -> ComposeResult:
        with Vertical():
            yield Static(Text("\n".join(map(plain, self._title.split("\n")))), id="asked")
            yield Input(self._value, id="given")
            yield Static(Text(""), id="wrong")

    def on_input_submitted(self, event: Input.Submitted) -> None:
        event.stop()
        try:
            read = self._read(event.value)
        except ChainOfCodeError as error:
            self.query_one("#wrong", Static).update(Text(cut(plain(str(error)), 500)))
            return
        self.dismiss(read)

    def action_leave(self) -> None:
        self.dismiss(None)


class Detail(ModalScreen[None]):
    """Shows a long text."""

    DEFAULT_CSS = """
    Detail { align: center middle; }
    Detail VerticalScroll { width: 95%; height: 90%; border: round $primary; padding: 0 1; }
    Detail Static { height: auto; }
    """
    BINDINGS: ClassVar[list[BindingType]] = [("escape,enter,q,question_mark", "leave", "leave")]

    def __init__(self, text: str) -> None:
        super().__init__()
        self._text = text

    def compose(self) -> ComposeResult:
        with VerticalScroll() as box:
            box.border_subtitle = "↑ ↓ scroll · Esc back"
            yield Static(Text(self._text), id="detail")

    def action_leave(self) -> None:
        self.dismiss(None)
