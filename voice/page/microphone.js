// The microphone, or a sentence that says why there is none.

const WHY = {
  NotAllowedError: "The microphone was refused. Allow it in the browser's address bar and press Talk again.",
  NotFoundError: "No microphone was found. Plug one in and press Talk again.",
  NotReadableError: "The microphone is in use by another program, or broken.",
};
const INSECURE = "Browsers give a page the microphone only over https or on this machine itself.";
const TYPE_INSTEAD = "You can also type your question below.";

// Throws an Error whose message is for the caller.
export async function openMicrophone() {
  if (!navigator.mediaDevices?.getUserMedia) throw new Error(`${INSECURE} ${TYPE_INSTEAD}`);
  try {
    return await navigator.mediaDevices.getUserMedia({
      audio: { echoCancellation: true, noiseSuppression: true, autoGainControl: true, channelCount: 1 },
    });
  } catch (error) {
    throw new Error(`${WHY[error.name] ?? "The microphone could not be opened."} ${TYPE_INSTEAD}`);
  }
}
