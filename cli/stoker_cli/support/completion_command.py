"""The command `stoker completion`."""

import click
from click.shell_completion import ShellComplete, get_completion_class

_PROGRAM, _VARIABLE = "stoker", "_STOKER_COMPLETE"  # click derives the variable from the program's name
# \b keeps click from joining the lines.
_EXAMPLES = """\b
Examples:
  source <(stoker completion bash)          # in ~/.bashrc
  source <(stoker completion zsh)           # in ~/.zshrc, after compinit
  stoker completion fish > ~/.config/fish/completions/stoker.fish
"""


@click.command(epilog=_EXAMPLES)
@click.argument("shell", type=click.Choice(["bash", "zsh", "fish"]))
@click.pass_context
def completion(context: click.Context, shell: str) -> None:
    """Print the script that completes commands and options of `stoker` in SHELL."""
    kind = get_completion_class(shell)
    assert kind is not None  # the choices are those of click
    # ShellComplete.source, because that of bash starts bash to look at its version.
    click.echo(ShellComplete.source(kind(context.find_root().command, {}, _PROGRAM, _VARIABLE)))
