"""The command line: race the two lanes over a prompt and print what came of it.

    python -m eagle_core generate "Why is the sky blue?"

Knows flags and printing; all else is the workbench's.
"""

from __future__ import annotations

import argparse
import os
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from eagle_core.conversation import read_conversation
from eagle_core.convert import add_convert
from eagle_core.errors import EagleError, OptionError, PromptError
from eagle_core.files import write_wanted
from eagle_core.options import OPTION_NAMES, RULE_NAMES, RunOptions
from eagle_core.plans import OF_THIS_MACHINE
from eagle_core.progress import progress_on_stderr
from eagle_core.reporting import add_report
from eagle_core.summary import summary_table
from eagle_core.trace_json import dump_trace

if TYPE_CHECKING:
    from eagle_core.recording import Recording
    from eagle_core.trace import Trace, Turn
    from eagle_core.workbench import Workbench

    Commands = argparse._SubParsersAction[argparse.ArgumentParser]

DTYPE_HELP = (
    "float32 (on a CPU by default), bfloat16 (on CUDA), float16, or on a CPU alone int8 or int4: "
    "the target's weights in 8 or 4 bits over bfloat16, another target, which both lanes share. "
    "int4 is the fastest over one row and gains the least from wide trees"
)
MAX_SAMPLES = 1_000_000
INTERRUPTED = 130  # the shell's number for a program ended by Ctrl-C


def main(arguments: Sequence[str] | None = None) -> int:
    return run_entry(build_parser(), arguments)


def run_entry(parser: argparse.ArgumentParser, arguments: Sequence[str] | None) -> int:
    """Run the command that was asked for; 0 when it worked, 1 after one sentence on stderr.

    A command that comes to a verdict gives the number itself.
    """
    options = parser.parse_args(arguments)
    try:
        code: int | None = options.run(options)
    except EagleError as error:
        print(f"error: {error}", file=sys.stderr)
        return 1
    except BrokenPipeError:
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 1
    except KeyboardInterrupt:
        print("\nstopped", file=sys.stderr)
        return INTERRUPTED
    return code or 0


def build_parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="python -m eagle_core", description="EAGLE speculative decoding, measured and shown."
    )
    commands = parser.add_subparsers(title="commands", required=True, metavar="COMMAND")
    add_generate(commands)
    add_prove(commands)
    add_convert(commands)
    add_report(commands)
    return parser


def add_generate(commands: Commands) -> None:
    generate = commands.add_parser(
        "generate",
        help="answer a prompt plainly and with EAGLE, and compare",
        description="Answer a prompt twice, plainly and with EAGLE, and print both clocks.",
        formatter_class=argparse.ArgumentDefaultsHelpFormatter,
    )
    generate.add_argument("prompt", help="what to ask; - reads it from standard input")
    generate.add_argument("--turn", action="append", metavar="TEXT", help="ask next; repeat")
    generate.add_argument(
        "--messages", type=Path, metavar="FILE", help="JSON list of turns that came before"
    )
    add_run_flags(generate)
    add_model_flags(generate)
    generate.add_argument("--trace", type=Path, metavar="FILE", help="save the trace as JSON")
    generate.add_argument(
        "--record-dropped",
        action="store_true",
        help="with what dynamic trees (and auto) drafted and did not keep in it",
    )
    generate.set_defaults(run=run_generate)


def add_prove(commands: Commands) -> None:
    prove = commands.add_parser(
        "prove",
        help="prove on this target and head that drafting changes nothing",
        description="Compare greedy texts, and count sampled tokens against the exact target law. "
        "Ends with 0 where the proof holds and with 1 where it fails.",
        formatter_class=argparse.ArgumentDefaultsHelpFormatter,
    )
    prove.add_argument("--prompt", action="append", metavar="TEXT", help="instead of ours; repeat")
    prove.add_argument("--samples", type=int, default=1000, help="sampled steps per context")
    add_run_flags(prove)
    add_model_flags(prove)
    prove.set_defaults(run=run_prove, temperature=1.0, max_new_tokens=32)


def add_model_flags(parser: argparse.ArgumentParser) -> None:
    """Flags that say what to load and where; `app.py` has the same."""
    group = parser.add_argument_group("model")
    group.add_argument("--target", help="hub id or folder; SmolLM2-135M-Instruct by default")
    group.add_argument("--head", help="folder of a trained head, or the name of a shipped one")
    group.add_argument("--device", help="cpu, cuda, cuda:N; auto is all GPUs; one by default")
    group.add_argument("--dtype", metavar="DTYPE", help=DTYPE_HELP)
    group.add_argument("--cache", type=Path, help="folder for fetched and measured things")


def add_run_flags(parser: argparse.ArgumentParser) -> None:
    group = parser.add_argument_group("run")
    group.add_argument("--max-new-tokens", type=int, default=128, help="length of the answer")
    group.add_argument("--temperature", type=float, default=0.0, help="0 is greedy")
    group.add_argument("--top-p", type=float, default=1.0, help="1 keeps all tokens")
    group.add_argument("--top-k", type=int, default=0, help="0 keeps all tokens")
    group.add_argument("--min-p", type=float, default=0.0, help="0 keeps all tokens")
    group.add_argument(
        "--repetition-penalty", type=float, default=1.0, help="counts prompt and answer; 1 is none"
    )
    group.add_argument(
        "--presence-penalty", type=float, default=0.0, help="counts the answer; 0 is none"
    )
    group.add_argument(
        "--frequency-penalty", type=float, default=0.0, help="counts the answer; 0 is none"
    )
    group.add_argument(
        "--stop", action="append", metavar="TEXT", help="end before this text; repeat for more"
    )
    group.add_argument("--seed", type=int, default=0, help="same seed, same text")
    group.add_argument(
        "--tree",
        default="auto",
        help="auto, what pays at each step; best, the best fixed one; chain:N; tree:N up to 25; "
        "dynamic:DRAFTS[:DEPTH[:CHILDREN]], EAGLE-2's; or nodes by rank, ranks:0.1.00",
    )
    group.add_argument("--rule", default="auto", choices=RULE_NAMES, help="acceptance rule")


def run_options(options: argparse.Namespace, **instead: object) -> RunOptions:
    """What the flags ask for, with some of it put in another way."""
    given = {name: value for name, value in vars(options).items() if name in OPTION_NAMES}
    return RunOptions(**{**given, "stop": tuple(options.stop or ()), **instead})


def run_generate(options: argparse.Namespace) -> None:
    wanted = run_options(options)
    prompt = read_prompt() if options.prompt == "-" else options.prompt
    earlier: Sequence[Turn] = read_conversation(options.messages) if options.messages else ()
    bench = load_workbench(options)
    earlier = answer(bench.race(prompt, wanted, earlier=earlier), options.trace)
    for turn in options.turn or ():
        print(f"\n> {turn}\n")
        earlier = answer(bench.race(turn, wanted, earlier=earlier), options.trace)


def answer(recording: Recording, save_to: Path | None) -> Sequence[Turn]:
    """Print and keep one run; the conversation with its answer."""
    try:
        print_while_racing(recording)
    finally:
        trace = recording.trace(stopped=True)
        print(summary_table(trace))
        if save_to:
            save_trace(trace, save_to)
    return trace.conversation


def run_prove(options: argparse.Namespace) -> int:
    """0 where the proof holds, 1 where it fails."""
    wanted = run_options(options)
    if wanted.temperature == 0:
        raise OptionError(
            "temperature 0", expected="the temperature of the sampled steps", hint="1"
        )
    if not 1 <= options.samples <= MAX_SAMPLES:
        raise OptionError(f"--samples {options.samples}", expected=f"1 to {MAX_SAMPLES:,}")
    bench = load_workbench(options, measures=False)  # a proof needs no fast tree
    from eagle_core.proof_report import report
    from eagle_core.proving import prove
    from eagle_core.workbench import MEASURING_PROMPTS

    prompts = options.prompt or MEASURING_PROMPTS
    with progress_on_stderr() as progress:
        proof = prove(bench, prompts, wanted, num_samples=options.samples, progress=progress)
    where = bench.environment
    print(
        report(
            proof,
            wanted,
            where=f"{where.target}, head {where.head}, {where.dtype} on {where.device}",
        )
    )
    return 0 if proof.holds else 1


def read_prompt() -> str:
    try:
        return sys.stdin.buffer.read().decode("utf-8")
    except UnicodeDecodeError as error:
        raise PromptError("a prompt on standard input that is not UTF-8 text") from error


def load_workbench(options: argparse.Namespace, *, measures: bool = True) -> Workbench:
    """measures: measure which tree is fastest here, where the options leave that open."""
    # torch and transformers take seconds to import, which --help and a wrong flag need not wait for
    from eagle_core.workbench import Workbench

    with progress_on_stderr() as progress:
        return Workbench.load(
            target=options.target,
            head=options.head,
            device=options.device,
            dtype=options.dtype,
            cache=options.cache,
            progress=progress,
            measures=measures and any(tree in OF_THIS_MACHINE for tree in options.tree.split(",")),
        )


def print_while_racing(recording: Recording) -> None:
    """EAGLE's text as it comes; the plain lane runs beside it and only its clock is shown."""
    try:
        for moment in recording:
            if moment.method == "eagle":
                print("".join(moment.texts), end="", flush=True)
    finally:
        print("\n")


def save_trace(trace: Trace, path: Path) -> None:
    write_wanted(path, dump_trace(trace), flag="--trace FILE")
    print(f"trace saved to {path}", file=sys.stderr)
