"""Who may import whom, read from the sources; and what opens without torch, proved by a process."""

from __future__ import annotations

import ast
import re
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

import eagle_core

ROOT = Path(__file__).parent.parent
WITHOUT_TORCH = (
    "eagle_core",
    *(f"eagle_core.{name}" for name in ("errors", "options", "rules", "tree", "plans", "trace")),
    *(f"eagle_core.{name}" for name in ("trace_json", "summary", "race", "recording", "progress")),
    *(f"eagle_core.{name}" for name in ("cost", "cli", "sequence", "text", "insight")),
    *(f"eagle_core.{name}" for name in ("latency", "reheat", "whatif", "whatif_runs")),
    *(f"eagle_core.{name}" for name in ("shapes", "shipped", "expected", "conversation")),
    *(f"eagle_core.{name}" for name in ("citation", "trace_files")),
    *(f"eagle_core.{name}" for name in ("report", "report_forms", "reporting")),
    *(f"eagle_core.{name}" for name in ("planning", "dynamic", "calibration", "auto", "optimum")),
)
"""What a recorded trace needs to be opened and recounted, and what --help needs to be printed."""

HEAVY = ("torch", "transformers", "gradio", "tokenizers", "safetensors")


@dataclass(frozen=True)
class Import:
    """One module imported somewhere; `is_lazy` within a function, `is_typing` for types alone."""

    importer: str
    module: str
    is_typing: bool
    is_lazy: bool

    def is_of(self, *rooms: str) -> bool:
        return is_in(self.module, *rooms)


def is_in(module: str, *rooms: str) -> bool:
    return any(module == room or module.startswith(f"{room}.") for room in rooms)


def module_name(path: Path) -> str:
    parts = path.relative_to(ROOT).with_suffix("").parts
    if parts == ("app",):
        return "app.py"  # the script beside the package
    return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)


SOURCES = {
    module_name(path): path
    for path in [ROOT / "app.py", *ROOT.glob("app/**/*.py"), *ROOT.glob("eagle_core/**/*.py")]
}


def imports_of(importer: str) -> Iterator[Import]:
    tree = ast.parse(SOURCES[importer].read_text("utf-8"))
    yield from _walk(tree, importer, is_typing=False, is_lazy=False)


def _walk(node: ast.AST, importer: str, *, is_typing: bool, is_lazy: bool) -> Iterator[Import]:
    if isinstance(node, ast.Import | ast.ImportFrom):
        for module in _modules(node):
            yield Import(importer, module, is_typing, is_lazy)
    is_lazy = is_lazy or isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda)
    if isinstance(node, ast.If) and ast.unparse(node.test) == "TYPE_CHECKING":
        for inner in node.body:
            yield from _walk(inner, importer, is_typing=True, is_lazy=is_lazy)
        for inner in node.orelse:
            yield from _walk(inner, importer, is_typing=is_typing, is_lazy=is_lazy)
        return
    for inner in ast.iter_child_nodes(node):
        yield from _walk(inner, importer, is_typing=is_typing, is_lazy=is_lazy)


def _modules(node: ast.Import | ast.ImportFrom) -> list[str]:
    """`from room import name` imports `room.name` where that is a module of ours."""
    if isinstance(node, ast.Import):
        return [alias.name for alias in node.names]
    assert node.level == 0, "imports are absolute"
    room = node.module or ""
    inner = [f"{room}.{alias.name}" for alias in node.names]
    return [module if module in SOURCES else room for module in inner]


IMPORTS = [found for importer in SOURCES for found in imports_of(importer)]


def offending(importer: tuple[str, ...], imported: tuple[str, ...], **must: bool) -> list[str]:
    """`a → b` for every import of these rooms by those rooms."""
    return [
        f"{found.importer} → {found.module}"
        for found in IMPORTS
        if is_in(found.importer, *importer)
        and found.is_of(*imported)
        and all(getattr(found, name) is value for name, value in must.items())
    ]


def test_the_imports_are_really_read() -> None:
    """Each of these is there, so the tests below look at something."""
    assert {"eagle_core.verify", "eagle_core.drafters.eagle", "app.py", "app.runner"} <= {*SOURCES}
    assert Import("eagle_core.engine", "eagle_core.decoding", False, False) in IMPORTS
    assert Import("eagle_core.engine", "eagle_core.drafters.base", True, False) in IMPORTS
    assert Import("eagle_core.cli", "eagle_core.workbench", False, True) in IMPORTS
    assert Import("eagle_core.workbench", "eagle_core.cost", False, False) in IMPORTS
    assert offending(("eagle_core.engine",), ("eagle_core.sequence",))


def test_the_core_never_imports_the_app() -> None:
    assert offending(("eagle_core",), ("app", "gradio")) == []


def test_the_engines_side_knows_neither_training_nor_benchmark() -> None:
    engine_side = tuple(
        name
        for name in SOURCES
        if is_in(name, "eagle_core") and not is_in(name, "eagle_core.training", "eagle_core.bench")
    )
    outside = [
        f"{found.importer} → {found.module}"
        for found in IMPORTS
        if found.importer in engine_side and found.is_of("eagle_core.training", "eagle_core.bench")
    ]
    assert outside == []
    assert offending(("eagle_core.training",), ("eagle_core.bench",)) == []
    assert offending(("eagle_core.bench",), ("eagle_core.training",)) == []


def test_verification_never_meets_a_drafter_a_target_a_cache_or_text() -> None:
    rooms = ("drafters", "targets", "engine", "plain", "decoding", "text", "sequence")
    judges = tuple(f"eagle_core.{room}" for room in ("verify", "contests", "block", "rules"))
    assert offending(judges, tuple(f"eagle_core.{room}" for room in rooms)) == []


def test_a_drafter_never_imports_a_target() -> None:
    found = offending(("eagle_core.drafters",), ("eagle_core.targets",), is_typing=False)
    allowed = "eagle_core.targets.base"
    assert [line for line in found if not line.endswith(f"→ {allowed}")] == []
    loops = ("eagle_core.engine", "eagle_core.plain", "eagle_core.decoding", "eagle_core.workbench")
    assert offending(("eagle_core.drafters",), loops) == []


def test_a_target_never_imports_what_uses_it() -> None:
    users = ("drafters", "engine", "plain", "decoding", "workbench", "verify", "recording")
    assert offending(("eagle_core.targets",), tuple(f"eagle_core.{user}" for user in users)) == []


def test_the_cache_classes_of_transformers_are_touched_in_one_file() -> None:
    touching = {found.importer for found in IMPORTS if found.is_of("transformers.cache_utils")}
    assert touching == {"eagle_core.targets.kv"}


def test_only_layout_and_pages_import_gradio() -> None:
    importers = {found.importer for found in IMPORTS if found.is_of("gradio")}
    assert importers
    assert {name for name in importers if not is_in(name, "app.layout", "app.pages")} == set()


def test_a_view_imports_neither_torch_nor_gradio_nor_the_rest_of_the_page() -> None:
    assert offending(("app.views",), HEAVY) == []
    others = tuple(
        name for name in SOURCES if name.startswith("app.") and not is_in(name, "app.views")
    )
    assert offending(("app.views",), others) == []


def test_only_the_runner_bridges_page_and_engine() -> None:
    beyond = [
        f"{found.importer} → {found.module}"
        for found in IMPORTS
        if is_in(found.importer, "app", "app.py")
        and found.importer != "app.runner"
        and found.is_of("eagle_core")
        and found.module not in WITHOUT_TORCH
    ]
    assert beyond == []
    assert offending(("app", "app.py"), ("torch", "transformers")) == []


def test_nothing_of_the_page_is_imported_within_a_function() -> None:
    """Save its front door, which hands out the layout where gradio is there."""
    assert offending(("app", "app.py", "eagle_core"), ("app",), is_lazy=True) == [
        "app → app.layout",
    ]


def test_the_script_only_reads_flags_and_launches() -> None:
    ours = {f.module for f in IMPORTS if f.importer == "app.py" and f.is_of("app", "eagle_core")}
    assert ours <= {"app.layout", "app.settings", "eagle_core.errors"}


# Without torch.

BLOCKING = f"""
import importlib, sys
class Blocked:
    def find_spec(self, name, path=None, target=None):
        if name.partition(".")[0] in {set(HEAVY)!r}:
            raise ImportError(f"{{name}} is blocked here")
sys.meta_path.insert(0, Blocked())
for name in sys.argv[1:]:
    importlib.import_module(name)
"""


def import_without_torch(*modules: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-c", BLOCKING, *modules]
    return subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)


def test_traces_views_and_command_line_open_without_torch_or_gradio() -> None:
    views = [name for name in SOURCES if is_in(name, "app.views")]
    assert len(views) > 2
    done = import_without_torch(*WITHOUT_TORCH, *views, "app.replay", "app.settings")
    assert (done.returncode, done.stderr) == (0, "")


@pytest.mark.parametrize("module", ["eagle_core.sampling", "app.layout"])
def test_what_needs_torch_or_gradio_does_fail_without(module: str) -> None:
    done = import_without_torch(module)
    assert done.returncode == 1
    assert "is blocked here" in done.stderr


def test_the_loops_reach_no_library_of_models_or_pages() -> None:
    """By no chain of imports: a toy target needs torch alone."""
    reached, new = set[str](), {"eagle_core.engine", "eagle_core.plain"}
    while new:
        reached |= new
        found = [f for f in IMPORTS if f.importer in new and not f.is_typing and not f.is_lazy]
        new = {each.module for each in found} - reached
    assert {"eagle_core.verify", "torch"} <= reached
    assert [module for module in reached if is_in(module, *set(HEAVY) - {"torch"})] == []


# What every file of ours says of itself.


def test_every_module_introduces_itself() -> None:
    silent = [
        name
        for name, path in SOURCES.items()
        if (source := path.read_text("utf-8")).strip() and not ast.get_docstring(ast.parse(source))
    ]
    assert silent == []


LEGEND = re.findall(r"(?:^|\s{2,})([A-Z])\s{2}(?=\S)", eagle_core.__doc__ or "")


def test_the_legend_names_every_letter_of_dimensions() -> None:
    assert sorted(LEGEND) == sorted("NLPRVDKBHJG")
    assert len(LEGEND) == len(set(LEGEND))


def test_comments_of_the_engine_use_no_letter_that_the_legend_lacks() -> None:
    unknown = [
        f"{name}: {comment}"
        for name, path in SOURCES.items()
        if is_in(name, "eagle_core") and not is_in(name, "eagle_core.training")
        for comment in re.findall(r"#\s+(\([^)\n]*\))", path.read_text("utf-8"))
        for letter in re.findall(r"\b([A-Z])\b", comment)
        if letter not in LEGEND
    ]
    assert unknown == []


def test_a_front_door_names_exactly_what_is_public() -> None:
    public = {
        name
        for name, value in vars(eagle_core).items()
        if not name.startswith("_") and not isinstance(value, type(sys))
    }
    assert public == {*eagle_core.__all__}
    assert eagle_core.__all__ == sorted(eagle_core.__all__)


PLACES = "|".join(["work", "home", "root", "opt", "mnt", "Users", "tmp", "var", "workspace"])
MACHINE_PATH = re.compile(rf"(?<![\w.~/:)}}$-])/(?:{PLACES})/[\w.]|(?<!\w)[A-Z]:\\\\\w")
SUFFIXES = {".py", ".js", ".mjs", ".css", ".md", ".toml", ".txt", ".json", ".yml", ".yaml", ".html"}


def test_a_machine_path_is_known_when_seen() -> None:
    for place in ("work", "home", "tmp"):
        assert MACHINE_PATH.search(f'open("/{place}/me/file.txt")')
        for harmless in ("see ../shared/{}/x", "https://x.org/{}/y", "assets/{}/x", "a /{} day"):
            assert not MACHINE_PATH.search(harmless.format(place))


def test_no_file_of_ours_holds_a_path_of_one_machine() -> None:
    files = [
        path
        for path in ROOT.rglob("*")
        if path.is_file()
        and (path.suffix in SUFFIXES or path.parent.name == ".ci")
        and not any(part.startswith(".") and part != ".ci" for part in path.relative_to(ROOT).parts)
        and "node_modules" not in path.parts
    ]
    assert len(files) > 60
    holding = [
        f"{path.relative_to(ROOT)}:{number}: {line.strip()[:80]}"
        for path in files
        for number, line in enumerate(path.read_text("utf-8").splitlines(), 1)
        if MACHINE_PATH.search(line)
    ]
    assert holding == []
