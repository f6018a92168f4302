// The talk page: what is pressed, what the call says, and what is shown.

import { Call, CallError, UNREACHABLE } from "./call.js";
import { openMicrophone } from "./microphone.js";
import { Scoreboard } from "./scoreboard.js";
import { Sound } from "./sound.js";
import { Transcript } from "./transcript.js";

const by = (id) => document.getElementById(id);
const NO_FINAL_MS = 2000;

const transcript = new Transcript(by("log"), by("interim"), by("empty"), by("scroll"), (turn) => scoreboard.select(turn));
const scoreboard = new Scoreboard(by, (turn, text) => transcript.time(turn, text));

let settings = null;
let call = null; // the open call, or the one that rings
let starting = null; // while a call is being made: resolves to whether it stands
let sound = null;
let microphone = null;
let ready = null; // resolves when the agent can take messages

// What the caller does

by("call-button").onclick = () => (call ? hangUp() : start(openMicrophone));
by("mute").onclick = toggleMicrophone;
by("typing").onsubmit = async (event) => {
  event.preventDefault();
  const text = by("text").value.trim();
  if (!text) return;
  if ((!call || starting) && !(await start(noMicrophone))) return;
  by("text").value = "";
  await ready;
  call?.send("send-text", { content: text, options: { run_immediately: true, audio_response: true } });
};
addEventListener("pagehide", hangUp);

function hangUp() {
  call?.hangUp();
}

async function toggleMicrophone() {
  if (microphone) {
    const [track] = microphone.getAudioTracks();
    track.enabled = !track.enabled;
    status(track.enabled ? "Listening" : "Muted");
  } else {
    try {
      microphone = await openMicrophone();
      await call.sender.replaceTrack(microphone.getAudioTracks()[0]);
      sound.useMicrophone(microphone);
      tell("");
      status("Listening");
    } catch (error) {
      tell(error.message);
    }
  }
  showControls();
}

// The call

const noMicrophone = async () => null;

// Make a call, if none is being made, with the stream that `open` gives. Resolves to whether it stands.
function start(open) {
  starting ??= begin(open).finally(() => { starting = null; });
  return starting;
}

async function begin(open) {
  tell("");
  status("Connecting…");
  try {
    microphone = await open();
  } catch (error) {
    ended(error.message);
    return false;
  }
  transcript.clear();
  scoreboard.clear();
  sound = new Sound(showLevel);
  let agentReady;
  ready = new Promise((resolve) => { agentReady = resolve; });
  let mine = null;
  try {
    await sound.start().catch(() => { throw new CallError(UNREACHABLE); });
    await loadSettings();
    if (microphone) sound.useMicrophone(microphone);
    mine = call = new Call(microphone?.getAudioTracks()[0] ?? sound.silentTrack(), settings.ice_servers, {
      message: (type, data) => (type === "bot-ready" ? agentReady() : take(type, data)),
      agent: async (agent) => { if (!(await sound?.playAgent(agent))) tell("The browser does not play the sound."); },
      ended: (sentence) => { agentReady(); ended(sentence); },
      shaky: (shaky) => status(shaky ? "The connection is breaking up…" : idle()),
    });
    showControls();
    await call.open();
  } catch (error) {
    agentReady();
    if (mine !== call) return false; // hung up while it rang
    if (!(error instanceof CallError)) console.error(error);
    ended(error instanceof CallError ? error.message : "The call could not be made. Reload the page and try again.");
    return false;
  }
  status(idle());
  return true;
}

function ended(sentence) {
  call = null;
  sound?.close();
  sound = null;
  for (const track of microphone?.getTracks() ?? []) track.stop();
  microphone = null;
  transcript.hearing("");
  transcript.end("", false);
  showLevel(0);
  showControls();
  status(sentence ? "Not connected" : "Ready");
  tell(sentence ?? "");
}

let forget = 0;

function take(type, data) {
  if (type === "user-started-speaking") {
    clearTimeout(forget);
    status("Hearing you…");
  } else if (type === "user-stopped-speaking") {
    status(idle());
    forget = setTimeout(() => transcript.hearing(""), NO_FINAL_MS);
  } else if (type === "user-transcription") {
    clearTimeout(forget);
    if (data.final) transcript.heard(data.text);
    else transcript.hearing(data.text);
    if (data.final) status("Thinking…");
  } else if (type === "bot-started-speaking") {
    transcript.begin();
    status("Speaking");
  } else if (type === "bot-tts-text") {
    transcript.clause(data.text);
  } else if (type === "bot-stopped-speaking") {
    status(idle());
  } else if (type === "server-message") {
    takeOurs(data);
  } else if (type === "error" || type === "error-response") {
    tell("The server could not do that. The call goes on.");
  }
}

function takeOurs(data) {
  if (data.kind === "turn") {
    transcript.number(data.turn);
    scoreboard.time(data, sound, call);
  } else if (data.kind === "reply") {
    transcript.end(data.text, data.interrupted);
  } else if (data.kind === "notice") {
    tell(data.text);
  }
}

async function loadSettings() {
  settings ??= await fetch("voice/settings").then((reply) => (reply.ok ? reply.json() : null), () => null);
  if (!settings) throw new CallError(UNREACHABLE);
  scoreboard.plan(settings);
}

// What is shown

function idle() {
  if (!call) return "Ready";
  if (!microphone) return "Typing only";
  return microphone.getAudioTracks()[0].enabled ? "Listening" : "Muted";
}

function status(text) {
  by("status").textContent = text;
}

function tell(text) {
  by("alert").textContent = text;
  by("alert").hidden = !text;
}

function showControls() {
  by("call-label").textContent = call ? "Hang up" : "Talk";
  by("call-button").classList.toggle("live", Boolean(call));
  const muted = Boolean(microphone) && !microphone.getAudioTracks()[0].enabled;
  by("mute").disabled = !call;
  by("mute").textContent = call && !microphone ? "Use mic" : "Mute";
  if (call && !microphone) by("mute").removeAttribute("aria-pressed");
  else by("mute").setAttribute("aria-pressed", String(muted));
}

function showLevel(caller) {
  // -60 dBFS shows nothing, -10 dBFS fills the ring.
  const level = Math.min(1, Math.max(0, (20 * Math.log10(caller + 1e-6) + 60) / 50));
  by("level").style.setProperty("--level", level.toFixed(2));
}

loadSettings().catch((error) => tell(error.message));
