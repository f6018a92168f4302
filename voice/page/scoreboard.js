// The call's turns: each measured, one shown as a waterfall, all of them as p50 and p95.

import { allLines, doubt, quantile, response, whole } from "./turns.js";
import { drawWaterfall, milliseconds } from "./waterfall.js";

const LONGEST_WAIT_WINDOWS = 1000;

export class Scoreboard {
  // `by(id)` gives an element; `onTimed(turn, text)` is called when a turn was measured.
  constructor(by, onTimed) {
    this.by = by;
    this.onTimed = onTimed;
    this.allocationMs = null;
    this.clear();
  }

  plan({ allocation_ms, response_ms }) {
    this.allocationMs = allocation_ms;
    this.responseMs = response_ms;
    this.draw();
  }

  clear() {
    this.turns = [];
    this.unheard = 0;
    this.audible = -1; // where the last timed reply began
    this.shown = null;
    this.draw();
  }

  // Take the server's lines of a turn, and wait for its sound.
  async time({ turn, lines_ms, allocation_ms }, sound, call) {
    const at = sound.window;
    const turns = this.turns;
    const [heard, roundTripMs] = await Promise.all([
      sound.find((caller, agent) => response(caller, agent, at, this.audible), LONGEST_WAIT_WINDOWS),
      call.roundTripMs(),
    ]);
    if (turns !== this.turns) return; // another call has begun
    this.allocationMs = allocation_ms;
    if (!heard) {
      this.unheard++;
      this.draw();
      return;
    }
    this.audible = heard.audible;
    const linesMs = allLines(lines_ms, heard.responseMs);
    const shownMs = whole(linesMs, heard.responseMs);
    this.turns.push({ turn, responseMs: heard.responseMs, linesMs, doubt: doubt(shownMs.network, roundTripMs) });
    this.onTimed(turn, `${milliseconds(heard.responseMs)} ms`);
    this.select(turn);
  }

  select(turn) {
    this.shown = this.turns.find((one) => one.turn === turn) ?? this.shown;
    this.draw();
  }

  draw() {
    if (!this.allocationMs) return;
    const { by, shown } = this;
    drawWaterfall(by("waterfall"), shown, this.allocationMs, this.responseMs);
    by("total-ms").textContent = shown ? milliseconds(shown.responseMs) : "–";
    by("total").classList.toggle("over", Boolean(shown) && shown.responseMs > this.responseMs);
    by("caption").textContent = shown ? `Turn ${shown.turn}, from your last sound to the first sound of the reply.`
      : "From your last sound to the first sound of the reply. Ask something, and it is timed here.";
    by("flag").textContent = shown?.doubt?.sentence ?? "";
    by("flag").hidden = !shown?.doubt;
    this.drawStatistics();
    this.drawPicker();
  }

  drawStatistics() {
    const { by } = this;
    const counted = this.turns.filter((turn) => !turn.doubt?.void).map((turn) => turn.responseMs);
    for (const [id, q] of [["p50", 0.5], ["p95", 0.95]]) {
      const ms = quantile(counted, q);
      by(id).textContent = ms === null ? "–" : `${milliseconds(ms)} ms`;
    }
    by("turn-count").textContent = counted.length;
    const reasons = [
      [this.turns.length - counted.length, "measured in doubt"],
      [this.unheard, "whose reply or question was not heard here"],
    ].filter(([count]) => count).map(([count, why]) => `${count} ${why}`);
    by("aside").textContent = reasons.length ? `Not counted: ${reasons.join(", ")}.` : "";
    by("aside").hidden = !reasons.length;
  }

  drawPicker() {
    const picker = this.by("picker");
    const focused = picker.contains(document.activeElement);
    picker.hidden = this.turns.length < 2;
    picker.replaceChildren(...this.turns.map((turn) => {
      const button = document.createElement("button");
      button.type = "button";
      button.className = "chip";
      button.textContent = `${turn.turn} · ${milliseconds(turn.responseMs)} ms`;
      button.setAttribute("aria-pressed", String(turn === this.shown));
      button.onclick = () => this.select(turn.turn);
      return button;
    }));
    if (focused) picker.querySelector('[aria-pressed="true"]').focus();
  }
}
