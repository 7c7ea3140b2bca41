"""Results in one file: Parquet, with what defines the runs and their manifests inside, or CSV for a spreadsheet.

A row of the table is a task of a run. The file's metadata has, under "adalin", a description of each run, in the order
of the column "run", and the SHA-256 of descriptions and rows.
"""

import csv
import hashlib
import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from adalin._registry import UnknownNameError
from adalin._text import printable
from adalin.report._files import check_parent, replaced
from adalin.runs import (
    MANIFEST,
    Position,
    Result,
    RunFolder,
    RunFolderError,
    Schema,
    check_writable,
    find_results,
    read_run,
)

SETTINGS = ("benchmark", "method", "seed", "lr", "batch_size", "epochs")
"""Settings of a run that are columns too, for those who read the file with other tools."""
FORMULA = ("=", "+", "-", "@", "\t", "\r")
"""Beginnings of texts that a spreadsheet calculates."""
ENTRY = Schema({"config": {str: object}, "position": {str: object}, "manifest": {str: object}, "core_seconds": float})
"""Fields that describe a run in a file's metadata."""
LARGEST_INT = 2**63 - 1
"""Largest whole number of a column."""
DAMAGES = (OSError, ValueError, TypeError, LookupError, AttributeError, ArithmeticError, RecursionError)
"""Errors that a damaged file or run may raise, in pyarrow, json or the definition of a run."""


def write_results(results: Sequence[Result], path: Path, *, per_neuron: Sequence[str] | None = None) -> None:
    """Write the rows of many runs to a .parquet or .csv file.

    The numbers of each neuron are most of a file; given methods, only theirs are kept.
    """
    if path.suffix not in (".parquet", ".csv"):
        raise ValueError(f"the file's name must end in .parquet or .csv, not {path.name!r}")
    check_parent(path)
    rows = []
    for number, result in enumerate(results):
        kept = per_neuron is None or result.run.method in per_neuron
        config = result.run.config
        names = config if path.suffix == ".csv" else SETTINGS
        shared = {"run": number} | {name: config.get(name) for name in names}
        for row in result.rows:
            rows.append(shared | {name: value for name, value in row.items() if kept or not _is_per_neuron(value)})
    if path.suffix == ".csv":
        with replaced(path) as unfinished:
            _write_csv(rows, unfinished)
        return
    table = _table(rows)
    entries = [
        {
            "config": result.run.definition(),
            "position": result.position.as_dict(),
            "manifest": result.manifest,
            "core_seconds": result.core_seconds,
        }
        for result in results
    ]
    metadata = {"sha256": _content_hash(_records(table), entries), "runs": entries}
    with replaced(path) as unfinished, unfinished.open("wb") as file:  # pyarrow opens no path that is not UTF-8
        table = table.replace_schema_metadata({"adalin": json.dumps(metadata)})
        pq.write_table(table, file, compression="zstd", write_page_checksum=True)


def read_archive(path: Path) -> tuple[list[Result], list[str]]:
    """The runs of a Parquet file that `write_results` made, and what is wrong with those of them that cannot be used.

    Raises ValueError if that is the file itself.
    """
    try:
        with path.open("rb") as file:
            # In this thread: one of Arrow's that lets go of the file while Python ends would abort the process.
            parquet = pq.ParquetFile(file, page_checksum_verification=True, pre_buffer=False)
            table = parquet.read(use_threads=False)
        records = _records(table)
        entries = _entries(table.schema.metadata or {}, records)
        rows: dict[int, list[dict[str, Any]]] = {number: [] for number in range(len(entries))}
        for record in records:
            for name in SETTINGS:
                del record[name]
            rows[record.pop("run")].append({name: value for name, value in record.items() if value is not None})
    except (*DAMAGES, pa.ArrowException) as error:
        raise ValueError(f"{path} is not a file of `adalin export`, or damaged: {_line(error)}") from None
    results, problems = [], []
    for number, entry in enumerate(entries):
        try:
            results.append(_result(entry, rows[number]))
        except UnknownNameError as error:
            problems.append(f"{path} has a run that adalin does not know: {_line(error)}")
        except DAMAGES as error:
            problems.append(f"{path} has a run, number {number}, that is damaged: {_line(error)}")
    return results, problems


def read_results(place: Path) -> tuple[list[Result], list[str]]:
    """Runs from a Parquet file, or from all run folders and Parquet files below a folder; and what cannot be read.

    A run that is there twice, as after an export into the folder of the runs, counts once: the one that got further.
    They come in the order of their folders, wherever they were found.
    """
    if place.is_file():
        return read_archive(place)
    results, problems = find_results(place)
    for path in sorted(place.rglob("*.parquet")):
        try:
            found, wrong = read_archive(path)
        except ValueError as error:
            problems.append(str(error))
        else:
            results += found
            problems += wrong
    furthest: dict[Path, Result] = {}
    for result in results:
        folder = result.run.folder
        if folder not in furthest or len(result.rows) > len(furthest[folder].rows):
            furthest[folder] = result
    return [furthest[folder] for folder in sorted(furthest)], problems


def unpack_results(results: Sequence[Result], out: Path) -> tuple[list[Result], list[str]]:
    """Make folders of runs as if they had been trained here, for commands that would train them.

    Returns the runs that are new, and what is wrong with those that could not be made. Folders that are there stay as
    they are. Unfinished runs are left out: without their networks they cannot go on.
    """
    check_writable(out, needed_bytes=0)
    unpacked, problems = [], []
    for result in results:
        try:
            if _unpack(result, out):
                unpacked.append(result)
        except (ValueError, RunFolderError) as error:
            problems.append(_line(error))
    return unpacked, problems


def _unpack(result: Result, out: Path) -> bool:
    """Whether a folder has been made."""
    folder = RunFolder(out / result.run.folder)
    if result.state == "unfinished" or folder.exists:
        return False
    with folder.lock():
        folder.record(
            dict(result.run.config),
            result.manifest,
            result.rows,
            result.position.as_dict(),
            core_seconds=result.core_seconds,
        )
    return True


def _table(rows: Sequence[dict[str, Any]]) -> pa.Table:
    # A seed may have more digits than a column's numbers; what defines a run has it whole.
    rows = [row if row["seed"] <= LARGEST_INT else row | {"seed": None} for row in rows]
    try:
        return pa.Table.from_pylist(rows, schema=_schema(rows))
    except pa.ArrowException as error:
        raise ValueError(f"a metric has values of different forms, which a table cannot have: {error}") from None


def _records(table: pa.Table) -> list[dict[str, Any]]:
    """The rows of a table as they come back from a file, whatever they were written from."""
    records: list[dict[str, Any]] = table.to_pylist(maps_as_pydicts="strict")
    return records


def _content_hash(records: Sequence[dict[str, Any]], entries: Sequence[Any]) -> str:
    """SHA-256 of all rows and of what describes the runs, the same however Parquet lays them out."""
    digest = hashlib.sha256(json.dumps(entries).encode())
    for record in records:
        digest.update(json.dumps(record).encode())
    return digest.hexdigest()


def _entries(metadata: dict[bytes, bytes], records: Sequence[dict[str, Any]]) -> list[dict[str, Any]]:
    """What describes the runs of a file; raises ValueError if that or the rows are not what was written."""
    text = metadata.get(b"adalin", b"null").decode()
    content = json.loads(text)
    if content is None:
        raise ValueError("it has no runs of adalin in its metadata")
    if isinstance(content, list):  # of a version that did not write the hash
        return content
    entries: list[dict[str, Any]] = content["runs"]
    if content["sha256"] != _content_hash(records, entries) or json.dumps(content) != text:
        raise ValueError("its content does not match the SHA-256 in its metadata")
    return entries


def _result(entry: dict[str, Any], rows: list[dict[str, Any]]) -> Result:
    """One run of a file; raises one of DAMAGES if it is none that could be shown or unpacked."""
    problem = ENTRY.mismatch(entry) or MANIFEST.mismatch(entry["manifest"], "manifest")
    if problem:
        raise ValueError(problem)
    if "data" not in entry["manifest"]:
        raise ValueError("manifest.data is missing")
    if entry["core_seconds"] < 0:
        raise ValueError(f"core_seconds is {entry['core_seconds']}, not a number of at least 0")
    run = read_run(entry["config"])
    _ = run.folder  # which refuses names that would lead anywhere else
    if [row.get("task") for row in rows] != list(range(len(rows))):
        raise ValueError("rows are missing, or not in the order of the tasks")
    return Result(run, rows, Position.read(entry["position"]), entry["manifest"], entry["core_seconds"])


def _line(error: Exception) -> str:
    """The message of an error in one line."""
    return printable(" ".join(str(error).split())) or type(error).__name__


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
    names: dict[str, None] = {}
    for row in rows:
        names |= {name: None for name, value in row.items() if isinstance(value, str | int | float)}
    names.pop("run", None)
    with path.open("w", newline="") as file:
        writer = csv.writer(file)
        writer.writerow([_cell(name) for name in names])
        for row in rows:
            writer.writerow([_cell(row.get(name)) for name in names])


def _cell(value: Any) -> Any:
    """A value as it may stand in a CSV file: a text is never one that a spreadsheet takes for a formula."""
    is_formula = isinstance(value, str) and value.startswith(FORMULA)
    return f"'{value}" if is_formula else value
