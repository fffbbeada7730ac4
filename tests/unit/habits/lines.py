"""What users of other programs type first, and what whisperbatch answers.

The other program or package is replaced by whisperbatch, and nothing else. Each line has the words
that its answer must contain; without words, the line runs.
"""

from typing import Final

RUNS: Final = ""

COMMAND_LINES: Final = {
    # most programs
    "audio.wav": RUNS,
    "audio.wav --model base": RUNS,
    "audio.wav --model base --language English": RUNS,
    "audio.wav --model tiny.en --output_format srt --output_dir out": RUNS,
    "audio.wav --model large-v2 --diarize --highlight_words True --min_speakers 2 --max_speakers 2 "
    "--hf_token X": "variable HF_TOKEN",
    "--file-name audio.wav": "without a flag",
    "audio.wav -o audio.srt": RUNS,
    "transcribe audio.wav -o audio.srt": RUNS,
    "transcribe audio.wav -o out.json": RUNS,
    # openai-whisper
    "transcribe audio.wav --model tiny.en --output_format srt --output_dir out": RUNS,
    "transcribe audio.wav --model tiny.en --output_dir out --output_format all": RUNS,
    "transcribe audio.wav --model base --task translate --language es": RUNS,
    "transcribe audio.wav --word_timestamps True --highlight_words True -f srt -o out": RUNS,
    "transcribe audio.wav --word_timestamps True --max_line_width 40 -f srt": RUNS,
    "transcribe audio.wav --fp16 False": "use --compute-type",
    "transcribe audio.wav --verbose False": RUNS,
    "transcribe audio.wav --device cpu --threads 2": RUNS,
    "transcribe audio.wav --condition_on_previous_text False": RUNS,
    "transcribe audio.wav --initial_prompt 'Asterisk, Digium'": RUNS,
    "transcribe audio.wav --temperature 0 --best_of 5 --beam_size 5": RUNS,
    "transcribe audio.wav --temperature_increment_on_fallback None": "--temperature 0.0,0.2,0.4",
    "transcribe audio.wav --logprob_threshold -1.0": RUNS,
    "transcribe audio.wav --suppress_tokens=-1": RUNS,
    "transcribe audio.wav --suppress_tokens -1": RUNS,
    "transcribe audio.wav --clip_timestamps 0,10": RUNS,
    "transcribe audio.wav --hallucination_silence_threshold 2": "use --hallucination-filter",
    "transcribe audio.wav --model turbo": RUNS,
    "transcribe audio.wav --model large-v3": RUNS,
    "transcribe audio.wav --model_dir /data/x": "a directory of weights as --model",
    "transcribe audio.wav --carry_initial_prompt True --initial_prompt x": "leave it out",
    "transcribe audio.wav -f": "requires an argument. Write files in these formats: txt, srt",
    # WhisperX
    "transcribe audio.wav --diarize --highlight_words True -f srt -o out": RUNS,
    "transcribe audio.wav --diarize --min_speakers 1 --max_speakers 2": RUNS,
    "transcribe audio.wav --diarize --hf_token hf_x": "variable HF_TOKEN",
    "transcribe audio.wav --compute_type int8 --batch_size 4": RUNS,
    "transcribe audio.wav --compute_type float16": "float16 is not supported by this machine's cpu",
    "transcribe audio.wav --chunk_size 6": RUNS,
    "transcribe audio.wav --align_model WAV2VEC2_ASR_LARGE_LV60K_960H": "needs no alignment model",
    "transcribe audio.wav --vad_method silero --vad_onset 0.5": RUNS,
    "transcribe audio.wav --vad_method pyannote": "leave it out",
    "transcribe audio.wav --segment_resolution sentence": RUNS,
    "transcribe audio.wav --print_progress True": RUNS,
    "transcribe audio.wav --no_align": "--word-timestamps needs no alignment model",
    # insanely-fast-whisper
    "transcribe --file-name audio.wav --device-id 0 --transcript-path out.json": "without a flag",
    "transcribe audio.wav --device-id 0": RUNS,
    "transcribe audio.wav --transcript-path out.json": "use --output talk.json",
    "transcribe audio.wav --model-name openai/whisper-base --timestamp word --flash True": (
        "use --word-timestamps"
    ),
    "transcribe audio.wav --model openai/whisper-base": RUNS,
    "transcribe audio.wav --batch-size 24 --num-speakers 2": (
        "--num-speakers has no effect without --diarize"
    ),
    # whisper.cpp
    "-m base -f audio.wav": "give a recording without a flag",
    "transcribe -m base -f audio.wav": "give a recording without a flag",
    "transcribe -m models/ggml-base.en.bin -f audio.wav": "give a recording without a flag",
    "transcribe audio.wav -osrt": "use --format srt",
    "transcribe audio.wav -otxt -of out": "use --format txt",
    "transcribe audio.wav -l en -t 2": RUNS,
    "transcribe audio.wav -ml 40 -sow": "use --max-line-width",
    "transcribe audio.wav -di": "use --diarize; if each channel is one speaker, --speaker channel",
    "transcribe audio.wav -tr": "use --task translate",
    "transcribe audio.wav -pp": "leave it out",
    "transcribe audio.wav --output-srt": "use --format srt",
    "transcribe audio.wav --print-colors": "--format json has the probability of each word",
    "transcribe audio.wav -oj -nt": "use --format json",
    # whisper-ctranslate2
    "transcribe audio.wav --vad_filter True": RUNS,
    "transcribe audio.wav --live_transcribe True": "through a pipe, and give -",
    "transcribe audio.wav --batched True": RUNS,
    "transcribe audio.wav --compute_type default": RUNS,
    "transcribe audio.wav --print_colors True": "leave it out",
    "transcribe audio.wav --local_files_only True": "HF_HUB_OFFLINE=1",
    # others
    "transcribe audio.wav --lang en": RUNS,
    "transcribe audio.wav -l en": RUNS,
    "transcribe audio.wav --language=auto": RUNS,
    "transcribe audio.wav --format SRT -o out": RUNS,
    "transcribe audio.wav --format .srt -o out": RUNS,
    "transcribe audio.wav --format docx -o out": "use txt",
    "transcribe audio.wav --format sbv -o out": RUNS,
    "transcribe audio.wav --format md -o out": "use txt",
}

LOAD: Final = "import whisperbatch as wb; model = wb.load('base'); "
WORDS: Final = "import whisperbatch as wb; r = wb.transcribe('audio.wav', word_timestamps=True); "
RESULT: Final = "import whisperbatch as wb; r = wb.transcribe('audio.wav', model='base'); "

TENSOR: Final = """
import numpy as np
import whisperbatch as wb
class Tensor:
    def __array__(self, dtype=None, copy=None):
        return np.zeros(16000, np.float32)
"""
UNPACKED: Final = "import WhisperModel from whisperbatch.compat.faster_whisper"

PYTHON_LINES: Final = {
    # openai-whisper
    "import whisperbatch as whisper; whisper.load_model('base')": 'whisperbatch.load("base")',
    f"{LOAD}model.transcribe('audio.wav', fp16=False)": "use compute_type (a keyword of load)",
    f"{LOAD}model.transcribe('audio.wav', verbose=True)": "use progress=True",
    f"{LOAD}model.transcribe('audio.wav', logprob_threshold=-1.0)": "use log_prob_threshold",
    f"{LOAD}model.transcribe('audio.wav', temperature=(0.0, 0.2, 0.4, 0.6, 0.8, 1.0))": RUNS,
    f"{LOAD}assert model.transcribe('audio.wav', language='English').language == 'en'": RUNS,
    f"{LOAD}model.transcribe('audio.wav', hallucination_silence_threshold=2)": (
        "use hallucination_filter"
    ),
    f"{LOAD}model.transcribe('audio.wav', clip_timestamps='0,10')": RUNS,
    f"{LOAD}model.transcribe('audio.wav', suppress_tokens='-1')": RUNS,
    "import whisperbatch as whisper; whisper.load_audio('audio.wav')": "takes a path or samples",
    "import whisperbatch as whisper; whisper.pad_or_trim(None)": "transcribe makes features",
    "import whisperbatch as whisper; whisper.log_mel_spectrogram(None)": "makes features",
    "import whisperbatch as whisper; whisper.DecodingOptions()": "use whisperbatch.Options",
    "import whisperbatch as whisper; whisper.decode(None, None, None)": "makes features",
    "import whisperbatch as whisper; assert whisper.available_models()[0] == 'base'": RUNS,
    "from whisperbatch.utils import get_writer": "use transcript.save",
    "from whisperbatch.tokenizer import LANGUAGES": "use whisperbatch.text.LANGUAGES",
    "import whisperbatch as wb; wb.load('base', device='cpu', download_root='/data')": "HF_HOME",
    "import whisperbatch as wb; wb.load('base', in_memory=True)": "leave it out",
    "import whisperbatch as wb; wb.load('base.en')": RUNS,
    "import whisperbatch as wb; wb.load('bse')": "did you mean base",
    f"{LOAD}model.transcribe('nope.wav')": "there is no such file",
    "import whisperbatch as wb; wb.transcribe('audio.wav')": RUNS,
    f"{LOAD}model.device": RUNS,
    f"{LOAD}model.is_multilingual": RUNS,
    f"{LOAD}assert model.detect_language('audio.wav').language": RUNS,
    # faster-whisper
    "from whisperbatch import WhisperModel": "use whisperbatch.compat.faster_whisper",
    "from whisperbatch import BatchedInferencePipeline": "use whisperbatch.compat.faster_whisper",
    "from whisperbatch.compat.faster_whisper import WhisperModel; segments, info = "
    "WhisperModel('base').transcribe('audio.wav', beam_size=5, vad_filter=True, "
    "vad_parameters=dict(min_silence_duration_ms=500)); list(segments)[0]": RUNS,
    "from whisperbatch.compat.faster_whisper import BatchedInferencePipeline, WhisperModel; "
    "segments, info = BatchedInferencePipeline(model=WhisperModel('base')).transcribe('audio.wav', "
    "batch_size=16); next(segments).text": RUNS,
    "from whisperbatch.compat.faster_whisper import decode_audio; decode_audio('audio.wav')": RUNS,
    f"{LOAD}model.transcribe('audio.wav', vad_filter=True)": "use vad",
    f"{LOAD}model.transcribe('audio.wav', vad_parameters=dict(min_silence_duration_ms=500))": (
        "use vad_onset (every VAD parameter is an option)"
    ),
    "import whisperbatch as wb; wb.load('base', cpu_threads=4, num_workers=2)": "use intra_threads",
    "import whisperbatch as wb; wb.load('base', device='cpu', compute_type='int8_float16')": (
        "is not supported by this machine's cpu device"
    ),
    # WhisperX
    "import whisperbatch as whisperx; whisperx.load_model('large-v2', 'cuda')": (
        'use whisperbatch.load("base")'
    ),
    "import whisperbatch as whisperx; whisperx.load_align_model(language_code='en')": (
        "word_timestamps=True"
    ),
    "import whisperbatch as whisperx; whisperx.align([], None, None, None, 'cpu')": (
        "word_timestamps=True"
    ),
    "import whisperbatch as whisperx; whisperx.assign_word_speakers(None, None)": "diarize=True",
    "import whisperbatch as whisperx; whisperx.DiarizationPipeline(use_auth_token='x')": (
        "diarize=True"
    ),
    "import whisperbatch as whisperx; whisperx.diarize.DiarizationPipeline(token='x')": (
        "diarize=True"
    ),
    "import whisperbatch as whisperx; "
    "whisperx.diarize('audio.wav', min_speakers=1, max_speakers=2).turns[:2]": RUNS,
    f"{LOAD}model.transcribe('audio.wav', chunk_size=30, print_progress=True)": "use chunk_length",
    "import whisperbatch as whisperx; whisperx.load('base', asr_options={'beam_size': 5})": (
        "beam_size=5 (an option of transcribe)"
    ),
    # transformers
    "import whisperbatch as wb; wb.pipeline('automatic-speech-recognition', model='x')": (
        'use whisperbatch.load("base")'
    ),
    f"{LOAD}model('audio.wav')['text']": RUNS,
    f"{LOAD}model.transcribe('audio.wav', return_timestamps='word', chunk_length_s=30)": (
        "use word_timestamps"
    ),
    f"{LOAD}model.transcribe('audio.wav', generate_kwargs={{'language': 'en'}})": (
        "each of its entries as an option"
    ),
    f"{RESULT}r.chunks": RUNS,
    "import whisperbatch as wb; import numpy as np; "
    "wb.transcribe({'array': np.zeros(16000), 'sampling_rate': 16000})": (
        "whisperbatch.Audio(item['array'].astype(numpy.float32), item['sampling_rate'])"
    ),
    "import whisperbatch as wb; import numpy as np; "
    "wb.transcribe({'raw': np.zeros(16000, dtype=np.float32), 'sampling_rate': 16000})": (
        "whisperbatch.Audio(item['raw']"
    ),
    "import whisperbatch as wb; wb.transcribe(['audio.wav', 'a.wav'], model='base')": (
        "call transcribe_many"
    ),
    # OpenAI's client
    "import whisperbatch as wb; wb.transcribe(file=recording, model='whisper-1', "
    "response_format='srt')": "give the recording first",
    "import whisperbatch as wb; wb.transcribe(recording, model='base', "
    "timestamp_granularities=['word'])": "use word_timestamps=True",
    "import whisperbatch as wb; wb.transcribe('audio.wav', model='whisper-1')": "model='large-v2'",
    "import whisperbatch as wb; wb.transcribe('audio.wav', prompt='Digium')": "use initial_prompt",
    # others
    "import whisperbatch as wb; wb.transcribe('audio.wav', model='base', language='auto')": RUNS,
    "import whisperbatch as wb; wb.transcribe('audio.wav', diarization=True)": "use diarize",
    "import whisperbatch as wb; wb.transcribe('audio.wav', on_progress=print)": "use progress=True",
    "import whisperbatch as wb; wb.transcribe('audio.wav', beams=5)": "use beam_size",
    "import whisperbatch as wb; wb.transcribe('audio.wav', device='gpu')": "use device='cuda'",
    "import whisperbatch as wb; wb.transcribe('audio.wav', device='mps')": "use device='cpu'",
    "import whisperbatch as wb; wb.transcribe('audio.wav', device='cuda:0')": (
        "use device='cuda' with device_index=0"
    ),
    "import whisperbatch as wb; wb.transcribe('audio.wav', device='cuda', engine='ctranslate2')": (
        "install a driver or use 'cpu'"
    ),
    "import whisperbatch as wb; list(wb.transcribe_many(['audio.wav', 'a.wav']))": RUNS,
    "import whisperbatch as wb; from pathlib import Path; wb.transcribe(Path('audio.wav'))": RUNS,
    "import whisperbatch as wb; wb.transcribe('_2spk_30s.wav')": "there is no such file",
    "import whisperbatch as wb; wb.transcribe('.', model='base')": "is a directory",
    "import whisperbatch as wb; wb.transcribe('*.wav', model='base')": "there is no such file",
    "import whisperbatch as wb; wb.transcribe(b'', model='base')": "is empty",
    "import whisperbatch as wb; import numpy as np; "
    "wb.transcribe(np.zeros(16000, dtype=np.int16))": RUNS,
    "import whisperbatch as wb; import numpy as np; "
    "wb.transcribe(np.zeros((2, 16000), dtype=np.float32))": "choose a channel",
    "import whisperbatch as wb; wb.write(wb.Transcript((), 'en', 1.0, 1.0, ''), 'x.ass')": RUNS,
    # results
    f"{RESULT}r['text']": RUNS,
    f"{RESULT}r['segments'][0]['start']": RUNS,
    f"{RESULT}[(segment['start'], segment['text']) for segment in r.segments]": RUNS,
    "import whisperbatch as wb; segments, info = wb.load('base').transcribe('audio.wav')": UNPACKED,
    "import whisperbatch as wb; segments, info = wb.transcribe('audio.wav')": UNPACKED,
    f"{LOAD}model.transcribe('audio.wav', batch_size=16)['segments']": RUNS,
    f"{RESULT}r.to_srt_vtt('audio2.srt')": "write transcript.save('talk.srt')",
    f"{RESULT}r.save_as_json('x.json')": "write transcript.save('talk.json')",
    f"{RESULT}r.to_dict()": RUNS,
    f"{RESULT}r.to_srt()": RUNS,
    f"{RESULT}r.to_srt('x.srt')": "write transcript.save('x.srt')",
    f"{LOAD}model.stream('audio.wav')['text']": "transcribe() returns the transcript",
    f"{RESULT}r.save('x.srt')": RUNS,
    f"{RESULT}r.write('x.srt')": "write transcript.save('talk.srt')",
    f"{WORDS}r.words[0].word": RUNS,
    f"{WORDS}r.model_dump()": "write to_dict()",
    f"{WORDS}r.model_dump_json()": "write to_json()",
    "import whisperbatch as wb; wb.__version__": RUNS,
    "import whisperbatch as wb; wb.transcribe('audio.wav', progress=True)": RUNS,
    f"{TENSOR}wb.transcribe(Tensor())": RUNS,
    # positional arguments
    "import whisperbatch as wb; wb.transcribe('audio.wav', 'base')": RUNS,
    "import whisperbatch as whisperx; model = whisperx.load('base', 'cpu', compute_type='int8'); "
    "audio = whisperx.load_audio('audio.wav')": "takes a path or samples",
}
