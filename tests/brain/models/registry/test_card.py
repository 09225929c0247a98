"""Model cards say what the file says, and warn of what its numbers warn of."""

from dataclasses import replace

import pytest

from convoy.brain.models.registry import BackTest, Contest, JobScore
from convoy.brain.models.registry.card import card
from convoy.brain.models.registry.facts import Schema
from convoy.brain.models.registry.kinds import KINDS, kind_of
from convoy.core.api.errors import InvalidInput
from support.model_files import FACTS


def back_test(of, errors, covered=9):
    scores = tuple(JobScore(f"job-{place}", 10, error, covered, 0.5) for place, error in enumerate(errors))
    return BackTest(of, "three sizes of each job shown", 0.9, "rows", scores)


def test_a_card_says_what_the_file_says():
    contest = Contest(back_test("candidate", [0.1] * 8), baseline=back_test("no history", [0.3] * 8))
    said = card(replace(FACTS, contest=contest), version=4, stage="champion")
    assert said.startswith("# Model card: throughput, version 4\n")
    for part in (
        "| stage | champion |",
        "| from | 2026-01-01 12:00 UTC |",
        "| until | 2026-01-31 12:00 UTC |",
        "| rows | 120 |",
        "| jobs | 7 |",
        "Back-test: three sizes of each job shown. 80 rows of 8 jobs",
        "| this one | 10.0% (10.0% to 10.0%) | 1 | 90% (90% to 90%) | 1.65 |",
        "| no history | 30.0% (30.0% to 30.0%) | 2.90 (2.90 to 2.90) | 90% (90% to 90%) | 1.65 |",
        "| workers | count |",
        FACTS.schema.hash[:12],
    ):
        assert part in said, said
    assert "isn't clearly better" not in said


@pytest.mark.parametrize("name", KINDS)
def test_every_models_card_has_all_its_parts(name):
    said = card(replace(FACTS, name=name))
    heads = ["What it was fitted to", "How good it is", "How to use it", "Limits", "When not to use it", "Columns"]
    assert [line[3:] for line in said.splitlines() if line.startswith("## ")] == heads
    assert "There was no back-test: how good it is isn't known." in said
    assert "It was never tested" in said


def test_a_card_warns_of_what_its_numbers_warn_of():
    contest = Contest(back_test("candidate", [0.3] * 4, covered=5), baseline=back_test("no history", [0.3] * 4))
    said = card(replace(FACTS, contest=contest))
    assert "tested on 4 jobs alone" in said
    assert "isn't clearly better than no history" in said
    assert "Its intervals hold less than they claim (50% of 90%)" in said


def test_names_cannot_break_the_cards_tables():
    said = card(replace(FACTS, schema=Schema.of([("a|b\n| c", "<script>")])))
    assert r"| a\|b \| c | \<script\> |" in said


def test_an_unknown_model_is_refused_with_those_that_there_are():
    with pytest.raises(InvalidInput, match="expected one of throughput, load, memory, startup, demand"):
        kind_of("weather")
