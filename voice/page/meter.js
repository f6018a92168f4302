// The one clock of a call's sound: an AudioWorklet over the microphone and the received audio at once.
//
// It cuts both into windows of 10 ms and tells which are loud, by the rule that the server and `firstclause talk` use
// too: root mean square at -45 dBFS or more. Windows are numbered from the start; a batch is posted every 50 ms:
// {window: number of the batch's last window, loud: [[windows of the microphone], [windows of the agent]],
//  level: [rms of the microphone, of the agent]}.

const LOUD_SQUARE = 10 ** (-45 / 10);
const WINDOWS_A_BATCH = 5;

class Meter extends AudioWorkletProcessor {
  constructor() {
    super();
    this.samples = Math.floor(sampleRate / 100);
    this.filled = 0;
    this.window = 0;
    this.sums = [0, 0];
    this.begin();
  }

  begin() {
    this.loud = [[], []];
    this.energy = [0, 0];
  }

  process(inputs) {
    const length = 128;
    for (let i = 0; i < length; i++) {
      for (const side of [0, 1]) {
        const channels = inputs[side];
        let sample = 0;
        for (const channel of channels) sample += channel[i] / channels.length;
        this.sums[side] += sample * sample;
      }
      if (++this.filled === this.samples) this.close();
    }
    return true;
  }

  close() {
    for (const side of [0, 1]) {
      const square = this.sums[side] / this.samples;
      if (square >= LOUD_SQUARE) this.loud[side].push(this.window);
      this.energy[side] += square / WINDOWS_A_BATCH;
    }
    this.sums = [0, 0];
    this.filled = 0;
    if (this.window % WINDOWS_A_BATCH === WINDOWS_A_BATCH - 1) {
      this.port.postMessage({ window: this.window, loud: this.loud, level: this.energy.map(Math.sqrt) });
      this.begin();
    }
    this.window++;
  }
}

registerProcessor("meter", Meter);
