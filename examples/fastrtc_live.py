"""Live text in a web page of FastRTC, from a running `whisperbatch serve`.

pip install fastrtc "openai[realtime]"
whisperbatch serve --model base
python examples/fastrtc_live.py
"""

import asyncio
import base64
from typing import Any

import numpy as np
import numpy.typing as npt
from openai import AsyncOpenAI
from openai.resources.realtime.realtime import AsyncRealtimeConnection

URL = "http://127.0.0.1:8000/v1"
RATE = 24_000  # Hz
TEXT = "conversation.item.input_audio_transcription.delta"


async def connect(url: str = URL) -> AsyncRealtimeConnection:
    """Open a session of the server."""
    client = AsyncOpenAI(base_url=url, api_key="none")
    connection = await client.realtime.connect(extra_query={"intent": "transcription"}).enter()
    audio = {"input": {"format": {"type": "audio/pcm", "rate": RATE}}}
    await connection.session.update(session={"type": "transcription", "audio": audio})
    return connection


async def send(connection: AsyncRealtimeConnection, samples: npt.NDArray[np.int16]) -> None:
    audio = base64.b64encode(samples.tobytes()).decode()
    await connection.input_audio_buffer.append(audio=audio)


async def next_text(connection: AsyncRealtimeConnection) -> str:
    """Wait for settled text."""
    while (event := await connection.recv()).type != TEXT:
        pass
    return str(event.delta)


def main() -> None:
    from fastrtc import AdditionalOutputs, AsyncStreamHandler, Stream  # noqa: PLC0415
    from gradio import Textbox  # noqa: PLC0415 - of FastRTC

    class Handler(AsyncStreamHandler):  # type: ignore[misc]
        def __init__(self) -> None:
            super().__init__(input_sample_rate=RATE)
            self.text, self.connection = "", asyncio.Future[AsyncRealtimeConnection]()

        def copy(self) -> "Handler":  # one for each visitor
            return Handler()

        async def start_up(self) -> None:
            self.connection.set_result(await connect())

        async def receive(self, frame: tuple[int, Any]) -> None:
            await send(await self.connection, frame[1].squeeze())

        async def emit(self) -> AdditionalOutputs:
            self.text += await next_text(await self.connection)
            return AdditionalOutputs(self.text)

        async def shutdown(self) -> None:
            await (await self.connection).close()

    Stream(
        Handler(),
        mode="send",
        modality="audio",
        additional_outputs=[Textbox(label="Text")],
        additional_outputs_handler=lambda _, new: new,
    ).ui.launch()


if __name__ == "__main__":
    main()
