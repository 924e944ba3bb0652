# SPDX-License-Identifier: Apache-2.0
"""Checks a results.json against the table in docs/results.md: `| \\`path\\` | type or type | meaning |`.

In a path, `name[]` is each element of a list and `{word}` any member. A field of the table that never occurs is fine
only below a list that may be empty or an object that may be null; schema_breaches() says what breaks the table.
"""
import re

TYPES = {
    "string": lambda value: isinstance(value, str),
    "integer": lambda value: isinstance(value, int) and not isinstance(value, bool),
    "number": lambda value: isinstance(value, (int, float)) and not isinstance(value, bool),
    "boolean": lambda value: isinstance(value, bool),
    "null": lambda value: value is None,
}


def documented_fields(markdown, heading):
    """{path: [types]} of the table under the heading that begins with `## heading`."""
    section = markdown.partition(f"\n## {heading}")[2].partition("\n## ")[0]
    fields = {}
    for row in re.finditer(r"^\| `([^`]+)` \| ([a-z ]+) \|", section, re.MULTILINE):
        fields[row[1]] = row[2].split(" or ")
    return fields


def _leaves(value, path):
    """Every (path, leaf); empty objects and lists have none."""
    if isinstance(value, dict):
        for name, member in value.items():
            yield from _leaves(member, f"{path}.{name}" if path else name)
    elif isinstance(value, list):
        for element in value:
            yield from _leaves(element, path + "[]")
    else:
        yield path, value


def _pattern(field):
    return re.compile(re.sub(r"\\\{\w+\\\}", ".+", re.escape(field)))


def _required(fields, value, path=""):
    """Names of the members that the table wants in this object and that it does not have."""
    if isinstance(value, list):
        for element in value:
            yield from _required(fields, element, path + "[]")
    elif isinstance(value, dict):
        prefix = path + "." if path else ""
        for field in fields:
            match = re.match(_pattern(prefix).pattern + r"(\w+)", field)
            if match and match[1] not in value:
                yield prefix + match[1]
        for name, member in value.items():
            known = any(field.startswith(prefix + name) for field in fields)
            yield from _required(fields, member, prefix + (name if known else re.search(r"\{\w+\}", " ".join(
                field for field in fields if field.startswith(prefix + "{")) or "{}{none}")[0]))


def schema_breaches(markdown, results, heading="results.json"):
    fields = documented_fields(markdown, heading)
    patterns = {field: _pattern(field) for field in fields}
    breaches = [f"{path}: documented and missing" for path in _required(fields, results)]
    for path, value in _leaves(results, ""):
        field = next((name for name, pattern in patterns.items() if pattern.fullmatch(path)), None)
        if field is None:
            breaches.append(f"{path}: not documented")
        elif not any(TYPES[kind](value) for kind in fields[field]):
            breaches.append(f"{path}: {value!r} is no {' or '.join(fields[field])}")
    return sorted(set(breaches))
