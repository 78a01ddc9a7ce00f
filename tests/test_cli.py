"""The command line: flags, one sentence for every error, and files left sound."""

from __future__ import annotations

import io
import subprocess
import sys
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

import pytest
from made import ENVIRONMENT, SETTINGS, plain_and_eagle

from eagle_core import cli
from eagle_core.errors import EagleError, PromptError
from eagle_core.options import RunOptions
from eagle_core.recording import Recording
from eagle_core.text import TextStream
from eagle_core.trace import Event, StopReason, Turn
from eagle_core.trace_json import load_trace

ROOT = Path(__file__).parent.parent
TEXT = "<5><6><7><8><9>"


class Bench:
    """A workbench that races the made lanes; `after` is raised when EAGLE has taken so many."""

    def __init__(self, after: int | None = None, error: BaseException | None = None) -> None:
        self._after, self._error = after, error
        self.asked: list[tuple[str, RunOptions]] = []
        self.earlier: list[list[str]] = []

    def race(self, prompt: str, options: RunOptions, *, earlier: Sequence[Turn] = ()) -> Recording:
        self.asked.append((prompt, options))
        self.earlier.append([f"{turn.role}: {turn.content}" for turn in earlier])
        lanes = {lane.method: iter(lane.events) for lane in plain_and_eagle().lanes}
        return Recording(
            prompt,
            lanes | {"eagle": self._breaking(lanes["eagle"])},
            settings=SETTINGS,
            environment=ENVIRONMENT,
            earlier=tuple(earlier),
            piece=lambda token: f"<{token}>",
            stream=lambda: TextStream(lambda ids: "".join(f"<{token}>" for token in ids)),
        )

    def _breaking(self, events: Iterator[Event]) -> Iterator[Event]:
        for index, event in enumerate(events):
            if index == self._after and self._error:
                raise self._error
            yield event


@pytest.fixture
def use(monkeypatch: pytest.MonkeyPatch) -> Callable[[Bench], Bench]:
    def put(bench: Bench) -> Bench:
        monkeypatch.setattr(cli, "load_workbench", lambda options, **more: bench)
        return bench

    return put


def test_a_prompt_is_answered_with_text_and_table(
    use: Callable[[Bench], Bench], capsys: pytest.CaptureFixture[str]
) -> None:
    bench = use(Bench())
    assert cli.main(["generate", "why?"]) == 0
    out, err = capsys.readouterr()
    assert out.startswith(TEXT + "\n")
    assert out.count(TEXT) == 1, "plain decoding's text is not printed"
    assert "τ, tokens per pass                1.00            2.00" in out
    assert "both texts are equal" in out
    assert err == ""
    assert bench.asked == [("why?", RunOptions())]


def test_flags_become_options(use: Callable[[Bench], Bench]) -> None:
    bench = use(Bench())
    flags = "--max-new-tokens 9 --temperature 0.5 --top-p 0.9 --top-k 4 --seed 7 --tree chain:2"
    flags += " --min-p 0.1 --repetition-penalty 1.2 --presence-penalty 0.3 --frequency-penalty -1"
    flags += " --stop END --stop ### --record-dropped"
    assert cli.main(["generate", "why?", *flags.split(), "--rule", "one_hot"]) == 0
    assert bench.asked[0][1] == RunOptions(
        *(9, 0.5, 0.9, 4, 7, "chain:2", "one_hot"), *(0.1, 1.2, 0.3, -1.0, ("END", "###"), True)
    )


def test_turns_are_asked_one_after_the_other_with_all_that_was_said(
    use: Callable[[Bench], Bench], capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    bench = use(Bench())
    file = tmp_path / "trace.json"
    assert cli.main(["generate", "a", "--turn", "b", "--turn", "c", "--trace", str(file)]) == 0
    assert [prompt for prompt, _ in bench.asked] == ["a", "b", "c"]
    first = ["user: a", f"assistant: {TEXT}"]
    assert bench.earlier == [[], first, [*first, "user: b", f"assistant: {TEXT}"]]
    assert "\n> b\n" in capsys.readouterr().out
    last = load_trace(file.read_text("utf-8"))
    assert (last.prompt, len(last.earlier)) == ("c", 4)


def test_messages_of_a_file_come_before_the_prompt(
    use: Callable[[Bench], Bench], tmp_path: Path
) -> None:
    bench = use(Bench())
    file = tmp_path / "messages.json"
    file.write_text('[{"role": "system", "content": "s"}, {"role": "user", "content": "a"}]')
    assert cli.main(["generate", "b", "--messages", str(file)]) == 0
    assert bench.earlier == [["system: s", "user: a"]]


@pytest.mark.parametrize(
    "content",
    [
        *("", "5", "{}", '["a"]', '[{"role": "user"}]', "[" * 100_000, None),
        *('[{"role": "judge", "content": "x"}]', '[{"role": "user", "content": 5}]'),
    ],
)
def test_messages_that_are_none_end_in_one_sentence(
    use: Callable[[Bench], Bench],
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    content: str | None,
) -> None:
    use(Bench())
    file = tmp_path / "messages.json"
    if content is not None:
        file.write_text(content)
    assert cli.main(["generate", "b", "--messages", str(file)]) == (content != "{}")
    err = capsys.readouterr().err
    assert err.count("\n") == (content != "{}")


def test_model_flags_reach_the_workbench(monkeypatch: pytest.MonkeyPatch) -> None:
    from eagle_core import workbench  # only here: it takes seconds to import

    given: dict[str, object] = {}

    def load(**flags: object) -> Bench:
        given.update(flags)
        return Bench()

    monkeypatch.setattr(workbench.Workbench, "load", load)
    flags = "--target t --head h --device cpu --dtype float32 --cache c"
    assert cli.main(["generate", "why?", *flags.split()]) == 0
    assert given.pop("progress") is not None
    assert given == {
        "target": "t",
        "head": "h",
        "device": "cpu",
        "dtype": "float32",
        "cache": Path("c"),
        "measures": True,
    }
    assert cli.main(["generate", "why?", "--tree", "chain:2"]) == 0
    assert given["measures"] is False, "nothing is measured where a tree is named"


def test_a_dash_reads_the_prompt_from_standard_input(
    use: Callable[[Bench], Bench], monkeypatch: pytest.MonkeyPatch
) -> None:
    bench = use(Bench())
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(b"two\nlines")))
    assert cli.main(["generate", "-"]) == 0
    assert bench.asked[0][0] == "two\nlines"


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        ([], "COMMAND"),
        (["dance"], "invalid choice"),
        (["generate"], "prompt"),
        (["generate", "x", "--rule", "best"], "--rule"),
        (["generate", "x", "--max-new-tokens", "many"], "--max-new-tokens"),
    ],
)
def test_a_wrong_command_ends_with_its_usage(
    arguments: list[str], said: str, capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(SystemExit) as ended:
        cli.main(arguments)
    assert ended.value.code == 2
    assert said in capsys.readouterr().err


@pytest.mark.parametrize(
    ("flags", "said"),
    [
        (["--temperature", "-1"], "temperature -1.0; expected a number from 0 to 10"),
        (["--temperature", "nan"], "temperature nan"),
        (["--max-new-tokens", "0"], "max_new_tokens 0"),
        (["--rule", "one_hot"], "rule one_hot at temperature 0"),
    ],
)
def test_a_wrong_option_ends_in_one_sentence_before_anything_is_loaded(
    flags: list[str],
    said: str,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    def never(options: object) -> Bench:
        raise AssertionError("loaded before the options were looked at")

    monkeypatch.setattr(cli, "load_workbench", never)
    assert cli.main(["generate", "why?", *flags]) == 1
    out, err = capsys.readouterr()
    assert out == ""
    assert err.startswith("error: ")
    assert said in err
    assert err.count("\n") == 1


def test_an_error_of_loading_ends_in_one_sentence(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def broken(options: object) -> Bench:
        raise EagleError("no index and no cache", hint="--cache with a copy")

    monkeypatch.setattr(cli, "load_workbench", broken)
    assert cli.main(["generate", "why?"]) == 1
    assert capsys.readouterr() == ("", "error: no index and no cache; try --cache with a copy\n")


def test_an_error_in_the_middle_keeps_the_table_of_what_happened(
    use: Callable[[Bench], Bench], capsys: pytest.CaptureFixture[str]
) -> None:
    use(Bench(after=2, error=PromptError("the context is full")))
    assert cli.main(["generate", "why?"]) == 1
    out, err = capsys.readouterr()
    assert out.startswith("<5><6><7><8>")
    assert "ended by" in out
    assert err == "error: the context is full\n"


def test_a_bug_of_ours_is_not_dressed_up_as_a_sentence(use: Callable[[Bench], Bench]) -> None:
    use(Bench(after=1, error=AssertionError("rows out of order")))
    with pytest.raises(AssertionError):
        cli.main(["generate", "why?"])


def test_ctrl_c_prints_the_partial_table_and_exits_130(
    use: Callable[[Bench], Bench], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    use(Bench(after=2, error=KeyboardInterrupt()))
    path = tmp_path / "trace.json"
    assert cli.main(["generate", "why?", "--trace", str(path)]) == 130
    out, err = capsys.readouterr()
    lines = out.splitlines()
    assert lines[0] == "<5><6><7><8>", "the table begins on a line of its own"
    assert "tokens                               3               4" in lines
    assert "ended by                       stopped         stopped" in lines
    assert err.endswith("stopped\n")
    stopped = load_trace(path.read_text("utf-8")).lane("eagle")
    assert (stopped.tokens, stopped.stop) == ((5, 6, 7, 8), StopReason.STOPPED)


# --trace


def test_a_saved_trace_is_the_race(
    use: Callable[[Bench], Bench], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    use(Bench())
    path = tmp_path / "new" / "folder" / "trace.json"
    assert cli.main(["generate", "why ü?", "--trace", str(path)]) == 0
    loaded = load_trace(path.read_text("utf-8"))
    assert (loaded.lanes, loaded.prompt) == (plain_and_eagle().lanes, "why ü?")
    assert [file.name for file in path.parent.iterdir()] == ["trace.json"]
    assert f"trace saved to {path}" in capsys.readouterr().err


def test_a_trace_that_cannot_be_written_leaves_the_old_file_and_no_other(
    use: Callable[[Bench], Bench],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    use(Bench())
    path = tmp_path / "trace.json"
    path.write_text("the old one")

    def full(file: int) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("os.fsync", full)
    assert cli.main(["generate", "why?", "--trace", str(path)]) == 1
    err = capsys.readouterr().err
    assert "cannot write to" in err
    assert "(No space left on device); try another --trace FILE" in err
    assert path.read_text() == "the old one"
    assert [file.name for file in tmp_path.iterdir()] == ["trace.json"]


@pytest.mark.parametrize("place", ["file/trace.json", "."])
def test_an_unwritable_place_ends_in_one_sentence_after_the_table(
    place: str,
    use: Callable[[Bench], Bench],
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
) -> None:
    use(Bench())
    (tmp_path / "file").write_text("no folder")
    assert cli.main(["generate", "why?", "--trace", str(tmp_path / place)]) == 1
    out, err = capsys.readouterr()
    assert "both texts are equal" in out
    assert err.startswith("error: cannot write to ")
    assert err.count("\n") == 1
    assert [file.name for file in tmp_path.iterdir()] == ["file"]


# Whole processes.

BLOCKING = """
import sys
class Blocked:
    def find_spec(self, name, path=None, target=None):
        if name.partition(".")[0] in {"torch", "transformers", "gradio", "tokenizers"}:
            raise ImportError(f"{name} is blocked here")
sys.meta_path.insert(0, Blocked())
"""


def run_without_torch(code: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-c", BLOCKING + code],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=False,
    )


def test_help_needs_no_torch() -> None:
    done = run_without_torch(
        "sys.argv = ['eagle_core', 'generate', '--help']\n"
        "import runpy; runpy.run_module('eagle_core', run_name='__main__')"
    )
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout.startswith("usage: python -m eagle_core generate")
    assert "--max-new-tokens" in done.stdout


def test_a_wrong_option_needs_no_torch() -> None:
    done = run_without_torch(
        "from eagle_core.cli import main; sys.exit(main(['generate', 'x', '--temperature', '99']))"
    )
    assert done.returncode == 1
    assert done.stderr == "error: temperature 99.0; expected a number from 0 to 10\n"


def test_a_reader_that_goes_away_ends_the_program_quietly() -> None:
    code = (
        "import sys; sys.path.insert(0, 'tests')\n"
        "from eagle_core import cli; import test_cli\n"
        "cli.load_workbench = lambda options: test_cli.Bench()\n"
        "sys.exit(cli.main(['generate', 'why?']))"
    )
    done = subprocess.run(
        ["bash", "-c", f'{sys.executable} -c "$0" | true; echo ${{PIPESTATUS[0]}}', code],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.stderr == ""
    assert done.stdout in ("0\n", "1\n")


def test_a_prompt_on_standard_input_that_is_no_text_is_refused(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(b"\xff\xfe\x00")))
    assert cli.main(["generate", "-"]) == 1
    assert capsys.readouterr().err == ("error: a prompt on standard input that is not UTF-8 text\n")


def test_a_wrong_tree_is_refused_before_anything_is_loaded(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(cli, "load_workbench", lambda options: pytest.fail("loaded"))
    assert cli.main(["generate", "hello", "--tree", "bush:3"]) == 1
    assert "tree 'bush:3'" in capsys.readouterr().err
