"""A real `coc serve --sandbox-only` on loopback, for tests of clients and of the server itself."""

from __future__ import annotations

import contextlib
import os
import re
import subprocess
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass

from forked import COC

TOKEN = "a-token-for-the-tests"


@dataclass
class Serving:
    """A server that runs guests."""

    process: subprocess.Popen[str]
    url: str
    token: str = TOKEN

    @property
    def port(self) -> int:
        return int(self.url.rpartition(":")[2])


@contextlib.contextmanager
def guest_server(*options: str, port: int = 0) -> Iterator[Serving]:
    with tempfile.TemporaryDirectory() as data:
        process = subprocess.Popen(
            [*COC, "serve", "--sandbox-only", "--port", str(port), "--data", data, *options],
            stderr=subprocess.PIPE, text=True, env={**os.environ, "COC_TOKEN": f"someone={TOKEN} other=another-{TOKEN}"},
        )  # fmt: skip
        assert process.stderr is not None
        try:
            line = process.stderr.readline()
            found = re.search(r"url=(\S+)", line)
            assert found, line + process.stderr.read()
            yield Serving(process, found[1])
        finally:
            process.terminate()
            process.wait(30)
            process.stderr.close()
