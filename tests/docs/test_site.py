"""What the documentation site changes in pages and docstrings; `make docs` builds all of it."""

from __future__ import annotations

import sys
from pathlib import Path
from types import SimpleNamespace

import pytest

ROOT = Path(__file__).resolve().parents[2]


@pytest.fixture
def tools(monkeypatch):
    pytest.importorskip("mkdocs", reason="needs the documentation site: pip install '.[docs]'")
    monkeypatch.syspath_prepend(ROOT / "tools")
    import docs_fields
    import docs_site

    yield SimpleNamespace(fields=docs_fields, site=docs_site)
    for name in ("docs_fields", "docs_site"):
        sys.modules.pop(name)


@pytest.mark.parametrize(
    ("page", "link", "on_the_site"),
    [
        ("index.md", "[a](docs/choosing.md#it)", "[a](choosing.md#it)"),
        ("choosing.md", "[a](../CONTRIBUTING.md)", "[a](contributing.md)"),
        ("decisions/README.md", "[a](../sph.md#forces)", "[a](../sph.md#forces)"),
        ("comparing.md", "[a](../reports/shipped/index.html)",
         "[a](reports/shipped/index.html)"),
        ("kernels.md", "[a](../examples/tile-sort/README.md)",
         "[a](https://host/we/blob/main/examples/tile-sort/README.md)"),
        ("checks.md", "[a](../results/checks)", "[a](https://host/we/tree/main/results/checks)"),
        ("checks.md", "[a](https://b.c/d)", "[a](https://b.c/d)"),
    ],
)  # fmt: skip
def test_links_lead_to_where_things_are_on_the_site(tools, page, link, on_the_site):
    config = SimpleNamespace(repo_url="https://host/we/", extra={"revision": "main"})
    file = SimpleNamespace(file=SimpleNamespace(src_uri=page))
    assert tools.site.on_page_markdown(link, file, config) == on_the_site


def test_a_link_to_nowhere_is_refused(tools):
    file = SimpleNamespace(file=SimpleNamespace(src_uri="index.md"))
    with pytest.raises(ValueError, match=r"index.md links to docs/nowhere.md"):
        tools.site.on_page_markdown("[a](docs/nowhere.md)", file, SimpleNamespace(repo_url=""))


def test_a_table_has_the_algorithms_of_its_problem(tools):
    file = SimpleNamespace(file=SimpleNamespace(src_uri="algorithms.md"))
    text = tools.site.on_page_markdown("<!-- algorithms: pair-noise -->", file, SimpleNamespace())
    assert [line.split("|")[1].strip() for line in text.splitlines()[2:]] == [
        "`noise-philox`",
        "`noise-rozen`",
    ]


def test_fields_of_a_docstring_become_a_list(tools):
    assert tools.fields.as_list(
        "Do it.\n\nkeys, values: int32,\n    sorted.\nn: many.\nThe end."
    ) == ("Do it.\n\n\n- `keys, values`: int32,\n    sorted.\n- `n`: many.\n\nThe end.")
