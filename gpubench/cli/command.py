"""The base class of all commands."""

from __future__ import annotations

from typing import Any

from typer.core import TyperCommand

from gpubench.base.errors import UserError
from gpubench.cli import values


class Command(TyperCommand):
    """A command that rejects repeated options and fills the possible values into its help."""

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        """Read the command line.

        Raises UserError for an option that takes one value and is given twice: otherwise the last
        value would silently replace the first.
        """
        if not ctx.resilient_parsing:
            *_, order = self.make_parser(ctx).parse_args(args=list(args))
            for each in order:
                is_idempotent = getattr(each, "is_flag", False) and not each.secondary_opts
                takes_several = each.multiple or each.nargs != 1 or is_idempotent
                if order.count(each) > 1 and not takes_several:
                    raise UserError(
                        f"{'/'.join([*each.opts, *each.secondary_opts])} was given twice: give it"
                        " once, with commas between its values where it takes several"
                    )
        return super().parse_args(ctx, args)

    def format_help(self, ctx: Any, formatter: Any) -> None:
        """Write the help, including the possible values of options."""
        parameters: list[Any] = self.params
        for each in parameters:
            each.help = each.help and values.filled(each.help)
        super().format_help(ctx, formatter)
