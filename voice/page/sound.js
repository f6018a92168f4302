// A call's sound: what the microphone gives, what the agent sends, and which 10 ms windows of both were loud.

const KEPT_WINDOWS = 12_000;

export class Sound {
  // `onLevel(microphone, agent)` is called twenty times a second with root mean squares, 0 to 1.
  constructor(onLevel) {
    this.context = new AudioContext({ latencyHint: "interactive" });
    this.player = new Audio();
    this.player.autoplay = true;
    this.window = 0;
    this.loud = [[], []];
    this.waiting = [];
    this.onLevel = onLevel;
  }

  async start() {
    await this.context.audioWorklet.addModule("meter.js");
    this.meter = new AudioWorkletNode(this.context, "meter", { numberOfInputs: 2, numberOfOutputs: 0 });
    this.meter.port.onmessage = ({ data }) => this.take(data);
    await this.context.resume();
  }

  take({ window, loud, level }) {
    this.window = window;
    for (const side of [0, 1]) {
      this.loud[side].push(...loud[side]);
      while (this.loud[side][0] < window - KEPT_WINDOWS) this.loud[side].shift();
    }
    this.onLevel(...level);
    this.waiting = this.waiting.filter((wake) => !wake());
  }

  // The first value that `look(microphone windows, agent windows)` finds, asked after every batch; null after `windows`.
  find(look, windows) {
    const last = this.window + windows;
    return new Promise((resolve) => {
      const wake = () => {
        const found = look(...this.loud);
        if (found === null && this.window < last) return false;
        resolve(found);
        return true;
      };
      if (!wake()) this.waiting.push(wake);
    });
  }

  useMicrophone(stream) {
    this.microphone?.disconnect();
    this.microphone = this.context.createMediaStreamSource(stream);
    this.microphone.connect(this.meter, 0, 0);
  }

  // Resolves false where the browser refuses to play.
  async playAgent(stream) {
    this.player.srcObject = stream;
    this.context.createMediaStreamSource(stream).connect(this.meter, 0, 1);
    return this.player.play().then(() => true, () => false);
  }

  // What is sent where there is no microphone: a track that is silent, so that the call lives.
  silentTrack() {
    return this.context.createMediaStreamDestination().stream.getAudioTracks()[0];
  }

  close() {
    this.player.srcObject = null;
    this.context.close();
    this.window = Infinity; // nothing that is waited for comes any more
    for (const wake of this.waiting) wake();
    this.waiting = [];
  }
}
