"""OpenTelemetry spans by the conventions for generative AI: one for a run, one for each of its requests to a model.

Like logs, they contain questions and answers only if the settings allow it.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterator, Mapping
from typing import Any

from .. import __version__
from ..errors import InputError
from ..trace import as_json

_PROVIDERS = {"local": "chainofcode", "scripted": "chainofcode"}


class Spans:
    """Makes spans; without a provider, they are discarded."""

    def __init__(self, provider: Any = None, *, with_content: bool = False) -> None:
        self._provider, self._with_content = provider, with_content
        self._tracer = provider.get_tracer("chainofcode", __version__) if provider is not None else None

    @classmethod
    def to_collector(cls, *, with_content: bool) -> Spans:
        """Spans for the collector at `OTEL_EXPORTER_OTLP_ENDPOINT`. Raises InputError without the extra."""
        try:
            from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter
            from opentelemetry.sdk.resources import Resource
            from opentelemetry.sdk.trace import TracerProvider
            from opentelemetry.sdk.trace.export import BatchSpanProcessor
        except ModuleNotFoundError:
            raise InputError("--otel needs the extra `telemetry`: pip install 'chainofcode[telemetry]'") from None
        provider = TracerProvider(resource=Resource.create({"service.name": "chainofcode"}))
        provider.add_span_processor(BatchSpanProcessor(OTLPSpanExporter()))
        return cls(provider, with_content=with_content)

    @contextlib.contextmanager
    def continued(self, traceparent: str, tracestate: str) -> Iterator[None]:
        """Make the spans of a block, and of the tasks that it starts, children of a client's span."""
        if self._tracer is None:
            yield
            return
        from opentelemetry import context
        from opentelemetry.trace.propagation.tracecontext import TraceContextTextMapPropagator

        carrier = {"traceparent": traceparent, "tracestate": tracestate}
        before = context.attach(TraceContextTextMapPropagator().extract(carrier))
        try:
            yield
        finally:
            context.detach(before)

    @contextlib.contextmanager
    def begun(self, operation: str, what: str, model: str | None, content: Any = None) -> Iterator[Span]:
        """A span around a block; an exception becomes its error."""
        if self._tracer is None:
            yield Span(None)
            return
        attributes: dict[str, Any] = {"gen_ai.operation.name": operation}
        if model is not None:
            provider, _, label = model.partition(":")
            attributes |= {"gen_ai.provider.name": _PROVIDERS.get(provider, provider), "gen_ai.request.model": label}
        name = f"{operation} {what}"
        with self._tracer.start_as_current_span(name, attributes=attributes, record_exception=False) as raw:
            span = Span(raw, with_content=self._with_content)
            span.content("gen_ai.input.messages", content)
            try:
                yield span
            except BaseException as error:
                span.set({"error.type": type(error).__name__})
                raise

    def close(self) -> None:
        if self._provider is not None:
            self._provider.shutdown()


class Span:
    """An open span."""

    def __init__(self, raw: Any, *, with_content: bool = False) -> None:
        self._raw, self._with_content = raw, with_content

    def set(self, attributes: Mapping[str, Any]) -> None:
        if self._raw is not None:
            self._raw.set_attributes({name: value for name, value in attributes.items() if value is not None})

    def usage(self, prompt_tokens: int, completion_tokens: int) -> None:
        self.set({"gen_ai.usage.input_tokens": prompt_tokens, "gen_ai.usage.output_tokens": completion_tokens})

    def content(self, name: str, messages: Any) -> None:
        """Messages as pairs of role and text."""
        if self._raw is not None and self._with_content and messages:
            parts = [{"role": role, "parts": [{"type": "text", "content": text}]} for role, text in messages]
            self.set({name: as_json(parts).decode()})
