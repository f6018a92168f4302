"""The batch API by OpenAI's own client."""

import httpx
import openai
import pytest

from batch.files import Contents
from batch.store import Store


def uploaded(client: openai.OpenAI, data: bytes = b"{}\n", purpose: str = "batch") -> str:
    return client.files.create(file=("rows.jsonl", data), purpose=purpose).id  # type: ignore[arg-type]


def created(client: openai.OpenAI, file: str, key: str | None = None) -> openai.types.Batch:
    headers = {"Idempotency-Key": key} if key else None
    return client.batches.create(
        input_file_id=file, endpoint="/v1/chat/completions", completion_window="24h", extra_headers=headers
    )


def test_files(alice: openai.OpenAI) -> None:
    data = b"x" * 300_000
    file = alice.files.create(file=("rows.jsonl", data), purpose="batch")
    assert (file.filename, file.bytes, file.purpose, file.object) == ("rows.jsonl", 300_000, "batch", "file")
    other = uploaded(alice, purpose="user_data")
    assert alice.files.content(file.id).content == data
    assert alice.files.retrieve(file.id) == file
    assert {one.id for one in alice.files.list()} == {file.id, other}
    assert [one.id for one in alice.files.list(purpose="batch")] == [file.id]
    assert alice.files.delete(file.id).deleted
    assert [one.id for one in alice.files.list()] == [other]
    for gone in (alice.files.retrieve, alice.files.content, alice.files.delete):
        with pytest.raises(openai.NotFoundError):
            gone(file.id)


def test_pages_of_a_list_show_each_file_once(alice: openai.OpenAI) -> None:
    made = [uploaded(alice) for _ in range(5)]
    listed = [one.id for one in alice.files.list(limit=2)]
    assert sorted(listed) == sorted(made) and len(listed) == 5
    assert [one.id for one in alice.files.list(limit=2, order="asc")] == listed[::-1]


@pytest.mark.parametrize("stated", [True, False])
def test_a_file_over_the_limit_is_refused_and_leaves_nothing(
    alice: openai.OpenAI, api_url: str, contents: Contents, stated: bool
) -> None:
    data = b"x" * 1_200_000
    if stated:
        with pytest.raises(openai.APIStatusError) as refused:
            uploaded(alice, data)
        status = refused.value.status_code
    else:  # in pieces, without a length
        head = b'--b\r\nContent-Disposition: form-data; name="file"; filename="f"\r\n\r\n'
        pieces = iter([head, *[data[:100_000]] * 12, b"\r\n--b--\r\n"])
        headers = {"Authorization": "Bearer alice", "Content-Type": "multipart/form-data; boundary=b"}
        status = httpx.post(f"{api_url}/files", content=pieces, headers=headers, trust_env=False).status_code
    assert status == 413
    assert contents.fs.ls(f"{contents.root}/contents") == []


def test_an_upload_without_a_file_or_purpose_is_refused(api_url: str) -> None:
    with httpx.Client(base_url=api_url, headers={"Authorization": "Bearer alice"}, trust_env=False) as client:
        for answer in (
            client.post("/files", data={"purpose": "batch"}),
            client.post("/files", files={"file": b"x"}),
            client.post("/files", content=b"junk", headers={"Content-Type": "multipart/form-data"}),
        ):
            assert answer.status_code == 400, answer.text
            assert answer.json()["error"]["type"] == "invalid_request_error"


def test_batches(alice: openai.OpenAI) -> None:
    file = uploaded(alice)
    batch = alice.batches.create(
        input_file_id=file, endpoint="/v1/chat/completions", completion_window="24h", metadata={"night": "run"}
    )
    assert batch.status == "validating" and batch.object == "batch"
    assert batch.expires_at == batch.created_at + 86_400
    assert batch.metadata == {"night": "run"}
    assert batch.request_counts is not None and batch.request_counts.total == 0
    assert alice.batches.retrieve(batch.id) == batch
    second = created(alice, file)
    assert {one.id for one in alice.batches.list(limit=1)} == {batch.id, second.id}
    assert alice.batches.cancel(batch.id).status == "cancelling"
    assert alice.batches.cancel(batch.id).status == "cancelling", "twice is once"


def test_a_retried_create_makes_one_batch(alice: openai.OpenAI, bob: openai.OpenAI) -> None:
    file = uploaded(alice)
    first = created(alice, file, "key-1")
    assert created(alice, file, "key-1").id == first.id
    assert created(alice, file, "key-2").id != first.id
    with pytest.raises(openai.ConflictError):
        created(alice, uploaded(alice), "key-1")
    assert created(bob, uploaded(bob), "key-1").id != first.id, "keys are a tenant's own"
    assert len(list(alice.batches.list())) == 2


def test_another_tenants_ids_are_not_there(alice: openai.OpenAI, bob: openai.OpenAI) -> None:
    file = uploaded(alice)
    batch = created(alice, file)
    for look in (bob.files.retrieve, bob.files.content, bob.files.delete):
        with pytest.raises(openai.NotFoundError):
            look(file)
    for look_at in (bob.batches.retrieve, bob.batches.cancel):
        with pytest.raises(openai.NotFoundError):
            look_at(batch.id)
    with pytest.raises(openai.NotFoundError):
        created(bob, file)
    with pytest.raises(openai.NotFoundError):
        list(bob.files.list(after=file))
    assert list(bob.files.list()) == [] and list(bob.batches.list()) == []


def test_who_has_no_key_is_refused(api_url: str) -> None:
    with openai.OpenAI(base_url=api_url, api_key="mallory", max_retries=0) as client:
        with pytest.raises(openai.AuthenticationError):
            uploaded(client)
        with pytest.raises(openai.AuthenticationError):
            client.batches.list()


def test_bad_requests_for_a_batch(alice: openai.OpenAI) -> None:
    good = {"input_file_id": uploaded(alice), "endpoint": "/v1/chat/completions", "completion_window": "24h"}
    for change, named in (
        ({"endpoint": "/v1/moderations"}, "endpoint"),
        ({"completion_window": "soon"}, "completion_window"),
        ({"completion_window": "0h"}, "completion_window"),
        ({"completion_window": "15d"}, "completion_window"),
        ({"input_file_id": uploaded(alice, purpose="user_data")}, "purpose"),
        ({"metadata": {"a": "b" * 600}}, "metadata"),
        ({"extra_body": {"unknown": 1}}, "unknown"),
    ):
        with pytest.raises(openai.BadRequestError, match=named):
            alice.batches.create(**{**good, **change})  # type: ignore[arg-type]
    with pytest.raises(openai.NotFoundError):
        alice.batches.create(**{**good, "input_file_id": "file-no"})  # type: ignore[arg-type]
    assert list(alice.batches.list()) == []


def test_cancel_after_the_end_is_a_conflict(alice: openai.OpenAI, store: Store) -> None:
    batch = created(alice, uploaded(alice))
    assert store.claim("worker", 30) is not None
    store.advance(batch.id, "worker", "failed")
    with pytest.raises(openai.ConflictError):
        alice.batches.cancel(batch.id)
    assert alice.batches.retrieve(batch.id).status == "failed"


def test_a_file_deleted_while_its_batch_is_live_keeps_its_contents(
    alice: openai.OpenAI, store: Store, contents: Contents
) -> None:
    file = uploaded(alice, b"rows")
    batch = created(alice, file)
    alice.files.delete(file)
    with pytest.raises(openai.NotFoundError):
        alice.files.retrieve(file)
    assert b"".join(contents.chunks(file)) == b"rows"
    assert store.claim("worker", 30) is not None
    store.advance(batch.id, "worker", "failed")
    assert store.unused_contents() == [file]
