"""The blocks of a tutorial become commands, and their output is compared."""

import pytest

from e2e.support.walkthrough import InvalidWalkthroughError, Step, steps
from tests.support.cases import cases

TUTORIAL = """\
# Title

Text with `code`.

```bash
export BUCKET=my-bucket
cat > file <<END
```not a fence
END
```

```console
$ first
one
$ second
```
"""


def step(expected: str) -> Step:
    return Step(1, "command", expected)


def test_every_block_is_a_step_in_order() -> None:
    script = "export BUCKET=other\ncat > file <<END\n```not a fence\nEND"
    assert steps(TUTORIAL, {"BUCKET": "other"}) == [Step(6, script), Step(13, "first", "one"), Step(15, "second", "")]


@cases(
    "markdown",
    other_language="```yaml\na: 1\n```",
    no_language="```\nls\n```",
    no_prompt="```console\nls\n```",
    empty="```console\n```",
    no_end="```bash\nls",
)
def test_a_block_that_cannot_be_run_is_refused(markdown: str) -> None:
    with pytest.raises(InvalidWalkthroughError, match=r"^line [12]: "):
        steps(markdown, {})


def test_a_variable_that_readers_do_not_see_is_not_replaced() -> None:
    with pytest.raises(InvalidWalkthroughError, match="export ENDPOINT="):
        steps(TUTORIAL, {"ENDPOINT": "x"})


@cases(
    "expected, output",
    equal=("a b", "a b\n"),
    column_widths=("NAME  PHASE\nx     Ready", "NAME      PHASE\nx         Ready   \n"),
    within_a_line=("held for ... and released", "held for 3s and released\n"),
    lines_between=("a\n...\nz", "a\nb\nc\nz\n"),
    no_lines_between=("a\n...\nz", "a\nz\n"),
    lines_after=("a\n...", "a\nb\n"),
    signs_of_patterns=("100 % (1.0 of [2])?", "100 % (1.0 of [2])?\n"),
    no_output=("", ""),
)
def test_output_as_shown_is_right(expected: str, output: str) -> None:
    assert step(expected).difference(output) == ""


@cases(
    "expected, output",
    other_word=("Ready", "Failed\n"),
    other_order=("a\nb", "b\na\n"),
    more_lines=("a", "a\nb\n"),
    fewer_lines=("a\nb", "a\n"),
    unexpected=("", "error\n"),
    one_line_for_two=("a ... b", "a\nb\n"),
)
def test_output_that_differs_is_described(expected: str, output: str) -> None:
    difference = step(expected).difference(output)
    assert "command" in difference
    assert output in difference
