"""From numbers to a sentence: can these weights still learn, what speaks for it, what to try.

The probe alone may find that plasticity is lost, and only where the looks agree; the looks alone name signs. Thresholds
are those of docs/diagnose.md, which says how often they were right.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal

import adalin
from adalin.monitor._look import Look, layer_label
from adalin.monitor._probe import BEHIND, ProbeResult

Found = Literal["lost", "able", "unclear", "no probe"]
STATES: tuple[Found, ...] = ("lost", "unclear", "no probe", "able")
"""From bad to good."""


@dataclass(frozen=True)
class Sign:
    """A number that speaks for a loss of plasticity, beside what it was when the network was new."""

    name: str
    """Name of the number, as looks have it."""
    layer: str
    """Layer that is worst; empty for the whole network."""
    value: float
    """Number now."""
    first: float | None
    """Number at the first look, or in a fresh twin."""
    text: str
    """The same for people."""


@dataclass(frozen=True)
class Remedy:
    """Something to try. What the literature reports to help; none of it was tested on this network."""

    text: str
    """Sentence about what it does."""
    code: str
    """The call; empty where there is none."""


@dataclass(frozen=True)
class Diagnosis:
    """Can these weights still learn? Prints as text."""

    state: Literal["lost", "able", "unclear", "no probe"]
    """State: "lost", "able", "unclear" or "no probe"."""
    sentence: str
    """Answer in one sentence."""
    evidence: tuple[str, ...] = ()
    """Lines that speak for it, the strongest first."""
    remedies: tuple[Remedy, ...] = ()
    """Things to try."""
    network: str = ""
    """Name of the network."""
    probe: ProbeResult | None = None
    """Probe that it rests on."""
    signs: tuple[Sign, ...] = ()
    """Signs that the looks found."""
    networks: Mapping[str, "Diagnosis"] = field(default_factory=dict)
    """Diagnosis of each network, where several are watched."""

    def __str__(self) -> str:
        if self.networks:
            return "\n\n".join(str(diagnosis) for diagnosis in self.networks.values())
        lines = [self.sentence, *(f"  - {line}" for line in self.evidence)]
        if self.remedies:
            lines.append("  try:")
        for remedy in self.remedies:
            lines.append(f"  - {remedy.text}" + (f": {remedy.code}" if remedy.code else ""))
        return "\n".join(lines)

    def as_dict(self) -> dict[str, Any]:
        """Plain values, for JSON."""
        return {
            "network": self.network,
            "state": self.state,
            "sentence": self.sentence,
            "evidence": list(self.evidence),
            "remedies": [{"text": remedy.text, "code": remedy.code} for remedy in self.remedies],
            "probe": None if self.probe is None else self.probe.as_dict(),
        }


@dataclass(frozen=True)
class _Rule:
    name: str
    threshold: float
    says: str


RULES = (
    _Rule("dead", 0.1, "of units are dead: no slope at any input"),
    _Rule("gradient_dormant", 0.1, "of units get next to no gradient"),
    _Rule("saturated", 0.3, "of units are saturated: hardly any slope"),
    _Rule("linear", 0.5, "of units are always linear"),
    _Rule("duplicate", 0.3, "of units repeat another one"),
)
"""Shares of a layer's units above which they are a sign; rises by less than `RISE` since the start are none."""
RISE = 0.05
SLOWEST, FASTEST = 1e-5, 1e-1
"""Healthy range of one step's length over the norm of the weights."""
RANK_LEFT = 0.25
"""Share of the first effective rank that is said beside other signs."""


def signs_of(look: Look, first: Look | None) -> tuple[Sign, ...]:
    """What the looks find, the worst layer of each kind, the largest excess first."""
    if any(layer.get("finite") == 0.0 for layer in look.layers.values()):
        broken = next(name for name, layer in look.layers.items() if layer.get("finite") == 0.0)
        return (Sign("finite", broken, 0.0, 1.0, f"{layer_label(broken)} gives NaN or infinite numbers"),)
    found: list[tuple[float, Sign]] = []
    for rule in RULES:
        layers: dict[str, tuple[float, float | None]] = {}
        for name, numbers in look.layers.items():
            before = None if first is None else first.layers.get(name, {}).get(rule.name)
            value = numbers.get(rule.name, 0.0)
            if value > rule.threshold and (before is None or value > before + RISE):
                layers[name] = (value, before)
        if layers:
            worst = max(layers, key=lambda name: layers[name][0])
            value, before = layers[worst]
            was = "" if before is None else f" ({before:.0%} at first)"
            text = f"{layer_label(worst)}: {value:.0%} {rule.says}{was}"
            found.append((value / rule.threshold, Sign(rule.name, worst, value, before, text)))
    signs = [sign for _, sign in sorted(found, key=lambda pair: -pair[0])]
    step = look.overall.get("step")
    if step is not None and not SLOWEST <= step <= FASTEST and look.step > 0:
        much = "small" if step < SLOWEST else "large"
        text = f"a step moves the weights by {step:.1g} of their norm, which is {much}"
        signs.append(Sign("step", "", step, None, text))
    if signs and first is not None:
        signs += _rank_signs(look, first)
    return tuple(signs)


def _rank_signs(look: Look, first: Look) -> list[Sign]:
    ranks = {
        name: (numbers["rank"], first.layers[name]["rank"])
        for name, numbers in look.layers.items()
        if "rank" in numbers and "rank" in first.layers.get(name, {})
    }
    low = {name: (now, before) for name, (now, before) in ranks.items() if now < RANK_LEFT * before}
    if not low:
        return []
    name = min(low, key=lambda key: low[key][0] / low[key][1])
    now, before = low[name]
    return [Sign("rank", name, now, before, f"{layer_label(name)}: effective rank {now:.1f} ({before:.1f} at first)")]


def diagnose(
    look: Look | None,
    first: Look | None,
    probe: ProbeResult | None,
    *,
    network: str = "",
    subject: str = "the network",
    why_no_probe: str = "",
) -> Diagnosis:
    """The verdict on one network: of its last look and probe, beside its first look."""
    signs = () if look is None else signs_of(look, first)
    state, sentence = _judge(signs, probe, subject, why_no_probe)
    evidence = [] if probe is None else [f"probe: {probe} (95 %, {len(probe.aged)} draws; twin: {probe.origin})"]
    evidence += [sign.text for sign in signs]
    remedies = () if state == "able" or look is None else _remedies(signs, look)
    return Diagnosis(state, sentence, tuple(evidence), remedies, network, probe, signs)


def _judge(signs: Sequence[Sign], probe: ProbeResult | None, subject: str, why: str) -> tuple[Found, str]:
    broken = [sign for sign in signs if sign.name == "finite"]
    if broken:
        return "lost", f"{subject} cannot learn: {broken[0].text}."
    # A rank or a step size alone is no cause that agrees.
    causes = [sign for sign in signs if sign.name not in ("step", "rank")]
    some = "; ".join(sign.text for sign in (causes or signs)[:2])
    if probe is None:
        because = f" ({why})" if why else ""
        return "no probe", f"{subject}: no probe yet{because}; " + (
            f"signs of trouble: {some}." if some else "no signs."
        )
    if not probe.twin_learns:
        return "unclear", f"{subject}: unclear, as a fresh twin does not learn the probe's targets either."
    low, high = probe.interval
    learns = f"on new targets it makes {probe.ratio:.2f} [{low:.2f}, {high:.2f}]"
    learns = f"{learns} of fresh weights' progress in the first {probe.steps} steps"
    if high < BEHIND and causes:
        return "lost", f"{subject} has lost plasticity: {learns}, and {some}."
    if high < BEHIND:
        return "unclear", f"{subject} shows signs of lost plasticity: {learns}, but the looks find no cause."
    if low > BEHIND:
        but = f" Beware: {some}." if causes else ""
        return "able", f"{subject} can learn now: {learns}.{but}"
    more = f" Signs of trouble: {some}." if causes else ""
    return "unclear", f"{subject}: unclear: {learns}; more draws make the interval narrower.{more}"


def _remedies(signs: Sequence[Sign], look: Look) -> tuple[Remedy, ...]:
    found: dict[str, Remedy] = {}
    for sign in signs:
        for make in _TRY.get(sign.name, ()):
            remedy = make(sign, look)
            if remedy is not None:
                found.setdefault(remedy.text, remedy)
    if not found and not signs:
        return (Remedy("cause not found; general advice: LayerNorm before the activations, weight decay", ""),)
    return tuple(found.values())


def _reset(sign: Sign, look: Look) -> Remedy:
    code = "adalin.attach(model, optimizer, adalin.methods.ReDo())" if "attach" in adalin.__all__ else ""
    return Remedy("reset units that do not work, now and then (ReDo, Sokar et al. 2023)", code)


def _convert(sign: Sign, look: Look) -> Remedy | None:
    if look.bases.get(sign.layer) not in CONVERTIBLE:
        return None
    place = look.sites.get(sign.layer)
    only = f', only="{place}"' if place else ""
    return Remedy("let its units learn how linear they are (AdaLin)", f"adalin.convert(model{only})")


def _norm(sign: Sign, look: Look) -> Remedy:
    return Remedy("LayerNorm before the activation (Lyle et al. 2023)", "")


def _perturb(sign: Sign, look: Look) -> Remedy:
    return Remedy("shrink and perturb the weights (Ash and Adams 2020), or dropout", "")


def _decay(sign: Sign, look: Look) -> Remedy:
    return Remedy("weight decay, or smaller biases", "")


def _rate(sign: Sign, look: Look) -> Remedy:
    return Remedy("another learning rate; weight decay where the norm of the weights has grown (Lyle et al. 2024)", "")


_TRY: Mapping[str, tuple[Callable[[Sign, Look], Remedy | None], ...]] = {
    "dead": (_reset, _norm, _convert),
    "gradient_dormant": (_reset, _norm, _convert),
    "saturated": (_norm, _convert),
    "linear": (_norm, _decay),
    "duplicate": (_perturb,),
    "step": (_rate,),
}
CONVERTIBLE = frozenset(
    {"relu", "tanh", "gelu", "silu", "mish", "elu", "selu", "celu", "leaky_relu", "softplus", "softsign", "hardswish"}
    | {"hardtanh", "relu6", "gelu_tanh"}
)
"""Activations that `adalin.convert` replaces by itself."""
