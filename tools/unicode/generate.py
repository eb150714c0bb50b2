#!/usr/bin/env python3
"""Makes core/tokenizer/unicode_tables.{c,h} from the measured tables in tools/unicode/data.

The files in data/ were measured on the reference (Hugging Face tokenizers 0.23.3), which uses five
versions of Unicode at once; no library's tables agree with it, so these decide ids and nothing else.

    tools/unicode/generate.py          writes both files
    tools/unicode/generate.py --check  exits 1 if a file differs from what would be written

To add a character class: a row in CLASSES. To add a mapping: a call of `mapping` in `tables`.
"""
import json
import os
import sys

HERE = os.path.dirname(os.path.abspath(__file__))
OUT = os.path.join(HERE, "..", "..", "core", "tokenizer", "unicode_tables")
CODE_POINTS = 0x110000

# flag in C, class in classes.json
CLASSES = (
    ("CLEAN_REMOVED", "bert_clean_removed"),
    ("CLEAN_SPACE", "bert_clean_to_space"),
    ("CJK", "bert_cjk"),
    ("ACCENT", "bert_accent_removed"),
    ("MARK", "strip_accents_removed"),
    ("SPACE", "rust_whitespace"),
    ("PUNCT", "punctuation"),
    ("WORD", "regex_word"),
    ("NUMERIC", "rust_numeric"),
)
HANGUL = range(0xAC00, 0xD7A4)  # decomposed by formula


def load(name):
    with open(os.path.join(HERE, "data", name + ".json"), encoding="utf-8") as f:
        return json.load(f)


def load_mapping(table):
    return {int(k, 16): v for k, v in table.items()}


def expand(mapping):
    """Full decompositions: every element is itself expanded."""

    def full(cp):
        return [x for part in mapping[cp] for x in full(part)] if cp in mapping else [cp]

    return {cp: full(cp) for cp in mapping}


def split(values):
    """The two-stage form of `values` that takes the least room: (shift, index, blocks)."""
    best = None
    for shift in range(4, 10):
        size = 1 << shift
        padded = values + [0] * (-len(values) % size)
        blocks, seen, index = [], {}, []
        for at in range(0, len(padded), size):
            block = tuple(padded[at:at + size])
            if block not in seen:
                seen[block] = len(seen)
                blocks.extend(block)
            index.append(seen[block])
        cost = len(index) * width(index) + len(blocks) * width(blocks)
        if best is None or cost < best[0]:
            best = (cost, shift, index, blocks)
    return best[1:]


def width(values):
    return 1 if max(values) < 256 else 2 if max(values) < 65536 else 4


class Writer:
    def __init__(self):
        self.header, self.source, self.bytes = [], [], 0

    def array(self, ctype, size, name, values):
        self.header.append(f"extern const {ctype} lam__unicode_{name}[{len(values)}];")
        self.source.append(f"const {ctype} lam__unicode_{name}[{len(values)}] = {{")
        line = "   "
        for v in values:
            item = f" {v},"
            if len(line) + len(item) > 100:
                self.source.append(line)
                line = "   "
            line += item
        self.source.append(line)
        self.source.append("};")
        self.bytes += size * len(values)

    def unsigned(self, name, values):
        size = width(values)
        self.array(f"uint{size * 8}_t", size, name, values)

    def two_stage(self, name, values):
        """values[cp]; code points from LAM__UNICODE_<NAME>_END on have 0."""
        end = max(cp for cp in range(len(values)) if values[cp]) + 1
        shift, index, blocks = split(values[:end])
        end = len(index) << shift
        self.header.append(f"enum {{ LAM__UNICODE_{name.upper()}_SHIFT = {shift}, "
                           f"LAM__UNICODE_{name.upper()}_END = {end} }};")
        self.unsigned(name + "_index", index)
        self.unsigned(name + "_blocks", blocks)

    def mapping(self, name, table):
        """cp -> a sequence: a place in `<name>_pool`, where the length stands before the sequence."""
        values, pool, seen = [0] * CODE_POINTS, [0], {}
        for cp in sorted(table):
            key = tuple(table[cp])
            if key not in seen:
                seen[key] = len(pool)
                pool.extend([len(key), *key])
            values[cp] = seen[key]
        self.two_stage(name, values)
        self.unsigned(name + "_pool", pool)


def properties(canonical, lower):
    classes, flags = load("classes"), [0] * CODE_POINTS
    rows = [(name, classes[key]) for name, key in CLASSES]
    rows.append(("LOWER", [[cp, cp] for cp in lower]))
    rows.append(("CANONICAL", [[cp, cp] for cp in (*canonical, *HANGUL)]))
    for bit, (_, ranges) in enumerate(rows):
        for first, last in ranges:
            for cp in range(first, last + 1):
                flags[cp] |= 1 << bit
    split_classes = {cp for a, b in classes["bert_pretokenizer_split"] for cp in range(a, b + 1)}
    both = 1 << 5 | 1 << 6
    assert all((cp in split_classes) == bool(flags[cp] & both) for cp in range(CODE_POINTS))
    assert classes["regex_space"] == classes["rust_whitespace"]
    for ccc, ranges in load("ccc").items():
        for first, last in ranges:
            for cp in range(first, last + 1):
                flags[cp] |= int(ccc) << 24
    return [name for name, _ in rows], flags


def tables():
    w = Writer()
    canonical = expand(load_mapping(load("decompositions")["canonical"]))
    lower = load_mapping(load("casing"))
    names, flags = properties(canonical, lower)
    w.header.append("/* Properties: the combining class in the top byte, below it these flags. */")
    w.header.append("enum {")
    for bit, name in enumerate(names):
        w.header.append(f"    LAM__UNICODE_{name} = 1 << {bit},")
    w.header.append("};")
    records = sorted(set(flags), key=lambda f: (f != 0, f))
    number = {f: i for i, f in enumerate(records)}
    w.two_stage("class", [number[f] for f in flags])
    w.array("uint32_t", 4, "class_flags", records)
    w.mapping("lower", lower)
    w.mapping("canonical", canonical)
    return w


def text():
    w = tables()
    note = "/* Generated by tools/unicode/generate.py; do not edit. */\n/* clang-format off */\n"
    guard = "LAM_TOKENIZER_UNICODE_TABLES_H"
    header = (f"{note}#ifndef {guard}\n#define {guard}\n\n#include <stdint.h>\n\n" +
              "\n".join(w.header) + "\n\n#endif\n")
    source = (f"{note}/* {w.bytes} bytes of tables. */\n"
              '#include "core/tokenizer/unicode_tables.h"\n\n' + "\n".join(w.source) + "\n")
    return {".h": header, ".c": source}


def main():
    status = 0
    for suffix, content in text().items():
        path = os.path.normpath(OUT + suffix)
        if "--check" in sys.argv[1:]:
            with open(path, encoding="utf-8") as f:
                if f.read() != content:
                    print(f"{path}: differs from what tools/unicode/generate.py makes")
                    status = 1
        else:
            with open(path, "w", encoding="utf-8") as f:
                f.write(content)
    return status


sys.exit(main())
