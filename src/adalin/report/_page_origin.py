"""Where the page's numbers come from: commands, settings, data, commits, machines, and what deviates."""

import shlex
from collections.abc import Sequence
from typing import Any

from adalin._text import count
from adalin.data import BUNDLED
from adalin.report._html import Child, Element, h
from adalin.report._page_data import Section
from adalin.report._page_html import command_line, facts, folded, hint, plain, spelled, table, tallied, words
from adalin.report._summary import Summary
from adalin.runs import Result


def origin(section: Section) -> Child:
    """How to make a benchmark's runs again, and how these were made."""
    groups: dict[tuple[Any, ...], list[Summary]] = {}
    for summary in section.summaries:
        key = (*summary.run.description.settings.values(), tuple(sorted(summary.seeds)))
        groups.setdefault(key, []).append(summary)
    rows, commands = [], []
    for members in groups.values():
        changed, seeds = section.changed(members[0]), sorted(members[0].seeds)
        methods = [summary.results[0].run.method for summary in members]
        settings = {name: plain(value) for name, value in members[0].run.description.settings.items()}
        cells = [h("td", h("strong", text) if name in changed else text) for name, text in settings.items()]
        rows.append(h("tr", h("th", spelled(methods), scope="row"), h("td", spelled(seeds)), cells))
        commands.append(command_line(_run_command(section, methods, members[0])))
    heads = [words(name) for name in ("methods", "seeds", *section.run.description.settings)]
    digests = spelled(digest[:16] for result in section.results if (digest := result.run.config.get("data")))
    made = {
        "data": f"{section.source}, SHA-256 {digests}…" if digests else section.source,
        "network": section.run.description.network,
        **{name: tallied(found) for name, found in _circumstances(section.results).items()},
    }
    return (
        h("h3", "How to make these runs"),
        commands,
        table(heads, rows, label="Hyper-parameters", class_="settings"),
        hint("Bold: not the benchmark's own setting."),
        facts(made.items()),
    )


def protocol(sections: Sequence[Section], title: str) -> Element | None:
    """What deviates from the benchmarks, how runs differ, and under a title what was chosen for all."""
    results = [result for section in sections for result in section.results]
    if not results:
        return None
    choices: dict[str, list[str]] = {}
    for result in results:
        for point, choice in result.manifest.get("protocol", {}).items():
            choices.setdefault(point, []).append(str(choice))
    chosen = facts((point, made[0] if len(set(made)) == 1 else tallied(made)) for point, made in choices.items())
    deviations = [text for section in sections for text in _deviations(section)]
    for what, found in _circumstances(results).items():
        if len(set(found)) > 1:
            deviations.append(f"Runs differ in their {what}: {tallied(found)}.")
    listed = deviations or ["none"]
    differing = (h("h3", "Deviations, and differences between runs"), h("ul", [h("li", text) for text in listed]))
    return folded("protocol", "Protocol", count(len(choices), "choice"), differing, h("h3", title), chosen)


def _run_command(section: Section, methods: Sequence[str], summary: Summary) -> str:
    parts = [*section.run.description.command, "--methods", *methods, "--seeds", *map(str, sorted(summary.seeds))]
    changed = section.changed(summary)
    if "steps" in changed and changed["steps"] is None:
        changed["epochs"] = summary.run.description.settings["epochs"]  # which takes the place of the benchmark's steps
    for setting, value in changed.items():
        if value is not None:
            parts.append(f"--{setting.replace('_', '-')}")
        if value is not None and value is not True:
            parts.append(str(value))
    if section.bundled:
        parts += ["--data", BUNDLED]
    return shlex.join(parts)


def _deviations(section: Section) -> list[str]:
    """Settings that are not the benchmark's own, with the methods that have them."""
    found: dict[tuple[str, Any], list[str]] = {}
    own = section.run.description.own
    for summary in section.summaries:
        for setting in section.changed(summary).items():
            found.setdefault(setting, []).append(summary.label)
    benchmark = section.run.benchmark
    texts = [f"{benchmark}: {section.source} in place of the full data set."] if section.bundled else []
    for (name, value), labels in found.items():
        who = "all methods" if len(labels) == len(section.summaries) else spelled(labels)
        texts.append(f"{benchmark}: {words(name)} {plain(value)} in place of {plain(own[name])} ({who}).")
    return texts


def _circumstances(results: Sequence[Result]) -> dict[str, list[str]]:
    """What should not matter but may: a text per run, or more if it was resumed elsewhere."""
    manifests = [result.manifest for result in results]
    return {
        "commits": [commit for manifest in manifests for commit in short_commits(manifest)],
        "machines": [_machine(manifest) for manifest in manifests],
        "versions": [_versions(manifest) for manifest in manifests],
    }


def short_commits(manifest: dict[str, Any]) -> list[str]:
    """Short hashes of the commits that a run was trained with, those of its later starts too."""
    starts = (manifest, *manifest.get("resumed", ()))
    found = [start["commit"] for start in starts if start.get("commit")] or ["unknown"]
    return list(dict.fromkeys(commit[:10] + ("+" if commit.endswith("+") else "") for commit in found))


def _machine(manifest: dict[str, Any]) -> str:
    machine = manifest.get("machine", {})
    return f"{machine.get('cpu', 'unknown')}, {machine.get('cores', '?')} cores, {machine.get('system', '?')}"


def _versions(manifest: dict[str, Any]) -> str:
    known = {name: version for name, version in manifest.get("versions", {}).items() if version}
    return ", ".join(f"{name} {version}" for name, version in known.items()) or "unknown"
