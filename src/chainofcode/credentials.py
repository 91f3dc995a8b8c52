"""Removes credentials from the replies of a host: some hosts echo the request, with its key.

It finds credentials in plain text, in any spelling of JSON and URLs, and in base64, as in the header of Basic
authentication, on one line or several. It does not search text that is encoded twice, as in JSON within JSON. Text that
arrives in pieces is passed on once it can no longer be the beginning of a credential.
"""

from __future__ import annotations

import base64
import functools
import json
import re
import urllib.parse
from collections.abc import Iterable
from typing import Any

SHORTEST = 8  # characters: a shorter key is a placeholder, such as EMPTY or none, and may be part of any word
_Form = tuple[tuple[str, ...], ...]  # for each character, the ways to write it
_LINE_BREAK = ("\\r\\n", "\r\n", "\\n", "\n", "")  # between any two characters of base64, in text and in JSON


class Credentials:
    """The secrets that were sent to a host; `mark` replaces them in its replies.

    Secrets of fewer than `shortest` characters are ignored.
    """

    def __init__(self, secrets: Iterable[str], mark: str = "[key]", shortest: int = SHORTEST) -> None:
        self._secrets = sorted({secret for secret in secrets if len(secret) >= max(shortest, 1)}, key=len, reverse=True)
        self.mark = mark
        self.shortest = min(map(len, self._secrets), default=0)

    def __bool__(self) -> bool:
        return bool(self._secrets)

    def remove(self, text: str) -> str:
        """Return a text without the secrets, and without an incomplete one at its end, where the text may be cut."""
        if not self._secrets or len(text) < self.shortest:
            return text
        removal = Removal(self)
        return removal.feed(text) + removal.finish()

    def remove_from(self, value: Any) -> Any:
        """Return JSON data without the secrets."""
        if isinstance(value, str):
            return self.remove(value)
        if isinstance(value, dict):
            return {self.remove_from(name): self.remove_from(part) for name, part in value.items()}
        return [self.remove_from(part) for part in value] if isinstance(value, list) else value

    # Compiled for the first reply, because most commands never send a request.

    @functools.cached_property
    def _forms(self) -> list[_Form]:
        plain = [tuple(map(_list_spellings, secret)) for secret in self._secrets]
        coded = {text for secret in self._secrets for text in _in_base64(secret)}
        return [*plain, *map(_list_with_breaks, coded)]

    @functools.cached_property
    def pattern(self) -> re.Pattern[str]:
        return re.compile(
            "|".join("".join(f"(?:{'|'.join(map(re.escape, ways))})" for ways in form) for form in self._forms)
        )

    @functools.cached_property
    def _longest(self) -> int:
        return max(sum(max(map(len, ways)) for ways in form) for form in self._forms)

    @functools.cached_property
    def _first_characters(self) -> frozenset[str]:
        return frozenset(way[0] for form in self._forms for way in form[0])

    def open_end(self, text: str, start: int) -> int:
        """Return where the part of a text begins, from `start` on, that may be the beginning of a secret."""
        for place in range(max(start, len(text) - self._longest + 1), len(text)):
            if text[place] in self._first_characters and any(_is_open(form, text, place) for form in self._forms):
                return place
        return len(text)


class Removal:
    """Removes credentials from a text that arrives in pieces."""

    def __init__(self, credentials: Credentials) -> None:
        self._credentials, self._held = credentials, ""

    def feed(self, piece: str) -> str:
        """Add a piece; return the text that can be passed on."""
        if not self._credentials:
            return piece
        text, done, place = self._held + piece, list[str](), 0
        end = self._credentials.open_end(text, place)
        while (found := self._credentials.pattern.search(text, place)) is not None and found.start() < end:
            done += [text[place : found.start()], self._credentials.mark]
            place = found.end()
            if place > end:
                end = self._credentials.open_end(text, place)
        self._held = text[end:]
        return "".join([*done, text[place:end]])

    def finish(self) -> str:
        """Return the rest, after the last piece."""
        rest, self._held = self._held, ""
        if not rest:
            return ""
        clean = self._credentials.pattern.sub(self._credentials.mark, rest)
        # A reply may end in the middle of a key. A few characters of a key are not a secret, and may be a word.
        return self._credentials.mark if clean == rest and len(rest) >= SHORTEST else clean


def _is_open(form: _Form, text: str, place: int) -> bool:
    """Whether a text, from a place to its end, may be an incomplete secret."""
    places = {place}
    for ways in form:
        if any(way.startswith(text[at:]) and len(way) > len(text) - at for at in places for way in ways):
            return True
        places = {at + len(way) for at in places for way in ways if text.startswith(way, at)}
        if not places:
            return False
    return False


def _list_spellings(character: str) -> tuple[str, ...]:
    """Return the ways to write a character in text, JSON and URLs, the longest first."""
    in_json = json.dumps(character)[1:-1]
    in_url = "".join(f"%{byte:02X}" for byte in character.encode(errors="surrogatepass"))
    ways = {character, in_json, in_url, in_url.lower(), urllib.parse.quote_plus(character, errors="surrogatepass")}
    ways |= {"\\/"} if character == "/" else set()
    if len(character.encode("utf-16-le", errors="surrogatepass")) == 2:
        ways |= {f"\\u{ord(character):04x}", f"\\u{ord(character):04X}"}
    return tuple(sorted(ways, key=lambda way: (-len(way), way)))


def _list_with_breaks(text: str) -> _Form:
    """Return the form of base64, which MIME and PEM break into lines of a fixed length, wherever that falls."""
    first, *others = map(_list_spellings, text)
    return (first, *(part for ways in others for part in (_LINE_BREAK, ways)))


def _in_base64(secret: str) -> set[str]:
    """Return the part of a secret's base64 that its neighbours do not affect, for each offset in a group of three."""
    data = secret.encode(errors="surrogatepass")
    found = set()
    for before in range(3):
        text = base64.b64encode(b"\0" * before + data).decode()
        sure = text[(before * 8 + 5) // 6 : (before + len(data)) * 8 // 6]
        found |= {sure, sure.translate(str.maketrans("+/", "-_"))}
    return {text for text in found if len(text) >= SHORTEST}
