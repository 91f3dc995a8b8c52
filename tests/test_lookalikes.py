"""Invisible characters and look-alikes in a call to approve, and texts that stay unchanged."""

from __future__ import annotations

import sys
import unicodedata
from pathlib import Path

import pytest
from test_approve import SHOP, TOOLS, in_terminal

from chainofcode import ScriptedLM, run
from chainofcode.emulator.lookalikes import make_visible
from chainofcode.emulator.person import AskPerson, Question
from chainofcode.emulator.table import Table

HOSTILE = {
    "https://p\u0430ypal.com/login": "https://p\\u0430ypal.com/login",
    "/home/\u0430dmin/.ssh": "/home/\\u0430dmin/.ssh",
    "/home/\u0441\u043e\u0440/x": "/home/\\u0441\\u043e\\u0440/x",  # a whole word of look-alikes
    "\u0430\u0440\u0440\u04cf\u0435.com": "\\u0430\\u0440\\u0440\\u04cf\\u0435.com",
    "g\u043e\u043egle": "g\\u043e\\u043egle",
    "admi\u03bf": "admi\\u03bf",
    "\u0430\u03b1": "\u0430\\u03b1",  # Cyrillic and Greek
    "\u0578ile.org": "\\u0578ile.org",
    "ca\ufe00t": "ca\\ufe00t",
    "ca\U000e0100t": "ca\\U000e0100t",
    "cat\U000e0041": "cat\\U000e0041",
    "ca\u200bt": "ca\\u200bt",
    "ca\u200dt": "ca\\u200dt",
    "ca\u2060t": "ca\\u2060t",
    "ca\u00adt": "ca\\u00adt",
    "ca\u034ft": "ca\\u034ft",
    "ca\u202et": "ca\\u202et",
    "ca\u2066t": "ca\\u2066t",
    "ca\u3164t": "ca\\u3164t",
    "ca\u115ft": "ca\\u115ft",
    "ca\uffa0t": "ca\\uffa0t",
    "ca\u2800t": "ca\\u2800t",
    "ca\ue000t": "ca\\ue000t",
    "ca\ufffft": "ca\\ufffft",
    "rm\u00a0-r": "rm\\u00a0-r",
    "rm\u3000-r": "rm\\u3000-r",
    "rm\u2003-r": "rm\\u2003-r",
    "rm\u2028-r": "rm\\u2028-r",
    "a\nb\x1b[2K": "a\\nb\\x1b[2K",
    "e\u0301": "e\\u0301",
    "cat\u0336": "cat\\u0336",
    "\u0301x": "\\u0301x",
    "a.com\u2215b": "a.com\\u2215b",
    "a.com\u2044b": "a.com\\u2044b",
    "a\u3002com": "a\\u3002com",
    "a\u2024com": "a\\u2024com",
    "a\uff0ecom": "a\\uff0ecom",
    "\uff45xample": "\\uff45xample",
    "\U0001d429\U0001d41a\U0001d432": "\\U0001d429\\U0001d41a\\U0001d432",
    "\u212aelvin": "\\u212aelvin",
    "\u217ban": "\\u217ban",
    "\ufb01le": "\\ufb01le",
    "p\u0251ss": "p\\u0251ss",
    "l\u0131nkedin.com": "l\\u0131nkedin.com",
    "/home/adm\u0131n/x": "/home/adm\\u0131n/x",
    "g\u0966\u09e6gle": "g\\u0966\\u09e6gle",
    "\u0ed0racle": "\\u0ed0racle",
    "1\u0660.0.0.1": "1\\u0660.0.0.1",
    "cat x \u01c0 sh": "cat x \\u01c0 sh",
    "x\u01c3=1": "x\\u01c3=1",
    "my\u2013bank.com": "my\\u2013bank.com",
    "me@my\u2014bank": "me@my\\u2014bank",
    "a\u06d4com": "a\\u06d4com",
    "ca\U0001d159t": "ca\\U0001d159t",
}
ORDINARY = [
    "Zürich, naïve, œuvre, İstanbul, ısı, łódź, Ærø, Hawaiʻi",
    "Привет, мир: оса и сор у реки, с утра. Київ, п’ять, пʼять",
    "/home/anna/Документы/план.txt",
    "https://пример.com/путь",
    "Καλημέρα κόσμε",
    "你好，世界！价格5元。",
    "東京タワー・ビール Tシャツ ﾃｽﾄ",
    "안녕하세요",
    "हिन्दी में लिखा",
    "สวัสดีครับ",
    "שָׁלוֹם",
    "مَرْحَبًا",
    "Tiếng Việt rất đẹp",
    "5 m² · 20 °C … “quoted” – ½ № ™ 5µm café",
    "👍 🍐 ♥",
    "2010–2020, 1.5–2.5 kg, 3–5 Mon–Fri – kadın, alın — ok",
    "२०२४ में, ٢٠٢٤, ২০২৪ সালে, ปี ๒๕๖๗, یہ ایک جملہ ہے۔",
    "COVID-١٩, ４月１日, ビール２本",
    "a\\u0430 is written with a backslash",
]


@pytest.mark.parametrize("text", HOSTILE)
def test_hidden_characters_are_shown(text: str) -> None:
    shown, names = make_visible(f"send('{text}')")
    assert shown == f"send('{HOSTILE[text]}')"
    first = next(
        character for character in text if f"{ord(character):04x}" in HOSTILE[text] or not character.isprintable()
    )
    assert any(name.startswith(f"U+{ord(first):04X} ") for name in names)


@pytest.mark.parametrize("text", ORDINARY)
def test_ordinary_text_stays_as_it_is(text: str) -> None:
    assert make_visible(f"send('{text}')") == (f"send('{text}')", [])


def test_nothing_invisible_is_left() -> None:
    """Every code point that is not drawn is escaped, beside a letter of ASCII."""
    for code in range(0x80, sys.maxunicode + 1):
        character = chr(code)
        kind = unicodedata.category(character)
        is_selector = 0xFE00 <= code <= 0xFE0F or 0xE0000 <= code <= 0xE0FFF or 0x180B <= code <= 0x180F
        if kind in ("Cc", "Cf", "Cs", "Co", "Cn", "Zs", "Zl", "Zp", "Mn", "Me") or is_selector:
            assert character not in make_visible(f"a{character}b")[0], hex(code)


def test_long_texts_are_quick() -> None:
    make_visible("а" * 1_000_000 + "a" * 1_000_000 + "\u0301" * 100_000)


def test_approval_in_a_terminal(tmp_path: Path) -> None:
    (tmp_path / "shop.py").write_text(SHOP)
    (tmp_path / "p.py").write_text("answer = send('p\\u0430ypal\\u200b.com')", encoding="utf-8")
    typed = [("send('p\\u0430ypal\\u200b.com') — allow? [y/N] ", "n\n")]
    code, drawn = in_terminal(tmp_path, "run", "p.py", *TOOLS, typed=typed)
    assert code == 1
    assert "invisible or look like others: U+0430 CYRILLIC SMALL LETTER A" in drawn
    assert not (tmp_path / "sent").exists()


def test_a_person_sees_escaped_characters_in_a_question() -> None:
    seen: list[Question] = []

    async def asked(question: Question) -> str:
        seen.append(question)
        return "yes"

    program = "answer = bool(approve_host('p\\u0430ypal.com'))"
    assert run(program, AskPerson(Table([]), "approve_.*", asked)).answer is True
    assert "p\\u0430ypal.com" in seen[0].call


def test_models_see_what_was_written() -> None:
    lm = ScriptedLM(["true"])
    run("answer = is_host('p\\u0430ypal.com')", lm)
    assert "p\u0430ypal.com" in str(lm.requests)
