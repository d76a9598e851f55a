# SPDX-License-Identifier: Apache-2.0
"""Figures about the code itself: how long, how repetitive, how far an operator's name spreads.

    python scripts/house_figures.py          # one line a figure, and what stands behind those that should be small
    python scripts/house_figures.py --all    # every name, class and function behind them
    python scripts/house_figures.py --measures   # what has a goal, beside it: lines, files, rooms that a compile enters

Counted by reading the sources with `ast`; only the operators' names come from the program.
"""

from __future__ import annotations

import argparse
import ast
import gc
import re
import sys
from collections import Counter, defaultdict
from collections.abc import Iterator, Mapping
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT))

import house_measures  # noqa: E402

from tinyc.ops import all_ops  # noqa: E402  of this checkout, wherever the installed one is

PACKAGE, RUNTIME = ROOT / "tinyc", ROOT / "runtime_c"
MOST_PARAMETERS = 6
COLUMNS = 110  # of C
# Here the words are instructions and fields of parameter structs: "add", "sub", "pad".
NOT_OPERATORS = ("kernels", "machine")

# Names that others gave; a key of reports; an operator. Their users would have to change what they wrote.
GIVEN = (
    "FileNotFoundError",
    "ModuleNotFoundError",
    "PackageNotFoundError",
    "made_of",
    "RecurrentKept",
    "recurrent_kept",
)

# They say which foreign operator becomes which of ours, or the other way round.
TRANSLATORS = ("load", "export")

Function = ast.FunctionDef | ast.AsyncFunctionDef
Trees = Mapping[str, ast.Module]


def trees(folder: Path = PACKAGE) -> Trees:
    """Every module of the package, or of another folder, by its path below it. A million nodes, none of which is
    garbage: to look for it, now and later, takes longer than to parse."""
    gc.disable()
    try:
        return {str(f.relative_to(folder)): ast.parse(f.read_text("utf-8")) for f in sorted(folder.rglob("*.py"))}
    finally:
        gc.freeze()
        gc.enable()


def functions(modules: Trees) -> Iterator[tuple[str, Function]]:
    for file, tree in modules.items():
        for node in ast.walk(tree):
            if isinstance(node, Function):
                yield file, node


def parameters(function: Function) -> int:
    """All but self and cls."""
    given = function.args
    names = [a.arg for a in (*given.posonlyargs, *given.args, *given.kwonlyargs)]
    return len([name for name in names if name not in ("self", "cls")])


def wide(modules: Trees) -> Iterator[tuple[str, Function]]:
    """Functions of more parameters than a reader keeps in mind; those of an operator are its inputs."""
    for file, function in functions(modules):
        inputs = file.startswith("ops/") and function.name in ("infer", "float_ref", "int_ref")
        if parameters(function) > MOST_PARAMETERS and not inputs:
            yield file, function


def lines_of(function: Function) -> int:
    return (function.end_lineno or function.lineno) - function.lineno + 1


def percentile(numbers: list[int], share: float) -> int:
    return sorted(numbers)[min(int(share * len(numbers)), len(numbers) - 1)]


def duplicate_classes(modules: Trees) -> dict[str, list[str]]:
    """Where each class name that is no file's own business (`_Name`) is defined, if in more than one place."""
    places: dict[str, list[str]] = defaultdict(list)
    for file, tree in modules.items():
        for node in ast.walk(tree):
            if isinstance(node, ast.ClassDef) and not node.name.startswith("_"):
                places[node.name].append(file)
    return {name: files for name, files in sorted(places.items()) if len(files) > 1}


def participles(modules: Trees) -> dict[str, list[str]]:
    """By file, names of which a word is one of `house_measures.PARTICIPLES`: `made`, `_kept`, `KnownCore`. Names of
    tests are sentences, and may have them."""
    fields = {ast.Name: "id", ast.Attribute: "attr", ast.arg: "arg", ast.keyword: "arg", ast.alias: "asname"}
    fields |= dict.fromkeys(
        (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef, ast.ExceptHandler, ast.MatchAs), "name"
    )
    places: dict[str, set[str]] = defaultdict(set)
    for file, tree in modules.items():
        for node in ast.walk(tree):
            name = getattr(node, fields.get(type(node), ""), None) or ""
            words = re.findall("[A-Z]?[a-z0-9]+|[A-Z]+", name)
            is_ours = name not in GIVEN and not name.startswith("test_")
            if is_ours and any(word.lower() in house_measures.PARTICIPLES for word in words):
                places[file].add(name)
    return {file: sorted(names) for file, names in places.items()}


def homes() -> dict[str, str]:
    """The file of every operator."""
    return {name: f"ops/{op.prepare.__module__.rpartition('.')[2]}.py" for name, op in all_ops().items()} | {
        name: f"ops/{op.attrs.__module__.rpartition('.')[2]}.py" for name, op in all_ops().items()
    }


def spelled(modules: Trees) -> dict[str, set[str]]:
    """By operator, the other files in which its name is a string."""
    places: dict[str, set[str]] = {name: set() for name in all_ops()}
    for file, tree in modules.items():
        if file.startswith(NOT_OPERATORS):
            continue
        for node in ast.walk(tree):
            if isinstance(node, ast.Constant) and isinstance(node.value, str) and node.value in places:
                places[node.value].add(file)
    return {name: files - {homes()[name]} for name, files in places.items()}


def imported(modules: Trees) -> dict[str, set[str]]:
    """By operator, the other files that import its attributes: to make such a node, or to ask for one."""
    by_class = {(op.attrs.__module__, op.attrs.__name__): name for name, op in all_ops().items()}
    places: dict[str, set[str]] = {name: set() for name in all_ops()}
    for file, tree in modules.items():
        for node in ast.walk(tree):
            for alias in node.names if isinstance(node, ast.ImportFrom) else ():
                name = by_class.get((getattr(node, "module", ""), alias.name))
                if name is not None and homes()[name] != file:
                    places[name].add(file)
    return places


def asked(modules: Trees) -> dict[str, set[str]]:
    """By operator, the other files that ask whether a node is one: its name compared, or its attributes' class used for
    more than to make them or to annotate a type. Who makes a node has to name it; who asks should ask for a trait."""
    by_class = {(op.attrs.__module__, op.attrs.__name__): name for name, op in all_ops().items()}
    places: dict[str, set[str]] = {name: set() for name in all_ops()}
    for file, tree in modules.items():
        names = {
            alias.asname or alias.name: by_class.get((node.module or "", alias.name))
            for node in ast.walk(tree)
            if isinstance(node, ast.ImportFrom)
            for alias in node.names
        }
        called = {id(node.func) for node in ast.walk(tree) if isinstance(node, ast.Call)}
        types = {id(name) for annotation in annotated(tree) for name in ast.walk(annotation)}
        for node in ast.walk(tree):
            if isinstance(node, ast.Name) and names.get(node.id) and id(node) not in called and id(node) not in types:
                places[str(names[node.id])].add(file)
            if isinstance(node, ast.Compare) and ast.unparse(node.left).endswith(".op"):
                compared = {c.value for c in ast.walk(node) if isinstance(c, ast.Constant)}
                for name in compared & places.keys():
                    places[str(name)].add(file)
    return {name: files - {homes()[name]} for name, files in places.items()}


def annotated(tree: ast.Module) -> Iterator[ast.expr]:
    for node in ast.walk(tree):
        if isinstance(node, ast.arg | ast.AnnAssign) and node.annotation is not None:
            yield node.annotation
        if isinstance(node, Function) and node.returns is not None:
            yield node.returns


def walks() -> dict[str, int]:
    """How many files docs/architecture.md takes a reader through, by what it follows: `A weight`."""
    text = (ROOT / "docs" / "architecture.md").read_text("utf-8").split("## Three walks")[1].split("\n## ")[0]
    paragraphs = (paragraph for paragraph in text.split("\n\n") if paragraph.startswith("*"))
    return {walk.split("*")[1]: len(set(re.findall(r"`([\w/]+\.py)`", walk))) for walk in paragraphs}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--all", action="store_true", help="what stands behind every figure")
    parser.add_argument("--measures", action="store_true", help="only the measures that have a goal, in half a minute")
    given = parser.parse_args()
    if given.measures:
        house_measures.print_all()
        return
    every = given.all
    modules = trees()
    python = sum(len(f.read_text("utf-8").splitlines()) for f in PACKAGE.rglob("*.py"))
    c = sum(len(f.read_text("utf-8").splitlines()) for f in RUNTIME.rglob("*.h*"))
    columns = [len(line) for f in RUNTIME.rglob("*.h") for line in f.read_text("utf-8").splitlines()]
    long = [lines_of(f) for _, f in functions(modules)]
    many = list(wide(modules))
    twice = duplicate_classes(modules)
    print(f"lines: {python} in tinyc/, {c} in runtime_c/, {python + c} together")
    print(f"lines of C over {COLUMNS} columns: {sum(length > COLUMNS for length in columns)}")
    print(f"functions: {len(long)}; lines p50 {percentile(long, 0.5)}, p90 {percentile(long, 0.9)}, most {max(long)}")
    rooms = Counter(file.split("/")[0] for file, _ in many)
    print(f"functions of more than {MOST_PARAMETERS} parameters: {len(many)} {dict(rooms)}")
    print(f"class names with more than one definition: {len(twice)}, {sum(map(len, twice.values()))} definitions")
    print(f"files of the walks in docs/architecture.md: {walks()}")
    strings, classes = spelled(modules), imported(modules)
    both = {name: strings[name] | classes[name] for name in strings}
    asks = asked(modules)
    here = {name: {f for f in files if not f.startswith(TRANSLATORS)} for name, files in asks.items()}
    counted = (
        *(("spelled", strings), ("imported", classes), ("named in either way", both), ("asked for", asks)),
        (f"asked for, those of {' and '.join(TRANSLATORS)} aside", here),
    )
    for what, places in counted:
        average = sum(map(len, places.values())) / len(places)
        print(f"other files in which an operator is {what}: {average:.1f} on average of {len(places)} operators")
        for name, files in sorted(places.items()) if every else ():
            print(f"  {name}: {' '.join(sorted(files))}")
    if every:
        for file, function in many:
            print(f"  {file}:{function.lineno} {function.name}: {parameters(function)} parameters")
        for name, homes_of_it in twice.items():
            print(f"  class {name}: {' '.join(homes_of_it)}")


if __name__ == "__main__":
    main()
