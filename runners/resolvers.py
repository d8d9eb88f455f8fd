"""What Hydra and OmegaConf would run: ``${oc.env:HOME}`` reads the environment, ``_target_`` names code to call.

A config is data, and a run is known by it: such a call is refused wherever it stands. ``${seed}``, the value of another
key, is none.
"""

from __future__ import annotations

from typing import Any

from xsim.errors import SpecError

__all__ = ["refuse_code", "refuse_resolvers"]

PROBLEM = "a config computes nothing and reads no environment"
FIX = "write the value itself; ${batch} stands for that of another key"


CODE = ("_target_", "_partial_", "_args_", "_recursive_", "_convert_")


def refuse_code(node: object, path: str) -> None:
    """Refuse keys below ``node`` by which Hydra would run code; this program never does, and says so.

    Raises:
        SpecError: Its field is ``path``, which ends with a dot or is empty, and the keys that lead on from there.
    """
    if isinstance(node, dict):
        for key, value in node.items():
            if str(key).rpartition(".")[2] in CODE:
                fix = "choose a member by its name: reshard=lcm"
                raise SpecError(f"{path}{key}", value, "a config cannot name code to run", fix)
            refuse_code(value, f"{path}{key}.")
    elif isinstance(node, list | tuple):
        for index, value in enumerate(node):
            refuse_code(value, f"{path}{index}.")


def refuse_resolvers(node: object, path: str) -> None:
    """Refuse text below ``node`` in which OmegaConf would call a resolver.

    Raises:
        SpecError: Its field is ``path`` and the keys that lead on from there.
    """
    if isinstance(node, dict):
        for key, value in node.items():
            refuse_resolvers(value, f"{path}.{key}" if path else str(key))
    elif isinstance(node, list | tuple):
        for index, value in enumerate(node):
            refuse_resolvers(value, f"{path}[{index}]")
    elif isinstance(node, str) and "${" in node and ":" in node and _calls(node):
        raise SpecError(path, node, PROBLEM, FIX)


def _calls(text: str) -> bool:
    from omegaconf.errors import GrammarParseError
    from omegaconf.grammar_parser import parse

    try:
        return _has_call(parse(text))
    except GrammarParseError:  # its error is told when it is resolved
        return False
    except RecursionError:
        return True


def _has_call(tree: Any) -> bool:
    if type(tree).__name__ == "InterpolationResolverContext":
        return True
    return any(_has_call(tree.getChild(place)) for place in range(tree.getChildCount()))
