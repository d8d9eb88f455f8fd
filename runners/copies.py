"""A copy of the final table wherever Arrow can write: a bucket, a cluster's file system, another disk."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import pyarrow as pa
import pyarrow.parquet as pq
from pyarrow import fs

from analysis.secrets import shown
from runners.whole_files import write_whole
from xsim.errors import SpecError, XsimError

if TYPE_CHECKING:
    from pyarrow.fs import FileSystem

__all__ = ["check_target", "copy_table"]

SUFFIX = ".parquet"
FIX = (
    f"write s3://BUCKET/NAME{SUFFIX}, gs://BUCKET/NAME{SUFFIX}, hdfs://HOST/NAME{SUFFIX} or file:///FOLDER/NAME{SUFFIX}"
)


def check_target(uri: str) -> None:
    """Refuse an address to which nothing can be written, before anything is simulated.

    Raises:
        SpecError: It is none, names no Parquet file, or nobody answers there.
    """
    system, path = _place(uri)
    if not path.endswith(SUFFIX):
        raise SpecError("copy_to", shown(uri), "it names no Parquet file", FIX)
    if isinstance(system, fs.LocalFileSystem):
        from runners.preflight import check_place

        check_place("copy_to", Path(path).parent)
        return
    try:
        system.get_file_info(path)
    except (OSError, pa.ArrowException) as error:
        fix = "check the address, and the credentials in the environment"
        raise SpecError("copy_to", shown(uri), _line(error), fix) from None


def copy_table(table: pa.Table, uri: str) -> None:
    """Write ``table`` there, whole or not at all.

    Raises:
        XsimError: That failed.
    """
    sink = pa.BufferOutputStream()
    pq.write_table(table, sink, compression="zstd")
    data = sink.getvalue()
    try:
        system, path = _place(uri)
        if isinstance(system, fs.LocalFileSystem):
            write_whole(Path(path), data.to_pybytes())
        elif isinstance(system, fs.HadoopFileSystem):
            _write(system, f"{path}.part", data)
            system.move(f"{path}.part", path)
        else:  # an object of a bucket appears when it is closed
            _write(system, path, data)
    except (OSError, pa.ArrowException) as error:
        raise XsimError(f"the table is not copied to {shown(uri)}: {_line(error)}") from None


def _place(uri: str) -> tuple[FileSystem, str]:
    try:
        system, path = fs.FileSystem.from_uri(uri)
    except (OSError, pa.ArrowException, ValueError) as error:
        raise SpecError("copy_to", shown(uri), _line(error), FIX) from None
    return system, str(path)


def _write(system: FileSystem, path: str, data: pa.Buffer) -> None:
    with system.open_output_stream(path) as stream:
        stream.write(data)


def _line(error: Exception) -> str:
    return shown(" ".join(str(error).split())[:200])
