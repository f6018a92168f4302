"""Keys of prompts, and the belief about who holds them."""

import hashlib
from array import array

from planning.policies.prefix import Belief, anchors, prefix_keys


def test_every_short_prefix_has_a_key_and_longer_ones_eight_an_octave() -> None:
    assert anchors(0) == []
    assert anchors(20) == [*range(1, 17), 18, 20]
    assert anchors(64)[-17:] == [16, 18, 20, 22, 24, 26, 28, 30, 32, 36, 40, 44, 48, 52, 56, 60, 64]
    assert len(anchors(8192)) == 16 + 9 * 8
    # No prefix is underestimated by an eighth or more.
    for blocks in range(16, 3000):
        assert anchors(blocks)[-1] > blocks * 7 / 8


def test_a_key_is_the_digest_of_salt_model_and_tokens() -> None:
    tokens = list(range(64))
    chain = prefix_keys(b"salt", "base", tokens, 32)
    assert [end for _, end in chain] == [32, 64]
    framed = b"".join(len(p).to_bytes(8, "big") + p for p in (b"salt", b"base"))
    for key, end in chain:
        expected = hashlib.blake2b(framed + array("I", tokens[:end]).tobytes(), digest_size=8).digest()
        assert key == int.from_bytes(expected, "big")


def test_equal_beginnings_meet_and_salts_models_and_tokens_tell_apart() -> None:
    tokens = list(range(640))
    one = prefix_keys(b"a", "m", tokens, 32)
    other = prefix_keys(b"a", "m", tokens[:320] + [7] * 320, 32)
    assert one[:10] == other[:10] and not {k for k, _ in one[10:]} & {k for k, _ in other[10:]}
    assert not {k for k, _ in one} & {k for k, _ in prefix_keys(b"b", "m", tokens, 32)}
    assert not {k for k, _ in one} & {k for k, _ in prefix_keys(b"a", "adapter", tokens, 32)}
    # The lengths are hashed too: a salt cannot run over into the model's name.
    assert prefix_keys(b"am", "", tokens, 32) != prefix_keys(b"a", "m", tokens, 32)


def test_a_prompt_shorter_than_a_block_has_no_key() -> None:
    assert prefix_keys(b"", "m", list(range(31)), 32) == []
    assert prefix_keys(b"", "m", [], 32) == []


CHAIN = (("root", 100), ("leaf", 300))


def test_the_longest_hit_and_the_last_user_come_first() -> None:
    belief = Belief(1000)
    for replica in "abc":
        belief.start(replica, 10_000)
    belief.add(CHAIN[:1], "a", 100)
    belief.add(CHAIN, "b", 300)
    belief.add(CHAIN, "c", 300)
    assert {r: hit for r, (hit, _) in belief.holders(CHAIN, 8).items()} == {"c": 300, "b": 300, "a": 100}
    assert list(belief.holders(CHAIN, 8)) == ["c", "b", "a"]
    assert list(belief.holders(CHAIN, 1)) == ["c"]


def test_a_reset_replica_holds_nothing() -> None:
    belief = Belief(1000)
    belief.start("a", 10_000)
    belief.add(CHAIN, "a", 300)
    belief.start("a", 10_000)
    assert belief.holders(CHAIN, 8) == {}
    assert len(belief) == 0  # and what was stale is forgotten once it was met


def test_a_prefix_is_held_until_the_cache_has_turned_over() -> None:
    belief = Belief(1000)
    belief.start("a", 1000)
    belief.add(CHAIN, "a", 300)
    belief.add((("other", 700),), "a", 1000)
    assert belief.holders(CHAIN, 8)
    belief.add((("third", 1),), "a", 1)
    assert not belief.holders(CHAIN, 8)


def test_a_hit_that_was_not_there_shortens_the_belief_and_hits_restore_it() -> None:
    belief = Belief(1000)
    belief.start("a", 1000)
    belief.add(CHAIN, "a", 300)
    belief.add((("other", 1),), "a", 500)
    hit, passed = belief.holders(CHAIN, 8)["a"]
    assert (hit, passed) == (300, 500)
    belief.reported("a", hit, passed, hit_tokens=0)
    belief.add(CHAIN, "a", 300)
    belief.add((("other", 1),), "a", 501)
    assert not belief.holders(CHAIN, 8)  # 501 tokens later is now too late
    belief.add(CHAIN, "a", 300)
    for _ in range(100):
        belief.reported("a", 300, 10, hit_tokens=300)
    belief.add((("other", 1),), "a", 999)
    assert belief.holders(CHAIN, 8)


def test_what_the_engine_evicted_is_forgotten() -> None:
    belief = Belief(1000)
    belief.start("a", 1000)
    belief.add(CHAIN, "a", 300)
    belief.forget("a", ["leaf", "unknown"])
    assert belief.holders(CHAIN, 8) == {"a": (100, 0.0)}


def test_memory_is_bounded_and_the_oldest_goes() -> None:
    belief = Belief(50)
    belief.start("a", 1e9)
    for i in range(1000):
        belief.add((("root", 10), (i, 20)), "a", 20)
        assert len(belief) <= 50
    assert belief.holders((("root", 10), (999, 20)), 8)["a"][0] == 20
    assert belief.holders(((0, 20),), 8) == {}
