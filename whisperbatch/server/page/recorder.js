// Runs in the audio thread: makes 16-bit samples at 24 kHz of what the microphone gives, and posts
// them every 100 ms.

export const RATE = 24000; // samples per second
const BLOCK = RATE / 10;
const PHASES = 64; // positions between two input samples for which the filter is stored
const CROSSINGS = 16; // zero crossings of the filter on each side

// Changes the rate of a signal that arrives in pieces. A low-pass filter (a sinc with a Blackman
// window) removes what the lower of both rates cannot hold.
export class Resampler {
  constructor(from, to = RATE) {
    this.step = from / to;
    const cutoff = Math.min(1, to / from) * 0.94; // relative to half of the input rate
    this.half = Math.ceil(CROSSINGS / cutoff); // input samples on each side
    this.length = 2 * this.half;
    this.filters = Array.from({ length: PHASES + 1 }, (_, phase) => this.filter(phase / PHASES, cutoff));
    this.samples = new Float32Array(this.half); // silence before the first sample
    this.position = this.half; // of the next output, in `samples`
  }

  filter(shift, cutoff) {
    const taps = new Float32Array(this.length);
    let sum = 0;
    for (let index = 0; index < this.length; index++) {
      const x = index - this.half + 1 - shift;
      const at = x / this.half;
      const window = Math.abs(at) < 1 ? 0.42 + 0.5 * Math.cos(Math.PI * at) + 0.08 * Math.cos(2 * Math.PI * at) : 0;
      const sinc = x === 0 ? 1 : Math.sin(Math.PI * cutoff * x) / (Math.PI * cutoff * x);
      sum += taps[index] = window * sinc;
    }
    return taps.map((tap) => tap / sum);
  }

  // Returns the samples that the input so far determines; the last ones come with later input.
  process(input) {
    const samples = new Float32Array(this.samples.length + input.length);
    samples.set(this.samples);
    samples.set(input, this.samples.length);
    const output = [];
    while (Math.floor(this.position) + this.half < samples.length) {
      const whole = Math.floor(this.position);
      const taps = this.filters[Math.round((this.position - whole) * PHASES)];
      let sum = 0;
      for (let index = 0, from = whole - this.half + 1; index < this.length; index++) sum += taps[index] * samples[from + index];
      output.push(sum);
      this.position += this.step;
    }
    const used = Math.max(0, Math.floor(this.position) - this.half);
    this.samples = samples.slice(used);
    this.position -= used;
    return output;
  }
}

class Recorder extends AudioWorkletProcessor {
  constructor() {
    super();
    this.resampler = new Resampler(sampleRate);
    this.block = new Int16Array(BLOCK);
    this.filled = 0;
    this.active = true;
    this.port.onmessage = () => {
      this.active = false; // the page stops: post the rest
      this.port.postMessage(this.block.slice(0, this.filled));
      this.port.postMessage(null);
    };
  }

  process([channels]) {
    if (!this.active) return false;
    if (channels.length) for (const sample of this.resampler.process(channels[0])) this.add(sample);
    return true;
  }

  add(sample) {
    this.block[this.filled++] = Math.max(-32768, Math.min(32767, Math.round(sample * 32768)));
    if (this.filled < BLOCK) return;
    this.port.postMessage(this.block, [this.block.buffer]);
    this.block = new Int16Array(BLOCK);
    this.filled = 0;
  }
}

registerProcessor("recorder", Recorder);
