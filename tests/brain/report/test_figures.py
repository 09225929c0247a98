"""Figures are whole SVG that shows what was handed in; a page needs nothing but itself."""

from __future__ import annotations

import re
import xml.etree.ElementTree as ET

import pandas as pd

from convoy.brain.report import figures, page

SPEEDS = pd.DataFrame(
    {"begin": [0.0, 2, 4], "end": [2.0, 4, 6], "samples_per_second": [5000.0, 5100, 9000], "workers": [1, 1, 2]}
)
EVENTS = pd.DataFrame({"time": [3.9, 5.0], "label": ["2 workers", "worker killed"], "kind": ["plan", "fault"]})
OPTIONS = pd.DataFrame(
    {
        "workers": [2, 1],
        "predicted": [9000.0, 5000.0],
        "lower90": [8500.0, 4900.0],
        "upper90": [9500.0, 5100.0],
        "lower99": [8000.0, 4800.0],
        "upper99": [10000.0, 5200.0],
        "verdict": ["chosen", "slower"],
    }
)
POINTS = pd.DataFrame({"workers": [1, 1, 2], "samples_per_second": [5000.0, 5050.0, 9100.0]})
NO_POINTS = POINTS[:0]
PLANS = pd.DataFrame(
    {
        "plan": ["plan-2", "plan-3"],
        "predicted": [9000.0, float("nan")],
        "lower90": [8500.0, float("nan")],
        "upper90": [9500.0, float("nan")],
        "realized": [9100.0, 5000.0],
    }
)
PHASES = pd.DataFrame(
    {
        "fault": ["worker killed", "worker killed", "node killed"],
        "phase": ["detect", "first step", "detect"],
        "seconds": [0.2, 0.5, 0.4],
    }
)


def drawn(svg: str) -> str:
    """Return the figure's text, having checked that the figure is one whole element."""
    root = ET.fromstring(svg)
    assert root.tag == "{http://www.w3.org/2000/svg}svg"
    return " ".join(root.itertext())


def test_speed_over_time_names_sizes_and_events() -> None:
    text = drawn(figures.speed_over_time(SPEEDS, EVENTS))
    for word in ("1 worker", "2 workers", "worker killed", "samples/s"):
        assert word in text


def test_the_curve_shows_what_was_predicted_seen_and_measured() -> None:
    text = drawn(figures.fitted_curve(OPTIONS, POINTS[:2], POINTS[2:]))
    for word in ("chosen", "predicted", "seen by the Brain", "measured afterwards"):
        assert word in text


def test_the_curve_of_one_size_without_points() -> None:
    text = drawn(figures.fitted_curve(OPTIONS[:1], NO_POINTS, NO_POINTS))
    assert "seen by the Brain" not in text


def test_plans_without_a_prediction_are_drawn_too() -> None:
    text = drawn(figures.predicted_and_realized(PLANS))
    assert "plan-2" in text
    assert "plan-3" in text


def test_recoveries_name_the_total() -> None:
    text = drawn(figures.recoveries(PHASES))
    assert "0.70 s" in text
    assert "0.40 s" in text


def test_two_figures_of_a_page_share_no_id() -> None:
    first, second = figures.speed_over_time(SPEEDS, EVENTS), figures.fitted_curve(OPTIONS, POINTS, NO_POINTS)
    clips = [set(re.findall(r'<clipPath id="([^"]+)"', svg)) for svg in (first, second)]
    assert clips[0]
    assert not clips[0] & clips[1]


def test_the_same_figure_twice_is_the_same_text() -> None:
    assert figures.recoveries(PHASES) == figures.recoveries(PHASES)


def test_a_page_is_one_file_and_escapes_what_it_is_told() -> None:
    cells = page.table(["claim", "fact"], [["PASS", "a < b & c"]], ["pass"])
    section = page.Section("Speed", "All of it.", page.figure(figures.speed_over_time(SPEEDS, EVENTS)))
    html = page.page("A <run>", "lead", [[[section], [page.Section("Claims", "", cells)]]])
    assert "a &lt; b &amp; c" in html
    assert "A &lt;run&gt;" in html
    assert not re.search(r'(?:src|href)="(?!#)', html)
    assert "<script" not in html
