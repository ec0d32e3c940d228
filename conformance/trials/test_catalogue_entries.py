"""The catalogue can be read in tables, and its musts rest on evidence.

Each trial collects every defect, so that one run names all of them.
"""

import json
import re
import subprocess
import sys
import tomllib
from importlib import metadata
from pathlib import Path
from typing import Any

import jax
import pytest
from packaging.version import Version
from scutch import catalogue

FOLDER = Path(catalogue.__file__).parent
CHECKOUT = Path(__file__).parents[2]
SEEDS = CHECKOUT.parent / "shared" / "seeds"
OLD_IDS = 632
"""The number of requirements of 0.1."""

NEWER = {
    "AxisType": "0.5.3",
    "jax.shard_map": "0.6.2",
    "jax.set_mesh": "0.7.1",
    "debug_info": "0.5.0",
    "input_formats": "0.6.2",
}
"""Names in snippets that older pinned JAX lacks, with the first pinned JAX that has them."""

OLD_ID = re.compile(r"\b(BOX|LOG|OBJ|EXP|DST|JIT|LIN|SHM|BRG)-\d")
INSTALLED = {"flax": "flax", "jax": "jax", "orbax": "orbax-export"}
"""The distribution that holds an installed document, by the first folder of the document's path."""

SNIPPETS = """
import json, sys, traceback, warnings
from scutch.judging.profiles import prepare_devices
prepare_devices()
warnings.simplefilter("ignore")
broken = []
for identifier, code in json.load(sys.stdin).items():
    try:
        exec(compile(code, identifier, "exec"), {"__name__": "snippet"})
    except Exception:
        broken.append(f"{identifier}: {traceback.format_exc(limit=-1)}")
print(json.dumps(broken))
"""


def _toml(path: str) -> dict[str, Any]:
    return tomllib.loads((FOLDER / path).read_text(encoding="utf-8"))


def _entries() -> list[tuple[str, dict[str, Any]]]:
    """Every entry with its group, in the order of files and of their text."""
    groups = catalogue.groups()
    return [(group, entry) for group in groups for entry in _toml(f"{group}.toml")["requirement"]]


ENTRIES = _entries()
DOCUMENTS = catalogue.documents()


def _cited(entry: dict[str, Any]) -> list[str]:
    """The documents that an entry's `source` names."""
    words = re.findall(r"[\w.-]+", entry.get("source", ""))
    return [word for word in dict.fromkeys(words) if word in DOCUMENTS]


def _words(text: str) -> str:
    return " ".join(text.split())


def test_an_id_is_the_path_of_its_file_and_a_short_sentence():
    ids = [entry["id"] for _, entry in ENTRIES]
    assert len(ids) == len(set(ids))
    assert {group.split("/")[0] for group, _ in ENTRIES} == set(catalogue.PARTS)
    assert set(catalogue.groups()) == {
        path.relative_to(FOLDER).with_suffix("").as_posix()
        for path in FOLDER.glob("*/*.toml")
        if path.stem != "inherits"
    }
    assert [
        i for (group, _), i in zip(ENTRIES, ids, strict=True) if i.rpartition("/")[0] != group
    ] == []
    sentence = re.compile(r"[a-z0-9]+(-[a-z0-9]+)*(\[[\w=,\- ]+\])?")
    assert [i for i in ids if not sentence.fullmatch(i.rpartition("/")[2])] == []


def test_titles_and_texts_are_short_and_name_no_old_id():
    long = [
        (entry["id"], field)
        for _, entry in ENTRIES
        for field, least, most in (("title", 3, 10), ("text", 4, 40))
        if not least <= len(entry[field].split()) <= most
    ]
    old = [
        (entry["id"], field)
        for _, entry in ENTRIES
        for field in ("title", "text", "domain", "loss", "message")
        if OLD_ID.search(entry.get(field, ""))
    ]
    assert (long, old) == ([], [])


def test_every_entry_has_a_level_and_a_harm():
    assert {entry["level"] for _, entry in ENTRIES} == {"must", "should"}
    assert {entry["harm"] for _, entry in ENTRIES} == set(catalogue.HARMS)


RECORDED = CHECKOUT / "conformance/trials/reports/ids-0.1.txt"
"""The ids in a record of 0.1. The catalogue had 70 more, which it lacks."""


def test_every_old_id_leads_to_one_requirement_or_to_the_reason_why_it_is_not_asked():
    new = [old for row in catalogue.load() for old in row.was]
    retired = catalogue.retired()
    assert all(retired.values())
    assert len(new) == len(set(new)) == OLD_IDS - len(retired)
    assert set(RECORDED.read_text("utf-8").split()) <= {*new, *retired}
    assert all(catalogue.current(old) in catalogue.by_id() for old in new)


def test_the_logical_variants_are_the_inherited_requirements():
    """Every old id `LOG-9.BOX-...` is the variant of an entry in a group that is inherited."""
    variants = {row.id: row for row in catalogue.load() if row.id != catalogue.plain(row.id)}
    rows = catalogue.by_id()
    for identifier, row in variants.items():
        assert row.was == tuple(f"LOG-9.{old}" for old in rows[catalogue.plain(identifier)].was)
    boxes = [old for row in catalogue.load() for old in row.was if old.startswith("BOX-")]
    assert len(variants) > 50
    assert {old for row in variants.values() for old in row.was} == {
        f"LOG-9.{old}" for old in boxes if old not in ("BOX-21a", "BOX-21c")
    }


def test_needs_come_before_the_entries_that_need_them_and_form_no_circle():
    place = {entry["id"]: (group, n) for n, (group, entry) in enumerate(ENTRIES)}
    unknown = [(e["id"], need) for _, e in ENTRIES for need in e["needs"] if need not in place]
    assert unknown == []
    later = [
        (entry["id"], need)
        for group, entry in ENTRIES
        for need in entry["needs"]
        if place[need][0] == group and place[need] >= place[entry["id"]]
    ]
    assert later == []
    left = {entry["id"]: set(entry["needs"]) for _, entry in ENTRIES}
    while free := [i for i, needs in left.items() if not needs & left.keys()]:
        for identifier in free:
            del left[identifier]
    assert left == {}


def test_a_must_rests_on_a_quote_a_snippet_or_a_loss():
    without = [
        entry["id"]
        for _, entry in ENTRIES
        if entry["level"] == "must"
        and not any(entry.get(kind) for kind in ("quote", "jax", "loss"))
    ]
    assert without == []


def test_a_quote_names_documents_with_a_title_and_a_public_address():
    assert all(d.title and d.address.startswith("https://") for d in DOCUMENTS.values())
    assert [n for n, d in DOCUMENTS.items() if (d.installed or d.copy) and not d.version] == []
    assert [e["id"] for _, e in ENTRIES if e.get("quote") and not _cited(e)] == []


def _text(name: str) -> str:
    """The text of a document. Skips, with the reason, where this machine has not that version."""
    document = DOCUMENTS[name]
    if document.copy:
        return (Path(__file__).parent / document.copy).read_text(encoding="utf-8")
    if not document.installed:
        if not SEEDS.is_dir():
            pytest.skip(f"the seed {name} is not in shared/seeds beside the checkout")
        return next(SEEDS.glob(f"{name}*")).read_text(encoding="utf-8")
    distribution = INSTALLED[document.installed.split("/")[0]]
    try:
        version = metadata.version(distribution)
    except metadata.PackageNotFoundError:
        pytest.skip(f"{distribution} is not installed")
    if version != document.version:
        pytest.skip(f"{distribution} {version} is installed; the quotes are of {document.version}")
    return Path(str(metadata.distribution(distribution).locate_file(document.installed))).read_text(
        encoding="utf-8"
    )


@pytest.mark.parametrize("name", sorted({name for _, e in ENTRIES for name in _cited(e)}))
def test_a_quote_stands_in_a_document_that_it_names(name):
    """A quote with several documents must stand in one of them: the first is asked here."""
    quotes = {e["id"]: e["quote"] for _, e in ENTRIES if e.get("quote") and _cited(e)[0] == name}
    text = _words(_text(name))
    elsewhere = {e["id"]: _cited(e)[1:] for _, e in ENTRIES if e["id"] in quotes}
    missing = [
        identifier
        for identifier, quote in quotes.items()
        if _words(quote) not in text
        and not any(_words(quote) in _words(_text(other)) for other in elsewhere[identifier])
    ]
    assert missing == []


def test_snippets_of_plain_jax_run():
    """One process runs all of them: starting JAX costs more than most snippets."""
    snippets = {entry["id"]: entry["jax"] for _, entry in ENTRIES if "jax" in entry}
    assert [i for i, code in snippets.items() if "assert" not in code] == []
    assert [i for i, code in snippets.items() if re.search(r"\b(flax|scutch)\b", code)] == []
    here = Version(jax.__version__)
    run = {
        entry["id"]: entry["jax"]
        for _, entry in ENTRIES
        if "jax" in entry and here >= Version(entry.get("jax_since", "0"))
    }
    done = subprocess.run(
        [sys.executable, "-P", "-c", SNIPPETS],
        input=json.dumps(run),
        capture_output=True,
        text=True,
        timeout=600,
        check=True,
    )
    assert "\n".join(json.loads(done.stdout.splitlines()[-1])) == ""


def test_a_snippet_says_since_which_jax_it_runs():
    """Names that older pinned JAX lacks. On each pinned JAX the snippets were run by hand."""
    silent = [
        (entry["id"], name)
        for _, entry in ENTRIES
        for name, since in NEWER.items()
        if name in (code := entry.get("jax", ""))
        and "hasattr" not in code
        and Version(entry.get("jax_since", "0")) < Version(since)
    ]
    assert silent == []
