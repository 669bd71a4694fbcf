"""The report: complete, repeatable, and inert whatever text it shows."""

import base64
import hashlib
import json
import re
import subprocess
import sys
from html import unescape
from html.parser import HTMLParser
from xml.etree import ElementTree

import pytest

from lab import report
from lab.report import markdown
from lab.report.figures import draw
from lab.report.page import page
from lab.verdict.verdicts import verdict
from tests.synthetic_sweep import BASIN, evidence, sweep

pytestmark = pytest.mark.slow

HOSTILE = (
    "</td></table><script>alert(1)</script>",
    "\"><img src=x onerror='alert(1)'>",
    "<!-- -->]]></svg><style>*{display:none}</style>",
    "{{ 7 * 7 }} {% include 'x' %} $\\frac{1$ _hidden",
    "javascript:alert(1) [x](http://example.org) | `code` \u2028 \U0001f4a5",
)
VALUES = {
    "gated_x2.7": [1.42, 1.40, 1.43],
    "plain_x4": [1.45, 1.44, 1.46],
    "plain_x8": [1.47, 1.46, "diverged"],
    "plain_x32": [1.60, None, "failed"],
}


class Tree(HTMLParser):
    """Tags and attribute names in order, with the text of title, list items and cells."""

    def __init__(self, page):
        super().__init__()
        self.tags, self.sources, self.text = [], [], ""
        self.feed(page)

    def handle_starttag(self, tag, attrs):
        self.tags.append((tag, *(name for name, _ in attrs)))
        self.sources += [value for name, value in attrs if name in ("src", "href")]

    def handle_endtag(self, tag):
        self.tags.append(("/", tag))

    def handle_data(self, data):
        self.text += data


def shown(plan, records):
    """The page of a plan and records in their forms on disk, without figures."""
    found = evidence(plan, records)
    return page(found, verdict(found), [])


@pytest.fixture(scope="module")
def written(tmp_path_factory):
    folder = tmp_path_factory.mktemp("report")
    return report.write(report.build(evidence(*sweep(VALUES))), folder)


def test_all_files_stand(written):
    names = {str(p.relative_to(written.parent)) for p in written.parent.rglob("*") if p.is_file()}
    pictures = {f"figures/{name}.svg" for name in ("final", "curves", "gradients", "skills")}
    assert names == {"report.html", "REPORT.md", "verdict.json"} | pictures
    for name in pictures:
        assert ElementTree.parse(written.parent / name).getroot().tag == "{http://www.w3.org/2000/svg}svg"
        assert f"({name})" in (written.parent / "REPORT.md").read_text()


def test_page_holds_everything_and_loads_nothing(written):
    shown = Tree(written.read_text())
    assert len(shown.sources) == 4 and all(s.startswith("data:image/svg+xml;base64,") for s in shown.sources)
    for part in (
        BASIN["statement"],
        "inconclusive",
        "make sweep-ffn-ratio SIZE=nano DATA=stories SEEDS=3",
        "Some CPU",
        "0123abc",
    ):
        assert part in shown.text
    for result in (
        "2 finished",
        "1 diverged",
        "the loss was not finite",
        "plain 32x is incomplete (seed 1 pending, seed 2 failed)",
    ):
        assert result in shown.text


def test_script_and_style_are_allowed_by_their_hash(written):
    text = written.read_text()
    for tag in ("script", "style"):
        (body,) = re.findall(f"<{tag}>(.*?)</{tag}>", text, re.S)
        digest = base64.b64encode(hashlib.sha256(body.encode()).digest()).decode()
        assert f"{tag}-src 'sha256-{digest}'" in unescape(text)
    assert "default-src 'none'" in text and " style=" not in text and " onclick=" not in text


def test_same_input_same_bytes(written, tmp_path):
    again = report.write(report.build(evidence(*sweep(VALUES))), tmp_path)
    for name in ("report.html", "REPORT.md", "verdict.json"):
        assert (again.parent / name).read_bytes() == (written.parent / name).read_bytes()


def test_verdict_is_strict_json(written):
    def refuse(name):
        raise AssertionError(name)

    found = json.loads((written.parent / "verdict.json").read_text(), parse_constant=refuse)
    assert [claim["outcome"] for claim in found["claims"]] == ["inconclusive"]


def test_hostile_text_changes_no_element(written, tmp_path):
    plan, records = sweep(VALUES)
    for number, arm in enumerate(plan["arms"]):
        arm["label"] = HOSTILE[number + 1]
    for number, key in enumerate(("title", "question", "source", "data")):
        plan[key] = HOSTILE[number]
    plan["notes"], plan["x"]["label"] = [HOSTILE[0]], HOSTILE[1]
    plan["reference_lines"] = [{"label": HOSTILE[2], "bpb": 1.15}]
    plan["claims"] = [
        {**BASIN, "statement": HOSTILE[0], "source": HOSTILE[1], "id": HOSTILE[2], "prediction": HOSTILE[3]}
    ]
    for run in records:
        run["provenance"]["device"] = HOSTILE[1]
        if run["state"] == "failed":
            run["summary"]["reason"] = HOSTILE[0]
    hostile = report.write(report.build(evidence(plan, records)), tmp_path)
    harmless, shown = Tree(written.read_text()), Tree(hostile.read_text())
    assert shown.tags == harmless.tags
    assert HOSTILE[0] in shown.text and "{{ 7 * 7 }}" in shown.text
    assert markdown_tags(tmp_path) == markdown_tags(written.parent)


def markdown_tags(folder):
    """The element tree of REPORT.md as a CommonMark renderer that lets HTML through shows it."""
    from markdown_it import MarkdownIt

    return Tree(
        MarkdownIt("commonmark", {"html": True}).enable("table").render((folder / "REPORT.md").read_text())
    ).tags


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("a_b*c", r"a\_b\*c"),
        ("<b>&", "&lt;b&gt;&amp;"),
        ("a|b\nc", r"a\|b c"),
        ("[x](http://y)", r"\[x\](http&#58;//y)"),
    ],
)
def test_markdown_escape(text, shown):
    assert markdown.escape(text) == shown


@pytest.mark.parametrize(
    "values",
    [
        {"plain_x4": [1.5], "plain_x8": [1.6]},
        {"plain_x4": [None, None], "plain_x8": [None, None]},
        {"plain_x4": ["failed", "lost"], "plain_x8": [1.5, 1.5]},
    ],
    ids=["one seed", "nothing ran", "baseline lost"],
)
def test_writes_whatever_there_is(values, tmp_path):
    assert report.write(report.build(evidence(*sweep(values))), tmp_path).exists()


@pytest.mark.parametrize(
    ("floors", "drawn"),
    [([1.25, 1.25 + 5e-7], True), ([1.25, 1.26], False), ([1.25, None], False), ([None, None], False)],
)
def test_the_entropy_is_drawn_where_all_arms_know_the_same(floors, drawn):
    plan, records = sweep({"plain_x4": [1.5], "plain_x8": [1.6]}, claims=[])
    for run, floor in zip(records, floors, strict=True):
        run["summary"]["val/floor_bpb"] = floor
    texts = [text.get_text() for text in draw(evidence(plan, records))["final"].axes[0].texts]
    assert ("entropy of the corpus 1.25" in texts) == drawn
    assert "4-gram, Witten-Bell 1.15" in texts


def test_axis_without_numbers(tmp_path):
    plan, records = sweep({"pre_x1": [1.5, 1.5], "post_x2": [1.6, 1.6]}, claims=[])
    for arm in plan["arms"]:
        arm["x"] = None
    plan["x"]["numeric"] = False
    assert "post 2x" in report.write(report.build(evidence(plan, records)), tmp_path).read_text()


def test_other_overrides_stand_in_the_command():
    plan, records = sweep({"plain_x4": [1.5, 1.6]}, claims=[])
    plan["overrides"] = ["size=nano", "data=stories", "optimizer.lr=0.01"]
    assert shown(plan, records).command.endswith("SEEDS=2 ARGS=optimizer.lr=0.01")


def test_importing_the_room_loads_no_heavy_library():
    heavy = "{'torch', 'scipy', 'matplotlib', 'jinja2'} & set(sys.modules)"
    code = f"import sys; import lab.report, lab.verdict.verdicts; print({heavy})"
    assert (
        subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout
        == "set()\n"
    )


def test_what_is_open_says_by_how_much_and_the_metric_of_a_claim_has_a_column():
    """Two pairs that differ by 1 in one of 3 seeds: a paired t of 1 with 2 degrees has p = 0.2113 to one
    side.
    """
    low = {"superior": {"better": "plain_x4", "worse": "plain_x8", "margin": 0.1}}
    plan, records = sweep(
        {"plain_x4": [1.5] * 3, "plain_x8": [1.5] * 3},
        claims=[BASIN | {"predicate": low, "metric": "val/entropy"}],
    )
    for run in records:
        run["summary"]["val/entropy"] = 2.0 + (run["run_id"] == "plain_x8-1")
    content = shown(plan, records)
    start = "open after correction for all pairs and parts ("
    (line,) = [text for text in content.claims[0].details if text.startswith(start)]
    assert "that it fails p = 0.42, 0.05 needed" in line  # more entropy counts as better
    assert content.arms.header[4] == "val/entropy" and content.arms.rows[1][4].text == "2.333 (sd 0.58)"


def test_a_claim_on_another_metric_has_a_figure_of_its_own():
    """Entropies of 2.0 and 2.2 for every seed: a tenth more, told apart from what the bits per byte do."""
    low = {"superior": {"better": "plain_x4", "worse": "plain_x8", "margin": 0.1}}
    arms = {"plain_x4": [1.5] * 3, "plain_x8": [1.6, "diverged", 1.6]}
    plan, records = sweep(arms, claims=[BASIN | {"predicate": low, "metric": "val/entropy"}])
    for run in records:
        if run["state"] == "finished":
            run["summary"]["val/entropy"] = 2.2 if run["run_id"].startswith("plain_x8") else 2.0
    level, difference = draw(evidence(plan, records))["metrics"].axes
    drawn = [line.get_xdata() for line in level.lines]
    assert [list(values) for values in drawn] == [[2.0] * 3, [2.0], [2.2] * 2, [2.2]]
    assert [text.get_text() for text in level.texts] == ["1 of 3 without"]
    assert difference.lines[0].get_xdata()[0] == pytest.approx(10)
    assert "metrics" not in draw(evidence(*sweep(arms)))


def test_no_interval_is_drawn_around_two_heaps():
    content = shown(*sweep({"plain_x4": [1.5] * 3, "plain_x8": [1.6, "diverged", 1.6]}))
    assert re.fullmatch(r"\+\d+\.\d\d %", content.arms.rows[1][3].text)
    content = shown(*sweep({"plain_x4": [1.5] * 3, "plain_x8": [1.6, 1.61, 1.6]}))
    assert "95 % interval" in content.arms.rows[1][3].text
