"""What a library (OpenVINO or ONNX Runtime) computes for the encoder and the decoder."""

from collections.abc import Sequence
from typing import Final, Protocol

from whisperbatch.engines.cpu.encoder_output import EncoderOutput
from whisperbatch.engines.search.hypotheses import Floats, Integers

MAX_BEAMS: Final = 5

PROJECTED: Final = 2 * MAX_BEAMS
"""Number of tokens that the vocabulary projection returns for each hidden state."""


class EncoderRunner(Protocol):
    """Computes the encoder for one row. One thread at a time uses an object.

    Features have shape (n_mels, frames), states (positions or groups, d_model).
    """

    def whole(self, features: Floats) -> Floats:
        """Return the encoder output of features."""

    def start(self, features: Floats) -> Floats:
        """Return the hidden states after the first layer, after which positions are merged."""

    def end(self, states: Floats, log_sizes: Floats) -> Floats:
        """Return the encoder output of merged hidden states.

        Args:
            states: of groups of positions, shape (groups, d_model).
            log_sizes: natural log of the number of positions of each group, shape (groups,).
        """


class DecoderRunner(Protocol):
    """Computes the decoder for one batch at a time. One thread at a time uses an object.

    The rows of the batch are in slots. Each has one or more sequences (beams), in the order of the
    slots. The keys and values of the encoder output and of the tokens that each sequence has read
    are kept from call to call. A returned array lasts until the next call.
    """

    def begin(self, output: EncoderOutput) -> list[Floats]:
        """Start a batch: row n is in slot n, and no token has been read.

        Args:
            output: of the encoder; all rows have the same number of states.

        Returns:
            For each row, the keys of the alignment heads, shape (heads, states, head_size).
        """

    def keep(self, slots: Sequence[int]) -> None:
        """Keep some rows: slot n gets the row of slot `slots[n]`.

        The sequences that the rows have read stay in their places; the next `read` tells which of
        them go on.
        """

    def read(self, embedded: Floats, sources: Integers, slots: Integers) -> tuple[Floats, Floats]:
        """Read tokens.

        Args:
            embedded: the embeddings of the tokens, with positions, shape (sequences, length,
                d_model).
            sources: the sequence of the call before that each sequence extends, shape
                (sequences,).
            slots: the slot of each sequence, in ascending order, shape (sequences,).

        Returns:
            Hidden states, shape (sequences, length, d_model), and the queries of the alignment
            heads, shape (sequences, heads, length, head_size).
        """

    def project(
        self, hidden: Floats, biases: Floats, tokens: Integers
    ) -> tuple[Floats, Integers, Floats]:
        """Return the natural-log probabilities of the token after hidden states.

        Args:
            hidden: shape (n, d_model).
            biases: of the logits, shape (1 or n, vocabulary).
            tokens: a token for each hidden state, shape (n,).

        Returns:
            The log-probabilities of the most probable tokens (n, `PROJECTED`), these tokens
            (n, `PROJECTED`), and the log-probabilities of the given tokens (n,).
        """
