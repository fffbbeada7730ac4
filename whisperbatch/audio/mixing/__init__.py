"""The mix of all channels (`channel="mix"`), in which speech on any channel is heard.

    frames -> blocks.ChannelResampler -> mixer.Mixer -> mono samples
                                           |  cell by cell
                                           +-> choice.choose <- choice.Evidence (products)
                                                             <- choice.count_speech (the VAD)

The plain mix (FFmpeg's for three to eight channels, otherwise the mean) is kept wherever speech is
heard in it: in nearly all recordings, everywhere. Elsewhere inverted channels are turned, and
channels with sound that is no speech are lowered. docs/explanation/channels.md explains the rules.
"""

from collections.abc import Iterable, Iterator

from whisperbatch.audio.mixing.blocks import ChannelBlock
from whisperbatch.audio.mixing.mixer import Mixer
from whisperbatch.types import Notices, Samples

__all__ = ["mix"]


def mix(
    blocks: Iterable[Samples], notices: Notices | None = None, position: int = 0
) -> Iterator[Samples]:
    """Yield the mix of all channels.

    Args:
        blocks: shape (n_samples,), or (n_samples, n_channels), whose plain mix is the mean.
        notices: of the recording; None if it has been read before.
        position: first sample of `blocks`, counted in the recording.
    """
    return Mixer(notices, position)(
        ChannelBlock.of(block) if block.ndim > 1 else block for block in blocks
    )
