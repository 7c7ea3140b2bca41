"""Who may import whom: rooms one way, modules without cycles, nobody another room's private names."""

import ast
from collections import defaultdict
from collections.abc import Iterator
from graphlib import CycleError, TopologicalSorter
from pathlib import Path

import pytest

import adalin

SOURCE = Path(adalin.__file__).parent
MODULES = {
    ".".join(("adalin", *path.relative_to(SOURCE).with_suffix("").parts)).removesuffix(".__init__"): path
    for path in SOURCE.rglob("*.py")
}


def room_of(module: str) -> str:
    """The first part below adalin that is a folder; files at the top are shared by all."""
    part = module.split(".")[1] if "." in module else ""
    return part if (SOURCE / part).is_dir() else ""


def is_for_types_only(node: ast.AST) -> bool:
    return isinstance(node, ast.If) and ast.unparse(node.test) == "TYPE_CHECKING"


def imports_of(tree: ast.AST) -> Iterator[str]:
    """Every adalin module or name that is imported anywhere in a file, inside functions too."""
    for node in ast.iter_child_nodes(tree):
        if is_for_types_only(node):
            continue
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names if alias.name.split(".")[0] == "adalin")
        elif isinstance(node, ast.ImportFrom) and (node.module or "").split(".")[0] == "adalin":
            for alias in node.names:
                whole = f"{node.module}.{alias.name}"
                yield whole if whole in MODULES else f"{node.module}:{alias.name}"
        yield from imports_of(node)


IMPORTS = {module: sorted(set(imports_of(ast.parse(path.read_text("utf-8"))))) for module, path in MODULES.items()}


def private_imports(module: str, own: str) -> list[str]:
    found = []
    for target in IMPORTS[module]:
        name, _, attribute = target.partition(":")
        other = room_of(name)
        parts = [*name.split(".")[2:], *([attribute] if attribute else [])]
        if other not in ("", own) and any(part.startswith("_") and part != "__version__" for part in parts):
            found.append(target)
    return found


@pytest.mark.parametrize("module", [module for module in MODULES if room_of(module)])
def test_no_room_imports_private_names_of_another(module):
    assert private_imports(module, room_of(module)) == []


TESTS = Path(__file__).parent
ROOMS_OF_TESTS = {"native": ("native", "nn")}  # where the layer meets its kernels


def private_names_of_others(path: Path) -> list[str]:
    """The private names of rooms other than its own that a test imports."""
    room = path.relative_to(TESTS).parts[0]
    own = ROOMS_OF_TESTS.get(room, (room,))
    found = []
    for target in imports_of(ast.parse(path.read_text("utf-8"))):
        names = target.replace(":", ".").split(".")[1:]
        if room_of(target.partition(":")[0]) not in ("", *own) and any(name.startswith("_") for name in names):
            found.append(target)
    return found


@pytest.mark.parametrize("path", sorted(TESTS.glob("*/**/*.py")), ids=lambda path: str(path.relative_to(TESTS)))
def test_tests_reach_into_their_own_room_only(path: Path):
    assert private_names_of_others(path) == []


def check_acyclic(graph: dict[str, set[str]]) -> None:
    try:
        TopologicalSorter(graph).prepare()
    except CycleError as error:
        pytest.fail(" imports ".join(error.args[1][::-1]))


def test_rooms_import_each_other_one_way():
    graph: dict[str, set[str]] = defaultdict(set)
    for module, targets in IMPORTS.items():
        for target in targets:
            other = room_of(target.partition(":")[0])
            if room_of(module) and other and other != room_of(module):
                graph[room_of(module)].add(other)
    check_acyclic(graph)


@pytest.mark.parametrize("room", sorted({room_of(module) for module in MODULES} - {""}))
def test_modules_of_a_room_have_no_import_cycle(room):
    inside = {module for module in MODULES if room_of(module) == room}
    check_acyclic({module: {target.partition(":")[0] for target in IMPORTS[module]} & inside for module in inside})


def private_attributes(tree: ast.AST) -> tuple[set[str], set[str]]:
    """Attributes with an underscore: those that a file gives its own objects, and those that it takes of others."""
    own, others = set(), set()
    for node in ast.walk(tree):
        if isinstance(node, ast.FunctionDef):
            own.add(node.name)
        elif isinstance(node, ast.AnnAssign) and isinstance(node.target, ast.Name):
            own.add(node.target.id)
        elif isinstance(node, ast.Attribute) and node.attr.startswith("_") and not node.attr.startswith("__"):
            is_own = isinstance(node.value, ast.Name) and node.value.id in ("self", "cls")
            (own if is_own else others).add(node.attr)
    return own, others - own


OF_TORCH = {"_modules", "_parameters", "_buffers", "_schema"}
"""Attributes of torch's own objects, of which a room may have a namesake."""


def test_no_room_takes_private_attributes_of_anothers_objects():
    found = {module: private_attributes(ast.parse(path.read_text("utf-8"))) for module, path in MODULES.items()}
    taken = {
        (module, name, other)
        for module, (_, others) in found.items()
        for other, (own, _) in found.items()
        for name in others & own
        if room_of(other) != room_of(module)
    }
    assert {place for place in taken if place[1] not in OF_TORCH} == set()


NAMED_TWICE = {"Base", "Network"}
"""Classes that have a namesake: a base and its number in the kernels, and networks as three rooms see them."""


def test_no_two_classes_have_one_name():
    places = defaultdict(list)
    for module, path in MODULES.items():
        for node in ast.walk(ast.parse(path.read_text("utf-8"))):
            if isinstance(node, ast.ClassDef):
                places[node.name].append(module)
    assert {name: found for name, found in places.items() if len(found) > 1 and name not in NAMED_TWICE} == {}


def test_a_cycle_inside_functions_is_found():
    tree = ast.parse("def f():\n    from adalin.runs import Run")
    assert list(imports_of(tree)) == ["adalin.runs:Run"]
    with pytest.raises(pytest.fail.Exception, match=r"b imports a|a imports b"):
        check_acyclic({"a": {"b"}, "b": {"a"}})
