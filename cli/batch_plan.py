"""The price of a batch file, and what the batch came to, side by side."""

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from configs.errors import InputError

if TYPE_CHECKING:
    from batch.plan import Tokens
    from batch.rows import Request
    from planning.offline import OfflineOutputs
    from planning.profile import Profile

NAME = "job"
CHARS_PER_TOKEN = 4
"""Where the model's tokenizer is not on this machine."""


@dataclass(frozen=True)
class JobPlan:
    """A file's tokens as they are reckoned, and their price."""

    tokens: "Tokens"
    profile: "Profile"
    weights_bytes: float
    tokenizer: str

    def priced(self, tokens: "Tokens") -> "OfflineOutputs":
        from batch.plan import priced

        return priced(NAME, tokens, self.profile, self.weights_bytes)

    def document(self, batch: dict[str, Any] | None) -> dict[str, Any]:
        """`planned`, and `measured` of an ended batch."""
        found = {"tokenizer": self.tokenizer, "planned": self._side(self.tokens)}
        if (measured := self._measured(batch)) is not None:
            found["measured"] = self._side(measured)
        return found

    def table(self, batch: dict[str, Any] | None) -> str:
        """For people; the closing sentence says which phase is the bill and what cuts it."""
        from dataclasses import asdict

        planned, measured = self._side(self.tokens), self._measured(batch)
        actual = self._side(measured) if measured is not None else None
        lines = [f"{'':<24}{'planned':>14}" + (f"{'measured':>14}{'ratio':>8}" if actual else "")]
        for name in (*asdict(self.tokens), "prefill_gpu_hours", "decode_gpu_hours", "gpu_hours", "usd"):
            line = f"{name:<24}{planned[name]:>14,.4g}"
            if actual:
                ratio = f"{actual[name] / planned[name]:>8.2f}" if planned[name] else f"{'–':>8}"
                line += f"{actual[name]:>14,.4g}{ratio}"
            lines.append(line)
        cuts = ", ".join(f"{cut} leaves {share:.0%}" for cut, share in planned["after_share"].items() if cut != "all")
        return "\n".join([*lines, f"The bill is {planned['bill']}; of it without any cut, {cuts}."])

    def _side(self, tokens: "Tokens") -> dict[str, Any]:
        from dataclasses import asdict

        plan = self.priced(tokens)
        one = plan.passes[NAME]
        done = plan.after["all"]
        prefill = tokens.prompt_tokens - tokens.cached_tokens
        prefill_gpu_hours = prefill / self.profile.prefill_tokens_per_s * self.profile.gpus_per_replica / 3600
        return {
            **asdict(tokens),
            "prefill_gpu_hours": prefill_gpu_hours,
            "decode_gpu_hours": done - prefill_gpu_hours,
            "gpu_hours": done,
            "usd": done * self.profile.usd_per_gpu_hour,
            "uncut_gpu_hours": one.prefill_gpu_hours + one.decode_gpu_hours,
            "bill": plan.bill,
            "after_share": {cut: hours / plan.gpu_hours for cut, hours in plan.after.items()},
        }

    def _measured(self, batch: dict[str, Any] | None) -> "Tokens | None":
        from batch.plan import measured

        if batch is None or not batch.get("usage"):
            return None
        rows = batch["request_counts"]["total"]
        return measured(batch["usage"], rows, rows * self.tokens.asked_rows / self.tokens.rows)


def plan_of(file: Path, endpoint: str, profile_path: Path | None, output_share: float) -> JobPlan:
    """Raises InputError: a file with wrong rows, or a profile that is none."""
    from batch.plan import estimate
    from batch.source import Source
    from batch.validation import validate
    from configs.batch import BatchConfig
    from configs.deployment import load_deployment
    from configs.schema import load
    from planning.profile import Profile

    deployment, config = load_deployment(), BatchConfig()
    profile = load(Profile, profile_path or deployment.gateway.profile)
    try:
        source = Source(lambda: file.open("rb"), endpoint, config.window_rows, config.window_bytes)
        found = validate(source, config.max_rows, 1, lambda: False)
    except OSError as error:
        raise InputError("batch submit", "FILE", str(file), error.strerror or str(error)) from error
    if found.errors:
        first = found.errors[0]
        raise InputError(str(file), f"line {first.line}" if first.line else "", first.code, first.message)
    counted, weights_bytes, tokenizer = _tokenizer(found.model or "", endpoint)
    windows = (window for span in found.spans for window in source.windows(span))
    sample = estimate(windows, counted, output_share, deployment.llm.block_size)
    return JobPlan(sample.scaled(found.rows / sample.rows), profile, weights_bytes, tokenizer)


def _tokenizer(model: str, endpoint: str) -> "tuple[Callable[[Request], list[int]], float, str]":
    """Row -> its prompt's tokens; the weights' bytes; what it counts by."""
    from configs.models import prepared

    try:
        folder = prepared(model)
    except InputError:
        return (
            (lambda request: list(request.prompt.encode()[::CHARS_PER_TOKEN])),
            1e9,
            f"{CHARS_PER_TOKEN} bytes a token",
        )
    from transformers import AutoTokenizer

    tokenizer = AutoTokenizer.from_pretrained(folder)

    def counted(request: "Request") -> list[int]:
        messages = request.body.get("messages")
        if endpoint.endswith("/chat/completions") and isinstance(messages, list):
            text = tokenizer.apply_chat_template(messages, tokenize=False, add_generation_prompt=True)
            return list(tokenizer.encode(text, add_special_tokens=False))
        return list(tokenizer.encode(str(request.body.get("prompt"))))

    weights_bytes = float(sum(path.stat().st_size for path in folder.glob("*.safetensors")))
    return counted, weights_bytes, model
