// The transcript of both sides, as it is spoken.

export class Transcript {
  // `onTurn(number)` is called when a reply's time is pressed.
  constructor(log, interim, empty, scroll, onTurn) {
    Object.assign(this, { log, interim, empty, scroll, onTurn });
    this.clear();
    new ResizeObserver(() => this.show()).observe(scroll);
  }

  clear() {
    this.log.replaceChildren();
    this.hearing("");
    this.empty.hidden = false;
    this.reply = null;
    this.said = null;
    this.cut = null;
  }

  // The caller's words so far.
  hearing(text) {
    this.interim.textContent = text;
    this.interim.hidden = !text;
    if (text) this.empty.hidden = true;
    this.show();
  }

  // The caller's words, for good. Words that go on a turn which was cut short replace it.
  heard(text) {
    this.hearing("");
    if (this.said && this.cut && text.startsWith(this.said.textContent)) {
      this.said.entry.remove();
      this.cut.entry.remove();
    }
    this.cut = null;
    this.said = this.entry("caller", "You");
    this.said.textContent = text;
    this.show();
  }

  // The agent begins to speak.
  begin() {
    this.reply = this.entry("agent", "Agent");
    this.reply.entry.classList.add("speaking");
  }

  // A clause begins to sound.
  clause(text) {
    if (!this.reply) this.begin();
    this.reply.append(this.reply.childNodes.length ? ` ${text}` : text);
    this.show();
  }

  // The reply was heard: whole, or so far.
  end(text, interrupted) {
    const reply = this.reply;
    this.reply = null;
    if (!reply) return;
    reply.entry.classList.remove("speaking");
    if (!interrupted) return;
    const begun = reply.textContent;
    // A greeting is not remembered, so that no words of it come back: what began to sound stands.
    const heard = this.said ? text : begun;
    if (!heard) {
      reply.entry.remove();
      this.cut = { entry: reply.entry };
      return;
    }
    reply.textContent = heard;
    const rest = document.createElement("span");
    rest.className = "cut";
    rest.textContent = " … interrupted";
    reply.append(rest);
    this.cut = reply;
  }

  // The reply that is being spoken is turn `number`.
  number(number) {
    if (this.reply) this.reply.entry.dataset.turn = number;
  }

  // Turn `number` took so long: a button beside its reply.
  time(number, text) {
    const entry = this.log.querySelector(`[data-turn="${number}"]`);
    if (!entry) return;
    const button = document.createElement("button");
    button.type = "button";
    button.className = "took";
    button.textContent = text;
    button.setAttribute("aria-label", `Answered in ${text}: show where it went`);
    button.onclick = () => this.onTurn(number);
    entry.querySelector(".who").append(button);
  }

  entry(side, name) {
    const entry = document.createElement("li");
    entry.className = `entry ${side}`;
    const who = document.createElement("span");
    who.className = "who";
    who.textContent = name;
    const words = document.createElement("p");
    words.className = "words";
    words.entry = entry;
    entry.append(who, words);
    this.empty.hidden = true;
    this.log.append(entry);
    this.show();
    return words;
  }

  show() {
    this.scroll.scrollTop = this.scroll.scrollHeight;
  }
}
