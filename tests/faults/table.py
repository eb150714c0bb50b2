"""Reads table.jsonl: one row of the fault catalogue a line, as data.

A text may hold ${expression}: Python over the model's facts (vocab, positions, max_items, ...), the case's
own `it`, and the helpers below. Texts are bytes written as Latin-1. `each` makes one case of a row for each
of its entries: a text is the case's `it`, an object overrides fields of the row.

Fields: row, name, server (see run.py), raw | post+body+headers | kind; status (0: closed without a reply),
code, then (k: connection kept, x: closed, any), within_ms, header, absent, param, index, limit, finite, texts,
half_close, repeat, slow; gap (what libmicrohttpd 0.9.75 does instead, which a head guard cannot see);
owner (why the row does not run here), suite (where it runs).
"""

import json
import os


def rep(text, count, between=","):
    return between.join([text] * count)


def ids(count):
    return ",".join(str(1 + i % 9) for i in range(count))


def hexa(number):
    return format(number, "x")


HELPERS = {"rep": rep, "ids": ids, "hexa": hexa, "len": len, "int": int, "min": min, "max": max,
           "range": range, "str": str}


def end_of_expression(text, at):
    """Index of the brace that ends the expression starting at `at`."""
    depth, quote = 0, ""
    while True:
        c = text[at]
        if quote:
            if c == "\\":
                at += 1
            elif c == quote:
                quote = ""
        elif c in "'\"":
            quote = c
        elif c in "{[(":
            depth += 1
        elif c in ")]}":
            if depth == 0:
                return at
            depth -= 1
        at += 1


def expand(text, names):
    if not isinstance(text, str):
        return text
    out, at = [], 0
    while True:
        start = text.find("${", at)
        if start < 0:
            out.append(text[at:])
            return "".join(out)
        end = end_of_expression(text, start + 2)
        out.append(text[at:start])
        scope = {"__builtins__": {}, **HELPERS, **names}
        out.append(str(eval(text[start + 2:end], scope)))  # our own table, not input
        at = end + 1


def read(path=os.path.join(os.path.dirname(__file__), "table.jsonl")):
    with open(path, encoding="utf-8") as f:
        return [json.loads(line) for line in f if line.strip()]


def cases(row):
    each = row.get("each")
    if each is None:
        return [row]
    made = []
    for entry in each:
        case = {k: v for k, v in row.items() if k != "each"}
        case.update(entry if isinstance(entry, dict) else {"it": entry})
        made.append(case)
    return made
