import json
from pathlib import Path

import pytest

from tinyc.errors import TinycError
from tinyc.output_folder import REPORT_FILE, replacing


def _fill(folder: Path, text: str) -> None:
    (folder / REPORT_FILE).write_text(json.dumps({"tinyc": "0.1.0", "name": text}))


def _filled(folder: Path) -> str:
    return json.loads((folder / REPORT_FILE).read_text())["name"]


def test_appears_complete_and_replaces_its_own(tmp_path: Path) -> None:
    target = tmp_path / "deep" / "out"
    for text in ("one", "two"):
        with replacing(target) as folder:
            _fill(folder, text)
            assert folder != target
        assert _filled(target) == text
    assert [path.name for path in target.parent.iterdir()] == ["out"]


def test_a_failure_leaves_the_previous_folder_untouched(tmp_path: Path) -> None:
    target = tmp_path / "out"
    with replacing(target) as folder:
        _fill(folder, "good")
    with pytest.raises(ZeroDivisionError), replacing(target) as folder:
        (folder / REPORT_FILE).write_text(f"half {1 // 0}")
    assert _filled(target) == "good"
    assert [path.name for path in tmp_path.iterdir()] == ["out"]


def test_foreign_files_are_not_replaced(tmp_path: Path) -> None:
    target = tmp_path / "out"
    target.mkdir()
    (target / "thesis.tex").write_text("years of work")
    with pytest.raises(TinycError, match="did not write"), replacing(target):
        raise AssertionError("not reached")
    assert (target / "thesis.tex").exists()


def test_an_empty_folder_may_be_used(tmp_path: Path) -> None:
    target = tmp_path / "out"
    target.mkdir()
    with replacing(target) as folder:
        _fill(folder, "x")
    assert (target / REPORT_FILE).exists()


def test_a_file_in_the_way(tmp_path: Path) -> None:
    target = tmp_path / "out"
    target.write_text("")
    with pytest.raises(TinycError, match="not a folder"), replacing(target):
        raise AssertionError("not reached")


def test_a_parent_that_is_a_file(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(TinycError, match="cannot write"), replacing(tmp_path / "file" / "out"):
        raise AssertionError("not reached")


def test_disk_full_becomes_a_clear_error(tmp_path: Path) -> None:
    with pytest.raises(TinycError, match="No space"), replacing(tmp_path / "out"):
        raise OSError(28, "No space left on device")
    assert not list(tmp_path.iterdir())
