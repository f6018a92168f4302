"""Every key of every reference scenario: what is wrong with it is said, and where it comes from stands beside it."""

import copy
import json
from pathlib import Path

import pytest

from configs.errors import InputError
from configs.schema import parse, read_yaml
from planning.topics import PLANS, TOPICS, read_scenario, reference

FREE_NAMES = {"fleet", "ranges", "rtt_ms"}  # mappings whose keys the user names
OPTIONAL = {
    ("voice", "profile"),
    ("ledger", "headline"),
    *(("offline", cut) for cut in ("prefix_caching", "deduplicated_fraction", "second_pass_fraction")),
    *((name, key) for name in TOPICS for key in ("itl_base_ms", "itl_per_sequence_ms", "ttft_ms")),
}


def resolved(name):
    data = read_yaml(reference(name))
    if "profile" in data:
        data["profile"] = read_yaml(PLANS / data["profile"])
    return data


def places(data, path=()):
    """Every path to a value in it, containers included."""
    items = data.items() if isinstance(data, dict) else enumerate(data) if isinstance(data, list) else ()
    for key, value in items:
        yield (*path, key)
        yield from places(value, (*path, key))


def at(data, path):
    for key in path:
        data = data[key]
    return data


def changed(data, path, value):
    data = copy.deepcopy(data)
    at(data, path[:-1])[path[-1]] = value
    return data


def refused(name, data):
    with pytest.raises(InputError) as caught:
        parse(TOPICS[name].scenario, data, name)
    return caught.value


@pytest.mark.parametrize("name", TOPICS)
@pytest.mark.parametrize("value", [-1, -0.5, float("nan"), float("inf"), "12", None, True, [], {}])
def test_no_number_may_be_anything_else(name, value):
    data = resolved(name)
    numbers = [path for path in places(data) if isinstance(at(data, path), int | float) and at(data, path) is not True]
    assert numbers
    for path in numbers:
        if value is None and (name, path[-1]) in OPTIONAL:
            continue
        error = refused(name, changed(data, path, value))
        assert error.key.startswith(".".join(str(part) for part in path)), error
        assert f" = {value!r}: " in str(error)


@pytest.mark.parametrize("name", TOPICS)
def test_no_key_may_be_missing_and_none_unknown(name):
    data = resolved(name)
    mappings = [(), *(path for path in places(data) if isinstance(at(data, path), dict))]
    for path in mappings:
        if FREE_NAMES & set(path):
            continue
        for key in at(data, path):
            if (name, key) not in OPTIONAL:
                without = copy.deepcopy(data)
                del at(without, path)[key]
                error = refused(name, without)
                assert error.key == ".".join(str(part) for part in (*path, key)) and error.problem == "missing"
        if path != ("profile",):  # a measured profile may hold more
            error = refused(name, changed(data, (*path, "unheard_of"), 1))
            assert error.key.endswith("unheard_of") and error.problem == "unknown key"


@pytest.mark.parametrize("name", TOPICS)
def test_no_list_may_be_empty(name):
    data = resolved(name)
    for path in places(data):
        if isinstance(at(data, path), list):
            assert refused(name, changed(data, path, [])).key.startswith(".".join(str(part) for part in path))


@pytest.mark.parametrize(
    ("name", "key"),
    [
        ("fleet", "cached_prompt_fraction"),
        ("fleet", "utilization_ceiling"),
        ("headroom", "quantile"),
        ("adapters", "utilization_ceiling"),
        ("tiers", "kv_reserve_fraction"),
        ("tiers", "shared_ceiling"),
        ("price", "cached_prompt_fraction"),
        ("long-context", "warm_fraction"),
        ("long-context", "mfu"),
        ("voice", "utilization_ceiling"),
        ("ledger", "quality_margin"),
        ("ledger", "alpha"),
        ("spill", "prefix_share"),
        ("quotas", "cached_prompt_fraction"),
        ("soak", "harvest_efficiency"),
        ("regions", "regions.0.loss_probability"),
        ("canary", "baseline_error_rate"),
        ("canary", "stages.0"),
        ("capacity-units", "utilization_ceiling"),
        ("offline", "cuts.deduplicated_fraction"),
        ("offline", "passes.0.fraction"),
    ],
)
def test_no_fraction_may_be_over_1(name, key):
    with pytest.raises(InputError, match=rf"{key} = 1.01: Input should be less than"):
        read_scenario(name, reference(name), [(key, 1.01)])


@pytest.mark.parametrize("name", [name for name in TOPICS if "profile" in TOPICS[name].scenario.model_fields])
def test_numbers_too_large_to_hold_are_an_error(name):
    scenario = read_scenario(name, reference(name), [("profile.kv_bytes_per_token", 1e300), ("profile.ttft_ms", 1e300)])
    huge = scenario.model_copy(update={"prompt_tokens": 1e300})
    with pytest.raises(InputError):
        TOPICS[name].answer(huge, name)


@pytest.mark.parametrize("path", sorted(PLANS.glob("**/*.yaml")), ids=lambda path: path.stem)
def test_every_key_of_a_reference_scenario_names_its_source(path):
    """In a comment on its line or on the one above, or above the list that it begins."""
    lines = path.read_text(encoding="utf-8").splitlines()
    assert lines[0].startswith("#")
    for before, line in zip(["", *lines], lines, strict=False):
        if line and line[0].isalpha() and line != "runs:" and line != "types:":
            assert "#" in line or before.startswith("#"), line


def test_there_is_a_reference_scenario_for_each_topic():
    assert {path.stem for path in PLANS.glob("*.yaml")} == set(TOPICS)


def test_a_profile_is_looked_up_beside_the_scenario_first(tmp_path, monkeypatch, profile):
    here, there = tmp_path / "here", tmp_path / "there"
    for folder, rate in ((here, 111.0), (there, 222.0)):
        folder.mkdir()
        # As a measured one is: with more keys, and null for what is not known.
        measured = {**profile, "prefill_tokens_per_s": rate, "spread": {"prefill": [0.1, None]}, "ceiling": None}
        (folder / "p.json").write_text(json.dumps(measured), encoding="utf-8")
    plan = reference("fleet").read_text(encoding="utf-8").replace("profiles/llama-3.1-8b-h100.yaml", "p.json")
    (there / "plan.yaml").write_text(plan, encoding="utf-8")
    (tmp_path / "alone.yaml").write_text(plan, encoding="utf-8")
    monkeypatch.chdir(here)
    assert prefill(there / "plan.yaml") == 222.0
    assert prefill(tmp_path / "alone.yaml") == 111.0
    assert prefill(there / "plan.yaml", ("profile", "../here/p.json")) == 111.0
    assert prefill(there / "plan.yaml", ("profile", "../here/p.json"), ("profile.prefill_tokens_per_s", 5)) == 5


def prefill(path, *overrides):
    return read_scenario("fleet", Path(path), overrides).profile.prefill_tokens_per_s
