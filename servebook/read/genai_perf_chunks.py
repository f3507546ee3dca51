"""When the content of a streamed reply arrived, from Perf Analyzer's raw responses.

A response is what one read of the socket gave: an event, several of them, or a splinter of one.
Only whether an event carries text is looked at; the text goes no further.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from servebook.read.documents import json_value
from servebook.read.values import object_of, whole

__all__ = ["Reply", "reply_of"]

_DATA = "data:"
_DELTA_TEXTS = ("content", "reasoning_content", "reasoning", "refusal")


@dataclass(frozen=True)
class Reply:
    """Times of the responses with content, ns; token counts where the server sent its usage."""

    times: list[int]
    isl: int | None
    osl: int | None
    cached: int | None
    error: bool


def reply_of(timestamps: Sequence[int], outputs: Sequence[Any] | None) -> Reply:
    """The reply that these responses are; all count as content where the dump has no texts."""
    if outputs is None:
        return Reply(list(timestamps), None, None, None, error=False)
    times: list[int] = []
    usage: dict[str, Any] = {}
    error = False
    texts = _whole_events([_text(output) for output in outputs])
    for time, output, text in zip(timestamps, outputs, texts, strict=True):
        content = False
        if (
            text is None
        ):  # tensors of Triton: the text where it is named, else any that is not empty
            tensors = object_of(output)
            named = [tensors["text_output"]] if "text_output" in tensors else tensors.values()
            content = any(_filled(value) for value in named)
        for event in _events(text or ""):
            usage = object_of(event.get("usage")) or usage
            error = error or "error" in event
            content = content or _has_content(event)
        if content:
            times.append(time)
    details = object_of(usage.get("prompt_tokens_details"))
    return Reply(
        times,
        whole(usage.get("prompt_tokens")),
        whole(usage.get("completion_tokens")),
        whole(details.get("cached_tokens")),
        error,
    )


def _text(output: Any) -> str | None:
    response = object_of(output).get("response")
    return response if isinstance(response, str) else None


def _whole_events(texts: Sequence[str | None]) -> list[str | None]:
    """Gives a splinter, what comes before the first event of a response, to the response before."""
    out = list(texts)
    if not any(text and _DATA in text for text in out):
        return out  # no event stream
    for index in range(len(out) - 1, 0, -1):
        text, before = out[index], out[index - 1]
        if (
            text is None
            or before is None
            or text.startswith((_DATA, "event:", ":", "id:", "retry:"))
        ):
            continue
        at = text.find("\n" + _DATA)
        end = len(text) if at < 0 else at + 1
        out[index - 1], out[index] = before + text[:end], text[end:]
    return out


def _events(text: str) -> Iterator[dict[str, Any]]:
    for line in text.splitlines() if _DATA in text else [text]:
        body = line.removeprefix(_DATA).strip()
        if not body or body == "[DONE]" or line.startswith(("event:", ":", "id:", "retry:")):
            continue
        try:
            value = json_value(body.encode("utf-8", "replace"))
        except ValueError:
            continue
        if isinstance(value, dict):
            yield value


def _has_content(event: dict[str, Any]) -> bool:
    if event.get("text_output") or event.get("generated_text"):
        return True
    choices = event.get("choices")
    for choice in choices if isinstance(choices, list) else []:
        choice = object_of(choice)
        if choice.get("text"):
            return True
        for part in ("delta", "message"):
            said = object_of(choice.get(part))
            if any(said.get(name) for name in (*_DELTA_TEXTS, "tool_calls")):
                return True
    return False


def _filled(value: Any) -> bool:
    return bool(value) if not isinstance(value, str) else value.strip('\x00" ') != ""
