"""offline: which phase of which pass over a document set is the bill, and what cuts it.

Each pass prefills its prompt (a shared prefix and the document) and decodes its reply at the batch rate of
planning.soak, without that one's compute roof.
"""

from typing import Annotated

from pydantic import Field, field_validator

from configs.errors import InputError
from configs.schema import Frozen
from planning.profile import Profile
from planning.quantities import Fraction, Name, NonNegative, Outputs, Positive, Scenario
from planning.soak import batch_concurrency, read_bytes
from planning.topic import Picture, Row, Topic


class Pass(Frozen):
    """One prompt over `fraction` of the documents."""

    name: Name
    shared_prefix_tokens: NonNegative
    document_tokens: Positive
    output_tokens: Positive
    fraction: Fraction

    @property
    def prompt_tokens(self) -> float:
        return self.shared_prefix_tokens + self.document_tokens


class Cuts(Frozen):
    """Ways to spend less; those absent are not weighed."""

    prefix_caching: bool = False
    deduplicated_fraction: Fraction | None = None
    second_pass_fraction: Fraction | None = None


class PassHours(Frozen):
    """GPU-hours of a pass."""

    prefill_gpu_hours: float
    decode_gpu_hours: float


class OfflineScenario(Scenario):
    documents: Positive
    passes: Annotated[tuple[Pass, ...], Field(min_length=1)]
    weights_bytes: Positive
    memory_bytes_per_s: Positive
    cuts: Cuts
    profile: Profile

    @field_validator("passes")
    @classmethod
    def _names_differ(cls, passes: tuple[Pass, ...]) -> tuple[Pass, ...]:
        names = [one.name for one in passes]
        if len(set(names)) < len(names):
            raise ValueError("two passes have one name")
        return passes


class OfflineOutputs(Outputs):
    passes: Annotated[
        dict[str, PassHours],
        Row("documents · fraction · (prompt / prefill_tokens_per_s, output / batch decode rate)", "GPU-hours"),
    ]
    gpu_hours: Annotated[float, Row("Σ passes, both phases", "GPU-hours")]
    usd: Annotated[float, Row("gpu_hours · usd_per_gpu_hour", "USD")]
    bill: Annotated[str, Row("the phase with the most GPU-hours")]
    after: Annotated[dict[str, float], Row("gpu_hours with each cut alone, and with all", "GPU-hours")]


def decode_tokens_per_s(prompt_tokens: float, output_tokens: float, s: OfflineScenario) -> float:
    """Tokens/s of a batch that fills KV memory, each step reading weights and KV."""
    concurrency = batch_concurrency(prompt_tokens, output_tokens, s.profile, topic="offline")
    kv_bytes = read_bytes(concurrency, prompt_tokens, output_tokens, s.profile)
    return concurrency * s.memory_bytes_per_s / (s.weights_bytes + kv_bytes)


def pass_hours(s: OfflineScenario, cuts: Cuts) -> dict[str, PassHours]:
    """GPU-hours of each pass with these cuts made. Raises InputError where no row fits KV memory."""
    documents = s.documents * (1 - (cuts.deduplicated_fraction or 0))
    hours = {}
    for i, one in enumerate(s.passes):
        fraction = one.fraction
        if i == 1 and cuts.second_pass_fraction is not None:
            fraction = cuts.second_pass_fraction
        prefilled = one.document_tokens if cuts.prefix_caching else one.prompt_tokens
        decode_s = one.output_tokens / decode_tokens_per_s(one.prompt_tokens, one.output_tokens, s)
        gpu_hours = documents * fraction * s.profile.gpus_per_replica / 3600
        hours[one.name] = PassHours(
            prefill_gpu_hours=gpu_hours * prefilled / s.profile.prefill_tokens_per_s,
            decode_gpu_hours=gpu_hours * decode_s,
        )
    return hours


def total_hours(hours: dict[str, PassHours]) -> float:
    """GPU-hours of all passes."""
    return sum(one.prefill_gpu_hours + one.decode_gpu_hours for one in hours.values())


def plan_offline(s: OfflineScenario) -> OfflineOutputs:
    """The bill, phase by phase, and after each cut. Raises InputError where a cut or a row has no place."""
    if s.cuts.second_pass_fraction is not None and len(s.passes) < 2:
        raise InputError("offline", "cuts.second_pass_fraction", s.cuts.second_pass_fraction, "there is no second pass")
    hours = pass_hours(s, Cuts())
    phases = {f"{name}/prefill": one.prefill_gpu_hours for name, one in hours.items()}
    phases |= {f"{name}/decode": one.decode_gpu_hours for name, one in hours.items()}
    given = {cut: value for cut, value in s.cuts.model_dump().items() if value is not None and value is not False}
    after = {cut: total_hours(pass_hours(s, Cuts(**{cut: value}))) for cut, value in given.items()}
    return OfflineOutputs(
        passes=hours,
        gpu_hours=total_hours(hours),
        usd=total_hours(hours) * s.profile.usd_per_gpu_hour,
        bill=max(phases, key=lambda phase: phases[phase]),
        after=after | {"all": total_hours(pass_hours(s, s.cuts))},
    )


def finding(s: OfflineScenario, o: OfflineOutputs) -> str:
    name, phase = o.bill.rsplit("/", 1)
    most = o.passes[name].prefill_gpu_hours if phase == "prefill" else o.passes[name].decode_gpu_hours
    cuts = {cut: hours for cut, hours in o.after.items() if cut != "all"}
    saved = ""
    if cuts:
        best = min(cuts, key=lambda cut: cuts[cut])
        saved = (
            f"; {best} alone leaves {cuts[best] / o.gpu_hours:.0%} of it, all cuts together "
            f"{o.after['all'] / o.gpu_hours:.0%} ({o.after['all'] * s.profile.usd_per_gpu_hour:,.0f} USD)"
        )
    return (
        f"{s.documents:,.0f} documents take {o.gpu_hours:,.1f} GPU-hours, {o.usd:,.0f} USD; {o.bill} is "
        f"{most / o.gpu_hours:.0%} of the bill{saved}."
    )


def picture(s: OfflineScenario, o: OfflineOutputs) -> Picture:
    cases = {"as it is": o.gpu_hours, **o.after}
    return Picture("cut", "GPU-hours", list(cases), {"GPU-hours": list(cases.values())}, bars=True)


TOPIC = Topic(
    "Which phase of which pass over a document set is the bill, and what cuts it?",
    OfflineScenario,
    plan_offline,
    finding,
    picture,
)
