"""The hidden layers of any model, found by one run of it on an example."""

import copy
import math
from collections.abc import Callable, Iterable
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn.parameter import is_lazy

from adalin.structure._atoms import varying
from adalin.structure._calls import ActivationCall, ActivationWatch
from adalin.structure._flow import Flow, Node, tensors_in
from adalin.structure._undisturbed import undisturbed
from adalin.structure._units import Edge, Units

RESIDUAL = "its outputs are added to another layer's (a residual sum)"
"""Reason why units are entangled that are part of a stream."""
ENDS = ("lost", "output", "sum", "mixed")
READ_ELSEWHERE = "what it is given is read elsewhere too"


def find_units(
    model: nn.Module, *example: Any, call: Callable[[nn.Module], Any] | None = None, **keywords: Any
) -> list[Units]:
    """The hidden layers of a model, in the order in which it runs them.

    The model is run once, as `model(*example, **keywords)`, without gradients and in the mode it is in; buffers and
    random states are put back. A few samples are enough. A model that is not called by its forward is run by `call`.

    Each place that calls an activation gives one `Units`, gates and outputs too. What is not understood of one has a
    reason in `entangled`. A path that this run does not take is not seen.

    Examples:
        >>> import torch
        >>> from torch import nn
        >>> from adalin.structure import find_units
        >>> model = nn.Sequential(nn.Conv2d(3, 8, 3), nn.ReLU(), nn.Flatten(), nn.Linear(8 * 36, 2))
        >>> (layer,) = find_units(model, torch.zeros(1, 3, 8, 8))
        >>> layer.name, layer.width, layer.axis
        ('1', 8, -3)
        >>> layer.incoming, layer.outgoing
        ((Edge(parameter='0.weight', axis=0, start=0, copies=1, repeat=1),), \
(Edge(parameter='3.weight', axis=1, start=0, copies=1, repeat=36),))
    """
    if not isinstance(model, nn.Module):
        raise TypeError(f"find_units takes an nn.Module, not {type(model).__name__}")
    model = getattr(model, "_orig_mod", model)
    if call is not None and (example or keywords):
        raise TypeError("give an example, or call= that runs the model by itself, not both")
    run = call or (lambda model: model(*example, **keywords))
    if any(is_lazy(tensor) for tensor in [*model.parameters(), *model.buffers()]):
        model = copy.deepcopy(model)
        _run(model, run, nothing=True)
    flow = _run(model, run, example=(example, keywords))
    return _Analysis(model, flow).layers()


def _run(model: nn.Module, run: Callable[[nn.Module], Any], *, nothing: bool = False, example: Any = ()) -> Flow:
    device = next((p.device for p in model.parameters()), torch.device("cpu"))
    fast = torch.backends.mha.get_fastpath_enabled()
    torch.backends.mha.set_fastpath_enabled(False)
    try:
        with undisturbed(model, device, training=None), torch.no_grad():
            if nothing:
                run(model)
                return Flow(nn.Identity())
            flow = Flow(model)
            flow.give_inputs(tensors_in(example))
            with flow, _Sites(model, flow):
                result = run(model)
            flow.give_outputs(tensors_in(result))
            return flow
    except Exception as error:
        reason = str(error).strip().split("\n")[0] or type(error).__name__
        raise ValueError(f"{type(model).__name__} does not run on the example: {reason}") from error
    finally:
        torch.backends.mha.set_fastpath_enabled(fast)


class _Sites(ActivationWatch):
    def __init__(self, model: nn.Module, flow: Flow) -> None:
        super().__init__(model)
        self.flow = flow

    def before(self, call: ActivationCall, given: Tensor) -> Any:
        return self.flow.before(call, given)

    def after(self, call: ActivationCall, kept: Any, result: Any) -> None:
        self.flow.after(call, kept, result)


class _Analysis:
    """What one run says about the units of each site."""

    def __init__(self, model: nn.Module, flow: Flow) -> None:
        self.flow = flow
        self.root = flow.atoms.roots()
        self.trained = {name for name, _ in model.named_parameters()}
        self.fixed = {}
        for atoms, reason in flow.atoms.fixed:
            self.fixed.update(dict.fromkeys(self.root[atoms].tolist(), reason))
        ends = [atoms for node in flow.nodes if node.kind in ("lost", "output") for _, atoms in node.inputs]
        self.stuck = {
            root for atoms in [*ends, *(a for a, _ in flow.atoms.fixed)] for root in self.root[atoms].tolist()
        }
        self.groups: dict[int, int] = {}
        for atoms, groups in flow.atoms.grouped:
            for root in self.root[atoms].tolist():
                self.groups[root] = math.lcm(groups, self.groups.get(root, 1))
        self.places: dict[int, list[tuple[str, int]]] = {}
        for (name, axis), atoms in flow.atoms.axes.items():
            for root in set(self.root[atoms].tolist()):
                self.places.setdefault(root, []).append((name, axis))

    def layers(self) -> list[Units]:
        found: dict[str, Units] = {}
        for node in self.flow.nodes:
            if node.kind == "site":
                units = self._units(node)
                same = next((u.name for u in found.values() if u.incoming and u.incoming == units.incoming), units.name)
                if units.name not in found and _stem(same) != _stem(units.name):
                    same = units.name  # other activations may have the same inputs
                found[same] = _merged(found[same], units) if same in found else units
        return list(found.values())

    def _units(self, site: Node) -> Units:
        call = site.call
        assert call is not None
        if site.given is None or len(axes := varying(site.given)) != 1:
            reason = "its units are not known by any weights" if site.given is None else "its units have several axes"
            return Units(call.name, 0, -1, (), entangled=reason, activation=call.activation)
        (axis,) = axes
        index = tuple(slice(None) if k == axis else 0 for k in range(site.rank))
        roots = self.root[site.given[index]].tolist()
        return _SiteUnits(self, site, roots, axis - site.rank).units()


class _SiteUnits:
    """The units of one site."""

    def __init__(self, analysis: _Analysis, site: Node, roots: list[int], axis: int) -> None:
        self.analysis, self.site, self.axis = analysis, site, axis
        self.width = len(roots)
        self.index = {root: k for k, root in enumerate(roots)}
        self.roots = torch.tensor(roots)
        self.reason = ""
        self.ordered = False
        self.region = self._region()

    def units(self) -> Units:
        call = self.site.call
        assert call is not None
        if len(self.index) < self.width:
            self._because("some of its units are the same")
        self._because(next((self.analysis.fixed[r] for r in self.index if r in self.analysis.fixed), ""))
        through, carried = self._passes()
        readers = self._judge(through, carried)
        before = self._upstream()
        if self.reason:
            own, reading = before, [node for node, via in readers if via in self._behind()]
        else:
            own, reading = self.region, [node for node, _ in readers]
        products = [node for node in own if node.kind == "product"]
        norms = [node for node in own if node.kind == "norm"]
        incoming = self._edges(products, lambda node: node.parameters, written=True)
        biases = self._edges(products, lambda node: node.shifts, written=True)
        biases += self._edges([node for node in own if node.kind == "shift"], lambda node: node.parameters)
        gains = self._edges(norms, lambda node: node.parameters)
        shifts = self._edges(norms, lambda node: node.shifts)
        means = self._edges(norms, lambda node: node.statistics[0])
        variances = self._edges(norms, lambda node: node.statistics[1])
        scales = [node for node in own if node.kind == "scale" or (node.kind == "site" and node.parameters)]
        alphas = self._edges(scales, lambda node: node.parameters)
        outgoing = self._edges(reading, lambda node: node.parameters, written=False)
        if not incoming:
            self._because("no weights give it")
        if not outgoing:
            self._because("no weights read its outputs")
        if fixed := [e.parameter for e in (*incoming, *outgoing) if e.parameter not in self.analysis.trained]:
            self._because(f"{fixed[0]} is no parameter")
        if computed := [node.parameters[0] for node in reading if node.computed and node.parameters]:
            self._because(f"what reads its outputs is computed from {computed[0]}")
        known = {(e.parameter, e.axis) for e in (*incoming, *biases, *gains, *shifts, *alphas, *outgoing)}
        known |= {(e.parameter, e.axis) for e in (*means, *variances)}
        every = {place for root in self.index for place in self.analysis.places.get(root, [])}
        others = [edge for place in sorted(every - known) for edge in self._edge(*place)]
        return Units(
            call.name,
            self.width,
            self.axis,
            tuple(incoming),
            tuple(biases),
            tuple(gains),
            tuple(shifts),
            tuple(alphas),
            tuple(outgoing),
            self.reason,
            tuple(means),
            tuple(variances),
            tuple(others),
            self._groups(),
            call.activation,
        )

    def _groups(self) -> int:
        if self.ordered or len(self.index) < self.width or not self.analysis.stuck.isdisjoint(self.index):
            return self.width
        return math.lcm(*(self.analysis.groups.get(root, 1) for root in self.index))

    def _because(self, reason: str) -> None:
        self.reason = self.reason or reason

    def _mine(self, atoms: Tensor) -> bool:
        return bool(torch.isin(self.analysis.root[atoms], self.roots).any())

    def _region(self) -> list[Node]:
        """All that carries these units between the products that give them and those that read them."""
        found = {self.site}
        pending = [self.site]
        while pending:
            node = pending.pop()
            near = [] if node.kind == "product" else [other for other, atoms in node.inputs if self._mine(atoms)]
            near += [other for other, atoms in node.readers if other.kind != "product" and self._mine(atoms)]
            new = [other for other in near if other not in found]
            found.update(new)
            pending += new
        return sorted(found, key=lambda node: node.number)

    def _passes(self) -> tuple[set[Node], set[Node]]:
        """Nodes that depend on the site, and those that depend on something else that it cannot switch off."""
        through, carried = {self.site}, set()
        for node in self.region:
            if node is self.site:
                continue
            inputs = [] if node.kind == "product" else [other for other, atoms in node.inputs if self._mine(atoms)]
            if any(other in through for other in inputs):
                through.add(node)
            loose = [other in carried for other in inputs]
            if not inputs or (all(loose) if node.kind == "gate" else any(loose)):
                carried.add(node)
        return through, carried

    def _judge(self, through: set[Node], carried: set[Node]) -> list[tuple[Node, Node]]:
        """Why the units are not the site's alone; returns the products that read them, each with what it reads."""
        readers = []
        for node in self.region:
            for other, atoms in node.readers:
                if other.kind == "product" and self._mine(atoms):
                    readers.append((other, node))
        of_kind = {kind: [node for node in self.region if node.kind == kind] for kind in ENDS}
        for node in of_kind["lost"]:
            self._because(node.text)
        for node in of_kind["output"]:
            self._because(node.text if node in through else "what it is given is the model's output too")
        if any(node in carried for _, node in readers):
            sums = any(node in through and node in carried for node in of_kind["sum"])
            self._because(RESIDUAL if sums else READ_ELSEWHERE)
        for node in of_kind["mixed"]:
            if node in through:
                self._because(node.text)
        return readers

    def _upstream(self) -> list[Node]:
        """The site and what comes before it, up to products and other sites."""
        found, pending = {self.site}, [self.site]
        while pending:
            node = pending.pop()
            if node.kind == "product" or (node.kind == "site" and node is not self.site):
                continue
            new = [other for other, atoms in node.inputs if self._mine(atoms) and other not in found]
            found.update(new)
            pending += new
        return sorted((n for n in found if n.kind != "site" or n is self.site), key=lambda node: node.number)

    def _behind(self) -> set[Node]:
        """The site and what comes behind it, up to other sites."""
        found, pending = {self.site}, [self.site]
        while pending:
            for other, atoms in pending.pop().readers:
                if other.kind not in ("product", "site") and other not in found and self._mine(atoms):
                    found.add(other)
                    pending.append(other)
        return found

    def _edges(
        self,
        nodes: Iterable[Node],
        names: Callable[[Node], tuple[str, ...]],
        *,
        written: bool | None = None,
    ) -> list[Edge]:
        edges: dict[Edge, None] = {}
        for node in nodes:
            for name in names(node):
                axes = [k for n, k in self.analysis.flow.atoms.axes if n == name]
                for axis in axes:
                    if self._has_role(node, name, axis, written):
                        edges.update(dict.fromkeys(self._edge(name, axis)))
        return list(edges)

    def _has_role(self, node: Node, name: str, axis: int, written: bool | None) -> bool:
        """Whether a product writes along an axis of its weights, or reads along it."""
        along = self.analysis.flow.atoms.axes
        atoms = along[name, axis]
        if not self._mine(atoms):
            return False
        if written is None or node.kind != "product" or name in node.shifts:
            return True
        wanted = node.written if written else node.read
        if wanted is None:
            return False
        known = [end for end in (node.written, node.read) if end is not None]
        if any(torch.isin(own, end).any() for (n, _), own in along.items() if n == name for end in known):
            return bool(torch.isin(atoms, wanted).any())
        root = self.analysis.root  # weights are computed from this one and others, whose atoms they carry
        return bool(torch.isin(root[atoms], root[wanted]).any())

    def _edge(self, name: str, axis: int) -> list[Edge]:
        """Where the units lie along an axis of a parameter."""
        roots = self.analysis.root[self.analysis.flow.atoms.axes[name, axis]].tolist()
        found = [(place, self.index[root]) for place, root in enumerate(roots) if root in self.index]
        edges: list[Edge] = []
        while found:
            start = found[0][0]
            units = [unit for k, (place, unit) in enumerate(found) if place == start + k]
            repeat = next((k for k, unit in enumerate(units) if unit != units[0]), len(units))
            copies, rest = divmod(len(units), self.width * repeat)
            once = [unit for unit in range(self.width) for _ in range(repeat)]
            if rest or units != once * copies:
                self.reason = f"{name} has them in an order that is not followed"
                self.ordered = True
                return edges
            edges.append(Edge(name, axis, start, copies, repeat))
            found = found[len(units) :]
        return edges


def _stem(name: str) -> str:
    """A name without the number that says how often its caller has called such an activation."""
    stem, _, number = name.rpartition("_")
    return stem if stem and number.isdigit() else name


def _merged(one: Units, other: Units) -> Units:
    """The same layer, run once more, as a recurrent one is."""
    values = {name: getattr(one, name) for name in one.__dataclass_fields__}
    for name, value in values.items():
        if isinstance(value, tuple):
            values[name] = tuple(dict.fromkeys([*value, *getattr(other, name)]))
    if (one.width, one.axis) != (other.width, other.axis):
        values["entangled"] = "its units differ from call to call"
    values["entangled"] = values["entangled"] or other.entangled
    if one.entangled == other.entangled == "no weights read its outputs" and values["outgoing"]:
        values["entangled"] = ""
    own = {edge for name, value in values.items() if isinstance(value, tuple) and name != "others" for edge in value}
    values["others"] = tuple(edge for edge in values["others"] if edge not in own)
    return Units(**values)
