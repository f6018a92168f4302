// One call over WebRTC: its connection and its RTVI messages. It knows no DOM.

const GATHER_MS = 1500;
const OPEN_MS = 10_000;
const GONE_MS = 4000;

// Why a call could not be made, or ended: the message is for the caller.
export class CallError extends Error {}

export const UNREACHABLE = "The server does not answer. Is it running, and is this machine connected?";
const GONE = "The connection to the server was lost. Press Talk to call again.";
const LEFT = "The server ended the call. Press Talk to call again.";

export class Call {
  // `on` has: message(type, data), agent(MediaStream), ended(sentence or null), shaky(boolean).
  constructor(track, iceServers, on) {
    this.on = on;
    this.ended = false;
    this.given = new AbortController(); // aborted when the call is given up
    this.connection = new RTCPeerConnection({ iceServers, bundlePolicy: "max-bundle" });
    this.sender = this.connection.addTransceiver(track, { direction: "sendrecv" }).sender;
    this.channel = this.connection.createDataChannel("messages");
    this.connection.ontrack = ({ track }) => on.agent(new MediaStream([track]));
    this.channel.onmessage = ({ data }) => this.take(JSON.parse(data));
    this.number = 0;
  }

  // Call. Throws CallError.
  async open() {
    try {
      await this.signal();
      await this.opened();
    } catch (error) {
      this.close();
      throw error;
    }
    this.channel.onclose = () => this.end(GONE);
    this.connection.onconnectionstatechange = () => this.watch();
    this.send("client-ready", { version: "2.0.0", about: { library: "firstclause-page" } });
  }

  async signal() {
    await this.connection.setLocalDescription();
    await gathered(this.connection);
    const { type, sdp } = this.connection.localDescription;
    const reply = await fetch("voice/offer", {
      method: "POST",
      headers: { "Content-Type": "application/json" },
      body: JSON.stringify({ type, sdp }),
      signal: this.given.signal,
    }).catch(() => { throw new CallError(UNREACHABLE); });
    const answer = await reply.json().catch(() => ({}));
    if (reply.status === 503 && answer.error) throw new CallError(answer.error.message);
    if (!reply.ok) throw new CallError(`The server could not take the call (${reply.status}).`);
    if (this.ended) throw new CallError(GONE);
    await this.connection.setRemoteDescription(answer);
  }

  opened() {
    return new Promise((resolve, reject) => {
      const late = setTimeout(() => reject(new CallError(
        "The server answered, but no sound gets through to it: a firewall may be in between.")), OPEN_MS);
      this.channel.onopen = () => { clearTimeout(late); resolve(); };
      this.channel.onclose = () => { clearTimeout(late); reject(new CallError(GONE)); };
      this.given.signal.onabort = this.channel.onclose;
    });
  }

  take(message) {
    if (message.type === "signalling" && message.message?.type === "peerLeft") this.end(LEFT);
    else if (message.label === "rtvi-ai") this.on.message(message.type, message.data ?? {});
  }

  send(type, data) {
    if (this.channel.readyState !== "open") return;
    this.channel.send(JSON.stringify({ label: "rtvi-ai", id: String(++this.number), type, data }));
  }

  // The round trip to the server in ms, null if it is not known.
  async roundTripMs() {
    for (const stats of (await this.connection.getStats()).values()) {
      if (stats.type === "candidate-pair" && stats.nominated && stats.currentRoundTripTime !== undefined) {
        return stats.currentRoundTripTime * 1000;
      }
    }
    return null;
  }

  watch() {
    const state = this.connection.connectionState;
    clearTimeout(this.patience);
    if (state === "failed" || state === "closed") this.end(GONE);
    if (state === "disconnected") this.patience = setTimeout(() => this.end(GONE), GONE_MS);
    this.on.shaky(state === "disconnected");
  }

  hangUp() {
    this.end(null);
  }

  end(sentence) {
    if (this.ended) return;
    this.close();
    this.on.ended(sentence);
  }

  close() {
    this.ended = true;
    this.given.abort();
    clearTimeout(this.patience);
    this.channel.onopen = this.channel.onclose = this.connection.onconnectionstatechange = null;
    this.connection.close();
  }
}

function gathered(connection) {
  return new Promise((resolve) => {
    const check = () => connection.iceGatheringState === "complete" && resolve();
    connection.onicegatheringstatechange = check;
    setTimeout(resolve, GATHER_MS);
    check();
  });
}
