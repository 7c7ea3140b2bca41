"""Results in one file: Parquet, with what defines the runs and their manifests inside, or CSV for a spreadsheet.

A row of the table is a task of a run. Runs are described in the file's metadata, under "adalin", in the order of the
column "run".
"""

import csv
import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from adalin.training import Result, RunFolder, find_results, read_run
from adalin.training._run_folder import check_writable

SETTINGS = ("benchmark", "method", "seed", "lr", "batch_size", "epochs")
"""Of a run, as columns, for those who read the file with other tools."""


def write_results(results: Sequence[Result], path: Path, *, per_neuron: Sequence[str] | None = None) -> None:
    """Write the rows of many runs to a .parquet or .csv file.

    The numbers of each neuron are most of a file; given methods, only theirs are kept.
    """
    if path.suffix not in (".parquet", ".csv"):
        raise ValueError(f"the file's name must end in .parquet or .csv, not {path.name!r}")
    path.parent.mkdir(parents=True, exist_ok=True)
    rows = []
    for number, result in enumerate(results):
        kept = per_neuron is None or result.run.method in per_neuron
        config = result.run.config()
        names = config if path.suffix == ".csv" else SETTINGS
        shared = {"run": number} | {name: config.get(name) for name in names}
        for row in result.rows:
            rows.append(shared | {name: value for name, value in row.items() if kept or not _is_per_neuron(value)})
    if path.suffix == ".csv":
        _write_csv(rows, path)
        return
    runs = [
        {
            "config": result.run.definition(),
            **{name: getattr(result, name) for name in ("position", "manifest", "core_seconds")},
        }
        for result in results
    ]
    try:
        table = pa.Table.from_pylist(rows, schema=_schema(rows).with_metadata({"adalin": json.dumps(runs)}))
    except pa.ArrowException as error:
        raise ValueError(f"a metric has values of different forms, which a table cannot have: {error}") from None
    unfinished = path.with_name(f"{path.name}.tmp")  # an older file stays whole until the new one is
    pq.write_table(table, unfinished, compression="zstd", write_page_checksum=True)
    unfinished.replace(path)


def read_archive(path: Path) -> list[Result]:
    """The runs of a Parquet file that `write_results` made."""
    try:
        table = pq.read_table(path, page_checksum_verification=True)
        runs = json.loads((table.schema.metadata or {}).get(b"adalin", "null"))
        if runs is None:
            raise ValueError("it has no runs of adalin in its metadata")
        rows: list[list[dict[str, Any]]] = [[] for _ in runs]
        for row in table.drop_columns(list(SETTINGS)).to_pylist(maps_as_pydicts="strict"):
            rows[row.pop("run")].append({name: value for name, value in row.items() if value is not None})
        return [Result(read_run(run.pop("config")), own, **run) for own, run in zip(rows, runs, strict=True)]
    except (OSError, LookupError, TypeError, ValueError, pa.ArrowException) as error:
        message = " ".join(str(error).split())
        if message.startswith("unknown "):
            hint = "if a plugin brings it, name that with --plugin"
            raise ValueError(f"{path} has a run that adalin does not know: {message}; {hint}") from None
        raise ValueError(f"{path} is not a file of `adalin export`, or damaged: {message}") from None


def read_results(place: Path) -> tuple[list[Result], list[str]]:
    """Runs from a Parquet file, or from all run folders and Parquet files below a folder; and what cannot be read.

    A run that is there twice, as after an export into the folder of the runs, counts once: the one that got further.
    They come in the order of their folders, wherever they were found.
    """
    if place.is_file():
        return read_archive(place), []
    results, problems = find_results(place)
    for path in sorted(place.rglob("*.parquet")):
        try:
            results += read_archive(path)
        except ValueError as error:
            problems.append(str(error))
    furthest: dict[Path, Result] = {}
    for result in results:
        if result.run.folder not in furthest or len(result.rows) > len(furthest[result.run.folder].rows):
            furthest[result.run.folder] = result
    return [furthest[folder] for folder in sorted(furthest)], problems


def unpack_results(results: Sequence[Result], out: Path) -> list[Result]:
    """Make folders of runs as if they had been trained here, for commands that would train them; returns the new ones.

    Folders that are there stay as they are. Unfinished runs are left out: without their networks they cannot go on.
    """
    check_writable(out, needed_bytes=0)
    unpacked = []
    for result in results:
        folder = RunFolder(out / result.run.folder)
        if result.state == "unfinished" or folder.exists:
            continue
        with folder.lock():
            folder.record(
                result.run.config(), result.manifest, result.rows, result.position, core_seconds=result.core_seconds
            )
        unpacked.append(result)
    return unpacked


def _schema(rows: Sequence[dict[str, Any]]) -> pa.Schema:
    """Of all columns that any row has, and of those that a file without rows has too."""
    examples: dict[str, Any] = {"run": 0, "benchmark": "", "method": "", "seed": 0}
    examples |= {"lr": 0.0, "batch_size": 0, "epochs": 0, "task": 0}
    for row in rows:
        for name, value in row.items():
            # A number that is whole in the first rows need not be so in all, nor a layer without neurons of its own.
            if value is not None and (name not in examples or isinstance(value, float) or _is_per_neuron(value)):
                examples[name] = value
    return pa.schema([(name, _type(value)) for name, value in examples.items()])


def _is_per_neuron(value: Any) -> bool:
    """A list for each layer."""
    return isinstance(value, list) and any(isinstance(layer, list) for layer in value)


def _type(value: Any) -> pa.DataType:
    if _is_per_neuron(value):
        return pa.list_(pa.list_(pa.float32()))
    if isinstance(value, dict):
        return pa.map_(pa.string(), pa.float64())
    if isinstance(value, list):
        return pa.list_(pa.float64())
    return {str: pa.string(), int: pa.int64()}.get(type(value), pa.float64())


def _write_csv(rows: Sequence[dict[str, Any]], path: Path) -> None:
    names = dict.fromkeys(
        name for row in rows for name, value in row.items() if isinstance(value, str | int | float) and name != "run"
    )
    with path.open("w", newline="") as file:
        writer = csv.DictWriter(file, list(names), extrasaction="ignore")
        writer.writeheader()
        writer.writerows(rows)
