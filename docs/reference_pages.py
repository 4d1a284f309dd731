"""Write the reference pages that come from the code: the API and the command line.

MkDocs calls the functions named ``on_...`` (``hooks`` in mkdocs.yml). One page per module or package of
``ddsh`` lists every name of its public modules' ``__all__``; mkdocstrings fills in signatures and docstrings.
"""

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import griffe
from markdown import Extension, Markdown  # type: ignore[import-untyped]
from markdown.preprocessors import Preprocessor  # type: ignore[import-untyped]
from mkdocs.config.defaults import MkDocsConfig
from mkdocs.structure.files import File, Files

SOURCE = Path(__file__).parents[1] / "src"
NOT_API = ("__main__", "cli")
_ROLE = re.compile(r":(?:attr|class|data|exc|func|meth|mod):`(?:~[\w.]*\.)?([^`]+)`")


class SphinxRoles(Extension):  # type: ignore[misc]  # Markdown has no types
    """Markdown extension that shows Sphinx roles in docstrings, such as :func:`ddsh.load`, as code."""

    def extendMarkdown(self, md: Markdown) -> None:  # noqa: N802 -- Markdown's name
        """Register the preprocessor."""
        md.preprocessors.register(_Roles(md), "sphinx_roles", 100)


class _Roles(Preprocessor):  # type: ignore[misc]
    def run(self, lines: list[str]) -> list[str]:
        return [_ROLE.sub(r"`\1`", line) for line in lines]


def on_config(config: MkDocsConfig) -> MkDocsConfig:
    """Add the Markdown extension."""
    config.markdown_extensions.append(SphinxRoles())
    return config


def on_files(files: Files, config: MkDocsConfig) -> Files:
    """Add the generated pages to those that are files."""
    package = load_package()
    pages = {f"reference/api/{name}.md": page for name, page in api_pages(package)}
    pages["reference/api/ddsh.md"] = front_page(package)
    pages["reference/cli.md"] = cli_page()
    for path, page in pages.items():
        files.append(File.generated(config, path, content=page))
    api = [{path.split("/")[-1].removesuffix(".md"): path} for path in pages if "/api/" in path]
    reference = next(section["Reference"] for section in config.nav or [] if "Reference" in section)
    reference.append({"API": sorted(api, key=lambda page: "ddsh" not in page)})
    return files


def load_package() -> griffe.Module:
    """Read ``ddsh`` without importing it."""
    loader = griffe.GriffeLoader(search_paths=[str(SOURCE)])
    package = loader.load("ddsh")
    loader.resolve_aliases(implicit=False, external=False)
    assert isinstance(package, griffe.Module)
    return package


def public_modules(module: griffe.Module) -> Iterator[griffe.Module]:
    """Yield a module and its public submodules, packages before what is in them."""
    yield module
    for name, member in sorted(module.modules.items()):
        if not name.startswith("_") and not member.is_alias:
            yield from public_modules(member)


def public_names(module: griffe.Module) -> dict[str, str]:
    """Return the names of a module's ``__all__`` and where each is defined."""
    names = [name for name in module.exports or [] if isinstance(name, str) and name in module.members]
    return {name: _defined(module.members[name]) for name in names}


def _defined(member: Any) -> str:  # noqa: ANN401 -- griffe's objects and aliases have no common type
    try:
        return str(member.final_target.path if member.is_alias else member.path)
    except (griffe.AliasResolutionError, griffe.CyclicAliasError):
        return str(member.target_path)


def api_pages(package: griffe.Module) -> Iterator[tuple[str, str]]:
    """Yield the name and the text of each API page; a name is shown once, where it is easiest to import."""
    for name, part in sorted(package.modules.items()):
        if name.startswith("_") or name in NOT_API:
            continue
        shown: set[str] = set()
        lines = [f"# ddsh.{name}", "", _summary(part), ""]
        for module in public_modules(part):
            new = {name: place for name, place in public_names(module).items() if place not in shown}
            new = {name: place for name, place in new.items() if place.startswith("ddsh.")}
            if new and module is not part:
                lines += [f"## {module.path}", "", _summary(module), ""]
            for public in sorted(new):
                lines += [f"::: {module.path}.{public}", ""]
            shown |= set(new.values())
        yield name, "\n".join(lines)


def front_page(package: griffe.Module) -> str:
    """Return the page of ``import ddsh``: each name with a link to its entry."""
    lines = ["# ddsh", "", _summary(package), "", "| Name | What it is |", "|---|---|"]
    for name, place in sorted(public_names(package).items()):
        target = _find(package, place)
        summary = _summary(target) if target is not None else ""
        link = f"[`ddsh.{name}`][{place}]"
        if target is not None and target.is_module:
            link = f"[`ddsh.{name}`]({name}.md)"
        lines.append(f"| {link} | {summary} |")
    return "\n".join(lines)


def _find(package: griffe.Module, place: str) -> Any:  # noqa: ANN401
    try:
        return package[place.removeprefix("ddsh.")]
    except KeyError:
        return None


def _summary(thing: Any) -> str:  # noqa: ANN401
    """Return the first paragraph of a docstring on one line."""
    text = thing.docstring.value if thing.docstring else ""
    return " ".join(text.strip().split("\n\n")[0].split())


def cli_page() -> str:
    """Return the help of every command."""
    import typer.main

    from ddsh.cli import app

    lines = ["# Command line", "", "`ddsh COMMAND --help` prints the same.", ""]
    lines += _command(typer.main.get_command(app), "ddsh", 1)
    return "\n".join(lines)


def _command(command: Any, name: str, level: int) -> list[str]:  # noqa: ANN401
    lines = [f"{'#' * level} `{name}`", ""] if level > 1 else []
    lines += [" ".join((command.help or "").split()), ""]
    rows = [_parameter(parameter) for parameter in command.params if parameter.name != "help"]
    if rows:
        lines += ["| Parameter | Default | Meaning |", "|---|---|---|", *rows, ""]
    for sub in getattr(command, "commands", {}).values():
        lines += _command(sub, f"{name} {sub.name}", level + 1)
    return lines


def _parameter(parameter: Any) -> str:  # noqa: ANN401
    is_option = parameter.param_type_name == "option"
    names = ", ".join(f"`{name}`" for name in parameter.opts) if is_option else f"`{parameter.name.upper()}`"
    default = parameter.default
    has_default = default is not None and default is not False and not callable(default)
    text = "required" if parameter.required else f"`{default}`" if has_default else ""
    return f"| {names} | {text} | {' '.join((parameter.help or '').split())} |".replace("\n", " ")
