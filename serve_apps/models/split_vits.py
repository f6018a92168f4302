"""A Piper voice (VITS) in two graphs: the encoder, from phonemes to a latent, and the decoder, from latent to sound.

The decoder's convolutions look a few frames to each side, so that a piece of the latent with margins gives the same
sound as the whole: the first sound need not wait for the sentence (voice/tts/piper_process.py).
"""

import shutil
from pathlib import Path

from serve_apps.models.errors import NotFound, PreparationError
from serve_apps.models.files import Report

DECODER_INPUT = "/dec/conv_pre/Conv"
"""The node of the exported graph through which everything enters the decoder."""


def split_vits(source: Path, target: Path, report: Report) -> None:
    """Write `source`'s one .onnx voice as encoder.onnx and decoder.onnx, its config as voice.json; copy the rest."""
    found = list(source.glob("*.onnx"))
    if len(found) != 1:
        raise NotFound(f"split-vits wants one .onnx file, and the source has {len(found)}")
    config = found[0].with_name(found[0].name + ".json")
    if not config.exists():
        raise NotFound(f"split-vits wants the voice's configuration beside it: {config.name}")
    report("split encoder and decoder", 0, None)
    import onnx
    from onnx.utils import Extractor

    model = onnx.shape_inference.infer_shapes(onnx.load(str(found[0])))
    cut = next((node.input[0] for node in model.graph.node if node.name == DECODER_INPUT), None)
    if cut is None:
        raise PreparationError(
            f"split-vits found no {DECODER_INPUT} in {found[0].name}: no VITS voice as Piper exports it"
        )
    inputs = [tensor.name for tensor in model.graph.input]
    outputs = [tensor.name for tensor in model.graph.output]
    graphs = Extractor(model)
    onnx.save(graphs.extract_model(inputs, [cut]), str(target / "encoder.onnx"))
    onnx.save(graphs.extract_model([cut], outputs), str(target / "decoder.onnx"))
    shutil.copyfile(config, target / "voice.json")
    for path in source.iterdir():
        if path not in (found[0], config):
            shutil.copyfile(path, target / path.name)
