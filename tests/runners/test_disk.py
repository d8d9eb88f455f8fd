"""Disks that are full, read-only or lose power: nothing is lost, what is there is read, and what fails is named."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

import analysis
from analysis import compare
from runners import compare as sweeps
from runners.preflight import check_writable
from runners.store import Store, row_of
from runners.whole_files import write_whole
from tests.runners.test_store import outcome, point, write
from xsim.errors import SpecError


@pytest.fixture
def disk(tmp_path: Path) -> Iterator[Path]:
    """A small one of its own."""
    place = tmp_path / "disk"
    place.mkdir()
    mount = ["mount", "-t", "tmpfs", "-o", "size=400k", "tmpfs", str(place)]
    if subprocess.run(mount, capture_output=True, check=False).returncode:
        pytest.skip("this process may not mount a small disk")
    yield place
    subprocess.run(["umount", str(place)], check=True)


def test_a_disk_that_becomes_read_only(disk: Path) -> None:
    """A sweep does not start there; what is there is read, and nothing is lost."""
    store = Store(disk / "sweep")
    write(store, "aa1")
    subprocess.run(["mount", "-o", "remount,ro", str(disk)], check=True)

    with pytest.raises(SpecError, match="Read-only file system; name a place that can be written"):
        check_writable(store.folder)
    with pytest.raises(OSError, match="Read-only file system"):
        write(store, "bb1")
    with pytest.warns(UserWarning, match="runs keep files of their own: Read-only file system"):
        store.compact()
    assert analysis.load(store.folder)["key"].to_pylist() == ["aa1"]


def test_what_cannot_be_written_can_be_compared(disk: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """On a disk that is read-only; there is no figure then, and that is said."""
    store = Store(disk / "sweep")
    for key, reshard in (("aa1", "lcm"), ("aa2", "hetauto")):
        store.write(row_of(point(key), outcome(), worker=0, attempt=1) | {"reshard": reshard})
    subprocess.run(["mount", "-o", "remount,ro", str(disk)], check=True)

    assert compare.main([str(store.folder)]) == 0

    shown = capsys.readouterr()
    assert "fastest" in shown.out
    assert shown.err == f"no figure: {store.folder} cannot be written: Read-only file system\n"
    assert sweeps.main([str(store.folder), str(store.folder)]) == 0
    assert capsys.readouterr().err == ""


def test_a_disk_that_is_really_full(disk: Path) -> None:
    """What is there stays readable, what does not fit leaves nothing; with room again the sweep goes on."""
    store = Store(disk / "sweep")

    def fill() -> None:
        for number in range(100):
            write(store, f"aa{number:02d}")

    with pytest.raises(OSError, match="No space left on device"):
        fill()
    written = len(list((store.folder / "runs").rglob("*.arrow")))
    assert 5 < len(store.known()) == written < 100
    assert not list(disk.rglob(".*.arrow.*"))
    with pytest.warns(UserWarning, match="runs keep files of their own: No space left on device"):
        store.compact()
    assert len(store.known()) == written

    subprocess.run(["mount", "-o", "remount,size=4m", str(disk)], check=True)
    write(store, "bb00")
    store.compact()
    assert len(store.known()) == written + 1


def test_what_cannot_be_written_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(descriptor: int) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "fsync", full)
    with pytest.raises(OSError, match=rf"No space left on device: '{tmp_path}/x'"):
        write_whole(tmp_path / "x", b"1")
    assert not list(tmp_path.iterdir())


def test_a_new_folder_outlives_a_power_failure(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Each folder that a new name appears in is forced to disk, not only that of the file."""
    synced: list[str] = []
    real = os.fsync

    def watched(descriptor: int) -> None:
        synced.append(os.readlink(f"/proc/self/fd/{descriptor}"))
        real(descriptor)

    monkeypatch.setattr(os, "fsync", watched)
    write_whole(tmp_path / "a" / "b" / "x", b"1")

    assert {str(tmp_path), str(tmp_path / "a"), str(tmp_path / "a" / "b")} <= set(synced)
