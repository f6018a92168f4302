// What a turn took: pure functions of loud 10 ms windows and of the server's lines.

export const LINES = ["network", "endpoint", "asr", "llm_first_token", "clause", "tts"];
const WINDOW_MS = 10;
// The message that tells of a reply may come so much later than its sound.
const LATE_WINDOWS = 100;
// Less silence than this lies within a reply, not before it: the caller has spoken and has been waited for.
const QUIET_WINDOWS = 20;
const NETWORK_SLACK_MS = 100;

// The turn that was told of at window `at`: {audible: the first loud window of its reply, responseMs}; null while no
// sound has answered it. `caller` and `agent` are the numbers of their loud windows, ascending; `after` is where the
// reply before began. The turn ended with the caller's last loud window before the reply's first.
export function response(caller, agent, at, after) {
  const audible = agent.find((window, index) => {
    const before = index ? agent[index - 1] : -Infinity;
    return window > after && window >= at - LATE_WINDOWS && window - before > QUIET_WINDOWS
      && caller.some((spoken) => spoken > after && spoken < window);
  });
  if (audible === undefined) return null;
  const last = caller.findLast((window) => window < audible);
  return { audible, responseMs: (audible - last - 1) * WINDOW_MS };
}

// The budget's lines: `network` is what the server's lines leave of the response.
export function allLines(serverMs, responseMs) {
  const server = Object.values(serverMs).reduce((sum, ms) => sum + ms, 0);
  return { network: responseMs - server, ...serverMs };
}

// What is doubtful about a measurement: {sentence, void: whether it counts for nothing}, or null.
export function doubt(networkMs, roundTripMs) {
  const network = Math.round(networkMs);
  if (networkMs < 0) {
    return { void: true, sentence: `Set aside: the server's lines are ${-network} ms longer than what was heard here. `
      + "A noise after your question looks like this." };
  }
  if (roundTripMs === null) return null;
  const trip = Math.round(roundTripMs);
  if (networkMs < roundTripMs) {
    return { void: true, sentence: `Set aside: network ${network} ms is less than the round trip of ${trip} ms.` };
  }
  if (networkMs > roundTripMs + NETWORK_SLACK_MS) {
    return { void: false, sentence: `Network ${network} ms is more than the round trip of ${trip} ms and `
      + `${NETWORK_SLACK_MS} ms of buffers: the connection or this machine was slow.` };
  }
  return null;
}

// Whole milliseconds that still add up to the (whole) response: network takes the rounding.
export function whole(linesMs, responseMs) {
  const rounded = Object.fromEntries(LINES.map((line) => [line, Math.round(linesMs[line])]));
  const rest = LINES.slice(1).reduce((sum, line) => sum + rounded[line], 0);
  return { ...rounded, network: Math.round(responseMs) - rest };
}

// The q-quantile, interpolated between the two nearest; null of nothing.
export function quantile(values, q) {
  if (!values.length) return null;
  const sorted = [...values].sort((a, b) => a - b);
  const at = (sorted.length - 1) * q;
  const below = Math.floor(at);
  const above = Math.min(below + 1, sorted.length - 1);
  return sorted[below] + (sorted[above] - sorted[below]) * (at - below);
}
