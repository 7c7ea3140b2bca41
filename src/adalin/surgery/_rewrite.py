"""New code for an owner whose own code calls activations: its source, with these calls changed and nothing else.

The changed functions become methods of a subclass of the owner's class. The subclass keeps its class's name, is the
same for owners that are changed alike, and is made again where it is unpickled.
"""

import ast
import copy
import copyreg
import functools
import inspect
import linecache
import types
import zlib
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from torch import Tensor, nn

from adalin.nn import AdaLin
from adalin.structure import made_call, parse
from adalin.surgery._redirect import Way, redirected

Place = tuple[int, str] | Callable[..., Any]


@dataclass(frozen=True)
class Edit:
    """A change of one call."""

    call: int
    """Number of the call in its function."""
    kind: str
    """Kind of edit. "direct": a layer instead; "counted", "guarded": `call_site` decides; "helper": another function;
    "passed": as it is, but it says where it stands."""
    target: str = ""
    """Path of the layer, or name of the function."""
    key: int = 0
    """Number of the call in the owner."""
    writes_back: bool = False
    """Whether the result also takes its input's place."""
    passes: bool = False
    """Whether the function called must know where its call stands."""


@dataclass(frozen=True)
class Changed:
    """A function with changes."""

    place: Place
    name: str
    self_name: str
    is_method: bool
    counts: bool
    """Whether its calls are told apart by the way to them and by how often they are made."""
    edits: tuple[Edit, ...]
    digest: int
    """Checksum of the source that the changes are meant for."""


@dataclass(frozen=True)
class SitesOfCall:
    """Layers of one call, in the order in which one run comes by."""

    path: tuple[int, ...]
    layers: tuple[str, ...]
    writes_back: bool
    function: str
    """Name of the function that the call must have; empty where the code leaves no choice, or it calls a module."""


@dataclass(frozen=True)
class Rewriting:
    """All that makes the new class from the old one."""

    functions: tuple[Changed, ...] = ()
    sites: tuple[SitesOfCall, ...] = ()
    ways: tuple[tuple[Way, tuple[str, ...]], ...] = ()
    """Layers of calls whose source nobody has."""
    switches: tuple[str, ...] = ()
    """Modules that stand in several such calls."""
    methods: tuple[str, ...] = ()
    """Methods in which such calls may be made."""

    def __deepcopy__(self, memo: dict[int, Any]) -> "Rewriting":
        return self


def digest_of(function: types.FunctionType) -> int:
    """Checksum of a function's source."""
    parsed = parse(function)
    return zlib.crc32(ast.dump(parsed.tree).encode()) if parsed is not None else 0


def apply(module: nn.Module, recipe: Rewriting) -> None:
    """Give a module the class that a recipe makes of its own."""
    module.__class__ = converted_class(type(module), recipe)


_classes: dict[tuple[Any, Rewriting], type[nn.Module]] = {}


def converted_class(cls: type[nn.Module], recipe: Rewriting) -> type[nn.Module]:
    """The subclass of a class with changed functions; the same one for the same changes."""
    if (cls, recipe) not in _classes:
        _classes[cls, recipe] = _made_class(cls, recipe)
    return _classes[cls, recipe]


def _made_class(cls: type[nn.Module], recipe: Rewriting) -> type[nn.Module]:
    body: dict[str, Any] = {"__module__": cls.__module__, "__doc__": cls.__doc__, "__qualname__": cls.__qualname__}
    body |= {changed.name: _changed(cls, changed) for changed in recipe.functions}
    codes = frozenset(code for way, _ in recipe.ways for code, _ in way)
    for name in recipe.methods:
        body[name] = redirected(body.get(name) or getattr(cls, name), dict(recipe.ways), codes, recipe.switches)
    body["_adalin_sites"] = dict(getattr(cls, "_adalin_sites", {})) | {site.path: site for site in recipe.sites}
    body["_adalin_call"], body["_adalin_inplace"] = call_site, _write_back
    body["_adalin_origin"] = origin_of(cls)[0], (*origin_of(cls)[1], recipe)
    body["__reduce_ex__"] = _reduce
    if issubclass(cls, nn.TransformerDecoderLayer):
        body["__setstate__"] = _set_decoder_state
    return type(cls.__name__, (cls,), body)


def origin_of(cls: type[nn.Module]) -> tuple[type[nn.Module], tuple[Rewriting, ...]]:
    """The class that was converted first, and what was done to it."""
    origin: tuple[type[nn.Module], tuple[Rewriting, ...]] = vars(cls).get("_adalin_origin", (cls, ()))
    return origin


def _reduce(self: nn.Module, protocol: Any) -> Any:
    cls = type(self)
    first: Any = [c for c in cls.__mro__ if "_adalin_origin" in vars(c)][-1]
    reduced = super(first, self).__reduce_ex__(protocol)
    plain = isinstance(reduced, tuple) and reduced[0] is copyreg.__newobj__ and reduced[1] == (cls,)  # type: ignore[attr-defined]
    return (_new, origin_of(cls), *reduced[2:]) if plain and "_adalin_origin" in vars(cls) else reduced


def _new(cls: type[nn.Module], recipes: tuple[Rewriting, ...]) -> nn.Module:
    for recipe in recipes:
        cls = converted_class(cls, recipe)
    return cls.__new__(cls)


def _set_decoder_state(self: nn.Module, state: dict[str, Any]) -> None:
    """Torch's own takes ReLU unless the state has the activation as a plain attribute; a module is none."""
    nn.Module.__setstate__(self, state)


def call_site(self: nn.Module, at: Any, key: int, callee: Any, *args: Any, **kwargs: Any) -> Any:
    """What a changed call does where the code alone does not say which layer it is."""
    counts, path = ({}, ()) if at is None else at
    full = (*path, key)
    sites = type(self)._adalin_sites.get(full)  # type: ignore[attr-defined]
    if sites is None and path:
        full = (key,)
        sites = type(self)._adalin_sites.get(full)  # type: ignore[attr-defined]
    if sites is None or not _is_meant(sites, callee):
        return callee(*args, **kwargs)
    nth = counts.get(full, 0)
    counts[full] = nth + 1
    if nth >= len(sites.layers):
        if len(sites.layers) > 1:
            raise RuntimeError(
                f"{type(self).__name__} calls an activation more than {len(sites.layers)} times, as often as when it "
                "was converted: convert it with an example= of the longest kind, or use AdaLin layers in its code"
            )
        nth = 0
    if not sites.layers[nth]:
        return callee(*args, **kwargs)
    layer = self.get_submodule(sites.layers[nth])
    value: Any = args[0] if args else kwargs.get("input", getattr(callee, "__self__", None))
    return _write_back(self, layer, value) if sites.writes_back else layer(value)


def _is_meant(sites: SitesOfCall, callee: Any) -> bool:
    if isinstance(callee, nn.Module):
        return isinstance(callee, AdaLin)
    return not sites.function or getattr(callee, "__name__", "").rstrip("_") == sites.function


def _write_back(self: nn.Module, layer: nn.Module, value: Tensor) -> Tensor:
    """What an in-place activation does: its result takes the input's place, for all who read that later."""
    return value.copy_(layer(value.clone()))


def _changed(cls: type[nn.Module], changed: Changed) -> Any:
    """The function with its changes, inside the decorators it had."""
    holder: Any = changed.place
    if isinstance(holder, tuple):
        holder = vars(cls.__mro__[holder[0]])[holder[1]]
    inner = inspect.unwrap(holder)
    if digest_of(inner) != changed.digest:
        raise RuntimeError(f"the source of {inner.__qualname__} is no longer that of the conversion: convert again")
    return _rewrapped(holder, inner, _compiled(inner, changed))


def _compiled(function: types.FunctionType, changed: Changed) -> types.FunctionType:
    parsed = parse(function)
    assert parsed is not None
    tree = copy.deepcopy(parsed.tree)
    calls = [node for node in ast.walk(tree) if isinstance(node, ast.Call)]
    me = ast.Name(changed.self_name, ast.Load())
    counted_already = any(argument.arg == "_adalin_at" for argument in tree.args.kwonlyargs)
    for edit in changed.edits:
        _edit(calls[edit.call], edit, me, changed.counts or counted_already)
    tree.decorator_list = []
    if not changed.is_method:
        tree.args.posonlyargs.insert(0, ast.arg(changed.self_name)) if tree.args.posonlyargs else tree.args.args.insert(
            0, ast.arg(changed.self_name)
        )
    if changed.counts and not counted_already:
        tree.args.kwonlyargs.append(ast.arg("_adalin_at"))
        tree.args.kw_defaults.append(ast.Constant(None))
        tree.body.insert(0, ast.parse("_adalin_at = ({}, ()) if _adalin_at is None else _adalin_at").body[0])
    code = function.__code__
    names = function.__qualname__.split(".")
    inside: ast.stmt = tree
    if changed.is_method and len(names) > 1:  # for names that begin with two underscores, and for super()
        inside = ast.ClassDef(names[-2], [], [], [tree], [])
    free = [name for name in code.co_freevars if name != "__class__"]
    arguments = ast.arguments([], [ast.arg(name) for name in free], None, [], [], None, [])
    factory = ast.FunctionDef("_adalin_factory", arguments, [inside], [])
    text = ast.unparse(ast.fix_missing_locations(ast.Module([factory], [])))
    filename = f"<converted {code.co_filename}:{code.co_firstlineno} {zlib.crc32(text.encode()):08x}>"
    linecache.cache[filename] = (len(text), None, text.splitlines(keepends=True), filename)
    flags = code.co_flags & _FUTURE
    new = _code_named(compile(text, filename, "exec", flags, dont_inherit=True), tree.name)
    cells = dict(zip(code.co_freevars, function.__closure__ or (), strict=True))
    made = types.FunctionType(
        new,
        function.__globals__,
        function.__name__,
        function.__defaults__,
        tuple(cells[name] for name in new.co_freevars),
    )
    made.__kwdefaults__ = {**(function.__kwdefaults__ or {}), "_adalin_at": None}
    made.__module__, made.__qualname__, made.__doc__ = function.__module__, function.__qualname__, function.__doc__
    made.__dict__.update({name: value for name, value in vars(function).items() if name != "__wrapped__"})
    made.__annotations__ = dict(function.__annotations__)
    if changed.counts and changed.is_method:
        made.__signature__ = inspect.signature(function)  # type: ignore[attr-defined]
    return made


_FUTURE = functools.reduce(
    lambda flags, name: flags | getattr(__import__("__future__"), name).compiler_flag,
    __import__("__future__").all_feature_names,
    0,
)


def _edit(call: ast.Call, edit: Edit, me: ast.Name, counts: bool) -> None:
    at = ast.Name("_adalin_at", ast.Load()) if counts else ast.Constant(None)
    if edit.kind == "direct":
        value = call.args[0] if call.args else next((k.value for k in call.keywords if k.arg == "input"), None)
        if value is None:  # x.relu()
            assert isinstance(call.func, ast.Attribute)
            value = call.func.value
        layer = _path(me, edit.target)
        call.func, call.args = (layer, [value])
        if edit.writes_back:
            call.func, call.args = ast.Attribute(me, "_adalin_inplace", ast.Load()), [layer, value]
        call.keywords = []
    elif edit.kind in ("counted", "guarded"):
        if made_call(call) is not call:  # what an earlier conversion left alone is asked after that
            inner = ast.unparse(ast.Call(call.func, [at, ast.Constant(edit.key), call.args[2]], []))
            call.args[2] = ast.parse(f"lambda *a, **k: {inner[:-1]}, *a, **k)", mode="eval").body
            return
        call.args = [at, ast.Constant(edit.key), call.func, *call.args]
        call.func = ast.Attribute(me, "_adalin_call", ast.Load())
    else:
        if edit.kind == "helper":
            call.func = ast.Attribute(me, edit.target, ast.Load())
        if edit.passes:
            passed = ast.parse(f"(_adalin_at[0], (*_adalin_at[1], {edit.key}))", mode="eval").body
            call.keywords.append(ast.keyword("_adalin_at", passed))


def _path(me: ast.Name, path: str) -> ast.expr:
    parts = path.split(".")
    if not all(part.isidentifier() for part in parts):
        return ast.parse(f"{me.id}.get_submodule({path!r})", mode="eval").body
    return ast.parse(".".join([me.id, *parts]), mode="eval").body


def _code_named(code: types.CodeType, name: str) -> types.CodeType:
    """The code of the one function in the factory."""
    inner = [constant for constant in code.co_consts if isinstance(constant, types.CodeType)]
    for one in inner:
        if one.co_name == name:
            return one
    return _code_named(inner[0], name)


def _rewrapped(holder: Any, inner: Any, new: Any) -> Any:
    """The decorators of a function around another one: copies of their wrappers."""
    if holder is inner:
        return new
    cells = []
    for cell in holder.__closure__ or ():
        try:
            value = cell.cell_contents
        except ValueError:
            cells.append(cell)
            continue
        reaches = inspect.isfunction(value) and inspect.unwrap(value) is inner
        cells.append(types.CellType(_rewrapped(value, inner, new)) if reaches else cell)
    copied = types.FunctionType(holder.__code__, holder.__globals__, holder.__name__, holder.__defaults__, tuple(cells))
    functools.update_wrapper(copied, holder)
    copied.__kwdefaults__ = holder.__kwdefaults__
    wrapped = getattr(holder, "__wrapped__", None)
    if wrapped is not None:
        copied.__wrapped__ = _rewrapped(wrapped, inner, new)  # type: ignore[attr-defined]
    return copied
