"""Tables of measured times in files: own ones in CSV or Parquet, and those of Metis, Sailor, AMP, Aceso and AICB."""

from __future__ import annotations

import io
import re
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping
from pathlib import Path
from statistics import fmean

import pyarrow as pa
import pyarrow.parquet as pq

from xsim.errors import SpecError
from xsim.interop.aceso import aceso_rows
from xsim.interop.aicb import aicb_rows
from xsim.interop.amp import amp_rows
from xsim.interop.metis import metis_rows
from xsim.interop.profiles import Row, device_name
from xsim.interop.sailor import sailor_rows
from xsim.plan.profile import COLUMNS, table_text

__all__ = ["profile_text"]

Match = re.Match[str]

MOST_FILES = 4096  # of a folder


def profile_text(field: str, path: Path, read: Callable[[str, Path], bytes]) -> str:
    """The table in a file, or in all files of a folder that are of a known name, as CSV.

    Sailor's are ``DEVICE/profile.json``, Metis's ``DeviceType.DEVICE_tp1_bs2.json``, Aceso's
    ``DEVICE/.../..._mbs2_tp1_algo0.csv``, AICB's ``..._tp8_..._mbs1_DEVICE.txt``, AMP's ``MODEL_DEVICE_TP.npy``.
    What they measured more than once counts on average. An own table in Parquet ends in ``parquet``.

    Args:
        read: What a file holds, by the name of the setting and the path.

    Raises:
        SpecError: A file is not what its name says, or a folder holds none.
        OSError, UnicodeDecodeError: A file cannot be read.
    """
    if not path.is_dir():
        rows = _foreign(field, path, read)
        if rows is not None:
            return _merged(rows)
        data = read(field, path)
        return _of_parquet(field, path, data) if path.suffix == ".parquet" else data.decode()
    files = sorted(each for each in path.rglob("*") if each.is_file())
    if len(files) > MOST_FILES:
        raise SpecError(field, str(path), f"the folder holds more than {MOST_FILES} files", "name one with fewer")
    found = [rows for each in files if (rows := _foreign(f"{field}[{each.relative_to(path)}]", each, read)) is not None]
    if not found:
        raise SpecError(
            field, str(path), "no file in it has a name of Metis, Sailor, AMP, Aceso or AICB", "name a file"
        )
    return _merged(row for rows in found for row in rows)


def _merged(rows: Iterable[Row]) -> str:
    times: defaultdict[tuple[str, str, str, int, int, int], list[float]] = defaultdict(list)
    for *place, time_us in rows:
        times[tuple(place)].append(time_us)  # type: ignore[index]
    return table_text((*place, fmean(found)) for place, found in times.items())


def _foreign(field: str, path: Path, read: Callable[[str, Path], bytes]) -> list[Row] | None:
    """The rows of a file of another's; none if its name is no other's."""
    for pattern, reader in _READERS.items():
        match = re.fullmatch(pattern, path.name)
        if match:
            return list(reader(read(field, path), path, match, field))
    return None


def _sailor(data: bytes, path: Path, _: Match, field: str) -> Iterator[Row]:
    return sailor_rows(data.decode(), device_name(path.resolve().parent.name), field)


def _metis(data: bytes, _: Path, match: Match, field: str) -> Iterator[Row]:
    return metis_rows(data.decode(), device_name(match["device"]), int(match["tp"]), int(match["batch"]), field)


def _aceso(data: bytes, path: Path, match: Match, field: str) -> Iterator[Row]:
    """The device is the nearest folder that bears the name of one."""
    known = (each.name for each in path.resolve().parents if device_name(each.name) != each.name)
    device = next(known, path.resolve().parent.name)
    return aceso_rows(data.decode(), device_name(device), int(match["tp"]), int(match["batch"]), field)


def _aicb(data: bytes, _: Path, match: Match, field: str) -> Iterator[Row]:
    return aicb_rows(data.decode(), device_name(match["device"]), int(match["batch"]), field)


def _amp(data: bytes, _: Path, match: Match, field: str) -> Iterator[Row]:
    return amp_rows(data, device_name(match["device"]), int(match["tp"]), field)


_READERS: Mapping[str, Callable[[bytes, Path, Match, str], Iterator[Row]]] = {
    r"profile\.json": _sailor,
    r"DeviceType\.(?P<device>[\w-]+)_tp(?P<tp>[1-9]\d*)_bs(?P<batch>[1-9]\d*)\.json": _metis,
    r".*_mbs(?P<batch>[1-9]\d*)_tp(?P<tp>[1-9]\d*)_algo0\.csv": _aceso,
    r".*_tp\d+_.*mbs(?P<batch>[1-9]\d*)_(?P<device>[\w-]+)\.txt": _aicb,
    r"\w+_(?P<device>[A-Za-z0-9-]+)_(?P<tp>[1-9]\d*)\.npy": _amp,
}


def _of_parquet(field: str, path: Path, data: bytes) -> str:
    try:
        table = pq.read_table(io.BytesIO(data))
        names = [name for name in COLUMNS if name in table.column_names]
        columns = [["" if cell is None else str(cell) for cell in table.column(name).to_pylist()] for name in names]
    except (pa.ArrowException, OSError, ValueError) as error:
        problem = f"it is no Parquet table ({type(error).__name__})"
        raise SpecError(field, str(path), problem, "write one with the columns of a table in CSV") from None
    lines = (",".join(cells) for cells in zip(*columns, strict=True))
    return "\n".join([",".join(names), *lines]) + "\n"
