"""models.yaml's schema: what it refuses, what its fingerprints follow, where a prepared model is looked for."""

import copy
from pathlib import Path
from typing import Any

import pytest

from configs.errors import InputError
from configs.models import Models, NotPrepared, cache_dir, catalogue, prepared
from configs.schema import load, parse

_SHA = "0" * 64


def _models() -> dict[str, Any]:
    part = {"wheel": "some-model==1.0", "member": "some_model/model.bin"}
    source = {"kind": "package", "files": [{"name": "model.bin", "sha256": _SHA, "parts": [part]}]}
    model = {"about": "a model", "licence": "MIT", "origin": "https://example.org", "source": source}
    return {"use": {"llm": "small"}, "models": {"small": model}}


def _changed(path: str, value: object) -> dict[str, Any]:
    data: Any = copy.deepcopy(_models())
    *parents, last = path.split("/")
    inner = data
    for key in parents:
        inner = inner[int(key)] if key.isdigit() else inner[key]
    inner[last] = value
    return data  # type: ignore[no-any-return]


@pytest.mark.parametrize(
    ("path", "value", "key"),
    [
        ("models/small/licens", "MIT", "models.small.licens"),
        ("modles", {}, "modles"),
        ("models/small/source/kind", "torrent", "models.small.source"),
        ("models/small/source/files/0/sha256", "abc", "files.0.sha256"),
        ("models/small/source/files/0/name", "../../etc/passwd", "files.0.name"),
        ("models/small/source/files/0/name", "/etc/passwd", "files.0.name"),
        ("models/small/source/files/0/name", ".prepared.json", "files.0.name"),
        ("models/small/source/files/0/parts", [], "files.0.parts"),
        ("models/small/source/files/0/parts/0/wheel", "some-model", "parts.0.wheel"),
        ("models/small/source/files/0/parts/0/wheel", "--index-url=http://x==1", "parts.0.wheel"),
        ("models/small/source/files/0/parts/0/url", "http://x", "parts.0.url"),
        ("models/small/convert", ["to-int4"], "models.small.convert.0"),
        ("models/small/peak_bytes", 0, "models.small.peak_bytes"),
        ("models/small/peak_bytes", "1 GB", "models.small.peak_bytes"),
        ("models/../small", {}, "models"),
        ("use/llm", "large", "large"),
    ],
)
def test_what_is_wrong_is_refused_by_name(path: str, value: object, key: str) -> None:
    data = _models()
    if path == "models/../small":
        data["models"]["../small"] = data["models"]["small"]
    else:
        data = _changed(path, value)
    with pytest.raises(InputError, match=r"^models") as caught:
        parse(Models, data, "models.yaml")
    assert key in str(caught.value)


def test_an_unknown_key_in_the_file_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "models.yaml"
    path.write_text("use: {}\nmodels: {}\ncache: /tmp\n")
    with pytest.raises(InputError, match=r"models\.yaml: cache = '/tmp': unknown key"):
        load(Models, path)


def test_the_fingerprint_follows_what_is_prepared_and_not_the_words_about_it() -> None:
    fingerprint = parse(Models, _models(), "").models["small"].fingerprint
    for path, value, changes in [
        ("models/small/about", "another text", False),
        ("models/small/licence", "Apache-2.0", False),
        ("models/small/peak_bytes", 5, False),
        ("models/small/source/files/0/sha256", "1" * 64, True),
        ("models/small/source/files/0/parts/0/wheel", "some-model==1.1", True),
        ("models/small/convert", ["to-w8a8"], True),
    ]:
        changed = parse(Models, _changed(path, value), "").models["small"].fingerprint
        assert (changed != fingerprint) is changes, path


def test_the_shipped_file_is_whole() -> None:
    known = catalogue()
    assert set(known.use) == {"llm", "asr", "tts"}
    assert known.name("llm") == "smollm2-135m-instruct-w8a8"
    assert known.name("whisper-base") == "whisper-base"
    with pytest.raises(InputError, match=r"'gpt': no such model; there are llm, asr, tts, smollm2"):
        known.name("gpt")


def test_the_cache_is_where_the_user_says_then_where_the_system_says(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("FIRSTCLAUSE_CACHE", "/big/disk")
    monkeypatch.setenv("XDG_CACHE_HOME", "/xdg")
    assert cache_dir() == Path("/big/disk")
    monkeypatch.delenv("FIRSTCLAUSE_CACHE")
    assert cache_dir() == Path("/xdg/firstclause")
    monkeypatch.setenv("XDG_CACHE_HOME", "")
    monkeypatch.setenv("HOME", "/home/someone")
    assert cache_dir() == Path("/home/someone/.cache/firstclause")


def test_a_model_that_is_not_prepared_says_what_to_run(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("FIRSTCLAUSE_CACHE", str(tmp_path))
    with pytest.raises(
        NotPrepared, match=r"^whisper-base: not prepared; run: firstclause models prepare whisper-base$"
    ):
        prepared("asr")
