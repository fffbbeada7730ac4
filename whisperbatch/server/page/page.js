// What is shown, and what the user does. The state of the page is `document.body.dataset.state`:
//   empty -> starting -> live -> finishing -> done       the microphone
//   empty, done -> sending -> done                         a file
import { authorization, canTellSpeakers, fileOf, LiveSession, needsSpace, reasonOf, Recording, sendFile, speakerName, textOf, Transcript } from "./speech.js";

const $ = (id) => document.getElementById(id);
const base = document.baseURI;
const BARS = 4; // of the meter, for each block of 100 ms
const QUIET = 0.0005; // a microphone that is off or muted gives less
const COLOURS = 6;
const INSECURE = "Browsers give a microphone only to pages with https or localhost in their address: open this page so, or choose a file.";

let transcript = new Transcript();
let recording = null; // of the microphone
let microphone = null; // {context, stream, node, lock}
let session = null; // live
let upload = null; // of a file
let attempt = 0; // number of the newest request
let source = null; // the File of the transcript
let before = null; // the transcript that a new attempt would replace
let silent = 0; // blocks without any sound
let levels = [];
let speakers = null; // whether the server tells speakers apart; null: not asked yet

// --- state and messages

function state() {
  return document.body.dataset.state;
}

function enter(next) {
  document.body.dataset.state = next;
  const busy = ["starting", "live", "finishing", "sending"].includes(next);
  const speaking = ["starting", "live"].includes(next);
  $("record").setAttribute("aria-label", speaking ? "Stop" : "Start speaking");
  $("record").setAttribute("aria-pressed", String(speaking));
  $("record").disabled = ["finishing", "sending"].includes(next);
  $("choose").hidden = busy;
  $("meter").hidden = !speaking && next !== "finishing";
  $("clear").hidden = busy || next === "empty";
  $("welcome").hidden = next !== "empty";
  $("result").hidden = next !== "done" || !source;
  $("progress").hidden = !["finishing", "sending"].includes(next);
  $("again").hidden = !recording;
  for (const control of document.querySelectorAll("header select, header input")) control.disabled = busy;
  const first = document.querySelector(".sentence");
  if (first && next === "done") first.tabIndex = 0; // the arrow keys reach the others
}

function say(text, bad = false) {
  $("message").textContent = text;
  $("message").classList.toggle("bad", bad && Boolean(text));
}

function time(seconds) {
  const whole = Math.floor(seconds);
  const pad = (value) => String(value).padStart(2, "0");
  const hours = Math.floor(whole / 3600);
  return hours ? `${hours}:${pad(Math.floor(whole / 60) % 60)}:${pad(whole % 60)}` : `${Math.floor(whole / 60)}:${pad(whole % 60)}`;
}

function step(text, share) {
  $("step").textContent = text;
  if (share === undefined) $("bar").removeAttribute("value");
  else $("bar").value = share;
}

// --- the transcript

const shown = new Map(); // id of an item -> its element

function make(tag, className, text = "") {
  const element = document.createElement(tag);
  element.className = className;
  element.textContent = text;
  return element;
}

function isAtEnd() {
  const page = document.documentElement;
  return page.scrollHeight - page.scrollTop - page.clientHeight < 120;
}

function show(item) {
  const follow = state() !== "sending" && isAtEnd(); // files are read from their start
  const place = shown.get(item.id) ?? insert(item);
  const parts = item.sentences.filter((sentence) => sentence.text.trim()).map((sentence) => sentenceElement(item, sentence));
  const settled = textOf(item);
  const tail = item.tail.trim();
  const content = parts.flatMap((part, index) => {
    const left = index ? parts[index - 1].textContent : "";
    return left && needsSpace(left, part.textContent) ? [" ", part] : [part];
  });
  if (tail) {
    const element = make("span", "tail", tail);
    element.setAttribute("aria-hidden", "true"); // it changes all the time; settled text is announced
    content.push(settled && /^\s/.test(item.tail) ? " " : "", element);
  }
  if (!item.breaks && content.length) content.unshift(spaceBefore(item, settled || tail));
  place.replaceChildren(...content);
  const paragraph = place.closest(".paragraph");
  paragraph.classList.toggle("blank", !paragraph.querySelector(".sentence, .tail"));
  if (follow) scrollTo({ top: document.documentElement.scrollHeight });
}

function spaceBefore(item, text) {
  for (let index = transcript.items.lastIndexOf(item) - 1; index >= 0; index--) {
    const last = textOf(transcript.items[index]);
    if (last) return needsSpace(last, text) ? " " : "";
  }
  return "";
}

function insert(item) {
  let paragraph = $("transcript").lastElementChild;
  if (item.breaks || !paragraph) {
    paragraph = make("div", "paragraph");
    paragraph.append(make("time", "time", time(item.start)));
    const words = make("p", "words");
    words.dir = "auto";
    if (item.speaker) {
      paragraph.dataset.speaker = colourOf(item.speaker);
      words.append(make("b", "speaker", speakerName(item.speaker)), " ");
    }
    paragraph.append(words);
    $("transcript").append(paragraph);
  }
  const place = make("span", "item");
  paragraph.querySelector(".words").append(place);
  shown.set(item.id, place);
  return place;
}

function colourOf(speaker) {
  const names = [...new Set(transcript.items.map((item) => item.speaker).filter(Boolean))];
  return names.indexOf(speaker) % COLOURS;
}

function sentenceElement(item, sentence) {
  const element = make("span", "sentence", sentence.text.trim());
  element.dataset.start = sentence.start;
  element.dataset.end = sentence.end ?? item.end ?? sentence.start;
  element.title = `Play from ${time(sentence.start)}`;
  element.setAttribute("role", "button");
  element.tabIndex = -1;
  return element;
}

function draw() {
  shown.clear();
  $("transcript").dataset.speakers = countSpeakers();
  $("transcript").replaceChildren();
  transcript.items.forEach(show);
}

function restart(ids) {
  ids.forEach((id) => {
    const place = shown.get(id);
    const paragraph = place?.closest(".paragraph");
    place?.remove();
    shown.delete(id);
    if (paragraph && !paragraph.querySelector(".item")) paragraph.remove();
  });
}

function announce(text) {
  const lines = $("spoken");
  lines.append(make("span", "", text));
  while (lines.children.length > 20) lines.firstElementChild.remove();
}

// --- the microphone

async function start() {
  if (!["empty", "done"].includes(state())) return;
  const last = state();
  if (last === "done" && !recording) reset(); // a recording of the microphone goes on
  say("");
  $("player").pause();
  if (!canRecord()) {
    say(INSECURE, true);
    return;
  }
  enter("starting");
  try {
    microphone = await openMicrophone();
  } catch (error) {
    enter(recording ? "done" : "empty");
    say(reasonOfMissing(error), true);
    return;
  }
  recording ??= new Recording();
  silent = 0;
  levels = [];
  session = new LiveSession({
    base, key: $("key").value.trim(), language: $("language").value, model: $("model").value,
    transcript, recording, show, restart, say, heard: announce,
  });
  session.over.then(finished);
  enter("live");
  drawMeter();
}

function canRecord() {
  return window.isSecureContext && Boolean(navigator.mediaDevices?.getUserMedia);
}

function reasonOfMissing({ name, message }) {
  return {
    NotAllowedError: "The browser does not let this page use the microphone: allow it in the address bar, then press the button again.",
    NotFoundError: "No microphone was found: connect one, then press the button again.",
    NotReadableError: "Another program uses the microphone, or it does not work: close the program, then press the button again.",
  }[name] ?? `The microphone cannot be opened: ${message}.`;
}

async function openMicrophone() {
  const audio = { channelCount: 1, echoCancellation: false, noiseSuppression: false, autoGainControl: true };
  const stream = await navigator.mediaDevices.getUserMedia({ audio });
  const context = new AudioContext();
  try {
    await context.audioWorklet.addModule(new URL("page/recorder.js", base));
    const node = new AudioWorkletNode(context, "recorder", { numberOfOutputs: 0, channelCount: 1, channelCountMode: "explicit" });
    node.port.onmessage = ({ data }) => take(data);
    context.createMediaStreamSource(stream).connect(node);
    context.resume();
    stream.getAudioTracks()[0].onended = () => state() === "live" && stop();
    const lock = await navigator.wakeLock?.request("screen").catch(() => null); // the screen stays on
    return { context, stream, node, lock };
  } catch (error) {
    stream.getTracks().forEach((track) => track.stop());
    context.close();
    throw error;
  }
}

// Blocks of the worklet; null is the end.
function take(block) {
  if (!recording || !session) return;
  if (block === null) {
    closeMicrophone();
    session.stop();
    return;
  }
  if (!block.length) return;
  recording.add(block);
  session.send(block);
  $("clock").textContent = time(recording.seconds);
  const size = Math.ceil(block.length / BARS);
  let loudest = 0;
  for (let from = 0; from < block.length; from += size) {
    const sum = block.subarray(from, from + size).reduce((total, sample) => total + (sample / 32768) ** 2, 0);
    const level = Math.sqrt(sum / size);
    loudest = Math.max(loudest, level);
    levels.push(level);
  }
  levels = levels.slice(-200);
  levels.arrived = performance.now();
  silent = loudest < QUIET ? silent + 1 : 0;
  if (silent === 40) say("The microphone gives no sound: is it muted?", true);
  if (silent === 0 && $("message").textContent.startsWith("The microphone gives")) say("");
}

function closeMicrophone() {
  microphone?.stream.getTracks().forEach((track) => track.stop());
  microphone?.context.close();
  microphone?.lock?.release();
  microphone = null;
  $("record").style.removeProperty("--level");
}

function stop() {
  if (state() !== "live") return;
  enter("finishing");
  step("The last words …");
  microphone.node.port.postMessage("stop"); // the rest of the sound comes before the end
}

function finished(reason) {
  closeMicrophone();
  session = null;
  if (!recording) return;
  transcript.duration = recording.seconds;
  source = recording.samples ? recording.file() : null;
  if (!recording.samples) recording = null;
  if (source) play(source);
  enter(source ? "done" : "empty");
  if (reason) say(reason, true);
  else if (!transcript.text) say("No speech was heard.");
  else say("");
  if (reason) askForKey();
}

// Bars of the last seconds. They move smoothly, although sound arrives in blocks.
function drawMeter() {
  const canvas = $("meter");
  const context = canvas.getContext("2d");
  const still = matchMedia("(prefers-reduced-motion: reduce)");
  const frame = () => {
    if (!microphone) return;
    const scale = devicePixelRatio || 1;
    const [width, height] = [canvas.clientWidth * scale, canvas.clientHeight * scale];
    if (canvas.width !== width || canvas.height !== height) Object.assign(canvas, { width, height });
    context.clearRect(0, 0, width, height);
    context.fillStyle = getComputedStyle(canvas).color;
    const wide = 3 * scale;
    const pitch = 5 * scale;
    const passed = still.matches ? 0 : Math.min(1, (performance.now() - (levels.arrived ?? 0)) / 100) * BARS;
    for (let index = 0; index < levels.length; index++) {
      const x = width - (levels.length - index - BARS + passed) * pitch;
      if (x < -wide || x > width) continue;
      const size = Math.max(wide, shareOf(levels[index]) * height);
      context.beginPath();
      context.roundRect(x, (height - size) / 2, wide, size, wide / 2);
      context.fill();
    }
    $("record").style.setProperty("--level", shareOf(Math.max(0, ...levels.slice(-BARS))).toFixed(3));
    requestAnimationFrame(frame);
  };
  frame();
}

// From -50 dB to 0 dB.
function shareOf(level) {
  return Math.max(0, Math.min(1, (20 * Math.log10(level + 1e-9) + 50) / 50));
}

// --- files

async function transcribe(file, careful = false) {
  if (!["empty", "done"].includes(state())) return;
  if (!careful && state() === "done" && !reset()) return;
  const mine = ++attempt;
  before = careful ? transcript : null;
  transcript = new Transcript();
  source = file;
  say("");
  draw();
  play(file);
  enter("sending");
  step("Sending …", 0);
  try {
    await askAboutSpeakers();
    if (mine !== attempt) return; // cancelled
    await request(file, careful);
    transcript.duration ||= length() ?? transcript.items.at(-1)?.end ?? 0;
    if (countSpeakers() === 1) transcript.items.forEach((item) => { item.speaker = ""; });
    draw();
    done(transcript.text ? "" : "No speech was found.");
  } catch (error) {
    if (error.code === "cancelled") done("Cancelled.", false, true);
    else done(error.message, true, true);
    askForKey(error.status === 401);
  }
}

async function askAboutSpeakers() {
  if (!$("speakers").checked || speakers !== null) return;
  step("Starting …");
  speakers = await canTellSpeakers(base, $("key").value.trim()).catch(() => true); // the request below shows the error
  if (!speakers) {
    $("speakers").checked = false;
    $("speakers").closest("label").title = "This server has no weights for speakers.";
  }
}

function request(file, careful) {
  const fields = { stream: "true", response_format: "verbose_json" };
  if ($("model").value) fields.model = $("model").value;
  if ($("language").value) fields.language = $("language").value;
  if ($("speakers").checked) fields.diarize = "true";
  if (careful) fields.beam_size = "5";
  const sent = (share) => (share < 1 ? step(`Sending: ${Math.floor(share * 100)} %`, share) : step("Transcribing …"));
  upload = sendFile({ base, key: $("key").value.trim(), file, fields, sent, event: received });
  return upload.done;
}

function received(event) {
  if (event.type === "transcript.text.segment") {
    show(segment(event));
    $("transcript").dataset.speakers = countSpeakers();
    announce(event.text);
    const total = length();
    $("clock").textContent = time(event.end);
    step(total ? `${time(event.end)} of ${time(total)}` : time(event.end), total ? Math.min(1, event.end / total) : undefined);
  } else if (event.type === "transcript.text.done") {
    transcript.language = event.languages?.[0]?.code ?? "";
    transcript.duration = event.usage?.seconds ?? 0;
    if (!event.segments) return;
    transcript.items = []; // the final speakers
    event.segments.forEach(segment);
  }
}

function countSpeakers() {
  return new Set(transcript.items.map((item) => item.speaker).filter(Boolean)).size;
}

function segment({ id, start, end, text, speaker }) {
  return transcript.add({ id, start, end, speaker, done: true, sentences: [{ start, end, text }] });
}

function length() {
  const { duration } = $("player");
  return Number.isFinite(duration) && duration > 0 ? duration : undefined;
}

function done(text, bad = false, failed = false) {
  upload = null;
  attempt++;
  if (failed && before) {
    transcript = before;
    draw();
  }
  before = null;
  if (failed && !transcript.items.length && !recording) {
    source = null;
    play(null);
    $("clock").textContent = time(0);
  } else {
    $("clock").textContent = time(transcript.duration || (transcript.items.at(-1)?.end ?? 0));
  }
  enter(source ? "done" : "empty");
  say(text, bad);
}

// --- the player

function play(file) {
  const player = $("player");
  if (player.src) URL.revokeObjectURL(player.src);
  if (file) player.src = URL.createObjectURL(file);
  else player.removeAttribute("src");
}

function hear(element) {
  if (state() !== "done") return;
  const player = $("player");
  if (element.classList.contains("playing") && !player.paused) {
    player.pause();
    return;
  }
  player.currentTime = Number(element.dataset.start);
  player.play().catch(() => say("The browser cannot play this recording.", true));
}

function mark() {
  const { currentTime, paused } = $("player");
  let found = null;
  for (const element of document.querySelectorAll(".sentence")) {
    if (Number(element.dataset.start) <= currentTime + 0.05) found = element;
    else break;
  }
  const old = document.querySelector(".sentence.playing");
  if (old && old !== found) old.classList.remove("playing");
  found?.classList.toggle("playing", !paused);
}

// --- results

async function copy() {
  try {
    await navigator.clipboard.writeText(transcript.text);
  } catch { // the browser gives the clipboard to https and localhost only
    const field = make("textarea", "unseen", "");
    field.value = transcript.text;
    document.body.append(field);
    field.select();
    document.execCommand("copy");
    field.remove();
  }
  $("copy").textContent = "Copied";
  setTimeout(() => { $("copy").textContent = "Copy"; }, 1500);
}

function download(format) {
  const link = document.createElement("a");
  link.href = URL.createObjectURL(fileOf(transcript, format));
  link.download = `${(source?.name ?? "transcript").replace(/\.[^.]*$/, "")}.${format}`;
  link.click();
  setTimeout(() => URL.revokeObjectURL(link.href), 10000);
}

// Forgets the transcript. The recording of the microphone exists nowhere else, so the user is asked.
function reset() {
  if (recording && !confirm("Discard this recording and its text?")) return false;
  transcript = new Transcript();
  recording = source = null;
  $("spoken").replaceChildren();
  $("clock").textContent = time(0);
  play(null);
  draw();
  say("");
  enter("empty");
  return true;
}

function cancel() {
  if (upload) upload.cancel();
  else if (state() === "sending") done("Cancelled.", false, true);
  else session?.cancel();
}

// --- the server

async function askServer() {
  try {
    const answer = await fetch(new URL("v1/models", base), { headers: authorization($("key").value.trim()) });
    if (!answer.ok) {
      askForKey(answer.status === 401);
      say(answer.status === 401 && !$("key").value ? "This server needs a key." : await reasonOf(answer), true);
      return;
    }
    const { data } = await answer.json();
    $("model").replaceChildren(...data.map(({ id }) => new Option(id)));
    $("models").hidden = data.length < 2;
    if ($("message").classList.contains("bad") && state() === "empty") say("");
  } catch {
    say("The server does not answer.", true);
  }
}

async function askForKey(isNeeded) {
  isNeeded ??= await fetch(new URL("v1/models", base), { headers: authorization($("key").value.trim()) }).then((answer) => answer.status === 401, () => false);
  if (!isNeeded) return;
  $("settings").open = true;
  $("key").focus();
}

function nameLanguages() {
  const names = new Intl.DisplayNames(navigator.languages, { type: "language", fallback: "none" });
  const options = $("language").dataset.codes.split(" ").map((code) => {
    const name = names.of(code) ?? code;
    return new Option(name[0].toUpperCase() + name.slice(1), code);
  });
  options.sort((one, other) => one.text.localeCompare(other.text));
  const own = navigator.languages.map((tag) => tag.split("-")[0]);
  const first = options.filter(({ value }) => own.includes(value));
  $("language").append(...first, document.createElement("hr"), ...options.filter((option) => !first.includes(option)));
}

function remember(storage, name, event = "change") {
  const control = $(name);
  const property = control.type === "checkbox" ? "checked" : "value";
  const known = storage.getItem(`whisperbatch.${name}`);
  if (known !== null) control[property] = property === "checked" ? known === "true" : known;
  control.addEventListener(event, () => storage.setItem(`whisperbatch.${name}`, control[property]));
}

// --- events

function onKey(event) {
  const { key, target } = event;
  if (event.ctrlKey || event.metaKey || event.altKey) return;
  const sentence = target.closest?.(".sentence");
  if (key === "Escape") {
    if ($("settings").open) $("settings").open = false;
    else cancel();
  } else if (sentence && ["Enter", " "].includes(key)) {
    event.preventDefault();
    hear(sentence);
  } else if (sentence && ["ArrowDown", "ArrowRight", "ArrowUp", "ArrowLeft"].includes(key)) {
    event.preventDefault();
    const all = [...document.querySelectorAll(".sentence")];
    const next = all[all.indexOf(sentence) + (["ArrowDown", "ArrowRight"].includes(key) ? 1 : -1)];
    if (!next) return;
    sentence.tabIndex = -1;
    next.tabIndex = 0;
    next.focus();
  } else if (["Enter", " "].includes(key) && !event.repeat && !target.closest?.("button, select, input, summary, audio, a")) {
    event.preventDefault();
    toggle();
  }
}

function toggle() {
  if (state() === "live") stop();
  else start();
}

function connectEvents() {
  $("record").onclick = toggle;
  $("cancel").onclick = cancel;
  $("clear").onclick = reset;
  $("copy").onclick = copy;
  $("again").onclick = () => transcribe(source, true);
  $("choose").onclick = () => $("file").click();
  $("file").onchange = () => {
    const [file] = $("file").files;
    $("file").value = "";
    if (file) transcribe(file);
  };
  for (const button of document.querySelectorAll("[data-format]")) button.onclick = () => download(button.dataset.format);
  $("transcript").onclick = ({ target }) => target.closest(".sentence") && hear(target.closest(".sentence"));
  for (const name of ["timeupdate", "pause", "play"]) $("player").addEventListener(name, mark);
  $("key").addEventListener("change", askServer);
  document.addEventListener("keydown", onKey);
  document.addEventListener("click", ({ target }) => {
    if (!target.closest("#settings")) $("settings").open = false;
  });
  document.addEventListener("dragover", (event) => {
    event.preventDefault();
    $("drop").hidden = !["empty", "done"].includes(state());
  });
  document.addEventListener("dragleave", ({ relatedTarget }) => {
    if (!relatedTarget) $("drop").hidden = true;
  });
  document.addEventListener("drop", (event) => {
    event.preventDefault();
    $("drop").hidden = true;
    const [file] = event.dataTransfer.files;
    if (file) transcribe(file);
  });
  addEventListener("beforeunload", (event) => ["live", "finishing", "sending"].includes(state()) && event.preventDefault());
}

nameLanguages();
remember(sessionStorage, "key", "input");
remember(localStorage, "language");
remember(localStorage, "speakers");
connectEvents();
enter("empty");
if (!canRecord()) say(INSECURE);
askServer();
