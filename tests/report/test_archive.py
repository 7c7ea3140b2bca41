"""Runs that were written to a file come back from it."""

import csv
import errno
import json
import os
import subprocess
import sys
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from rich.console import Console

import adalin
from adalin.report import by_benchmark, read_archive, read_results, results_table, unpack_results, write_results
from adalin.runs import Result, read_run
from made_results import make_result, result_of, with_accuracies

PER_NEURON = ("alpha", "saturation")
METHODS = ["baseline", "adalin", "adalin:granularity=layer", "crelu"]


@pytest.fixture(scope="module")
def runs(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder of real runs, of methods whose rows have different columns."""
    out = tmp_path_factory.mktemp("runs")
    adalin.run("random-label-mnist", METHODS, [3, 4], out=out, data="bundled", tasks=2, epochs=1, images=32)
    return out


def numbers(row: dict[str, Any]) -> dict[str, Any]:
    """What a row says: null says nothing."""
    return {name: value for name, value in row.items() if value is not None and name not in PER_NEURON}


def layers(row: dict[str, Any]) -> Iterator[tuple[str, int, np.ndarray | None]]:
    for name in PER_NEURON:
        for number, layer in enumerate(row.get(name) or []):
            yield name, number, None if layer is None else np.array(layer)


def assert_same(read: Result, written: Result) -> None:
    assert read.run == written.run
    assert read.position == written.position
    assert read.manifest == written.manifest
    assert read.core_seconds == written.core_seconds
    assert read.state == written.state
    assert [numbers(row) for row in read.rows] == [numbers(row) for row in written.rows]
    for own, other in zip(read.rows, written.rows, strict=True):
        for (*place, values), (*expected, wanted) in zip(layers(own), layers(other), strict=True):
            assert place == expected
            if wanted is None:
                assert values is None
            else:
                np.testing.assert_allclose(values, wanted, rtol=1e-7)


def change(path: Path, edit: Callable[[list[dict[str, Any]]], object], *, hashed: bool = False) -> None:
    """Edit what describes the runs of a file, and leave it without a hash, or with the one it had."""
    table = pq.read_table(path)
    content = json.loads(table.schema.metadata[b"adalin"])
    edit(content["runs"])
    content = content if hashed else content["runs"]
    pq.write_table(table.replace_schema_metadata({"adalin": json.dumps(content)}), path)


def shown(results: list[Result]) -> str:
    console = Console(width=160)
    with console.capture() as text:
        for summaries in by_benchmark(results).values():
            console.print(results_table(summaries, ""))
    return text.get()


def test_real_runs_come_back_whole(runs: Path, tmp_path: Path) -> None:
    written, problems = read_results(runs)
    assert (len(written), problems) == (8, [])
    assert all(result.core_seconds > 0 for result in written)
    write_results(written, tmp_path / "all.parquet")
    read, problems = read_archive(tmp_path / "all.parquet")
    assert problems == []
    for own, other in zip(read, written, strict=True):
        assert_same(own, other)
    row = next(result for result in read if result.run.method == "adalin").rows[0]
    assert isinstance(row["layer_weight_norm"], dict)
    assert len(row["weight_srank"]) == 3
    assert [len(layer) for layer in row["alpha"]] == [100, 100]


def test_runs_of_every_state_come_back(tmp_path: Path) -> None:
    written = [
        make_result("adalin", rows=3),
        make_result("fourier", 4, rows=5, state="diverged", benchmark="permuted-mnist", lr=1e-3),
        make_result("fourier", 5, rows=0, state="diverged", commit=None),
        make_result("crelu", rows=0),
        replace(make_result("l2:strength=0.001", tasks=2, inputs="kumar2023"), core_seconds=12.5),
    ]
    write_results(written, tmp_path / "all.parquet")
    read, _ = read_archive(tmp_path / "all.parquet")
    for own, other in zip(read, written, strict=True):
        assert_same(own, other)
    assert [result.state for result in read] == ["unfinished", "diverged", "diverged", "unfinished", "done"]
    assert shown(read) == shown(written)


def test_a_file_without_any_row_can_be_read(tmp_path: Path) -> None:
    written = [make_result(rows=0, state="diverged"), make_result(seed=4, rows=0)]
    write_results(written, tmp_path / "all.parquet")
    for own, other in zip(read_archive(tmp_path / "all.parquet")[0], written, strict=True):
        assert_same(own, other)
    assert pq.read_table(tmp_path / "all.parquet").column_names[:4] == ["run", "benchmark", "method", "seed"]


def test_a_number_that_is_whole_at_first_is_not_cut(tmp_path: Path) -> None:
    run = with_accuracies([0.5]).run
    rows = [{"task": 0, "own": 3}, {"task": 1, "own": 2.5}, {"task": 2}, {"task": 3, "own": None}]
    write_results([result_of(run, rows)], tmp_path / "all.parquet")
    (read,), _ = read_archive(tmp_path / "all.parquet")
    assert read.rows == [{"task": 0, "own": 3}, {"task": 1, "own": 2.5}, {"task": 2}, {"task": 3}]


def test_a_metric_may_have_any_name_and_any_form(tmp_path: Path) -> None:
    rows = [
        {"task": 0, "mean_alpha": 0.5, "per_layer_saturation": [0.25, 0.5], "mine": [[1.0], [2.0, 3.0]], "late": []},
        {"task": 1, "mean_alpha": 0.25, "per_layer_saturation": [1.0], "mine": [[1.0], None], "late": [[0.5]]},
    ]
    written = result_of(with_accuracies([0.5]).run, rows)
    write_results([written], tmp_path / "all.parquet")
    assert read_archive(tmp_path / "all.parquet")[0][0].rows == rows
    write_results([written], tmp_path / "few.parquet", per_neuron=())
    assert "mine" not in read_archive(tmp_path / "few.parquet")[0][0].rows[0]
    rows[1]["mean_alpha"] = [[0.5]]
    with pytest.raises(ValueError, match="a metric has values of different forms"):
        write_results([written], tmp_path / "all.parquet")


def test_numbers_of_each_neuron_are_kept_for_the_methods_given(runs: Path, tmp_path: Path) -> None:
    results, _ = read_results(runs)
    for kept in ((), ("adalin",), ("adalin", "baseline")):
        write_results(results, tmp_path / "all.parquet", per_neuron=kept)
        for result in read_archive(tmp_path / "all.parquet")[0]:
            has = {name for name in PER_NEURON if any(row.get(name) for row in result.rows)}
            expected = {"adalin": {*PER_NEURON}, "baseline": {"saturation"}}
            assert has == (expected[result.run.method] if result.run.method in kept else set())
            assert all("srank" in row for row in result.rows)


def test_other_tools_find_what_they_need_in_columns(runs: Path, tmp_path: Path) -> None:
    results, _ = read_results(runs)
    write_results(results, tmp_path / "all.parquet")
    table = pq.read_table(tmp_path / "all.parquet")
    assert table.num_rows == 16
    assert table.schema.field("online_accuracy").type == pa.float64()
    assert table.schema.field("alpha").type == pa.list_(pa.list_(pa.float32()))
    columns = [table[name].to_pylist() for name in ("benchmark", "method", "seed", "task", "online_accuracy", "lr")]
    rows = [(one.run, row) for one in results for row in one.rows]
    assert list(zip(*columns, strict=True)) == [
        (run.benchmark, run.method, run.seed, row["task"], row["online_accuracy"], run.settings.lr) for run, row in rows
    ]


def test_csv_has_plain_numbers_only(runs: Path, tmp_path: Path) -> None:
    results, _ = read_results(runs)
    write_results(results, tmp_path / "all.csv")
    with (tmp_path / "all.csv").open(newline="") as file:
        lines = list(csv.DictReader(file))
    assert list(lines[0])[:3] == ["benchmark", "method", "seed"]
    assert {"lr", "batch_size", "epochs", "images", "inputs", "init", "preset", "task"} <= lines[0].keys()
    assert {"alpha", "saturation", "weight_srank", "layer_weight_norm", "run"}.isdisjoint(lines[0])
    rows = [(one.run, row) for one in results for row in one.rows]
    for line, (run, row) in zip(lines, rows, strict=True):
        assert (line.pop("benchmark"), line.pop("method")) == (run.benchmark, run.method)
        texts = ("inputs", "init", "preset", "precision", "data")
        read = {name: float(value) for name, value in line.items() if name not in texts}
        assert (read["seed"], read["task"]) == (run.seed, row["task"])
        assert read["online_accuracy"] == row["online_accuracy"]


def test_csv_leaves_a_cell_empty_where_a_run_has_no_number(tmp_path: Path) -> None:
    run = with_accuracies([0.5]).run
    write_results([result_of(run, [{"task": 0}, {"task": 1, "own": 0.25}])], tmp_path / "all.csv")
    assert [line.split(",")[-1] for line in (tmp_path / "all.csv").read_text().splitlines()] == ["own", "", "0.25"]


@pytest.mark.parametrize("name", ["all.json", "all", "all.parquet.gz"])
def test_another_ending_is_refused_and_nothing_written(tmp_path: Path, name: str) -> None:
    with pytest.raises(ValueError, match=rf"must end in \.parquet or \.csv, not '{name}'"):
        write_results([make_result()], tmp_path / name)
    assert list(tmp_path.iterdir()) == []


# A folder of everything


def test_folders_of_runs_and_files_are_read_together(runs: Path, tmp_path: Path) -> None:
    results, _ = read_results(runs)
    (tmp_path / "deep").mkdir()
    for method in METHODS[2:]:
        members = [result for result in results if result.run.method == method]
        write_results(members, tmp_path / "deep" / f"{METHODS.index(method)}.parquet")
    adalin.run("random-label-mnist", METHODS[:2], [3, 4], out=tmp_path, data="bundled", tasks=2, epochs=1, images=32)
    (tmp_path / "report").mkdir()
    (tmp_path / "report" / "index.html").write_text("a page")
    read, problems = read_results(tmp_path)
    assert problems == []
    assert [result.run.folder for result in read] == [result.run.folder for result in results]
    assert shown(read) == shown(results)
    assert [one.run for one in read_results(tmp_path / "deep" / "3.parquet")[0]] == [one.run for one in members]


def test_a_run_that_is_there_twice_counts_once_where_it_got_further(runs: Path, tmp_path: Path) -> None:
    results, _ = read_results(runs)
    ahead = replace(results[0], rows=[*results[0].rows, {"task": 2, "online_accuracy": 0.5}])
    write_results([ahead, results[1]], tmp_path / "a.parquet")
    write_results(results[:3], tmp_path / "b.parquet")
    read, _ = read_results(tmp_path)
    assert [len(result.rows) for result in read] == [3, 2, 2]
    assert len({result.run for result in read}) == 3


def test_a_file_that_cannot_be_read_is_one_line_and_the_others_are_read(tmp_path: Path) -> None:
    write_results([make_result()], tmp_path / "good.parquet")
    whole = (tmp_path / "good.parquet").read_bytes()
    (tmp_path / "cut.parquet").write_bytes(whole[: len(whole) // 2])
    (tmp_path / "empty.parquet").touch()
    pq.write_table(pa.table({"run": [0], "seed": [3]}), tmp_path / "foreign.parquet")
    pq.write_table(pa.table({"run": [7]}).replace_schema_metadata({"adalin": "[]"}), tmp_path / "other.parquet")
    results, problems = read_results(tmp_path)
    assert [result.run for result in results] == [make_result().run]
    assert len(problems) == 4
    for problem, name in zip(problems, ("cut", "empty", "foreign", "other"), strict=True):
        assert problem.startswith(f"{tmp_path / name}.parquet is not a file of `adalin export`, or damaged: ")
        assert "\n" not in problem
    assert problems[2].endswith("it has no runs of adalin in its metadata")
    with pytest.raises(ValueError, match=r"foreign\.parquet is not a file of"):
        read_results(tmp_path / "foreign.parquet")


def test_a_changed_byte_gives_the_same_results_or_a_problem(tmp_path: Path) -> None:
    written = [make_result("adalin", tasks=2), make_result(tasks=2)]
    path = tmp_path / "all.parquet"
    write_results(written, path)
    whole = path.read_bytes()
    told = 0
    for place in range(4, pq.ParquetFile(path).metadata.row_group(0).total_byte_size, 29):  # of the data
        path.write_bytes(whole[:place] + bytes([whole[place] ^ 0xFF]) + whole[place + 1 :])
        results, problems = read_results(tmp_path)
        told += len(problems)
        if not problems:
            for own, other in zip(results, written, strict=True):
                assert_same(own, other)
    assert told > 10


def test_a_method_that_only_a_plugin_knows_is_told(tmp_path: Path) -> None:
    write_results([make_result()], tmp_path / "all.parquet")
    change(tmp_path / "all.parquet", lambda runs: runs[0]["config"].update(method="mine"))
    _, (problem,) = read_results(tmp_path)
    assert "has a run that adalin does not know: unknown method 'mine'" in problem
    assert problem.endswith("name that with --plugin")


# Files that are not what was written


def test_a_file_without_a_hash_is_read(tmp_path: Path) -> None:
    written = [make_result("adalin"), make_result(seed=4)]
    write_results(written, tmp_path / "all.parquet")
    change(tmp_path / "all.parquet", lambda runs: None)
    read, problems = read_archive(tmp_path / "all.parquet")
    assert problems == []
    for own, other in zip(read, written, strict=True):
        assert_same(own, other)


def test_no_flipped_byte_of_the_metadata_goes_unnoticed(tmp_path: Path) -> None:
    write_results([make_result("adalin", tasks=2), make_result(tasks=2)], tmp_path / "all.parquet")
    table = pq.read_table(tmp_path / "all.parquet")
    text = table.schema.metadata[b"adalin"]
    rng = np.random.default_rng(0)
    path = tmp_path / "changed.parquet"
    for place in rng.choice(len(text), 400, replace=False):
        changed = bytearray(text)
        changed[place] ^= 1 << rng.integers(8)
        pq.write_table(table.replace_schema_metadata({"adalin": bytes(changed)}), path)
        with pytest.raises(
            ValueError, match=r"changed\.parquet is not a file of `adalin export`, or damaged: "
        ) as error:
            read_archive(path)
        assert "\n" not in str(error.value)


def test_an_edited_number_is_noticed(tmp_path: Path) -> None:
    path = tmp_path / "all.parquet"
    write_results([make_result("adalin", tasks=2)], path)
    table = pq.read_table(path)
    for name, value in (("online_accuracy", 0.999), ("seed", 4), ("task", 7), ("srank", None)):
        values = [value, *table[name].to_pylist()[1:]]
        place = table.column_names.index(name)
        pq.write_table(table.set_column(place, table.schema.field(name), pa.array(values, table[name].type)), path)
        with pytest.raises(ValueError, match="its content does not match the SHA-256 in its metadata"):
            read_archive(path)
    write_results([make_result("adalin", tasks=2)], path)
    change(path, lambda runs: runs[0].update(core_seconds=1.0), hashed=True)
    with pytest.raises(ValueError, match="its content does not match the SHA-256 in its metadata"):
        read_archive(path)


SAC = {"tasks": 2, "seed": 3, "method": "adalin"}


@pytest.mark.parametrize(
    ("damage", "reason"),
    [
        ({"config": {**SAC, "benchmark": "sac-../../../ELSEWHERE"}}, "no environment '../../../ELSEWHERE'"),
        ({"config": {**SAC, "benchmark": "sac-x\x1b]0;title\x07"}}, "no environment 'x"),
        ({"config": {**SAC, "method": ["adalin"], "benchmark": "sac-x"}}, ""),
        ({"config": None}, ""),
        ({"position": {}}, ""),
        ({"position": {"task": "3", "step": 0}}, "'3', not a whole number"),
        ({"position": {"task": 2.5, "step": 0}}, "2.5, not a whole number"),
        ({"manifest": {"data": {"source": 5}}}, "manifest"),
        ({"manifest": {"data": None, "versions": []}}, "manifest"),
        ({"manifest": None}, ""),
        ({"manifest": {}}, "manifest.data is missing"),
        ({"core_seconds": None}, "core_seconds is null, not a finite number"),
        ({"core_seconds": 1e400}, "core_seconds is Infinity, not a finite number"),
        ({"core_seconds": -0.5}, "core_seconds is -0.5, not a number of at least 0"),
    ],
)
def test_a_damaged_run_is_one_line_and_the_others_are_read(tmp_path: Path, damage: dict[str, Any], reason: str) -> None:
    others = [make_result(), make_result(seed=5)]
    write_results([others[0], make_result(seed=4), others[1]], tmp_path / "all.parquet")
    change(tmp_path / "all.parquet", lambda runs: runs[1].update(damage))
    for place in (tmp_path, tmp_path / "all.parquet"):
        results, (problem,) = read_results(place)
        assert [result.run for result in results] == [result.run for result in others]
        assert problem.startswith(f"{tmp_path / 'all.parquet'} has a run, number 1, that is damaged: ")
        assert reason in problem
        assert problem.isprintable()


@pytest.mark.parametrize("field", ["benchmark", "method", "seed", "tasks"])
def test_what_a_definition_lacks_is_named(tmp_path: Path, field: str) -> None:
    write_results([make_result()], tmp_path / "all.parquet")
    change(tmp_path / "all.parquet", lambda runs: runs[0]["config"].pop(field))
    _, (problem,) = read_archive(tmp_path / "all.parquet")
    assert problem.endswith(f"has a run, number 0, that is damaged: it does not say its {field}")


def test_seeds_of_any_size_come_back(tmp_path: Path) -> None:
    results = [make_result(seed=2**63 - 1), make_result(seed=2**64)]
    for name in ("all.parquet", "all.csv"):
        write_results(results, tmp_path / name)
    found, problems = read_archive(tmp_path / "all.parquet")
    assert ([result.run for result in found], problems) == ([result.run for result in results], [])
    lines = csv.DictReader((tmp_path / "all.csv").read_text().splitlines())
    assert {line["seed"] for line in lines} == {str(2**63 - 1), str(2**64)}


def test_files_are_read_and_written_without_threads_that_could_abort_the_end_of_python(tmp_path: Path) -> None:
    program = (
        "import os, sys; from pathlib import Path; from adalin.report import read_archive, write_results\n"
        "read, written = map(Path, sys.argv[1:]); threads = set(os.listdir('/proc/self/task'))\n"
        "write_results(read_archive(read)[0], written)\n"
        "print(len(set(os.listdir('/proc/self/task')) - threads))"
    )
    write_results([make_result(), make_result(seed=4)], tmp_path / "all.parquet")
    paths = map(str, (tmp_path / "all.parquet", tmp_path / "again.parquet"))
    command = [sys.executable, "-c", program, *paths]
    assert subprocess.run(command, capture_output=True, text=True, check=True).stdout == "0\n"


def test_rows_that_are_missing_are_noticed_without_a_hash(tmp_path: Path) -> None:
    path = tmp_path / "all.parquet"
    write_results([make_result(rows=3)], path)
    change(path, lambda runs: None)
    pq.write_table(pq.read_table(path).slice(1), path)
    results, (problem,) = read_archive(path)
    assert results == []
    assert problem.endswith("rows are missing, or not in the order of the tasks")


def test_no_run_is_unpacked_outside_of_the_folder_and_the_others_are(tmp_path: Path) -> None:
    inside = replace(make_result(tasks=2), core_seconds=1.0)
    outside = replace(read_run({**SAC, "benchmark": "sac-x"}), benchmark="sac-../../../ELSEWHERE")
    results = [result_of(outside, [{"task": 0}], state="done"), inside]
    unpacked, (problem,) = unpack_results(results, tmp_path / "a" / "b" / "c")
    assert unpacked == [inside]
    assert "ELSEWHERE" in problem
    assert not list(tmp_path.rglob("ELSEWHERE*"))


def test_what_is_in_the_way_of_one_run_does_not_keep_the_others_from_being_unpacked(tmp_path: Path) -> None:
    results = [make_result(tasks=2), make_result("adalin", tasks=2)]
    (tmp_path / results[0].run.setting_folder).parent.mkdir()
    (tmp_path / results[0].run.setting_folder).touch()
    unpacked, (problem,) = unpack_results(results, tmp_path)
    assert unpacked == [results[1]]
    assert problem.startswith(f"cannot write to {tmp_path / results[0].run.folder}")


# Files that are whole or not there


@pytest.mark.parametrize("name", ["all.csv", "all.parquet"])
def test_a_file_in_a_folder_that_is_not_there_is_refused(tmp_path: Path, name: str) -> None:
    with pytest.raises(ValueError, match=rf"there is no folder .*typo for {name}; make it first, or choose another"):
        write_results([make_result()], tmp_path / "typo" / name)
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("suffix", [".csv", ".parquet"])
def test_a_disk_that_is_full_leaves_the_file_that_was_there(
    tmp_path: Path, suffix: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / f"all{suffix}"
    write_results([make_result()], path)
    whole = path.read_bytes()

    def full(descriptor: int) -> None:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    monkeypatch.setattr(os, "fsync", full)
    with pytest.raises(OSError, match=rf"cannot write .*all\{suffix}: No space left on device"):
        write_results([make_result("adalin"), make_result(seed=4)], path)
    assert path.read_bytes() == whole
    assert list(tmp_path.iterdir()) == [path]


def test_a_csv_is_not_seen_before_it_is_whole(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "all.csv"
    path.write_text("what was there")
    seen = []
    replace_file = Path.replace

    def look(self: Path, target: Path) -> Path:
        seen.append(path.read_text())
        return replace_file(self, target)

    monkeypatch.setattr(Path, "replace", look)
    write_results([make_result()], path)
    assert seen == ["what was there"]
    assert path.read_text().startswith("benchmark,method")


def test_a_link_stays_a_link_and_a_file_keeps_its_mode(tmp_path: Path) -> None:
    (tmp_path / "disk").mkdir()
    target = tmp_path / "disk" / "all.csv"
    target.touch(0o640)
    target.chmod(0o640)
    (tmp_path / "all.csv").symlink_to(target)
    write_results([make_result()], tmp_path / "all.csv")
    assert (tmp_path / "all.csv").is_symlink()
    assert target.read_text().startswith("benchmark,method")
    assert target.stat().st_mode & 0o777 == 0o640


@pytest.mark.parametrize("ending", ["parquet", "csv"])
def test_a_path_that_is_no_utf8_is_written_and_read(ending: str, tmp_path: Path) -> None:
    folder = Path(os.fsdecode(os.fsencode(tmp_path) + b"/\xff"))
    folder.mkdir()
    path = folder / f"all.{ending}"
    write_results([make_result()], path)
    if ending == "parquet":
        ((result,), problems) = read_results(path)
        assert_same(result, make_result())
        assert problems == []
    assert list(folder.iterdir()) == [path]


@pytest.mark.parametrize("name", ["=cmd()", "+1", "-1", "@sum", "\tx", "\rx"])
def test_no_cell_of_a_csv_is_a_formula(tmp_path: Path, name: str) -> None:
    run = with_accuracies([0.5]).run
    write_results([result_of(run, [{"task": 0, name: -0.25, "note": name}])], tmp_path / "all.csv")
    with (tmp_path / "all.csv").open(newline="") as file:
        (line,) = csv.DictReader(file)
    assert line["note"] == f"'{name}"
    assert line[f"'{name}"] == "-0.25", "a number is one"
