"""Sizes of Whisper's models, as openai/whisper lists them."""

from whisperbatch.models.architecture import Architecture


def architecture(
    d_model: int, heads: int, layers: int, decoder_layers: int | None = None
) -> Architecture:
    """Return the sizes of a multilingual model."""
    return Architecture(
        d_model=d_model,
        heads={"encoder": heads, "decoder": heads},
        layers={"encoder": layers, "decoder": decoder_layers or layers},
        n_mels=80,
        vocabulary_size=51_865,
        ties_projection=True,
    )


MODELS = {
    "tiny": architecture(384, 6, 4),
    "base": architecture(512, 8, 6),
    "small": architecture(768, 12, 12),
    "medium": architecture(1024, 16, 24),
    "large-v3": architecture(1280, 20, 32),
    "turbo": architecture(1280, 20, 32, 4),
}
PARAMETERS = {
    "tiny": 39e6,
    "base": 74e6,
    "small": 244e6,
    "medium": 769e6,
    "large-v3": 1550e6,
    "turbo": 809e6,
}
"""Numbers of parameters, from openai/whisper's README."""
