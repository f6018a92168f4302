// The budget as a waterfall: a bar a line, each from where the last ended, beside its allocation; the total beside 300 ms.

import { LINES, whole } from "./turns.js";

const NAMES = {
  network: ["Network", "there and back, and buffers"],
  endpoint: ["Endpoint", "silence, until you are surely done"],
  asr: ["Speech to text", "what is left of it by then"],
  llm_first_token: ["First token", "the language model begins"],
  clause: ["First clause", "enough words to speak"],
  tts: ["Text to speech", "its first sound"],
};
const TICKS_MS = [50, 100, 250, 500, 1000, 2500, 5000, 10_000];
const MOST_TICKS = 5;

export const milliseconds = (ms) => `${ms < 0 ? "−" : ""}${Math.abs(Math.round(ms)).toLocaleString("en")}`;

// Draw into `root` (replacing what is there). `turn` is {linesMs, responseMs}, or null for the plan alone.
export function drawWaterfall(root, turn, allocationMs, responseMs) {
  const shown = turn ? whole(turn.linesMs, turn.responseMs) : null;
  const end = Math.max(responseMs, turn?.responseMs ?? 0) * 1.04;
  const list = element("ol", "lines");
  let at = 0;
  let planned = 0;
  for (const line of LINES) {
    const start = shown ? at : planned;
    list.append(row(line, start, shown ? shown[line] : null, allocationMs[line], end));
    at += shown ? Math.max(0, shown[line]) : 0;
    planned += allocationMs[line];
  }
  list.append(totalRow(shown ? Math.round(turn.responseMs) : null, responseMs, end));
  root.style.setProperty("--goal", `${(responseMs / end) * 100}%`);
  root.replaceChildren(axis(end, responseMs), list);
}

function row(line, start, ms, allocation, end) {
  const over = ms !== null && ms > allocation;
  const item = element("li", over ? "line over" : "line");
  item.dataset.line = line;
  if (ms !== null) item.dataset.ms = ms;
  item.append(label(...NAMES[line]), figure(ms, allocation), track(start, ms, allocation, end));
  return item;
}

function totalRow(ms, responseMs, end) {
  const item = element("li", ms !== null && ms > responseMs ? "line sum over" : "line sum");
  item.dataset.line = "total";
  if (ms !== null) item.dataset.ms = ms;
  item.append(label("Total", ""), figure(ms, responseMs), track(0, ms, responseMs, end));
  return item;
}

function label(name, what) {
  const head = element("span", "name", name);
  if (what) head.append(" ", element("small", "what", what));
  return head;
}

function figure(ms, allocation) {
  const text = element("span", "figure");
  text.append(
    element("b", "ms", ms === null ? "–" : milliseconds(ms)),
    element("span", "of", ` of ${milliseconds(allocation)} ms`),
  );
  return text;
}

function track(start, ms, allocation, end) {
  const bars = element("span", "track");
  bars.setAttribute("aria-hidden", "true");
  const spent = Math.max(0, ms ?? 0);
  const parts = [
    ["within", start, Math.min(spent, allocation)],
    ["excess", start + allocation, spent - allocation],
    ["spare", start + spent, allocation - spent],
  ];
  for (const [kind, from, width] of parts) {
    if (width > 0) bars.append(bar(kind, from, width, end));
  }
  return bars;
}

function bar(kind, from, width, end) {
  const piece = element("i", `bar ${kind}`);
  piece.style.left = `${(from / end) * 100}%`;
  piece.style.width = `${(width / end) * 100}%`;
  return piece;
}

function axis(end, responseMs) {
  const scale = element("div", "axis");
  scale.setAttribute("aria-hidden", "true");
  const step = TICKS_MS.find((ms) => end / ms <= MOST_TICKS) ?? end / MOST_TICKS;
  for (let ms = 0; ms <= end; ms += step) {
    if (Math.abs(ms - responseMs) > end / 12) scale.append(tick("tick", ms, end));
  }
  scale.append(tick("tick goal", responseMs, end));
  return scale;
}

function tick(kind, ms, end) {
  const mark = element("span", kind);
  mark.style.left = `${(ms / end) * 100}%`;
  mark.append(element("span", "at", milliseconds(ms)));
  return mark;
}

function element(name, className, text) {
  const made = document.createElement(name);
  made.className = className;
  if (text !== undefined) made.textContent = text;
  return made;
}
