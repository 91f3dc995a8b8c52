"""Programs that attack the sandbox: one test for each claim about it."""

import pytest

pytest.register_assert_rewrite("attacks.harness")
