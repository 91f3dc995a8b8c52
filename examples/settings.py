"""A service's configuration from wishes in plain words: a model says what each means, a schema what is allowed."""

import json
from typing import Annotated, Literal

import msgspec


class Settings(msgspec.Struct, forbid_unknown_fields=True):
    port: Annotated[int, msgspec.Meta(ge=1024, le=65535)]
    log: Literal["debug", "info", "error"]
    workers: Annotated[int, msgspec.Meta(ge=1, le=64)]
    allow: list[Annotated[str, msgspec.Meta(pattern=r"^[\w.*-]+$")]]


def setting(wish: str, schema: str) -> dict:
    """The one setting that a wish is about, as the schema wants it: its name and its value."""


schema = msgspec.json.schema(Settings)["$defs"]["Settings"]
settings = {}
for wish in ["listen on the usual port for a development server", "only tell me when something is broken",
             "as many workers as an octopus has arms", "anything below example.org may call us"]:  # fmt: skip
    settings |= setting(wish, ", ".join(schema["properties"]))
msgspec.convert(settings, Settings)  # raises, and names the field, where something is not allowed
answer = json.dumps(settings, sort_keys=True)
