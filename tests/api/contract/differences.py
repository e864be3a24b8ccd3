"""What breaks clients between two reduced OpenAPI documents.

Requests may become wider and answers richer; the other way round, somebody's program fails.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal

Direction = Literal["request", "answer"]
Schema = Mapping[str, Any]

_AT_LEAST = ("minimum", "exclusiveMinimum", "minLength", "minItems", "minProperties")
_FAR = 1_000
_AT_MOST = ("maximum", "exclusiveMaximum", "maxLength", "maxItems", "maxProperties")


@dataclass(frozen=True, slots=True)
class Breakage:
    """One thing that breaks: ``name`` is what a changelog has to call it by."""

    where: str
    what: str
    name: str

    def __str__(self) -> str:
        """As a line."""
        return f"{self.where}: {self.what} (name {self.name!r} in CHANGELOG.md)"


def breakages(old: Mapping[str, Any], new: Mapping[str, Any]) -> list[Breakage]:
    """All that breaks, each thing once however many operations use it."""
    found = _Comparison(old["schemas"], new["schemas"]).operations(old["paths"], new["paths"])
    return list(dict.fromkeys(found))


class _Comparison:
    """Compares schemas, each pair of named ones once in each direction."""

    def __init__(self, old: Mapping[str, Schema], new: Mapping[str, Schema]) -> None:
        self._old, self._new = old, new
        self._seen: set[tuple[str, str, Direction]] = set()

    def operations(self, old: Mapping[str, Any], new: Mapping[str, Any]) -> Iterator[Breakage]:
        for path, item in old.items():
            for method, before in item.items():
                where = f"{method.upper()} {path}"
                after = new.get(path, {}).get(method)
                if after is None:
                    yield Breakage(where, "is gone", path)
                    continue
                if before["operationId"] != after["operationId"]:
                    yield Breakage(
                        where, f"is called {after['operationId']} now", before["operationId"]
                    )
                yield from self._parameters(where, before, after)
                yield from self._body(where, before, after)
                yield from self._responses(where, before, after)

    def _parameters(self, where: str, before: Any, after: Any) -> Iterator[Breakage]:
        known = {(one["in"], one["name"]): one for one in before.get("parameters", ())}
        now = {(one["in"], one["name"]): one for one in after.get("parameters", ())}
        for place, one in known.items():
            at = f"{where} {place[0]} {place[1]}"
            if place not in now:
                yield Breakage(at, "is gone", place[1])
                continue
            if now[place].get("required") and not one.get("required"):
                yield Breakage(at, "is required now", place[1])
            yield from self.schemas(
                one.get("schema", {}), now[place].get("schema", {}), "request", at, place[1]
            )
        for place, one in now.items():
            if place not in known and one.get("required"):
                yield Breakage(f"{where} {place[0]} {place[1]}", "is new and required", place[1])

    def _body(self, where: str, before: Any, after: Any) -> Iterator[Breakage]:
        old, new = before.get("requestBody"), after.get("requestBody")
        if new is not None and new.get("required") and not (old or {}).get("required"):
            yield Breakage(where, "needs a body now", where)
        if old is None or new is None:
            return
        yield from self._contents(old["content"], new["content"], "request", where)

    def _responses(self, where: str, before: Any, after: Any) -> Iterator[Breakage]:
        for status, old in before["responses"].items():
            if not status.startswith("2"):
                continue
            new = after["responses"].get(status)
            if new is None:
                yield Breakage(where, f"does not answer {status} any more", where)
                continue
            at = f"{where} {status}"
            yield from self._contents(old.get("content", {}), new.get("content", {}), "answer", at)

    def _contents(
        self, old: Mapping[str, Any], new: Mapping[str, Any], direction: Direction, where: str
    ) -> Iterator[Breakage]:
        for kind, content in old.items():
            if kind not in new:
                yield Breakage(where, f"{kind} is gone", kind)
            else:
                yield from self.schemas(
                    content.get("schema", {}), new[kind].get("schema", {}), direction, where, kind
                )

    def schemas(
        self, old: Schema, new: Schema, direction: Direction, where: str, name: str
    ) -> Iterator[Breakage]:
        """What breaks between two schemas; ``name`` is the field that has them."""
        named = old.get("$ref"), new.get("$ref")
        if named[0] is not None:
            where = named[0].rpartition("/")[2]
        if named[0] is not None and named[1] is not None:
            pair = (named[0], named[1], direction)
            if pair in self._seen:
                return
            self._seen.add(pair)
        old, new = _resolved(old, self._old), _resolved(new, self._new)
        before, after = _options(old), _options(new)
        if before is None and after is None:
            yield from self._plain(old, new, direction, where, name)
            return
        # Each thing that was sent has to be taken, each that comes has to have been known.
        olds, news = before or [old], after or [new]
        for one in olds if direction == "request" else news:
            yield from self._fitting(
                one, news if direction == "request" else olds, direction, where, name
            )

    def _fitting(
        self,
        one: Schema,
        others: Sequence[Schema],
        direction: Direction,
        where: str,
        name: str,
    ) -> Iterator[Breakage]:
        """What breaks between an option and the one of the other side that fits it best."""
        best: list[Breakage] | None = None
        least = 0
        for other in others:
            pair = (one, other) if direction == "request" else (other, one)
            trial = _Comparison(self._old, self._new)
            trial._seen = {*self._seen}
            found = list(trial.schemas(*pair, direction, where, name))
            # One of another type altogether is what was meant least.
            far = _FAR * any(each.what.startswith("type ") and each.name == name for each in found)
            if best is None or len(found) + far < least:
                best, seen, least = found, trial._seen, len(found) + far
                if not found:
                    break
        if best:
            shown = one.get("$ref", "").rpartition("/")[2] or one.get("type", one)
            if direction == "answer" and any("type" in each.what for each in best):
                yield Breakage(f"{where}.{name}", f"may be {shown} now", name)
                return
            self._seen |= seen
        yield from best or ()

    def _plain(
        self, old: Schema, new: Schema, direction: Direction, where: str, name: str
    ) -> Iterator[Breakage]:
        at = f"{where}.{name}"
        narrow, wide = (old, new) if direction == "request" else (new, old)
        if not _types(narrow) <= _types(wide):
            yield Breakage(at, f"type {_told(old)} became {_told(new)}", name)
            return
        yield from _values(old, new, direction, at, name)
        if direction == "request":
            yield from _bounds(old, new, at, name)
        yield from self._fields(old, new, direction, where)
        for inner in ("items", "additionalProperties"):
            if isinstance(old.get(inner), dict) and isinstance(new.get(inner), dict):
                yield from self.schemas(old[inner], new[inner], direction, where, name)
        if direction == "request" and _is_closed(new) and not _is_closed(old):
            yield Breakage(at, "takes no fields of other names any more", name)

    def _fields(
        self, old: Schema, new: Schema, direction: Direction, where: str
    ) -> Iterator[Breakage]:
        before, after = old.get("properties", {}), new.get("properties", {})
        needed, needs = set(old.get("required", ())), set(new.get("required", ()))
        for field, shape in before.items():
            if field not in after:
                yield Breakage(f"{where}.{field}", "is gone", field)
                continue
            if direction == "request" and field in needs - needed:
                yield Breakage(f"{where}.{field}", "is required now", field)
            if direction == "answer" and field in needed - needs:
                yield Breakage(f"{where}.{field}", "may be absent now", field)
            yield from self.schemas(shape, after[field], direction, where, field)
        if direction == "request":
            for field in sorted(needs - before.keys()):
                yield Breakage(f"{where}.{field}", "is new and required", field)


def _resolved(schema: Schema, schemas: Mapping[str, Schema]) -> Schema:
    while "$ref" in schema:
        schema = schemas[schema["$ref"].rpartition("/")[2]]
    return schema


def _options(schema: Schema) -> list[Schema] | None:
    return schema.get("anyOf") or schema.get("oneOf")


def _types(schema: Schema) -> set[str]:
    """Types that a schema admits, each with those that are a part of it."""
    stated = schema.get("type")
    if stated is None:
        values = _enum(schema)
        if values is None:
            return {"any", "object", "array", "string", "number", "integer", "boolean", "null"}
        return {"string" if isinstance(value, str) else "number" for value in values}
    found = {stated} if isinstance(stated, str) else set(stated)
    return found | {"integer"} if "number" in found else found


def _told(schema: Schema) -> str:
    stated = schema.get("type", "anything")
    return stated if isinstance(stated, str) else " or ".join(stated)


def _enum(schema: Schema) -> list[Any] | None:
    return [schema["const"]] if "const" in schema else schema.get("enum")


def _values(
    old: Schema, new: Schema, direction: Direction, at: str, name: str
) -> Iterator[Breakage]:
    before, after = _enum(old), _enum(new)
    if before is None:
        if after is not None and direction == "request":
            yield Breakage(at, f"takes only {after} now", name)
        return
    if after is None:
        if direction == "answer":
            yield Breakage(at, "may have any value now", name)
        return
    for value in before:
        if value not in after:
            yield Breakage(at, f"the value {value!r} is gone", str(value))


def _bounds(old: Schema, new: Schema, at: str, name: str) -> Iterator[Breakage]:
    for bounds, sign in ((_AT_LEAST, 1), (_AT_MOST, -1)):
        for bound in bounds:
            if bound in new and (bound not in old or (new[bound] - old[bound]) * sign > 0):
                told = f"{bound} is {new[bound]} now, was {old.get(bound, 'none')}"
                yield Breakage(at, told, name)
    if new.get("pattern", old.get("pattern")) != old.get("pattern"):
        yield Breakage(at, f"has to match {new['pattern']} now", name)


def _is_closed(schema: Schema) -> bool:
    return schema.get("additionalProperties") is False
