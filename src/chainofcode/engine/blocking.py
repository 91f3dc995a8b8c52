"""Run async work from sync code: scripts, and cells of notebooks, whose event loop is already running."""

from __future__ import annotations

import asyncio
import contextvars
import threading
from collections.abc import Coroutine
from typing import Any, TypeVar

T = TypeVar("T")


def blocking(work: Coroutine[Any, Any, T]) -> T:
    """Run a coroutine to its end. Inside a running event loop, a thread runs it and the loop waits."""
    try:
        asyncio.get_running_loop()
    except RuntimeError:
        return asyncio.run(work)
    return _in_thread(work)


def _in_thread(work: Coroutine[Any, Any, T]) -> T:
    context, outcome = contextvars.copy_context(), list[T]()
    failures = list[BaseException]()
    loop = asyncio.new_event_loop()
    task = loop.create_task(work)

    def run() -> None:
        try:
            with asyncio.Runner(loop_factory=lambda: loop) as runner:
                outcome.append(runner.run(_awaited(task)))
        except BaseException as error:  # raised again in the caller's thread
            failures.append(error)

    thread = threading.Thread(target=context.run, args=(run,), name="coc blocking", daemon=True)
    thread.start()
    try:
        thread.join()
    except BaseException:  # interrupted: the guest must end, too
        loop.call_soon_threadsafe(task.cancel)
        thread.join()
        raise
    if failures:
        raise failures[0]
    return outcome[0]


async def _awaited(task: asyncio.Task[T]) -> T:
    return await task
