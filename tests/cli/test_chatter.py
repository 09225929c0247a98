"""What a compiled library prints doesn't stand in a command's answer."""

from __future__ import annotations

import ctypes
import os

import pytest

from convoy.cli.chatter import chatter_to_stderr


def test_a_library_prints_to_stderr_and_we_to_stdout(capfd: pytest.CaptureFixture[str]) -> None:
    library = ctypes.CDLL(None)
    with chatter_to_stderr():
        os.write(1, b"written at once\n")
        library.printf(b"kept in the library's buffer\n")
    print("ours")
    out, err = capfd.readouterr()
    assert out == "ours\n"
    assert "written at once" in err
    assert "kept in the library's buffer" in err


def test_stdout_is_back_after_an_error(capfd: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(ValueError, match="broken"), chatter_to_stderr():
        raise ValueError("broken")
    os.write(1, b"ours\n")
    assert capfd.readouterr().out == "ours\n"
