"""What is at a path that is no plain file stays there, and gets the content."""

import os
import socket
import stat
import threading
from pathlib import Path

import pytest

from codesign.base.errors import InputError
from codesign.base.files import check_place, replacing_together, write_text


def test_a_symbolic_link_stays_one_and_its_target_is_replaced(tmp_path):
    (tmp_path / "below").mkdir()
    target, link = tmp_path / "below" / "target", tmp_path / "link"
    link.symlink_to("below/target")
    for text in ("first", "second"):  # the target is made, then replaced
        write_text(link, text)
        assert link.is_symlink()
        assert target.read_text() == text
    assert sorted(path.name for path in tmp_path.rglob("*")) == ["below", "link", "target"]


def test_a_pipe_gets_the_content_and_stays_one(tmp_path):
    pipe, texts = tmp_path / "pipe", []
    os.mkfifo(pipe)
    thread = threading.Thread(target=lambda: texts.append(pipe.read_text()))
    thread.start()
    write_text(pipe, "content")
    thread.join()
    assert texts == ["content"]
    assert stat.S_ISFIFO(pipe.stat().st_mode)


def test_a_device_gets_the_content_and_stays_one(tmp_path):
    link = tmp_path / "link"
    link.symlink_to("/dev/null")
    write_text(link, "content")
    assert link.is_symlink()
    assert Path("/dev/null").is_char_device()


def test_the_file_that_standard_output_goes_to_is_written_to_and_not_replaced(capfdbinary):
    write_text(Path("/dev/stdout"), "text")
    assert capfdbinary.readouterr().out == b"text"


def test_a_socket_and_a_folder_are_refused(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)  # a socket's path is short
    with socket.socket(socket.AF_UNIX) as server:
        server.bind("server")
        with pytest.raises(InputError, match="server: is a socket or a disk"):
            write_text(tmp_path.joinpath("server"), "text")
    with pytest.raises(InputError, match="is a folder"):
        check_place(tmp_path)
    assert stat.S_ISSOCK((tmp_path / "server").stat().st_mode)


def test_a_link_to_itself_is_refused(tmp_path):
    (tmp_path / "link").symlink_to("link")
    with pytest.raises(InputError, match="cannot be written"):
        write_text(tmp_path / "link", "text")


def test_a_file_keeps_its_permissions(tmp_path):
    path = tmp_path / "file"
    path.touch(mode=0o600)
    write_text(path, "secret")
    assert stat.S_IMODE(path.stat().st_mode) == 0o600


def test_somebody_elses_link_in_the_place_of_the_unfinished_file_is_not_followed(tmp_path):
    victim = tmp_path / "victim"
    victim.write_text("untouched")
    (tmp_path / f".file.{os.getpid()}.part").symlink_to(victim)
    write_text(tmp_path / "file", "text")
    assert victim.read_text() == "untouched"


def test_files_that_belong_together_may_be_links(tmp_path):
    (tmp_path / "a").symlink_to("target")
    (tmp_path / "target").write_text("old")
    paths = [tmp_path / "a", tmp_path / "b"]
    with pytest.raises(InputError, match="full"), replacing_together(paths) as unfinished:
        unfinished[0].write_text("new")
        raise OSError(28, "full")
    assert (tmp_path / "target").read_text() == "old"
    assert (tmp_path / "a").is_symlink()
    assert not (tmp_path / "b").exists()
