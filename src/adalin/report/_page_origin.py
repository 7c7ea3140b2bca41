"""Where the page's numbers come from: commands, settings, data, commits, machines, and what deviates."""

import shlex
from collections.abc import Sequence
from html import escape
from typing import Any

from adalin.data import BUNDLED
from adalin.report._page_data import Section
from adalin.report._page_html import command_line, facts, plain, scrolling, spelled, tallied, words
from adalin.report._summary import Summary
from adalin.training import Result


def origin(section: Section) -> str:
    """How to make a benchmark's runs again, and how these were made."""
    groups: dict[tuple[Any, ...], list[Summary]] = {}
    for summary in section.summaries:
        settings = summary.run.settings()
        groups.setdefault((*settings.values(), tuple(sorted(summary.seeds))), []).append(summary)
    own, rows, commands = section.run.own_settings(), "", ""
    for members in groups.values():
        settings = members[0].run.settings()
        methods = [one.results[0].run.method for one in members]
        cells = "".join(
            f"<td>{escape(plain(value))}</td>"
            if value == own[name]
            else f"<td><strong>{escape(plain(value))}</strong></td>"
            for name, value in settings.items()
        )
        seeds = sorted(members[0].seeds)
        rows += f'<tr><th scope="row">{escape(spelled(methods))}</th><td>{spelled(seeds)}</td>{cells}</tr>'
        commands += command_line(_run_command(section, methods, seeds, settings))
    heads = "".join(f'<th scope="col">{words(name)}</th>' for name in ("methods", "seeds", *section.run.settings()))
    table = f'<table class="settings"><thead><tr>{heads}</tr></thead><tbody>{rows}</tbody></table>'
    results = [result for summary in section.summaries for result in summary.results]
    digests = spelled(digest[:16] for one in results if (digest := one.run.config().get("data")))
    made = facts(
        (
            ("data", section.source + (digests and f", SHA-256 {digests}…")),
            ("network", section.run.network),
            *((name, tallied(found)) for name, found in _circumstances(results).items()),
        )
    )
    return (
        f"<h3>How to make these runs</h3>{commands}{scrolling(table, 'Hyper-parameters')}"
        f'<p class="hint">Bold: not the benchmark\'s own setting.</p>{made}'
    )


def protocol(sections: Sequence[Section]) -> str:
    """What was chosen where the paper is silent, what deviates from the benchmarks, and how runs differ."""
    results = [result for section in sections for summary in section.summaries for result in summary.results]
    if not results:
        return ""
    choices: dict[str, list[str]] = {}
    for result in results:
        for point, choice in result.manifest.get("protocol", {}).items():
            choices.setdefault(point, []).append(str(choice))
    chosen = facts((point, made[0] if len(set(made)) == 1 else tallied(made)) for point, made in choices.items())
    deviations = [text for section in sections for text in _deviations(section)]
    for what, found in _circumstances(results).items():
        if len(set(found)) > 1:
            deviations.append(f"Runs differ in their {what}: {tallied(found)}.")
    listed = "".join(f"<li>{escape(text)}</li>" for text in deviations) or "<li>none</li>"
    return (
        '<section id="protocol"><h2>Protocol</h2><h3>Deviations, and differences between runs</h3>'
        f"<ul>{listed}</ul><h3>Choices that the paper leaves open</h3>{chosen}</section>"
    )


def _run_command(section: Section, methods: Sequence[str], seeds: Sequence[int], settings: dict[str, Any]) -> str:
    parts = [*section.run.command, "--methods", *methods, "--seeds", *map(str, seeds)]
    own = section.run.own_settings()
    changed = {name: value for name, value in settings.items() if value != own[name]}
    if "steps" in changed and changed["steps"] is None:
        changed["epochs"] = settings["epochs"]  # which takes the place of the benchmark's steps
    for setting, value in changed.items():
        if value is not None:
            parts += [f"--{setting.replace('_', '-')}", *([] if value is True else [str(value)])]
    return shlex.join([*parts, *(["--data", BUNDLED] if section.bundled else [])])


def _deviations(section: Section) -> list[str]:
    """Settings that are not the benchmark's own, with the methods that have them."""
    found: dict[tuple[str, Any], list[str]] = {}
    own = section.run.own_settings()
    for summary in section.summaries:
        for name, value in summary.run.settings().items():
            if value != own[name]:
                found.setdefault((name, value), []).append(summary.label)
    benchmark = section.run.benchmark
    texts = [f"{benchmark}: {section.source} in place of the full data set."] if section.bundled else []
    for (name, value), labels in found.items():
        who = "all methods" if len(labels) == len(section.summaries) else spelled(labels)
        setting = name.replace("_", " ")
        texts.append(f"{benchmark}: {setting} {plain(value)} in place of {plain(own[name])} ({who}).")
    return texts


def _circumstances(results: Sequence[Result]) -> dict[str, list[str]]:
    """What should not matter, but is told: one text per run, or more if it was resumed elsewhere."""
    manifests = [result.manifest for result in results]
    return {
        "commits": [commit for manifest in manifests for commit in short_commits(manifest)],
        "machines": [_machine(manifest) for manifest in manifests],
        "versions": [_versions(manifest) for manifest in manifests],
    }


def short_commits(manifest: dict[str, Any]) -> list[str]:
    """Short; those of later starts of a run too."""
    starts = (manifest, *manifest.get("resumed", ()))
    found = [start["commit"] for start in starts if start.get("commit")] or ["unknown"]
    return list(dict.fromkeys(commit[:10] + ("+" if commit.endswith("+") else "") for commit in found))


def _machine(manifest: dict[str, Any]) -> str:
    machine = manifest.get("machine", {})
    return f"{machine.get('cpu', 'unknown')}, {machine.get('cores', '?')} cores, {machine.get('system', '?')}"


def _versions(manifest: dict[str, Any]) -> str:
    known = {name: version for name, version in manifest.get("versions", {}).items() if version}
    return ", ".join(f"{name} {version}" for name, version in known.items()) or "unknown"
