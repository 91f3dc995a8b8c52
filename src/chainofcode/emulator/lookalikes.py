"""Makes invisible and look-alike characters visible to a person who approves a call.

It escapes invisible characters, spaces other than U+0020, marks that combine with any letter, and characters
that look like ASCII: letters of another alphabet within a word (UTS 39), digits of another script within a word of
ASCII, words of look-alikes, dotless letters and dashes in an address or a path, and, next to letters of ASCII, other
forms of letters, dots, colons and slashes. Words in one alphabet stay unchanged.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterator

MAX_NAMES = 5
# Printable characters that are not drawn: fillers, a blank pattern. Variation selectors have a rule of their own.
_BLANK = frozenset("\u115f\u1160\u17b4\u17b5\u180b\u180c\u180d\u180f\u2800\u3164\uffa0\U0001d159\U00013441\U00013442")
# Letters of other alphabets, and phonetic ones, that most fonts draw like a Latin letter.
_LIKE_LATIN = frozenset("аеԁһіјӏорсԛѕԝхуүАВСЕԌНІЈКМОРԚЅТԜХУҮαικνορτυχγΑΒΕΖΗΙΚΜΝΟΡΤΥΧϲϳօսոցհյզԼՕՍ")
_PHONETIC = frozenset("ɑɡɩɪʟʀʏɴᴄᴏᴠᴡᴢꜱꞁ")
_LIKE_PUNCTUATION = frozenset("⁄∕⧸╱·‧∙⋅։׃꞉∶ːˑ‐‑−⁃∖⧵。｡ㆍ՝‚۔")
_CLICKS = frozenset("ǀǁǃ")  # letters of Latin that are drawn like | and !
# Ordinary in words and between numbers, but not in an address or a path.
_LIKE_IN_ADDRESS = frozenset("ıȷ‒–—―")
_ADDRESS = re.compile(r"\w\.[^\W\d]|[/\\@][^\W\d]|[^\W\d][/\\@]|://")
# The first word of a character's name is its alphabet, except for these. "" stands for signs of every alphabet.
_ALPHABETS = {
    **dict.fromkeys(("CJK", "HIRAGANA", "KATAKANA", "KATAKANA-HIRAGANA", "HALFWIDTH"), "EAST"),  # within one word
    **dict.fromkeys(("HANGUL", "BOPOMOFO", "IDEOGRAPHIC"), "EAST"),
    "MICRO": "LATIN",
    "MODIFIER": "",
}
_TOKEN = re.compile(r"[^\s'\"(){}\[\],]+")
_RUN = re.compile(r"\w+")
_WORD = re.compile(r"[^\W\d_]+(?:[^\W\d_]|\d|_)*")
_DRAWN_DIFFERENTLY = ("<super>", "<sub>", "<fraction>", "<circle>", "<square>", "<vertical>")


def make_visible(text: str) -> tuple[str, list[str]]:
    """Return a text in which such characters are escaped, as in `\\u0430`, and their names."""
    if text.isascii() and text.isprintable():
        return text, []
    hidden = {place for place, character in enumerate(text) if _is_hidden(text, place)}
    for token in _TOKEN.finditer(text):
        hidden.update(_find_lookalikes(text, token.start(), token.end()))
    shown = "".join(_escape(character) if place in hidden else character for place, character in enumerate(text))
    return shown, list(dict.fromkeys(_name(text[place]) for place in sorted(hidden)))[:MAX_NAMES]


def _is_hidden(text: str, place: int) -> bool:
    character = text[place]
    if character.isascii():
        return not character.isprintable()
    kind = unicodedata.category(character)
    if not character.isprintable() or character in _BLANK:
        return True
    if kind[0] != "M":
        return False
    before = text[place - 1] if place else " "
    # Marks of an alphabet belong to its letters. The others fit every letter, and selectors are not drawn at all.
    return unicodedata.category(before)[0] not in "LM" or _alphabet(character) != _alphabet(before)


def _find_lookalikes(text: str, start: int, end: int) -> Iterator[int]:
    """Yield the places of look-alikes in a part of a text without spaces, such as an address."""
    token = text[start:end]
    if token.isascii():
        return
    like = _LIKE_IN_ADDRESS if _ADDRESS.search(token) else frozenset[str]()
    for place, character in enumerate(token):
        beside = token[max(0, place - 1) : place] + token[place + 1 : place + 2]
        if not character.isascii() and (character in like or _is_form(character, any(map(_is_plain, beside)))):
            yield start + place
    yield from (start + place for place in _find_foreign_digits(token))
    has_latin = any(character.isalpha() and _alphabet(character) == "LATIN" for character in token)
    for word in _WORD.finditer(token):
        letters = [(start + place, token[place]) for place in range(*word.span()) if token[place].isalpha()]
        yield from _find_foreign(letters, has_latin)


def _find_foreign_digits(token: str) -> Iterator[int]:
    """Yield the places of digits of other scripts within a word of ASCII: a zero looks like the letter o."""
    for run in _RUN.finditer(token):
        if any(map(_is_plain, run.group())):
            yield from (place for place in range(*run.span()) if _is_foreign_digit(token[place]))


def _is_foreign_digit(character: str) -> bool:
    return character.isdecimal() and not character.isascii() and not unicodedata.decomposition(character)


def _find_foreign(letters: list[tuple[int, str]], has_latin: bool) -> Iterator[int]:
    """Yield the places of letters in a word that may be taken for those of another alphabet."""
    alphabets = {_alphabet(letter) for _, letter in letters} - {""}
    if len(alphabets) > 1 and alphabets != {"LATIN", "EAST"}:
        own = "LATIN" if "LATIN" in alphabets else _alphabet(letters[0][1])
        yield from (place for place, letter in letters if _alphabet(letter) not in ("", own))
    elif has_latin and all(letter in _LIKE_LATIN for _, letter in letters):
        yield from (place for place, _ in letters)


def _is_form(character: str, is_beside_ascii: bool) -> bool:
    """Whether a character looks like another one in ASCII: a phonetic, mathematical or wide letter, a slash."""
    if character in _CLICKS:
        return True
    if character in _PHONETIC or character in _LIKE_PUNCTUATION:
        return is_beside_ascii
    tag = unicodedata.decomposition(character).partition(" ")[0]
    if not tag or tag in _DRAWN_DIFFERENTLY or not unicodedata.normalize("NFKC", character).isascii():
        return False
    if tag == "<wide>":  # ordinary in Chinese and Japanese
        return is_beside_ascii
    return character.isalnum() or len(unicodedata.normalize("NFKC", character)) == 1


def _is_plain(character: str) -> bool:
    return character.isascii() and character.isalnum()


def _alphabet(character: str) -> str:
    name = unicodedata.name(character, "").partition(" ")[0]
    return _ALPHABETS.get(name, name)


def _escape(character: str) -> str:
    code = ord(character)
    if code < 0x80:
        return repr(character)[1:-1]
    return f"\\u{code:04x}" if code < 0x10000 else f"\\U{code:08x}"


def _name(character: str) -> str:
    return f"U+{ord(character):04X} {unicodedata.name(character, 'without a name')}"
