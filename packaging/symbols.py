#!/usr/bin/env python3
"""The symbols of an ELF file with 64 bits and little endian.

    symbols.py renames FILE   prints the names that contain a hash of LLVM, each with the name without it
    symbols.py sort FILE      sorts the symbols of each file of sources

A function that LLVM shares among modules has the hash of its module in its name. The hash varies between builds
with the same instructions, because LLVM orders some operands by their addresses. The linker orders symbols by these
names."""

import re
import struct
import sys

SYMBOL_BYTES = 24
SYMBOL_TABLE = 2
FILE = 4
HASH = re.compile(rb"\.llvm\.[0-9]+")


def main():
    action, path = sys.argv[1:]
    {"renames": print_renames, "sort": sort}[action](path)


def print_renames(path):
    with open(path, "rb") as file:
        data = file.read()
    for section, names_at in tables(data):
        for symbol in section.symbols(data):
            start = names_at + struct.unpack_from("<I", symbol)[0]
            name = data[start:data.index(0, start)]
            if HASH.search(name):
                print(name.decode(), HASH.sub(b"", name).decode())


def sort(path):
    with open(path, "r+b") as file:
        data = file.read()
        for section, _ in tables(data):
            symbols = section.symbols(data)
            local, of_all = symbols[:section.globals_from], symbols[section.globals_from:]
            # A run has the local symbols of a file, or all global symbols.
            starts = [at for at, symbol in enumerate(local) if is_file(symbol)]
            ends = [0, *starts, len(local)]
            runs = [local[start:end] for start, end in zip(ends, ends[1:])] + [of_all]
            file.seek(section.at)
            file.write(b"".join(symbol for run in runs for symbol in sorted(run, key=place)))


class Section:
    """A row of the table of sections."""

    def __init__(self, data, at):
        _, self.kind, _, _, self.at, self.bytes, self.link, self.globals_from = struct.unpack_from("<IIQQQQII", data, at)

    def symbols(self, data):
        return [data[at:at + SYMBOL_BYTES] for at in range(self.at, self.at + self.bytes, SYMBOL_BYTES)]


def tables(data):
    """The tables of symbols, each with the place of its names. A stripped file has none."""
    table, = struct.unpack_from("<Q", data, 40)
    size, count = struct.unpack_from("<HH", data, 58)
    sections = [Section(data, table + size * number) for number in range(count)]
    return [(it, sections[it.link].at) for it in sections if it.kind == SYMBOL_TABLE]


def is_file(symbol):
    return symbol[4] & 15 == FILE


def place(symbol):
    """The file itself comes first, the others by their bytes from section to size, then by the rest."""
    return not is_file(symbol), symbol[8:], symbol


main()
