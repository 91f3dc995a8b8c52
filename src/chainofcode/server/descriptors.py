"""The limit on open files of a server process."""

from __future__ import annotations

import resource

_DESCRIPTORS = 65_536


def allow_descriptors() -> None:
    """Raise the limit on descriptors: connections and guests soon use up the usual 1,024."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    target = _DESCRIPTORS if hard == resource.RLIM_INFINITY else min(hard, _DESCRIPTORS)
    if soft != resource.RLIM_INFINITY and soft < target:
        resource.setrlimit(resource.RLIMIT_NOFILE, (target, hard))
