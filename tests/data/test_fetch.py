"""Downloads, from hosts on this machine that behave well or badly."""

import socket
import subprocess
import sys
import threading
import time
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import pooch
import pytest

from adalin.data import DataError, _fetch, fetch, load
from tiny_data import TINY, take_for_real, unpacked, write


class Host(BaseHTTPRequestHandler):
    """The first part of an address says how its host behaves."""

    def do_GET(self):
        self.server.asked.append(self.path)
        _, behaviour, name = self.path.split("/")
        content = self.server.contents.get(name)
        if behaviour == "absent" or content is None:
            self.send_error(404)
            return
        if behaviour == "page":
            content = b"<!doctype html><html>Sign in first</html>"
        self.send_response(200)
        self.send_header("Content-Length", str(len(content)))
        self.end_headers()
        self.wfile.write(content[: len(content) // 2] if behaviour in ("cut", "stalled") else content)
        self.wfile.flush()
        if behaviour == "stalled":
            self.server.may_end.wait(60)

    def log_message(self, *args):
        pass


@pytest.fixture
def hosts(monkeypatch):
    """A server of the tiny downloads; hosts.use("cut", "good") makes these the mirrors."""
    server = ThreadingHTTPServer(("127.0.0.1", 0), Host)
    server.asked, server.may_end = [], threading.Event()
    server.contents = {
        path.rpartition("/")[2]: content for tiny in TINY.values() for path, content in tiny.downloads.items()
    }
    server.address = f"http://127.0.0.1:{server.server_port}"

    def use(*behaviours):
        for name in _fetch.MIRRORS:
            monkeypatch.setitem(_fetch.MIRRORS, name, [f"{server.address}/{behaviour}/" for behaviour in behaviours])

    server.use = use
    monkeypatch.setenv("NO_PROXY", "127.0.0.1")
    thread = threading.Thread(target=server.serve_forever, args=(0.01,))
    thread.start()
    yield server
    server.may_end.set()
    server.shutdown()
    server.server_close()
    thread.join()


@pytest.fixture(autouse=True)
def _tiny(monkeypatch, tmp_path):
    take_for_real(monkeypatch)
    monkeypatch.delenv("ADALIN_DATA", raising=False)
    monkeypatch.setattr(pooch, "os_cache", lambda project: tmp_path / "cache" / project)


def names_in(folder):
    return sorted(str(path.relative_to(folder)) for path in folder.rglob("*") if path.is_file())


@pytest.mark.parametrize("name", TINY)
def test_what_is_fetched_is_verified_and_can_be_loaded(tmp_path, hosts, name):
    hosts.use("good")
    report = fetch(name, tmp_path / "data")
    assert (report.sha256, report.bundled) == (TINY[name].sha256, False)
    assert load(name, tmp_path / "data").sha256 == TINY[name].sha256
    assert names_in(tmp_path / "data") == sorted(TINY[name].downloads)


def test_without_a_folder_data_is_fetched_into_the_cache_in_place_of_the_bundled_digits(tmp_path, hosts):
    hosts.use("good")
    assert load("mnist").bundled
    assert fetch("mnist").folder == tmp_path / "cache" / "adalin" / "mnist"
    assert not load("mnist").bundled


@pytest.mark.parametrize("bad", ["absent", "page", "cut"])
def test_the_next_mirror_is_tried_when_one_fails(tmp_path, hosts, bad):
    hosts.use(bad, "good")
    assert fetch("mnist", tmp_path).sha256 == TINY["mnist"].sha256
    first = "train-images-idx3-ubyte.gz"
    assert hosts.asked[:2] == [f"/{bad}/{first}", f"/good/{first}"]


@pytest.mark.parametrize(
    ("bad", "reason"),
    [("absent", "HTTP 404"), ("page", "sent something else"), ("cut", "the transfer broke off")],
)
def test_when_all_fail_nothing_is_left_behind_and_the_error_says_what_to_do_by_hand(tmp_path, hosts, bad, reason):
    hosts.use(bad)
    with pytest.raises(DataError) as caught:
        fetch("cifar10", tmp_path)
    file = "cifar-10-binary.tar.gz"
    by_hand = f"download {file} from {hosts.address}/{bad}/ by hand into {tmp_path}"
    assert str(caught.value) == f"could not fetch {file} (127.0.0.1: {reason}); {by_hand}"
    assert names_in(tmp_path) == []


def test_without_a_network_all_files_to_download_by_hand_are_named(tmp_path, monkeypatch):
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        nobody = f"http://127.0.0.1:{free.getsockname()[1]}/"
    monkeypatch.setenv("NO_PROXY", "127.0.0.1")
    monkeypatch.setitem(_fetch.MIRRORS, "mnist", [nobody, nobody])
    with pytest.raises(DataError) as caught:
        fetch("mnist", tmp_path)
    message = str(caught.value)
    assert "\n" not in message
    assert "(127.0.0.1: no connection, 127.0.0.1: no connection)" in message
    files = ", ".join(f"{file}.gz" for file in TINY["mnist"].files)
    assert message.endswith(f"download {files} from {nobody} by hand into {tmp_path / 'mnist'}")


def test_what_is_there_is_not_fetched_again(tmp_path, hosts):
    hosts.use("good")
    folder = unpacked(tmp_path, "cifar100")
    assert fetch("cifar100", tmp_path).folder == folder
    assert hosts.asked == []


@pytest.mark.parametrize("name", TINY)
def test_fetching_repairs_damaged_files_and_downloads(tmp_path, hosts, name):
    hosts.use("good")
    folder = unpacked(tmp_path, name)
    (folder / next(iter(TINY[name].files))).write_bytes(b"damaged")
    assert fetch(name, tmp_path).sha256 == TINY[name].sha256
    write(tmp_path, {next(iter(TINY[name].downloads)): b"damaged"})
    assert fetch(name, tmp_path).sha256 == TINY[name].sha256


def test_a_fetch_that_failed_half_way_goes_on_where_it_was(tmp_path, hosts):
    hosts.use("good")
    last = "t10k-labels-idx1-ubyte.gz"
    content = hosts.contents.pop(last)
    with pytest.raises(DataError, match=f"could not fetch {last}"):
        fetch("mnist", tmp_path)
    hosts.contents[last] = content
    hosts.asked.clear()
    fetch("mnist", tmp_path)
    assert hosts.asked == [f"/good/{last}"]


def test_a_folder_that_cannot_be_written_to_is_a_reason(tmp_path, hosts):
    hosts.use("good")
    (tmp_path / "data").write_text("a file")
    with pytest.raises(DataError, match=r"could not fetch cifar-10-binary\.tar\.gz \(127\.0\.0\.1: File exists\)"):
        fetch("cifar10", tmp_path / "data")


def test_a_download_prints_nothing_and_killed_leaves_nothing_under_the_files_name(tmp_path, hosts):
    program = f"from adalin.data import _fetch; _fetch.MIRRORS['cifar10'] = ['{hosts.address}/stalled/'];"
    program += f"_fetch.fetch('cifar10', {str(tmp_path)!r})"
    good = hosts.contents["cifar-10-binary.tar.gz"]
    hosts.contents["cifar-10-binary.tar.gz"] = bytes(8 * 2**20)  # the half that is sent reaches the disk
    process = subprocess.Popen([sys.executable, "-c", program], stdout=subprocess.PIPE, stderr=subprocess.PIPE)
    deadline = time.monotonic() + 60
    while not any(path.stat().st_size for path in tmp_path.iterdir()):
        assert process.poll() is None
        assert time.monotonic() < deadline
        time.sleep(0.05)
    process.kill()
    assert process.communicate() == (b"", b"")
    assert "cifar-10-binary.tar.gz" not in names_in(tmp_path)
    hosts.contents["cifar-10-binary.tar.gz"] = good
    hosts.use("good")
    assert fetch("cifar10", tmp_path).sha256 == TINY["cifar10"].sha256


def test_the_mirrors_are_encrypted_and_every_data_set_has_one():
    assert list(_fetch.MIRRORS) == list(TINY)
    assert all(
        base.startswith("https://") and base.endswith("/") for bases in _fetch.MIRRORS.values() for base in bases
    )
