"""Everything public is documented: by a docstring of its own, and on a page of the API."""

import ast
import inspect
import pkgutil
import re
import shutil
import subprocess
import sys
from dataclasses import is_dataclass
from functools import cached_property
from importlib import import_module
from importlib.util import find_spec
from itertools import pairwise
from pathlib import Path
from textwrap import dedent

import pytest

import adalin
from adalin.data import datasets
from adalin.methods import methods
from adalin.metrics import metrics
from adalin.models import models
from adalin.streams import benchmarks
from noun_phrases import is_noun_phrase

ROOT = Path(__file__).parent.parent
# What is public in adalin.nn is a name of adalin; the command line is no API.
SUBPACKAGES = [f"adalin.{part.name}" for part in pkgutil.iter_modules(adalin.__path__) if part.ispkg]
PACKAGES = ["adalin", *(package for package in SUBPACKAGES if package not in ("adalin.nn", "adalin.cli"))]
SYMBOLS = [(package, name) for package in PACKAGES for name in import_module(package).__all__]
SUMMARIES = {
    "benchmark": {name: benchmark.summary for name, benchmark in benchmarks().items()},
    "method": {name: method.summary for name, method in methods().items()},
    "metric": {name: metric.summary for name, metric in metrics().items()},
    "activation": {name: activation.summary for name, activation in adalin.activations().items()},
    "model": models(),
    "data set": datasets(),
}


def page_of(package):
    return f"api/{package.removeprefix('adalin.')}.md"


def members(cls):
    """The public methods and properties that a class adds to those of its bases."""
    for name, member in vars(cls).items():
        inherited = any(name in vars(base) for base in cls.__mro__[1:])
        if name.startswith("_") or inherited:
            continue
        if isinstance(member, property | cached_property | classmethod | staticmethod) or inspect.isfunction(member):
            yield name, member


def field_docstrings(cls):
    """The docstring under each public field that a dataclass adds to those of its bases, None where there is none."""
    if not is_dataclass(cls) or "__dataclass_fields__" not in vars(cls):
        return {}
    (definition,) = ast.parse(dedent(inspect.getsource(cls))).body
    found = {}
    for statement, below in pairwise([*definition.body, None]):
        if isinstance(statement, ast.AnnAssign) and not statement.target.id.startswith("_"):
            is_text = isinstance(below, ast.Expr) and isinstance(below.value, ast.Constant)
            found[f"{cls.__name__}.{statement.target.id}"] = below.value.value if is_text else None
    return found


def attribute_docstrings(package):
    """The names that are assigned at the top level of a file of the package, with a docstring right below."""
    for file in Path(import_module(package).__file__).parent.rglob("*.py"):
        body = ast.parse(file.read_text()).body
        for statement, below in pairwise(body):
            if isinstance(below, ast.Expr) and isinstance(below.value, ast.Constant) and below.value.value:
                targets = getattr(statement, "targets", [getattr(statement, "target", None)])
                yield from (target.id for target in targets if isinstance(target, ast.Name))


@pytest.mark.parametrize(("package", "name"), SYMBOLS, ids=[".".join(symbol) for symbol in SYMBOLS])
def test_a_public_symbol_has_a_docstring_of_its_own(package, name):
    symbol = getattr(import_module(package), name)
    if inspect.isclass(symbol):
        docstrings = {name: vars(symbol).get("__doc__")}
        docstrings |= {f"{name}.{member}": inspect.getdoc(value) for member, value in members(symbol)}
        docstrings |= field_docstrings(symbol)
    elif inspect.isroutine(inspect.unwrap(symbol)):
        docstrings = {name: symbol.__doc__}
    else:
        assert name in attribute_docstrings(package), f"{name} needs a docstring below its assignment"
        return
    # A dataclass without a docstring gets its signature for one.
    assert [key for key, text in docstrings.items() if not text or text.startswith(f"{key}(")] == []
    # mkdocstrings knows this section in the plural.
    assert [key for key, text in docstrings.items() if re.search(r"^ *Example:", text, re.MULTILINE)] == []


CLASSES = {cls for package, name in SYMBOLS if inspect.isclass(cls := getattr(import_module(package), name))}
FIELDS = {field: text for cls in CLASSES for field, text in field_docstrings(cls).items()}


def described_fields(tree):
    """The text under each field of the classes of a file, public or not."""
    for cls in ast.walk(tree):
        for field, text in pairwise(cls.body if isinstance(cls, ast.ClassDef) else []):
            if isinstance(field, ast.AnnAssign) and isinstance(text, ast.Expr) and isinstance(text.value, ast.Constant):
                yield f"{cls.name}.{ast.unparse(field.target)}", " ".join(str(text.value.value).split())


def test_the_text_under_any_field_is_a_noun_phrase():
    found = {}
    for path in Path(adalin.__file__).parent.rglob("*.py"):
        found |= dict(described_fields(ast.parse(path.read_text("utf-8"))))
    assert len(found) > 500
    assert {field: text for field, text in found.items() if not is_noun_phrase(text)} == {}


@pytest.mark.parametrize("field", sorted(FIELDS))
def test_the_docstring_of_a_public_field_is_a_noun_phrase_that_stands_alone(field):
    assert is_noun_phrase(re.sub(r'[:;] "[^"]*"\.$', ".", FIELDS[field]))


@pytest.mark.parametrize("package", PACKAGES)
def test_a_public_package_has_a_page(package):
    assert import_module(package).__doc__
    assert (ROOT / "docs" / page_of(package)).read_text() == f"::: {package}\n"
    assert (ROOT / "zensical.toml").read_text().count(f'{{ "{package}" = "{page_of(package)}" }}') == 1


@pytest.mark.parametrize("kind", SUMMARIES)
def test_what_is_registered_has_a_line_about_it(kind):
    assert [name for name, line in SUMMARIES[kind].items() if len(line.splitlines()) != 1] == []


@pytest.mark.skipif(
    not (find_spec("zensical") and find_spec("mkdocstrings_handlers")), reason="needs the docs extra (make docs)"
)
def test_the_site_builds_without_a_warning_has_every_symbol_and_loads_nothing_from_other_hosts(tmp_path):
    for folder in ("docs", "src"):
        shutil.copytree(ROOT / folder, tmp_path / folder, ignore=shutil.ignore_patterns("__pycache__"))
    shutil.copy(ROOT / "zensical.toml", tmp_path)
    command = [sys.executable, "-m", "zensical", "build", "--strict"]
    built = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=False)
    said = built.stdout + built.stderr
    assert built.returncode == 0, said
    assert not re.search(r"warning|griffe:|mkdocstrings:", said, re.IGNORECASE), said
    site = tmp_path / "site"
    pages = {page: page.read_text() for page in site.rglob("*.html")}
    homes = {package: (site / page_of(package)).with_suffix(".html") for package in PACKAGES}
    assert [symbol for symbol in SYMBOLS if f'id="{".".join(symbol)}"' not in pages[homes[symbol[0]]]] == []
    foreign = r"<(?:script|link|img|iframe|source)\b[^>]*(?:src|href)=[\"']?(?:https?:)?//[^>]*>"
    assert [match for text in pages.values() for match in re.findall(foreign, text)] == []
