// Everything that is shown comes from names and texts that others chose. It becomes text
// nodes and nothing else: no markup is ever made of it.
"use strict";

const every = 2000, giveUp = 10000;
const $ = (id) => document.getElementById(id);
const svgNS = "http://www.w3.org/2000/svg";

let last = null; // the last page that came
let came = 0; // when, by this browser's own clock
let problem = ""; // why none came since

function element(tag, text, kind) {
  const e = document.createElement(tag);
  if (text !== undefined) e.textContent = text;
  if (kind) e.className = kind;
  return e;
}

function append(parent, ...children) {
  for (const c of children) if (c) parent.append(c);
  return parent;
}

function fill(id, children) {
  $(id).replaceChildren(...children);
}

function show(id, yes) {
  $(id).hidden = !yes;
}

function span(seconds) {
  const s = Math.max(0, Math.floor(seconds));
  if (s < 120) return s + "s";
  if (s < 7200) return Math.floor(s / 60) + "m";
  if (s < 172800) return Math.floor(s / 3600) + "h";
  return Math.floor(s / 86400) + "d";
}

function ago(seconds) {
  if (seconds === undefined || seconds === null) return "never";
  return seconds < -1 ? "in " + span(-seconds) : span(seconds) + " ago";
}

function bytes(n) {
  const units = ["B", "KiB", "MiB", "GiB", "TiB"];
  let i = 0;
  for (; n >= 1024 && i < units.length - 1; i++) n /= 1024;
  return (i === 0 || n >= 100 ? Math.round(n) : n.toFixed(1)) + " " + units[i];
}

function rows(list) {
  return list.filter((r) => r[1]).flatMap(([name, value, kind]) => [element("dt", name), element("dd", value, kind)]);
}

// age is how old what is shown is now, undefined for nothing at all.
function age() {
  if (!last || last.ageSeconds === undefined) return undefined;
  return last.ageSeconds + (performance.now() - came) / 1000;
}

function drawFreshness() {
  const old = age();
  const stale = last !== null && (old === undefined || old > last.staleAfterSeconds);
  const unreachable = problem !== "";
  let text = "";
  if (!last && unreachable) text = "UNKNOWN: the daemon does not answer: " + problem;
  else if (stale && unreachable) text = "STALE, " + span(old || 0) + " old: the daemon does not answer: " + problem;
  else if (stale && old !== undefined) text = "STALE, " + span(old) + " old" + (last.problem ? ": " + last.problem : "");
  else if (stale) text = "UNKNOWN: this daemon has not observed the cluster" + (last.problem ? ": " + last.problem : "");
  $("stale").textContent = text;
  show("stale", text !== "");
  $("shown").className = text !== "" ? "old" : "";
  const health = text !== "" ? "unknown" : last ? last.health : "unknown";
  $("top").className = health;
  $("health").textContent = text !== "" ? text.split(/[:,]/)[0] : last ? health : "asking";
  const seen = old === undefined ? "" : "seen " + ago(old) + (unreachable && !stale ? "; the daemon does not answer: " + problem : "");
  $("freshness").textContent = last ? [seen, "by " + last.node].filter(Boolean).join(" ") : "";
  document.title = $("health").textContent + " - " + (last ? last.cluster : "etcd cluster");
}

function drawDoing(p) {
  const said = p.published;
  fill("doing", rows([
    ["state", !p.operation && p.state],
    ["doing", p.operation && p.operation + (p.operationSeconds ? " (for " + span(p.operationSeconds) + ")" : ""), "warn"],
    ["backing up", p.backingUp],
    ["spec", p.spec],
    ["coordinator", p.coordinator],
    ["leader", p.leader || "none", p.leader ? "" : "bad"],
    ["published", said && said.by + ", " + ago(said.ageSeconds) + (said.counts ? "" : ", and does not coordinate now")],
  ]));
}

function place(i, n) {
  const a = (2 * Math.PI * i) / n - Math.PI / 2;
  return n === 1 ? [180, 120] : [180 + 115 * Math.cos(a), 120 + 78 * Math.sin(a)];
}

function svg(tag, attributes, text) {
  const e = document.createElementNS(svgNS, tag);
  for (const [k, v] of Object.entries(attributes)) e.setAttribute(k, v);
  if (text !== undefined) e.textContent = text;
  return e;
}

function short(name) {
  return name.length > 18 ? name.slice(0, 17) + "\u2026" : name;
}

// drawGraph draws the machines and, between two of them, the worse of both directions.
function drawGraph(p, members) {
  const at = new Map(p.machines.map((m, i) => [m.name, place(i, p.machines.length)]));
  const worst = new Map(), rank = { up: 0, unknown: 1, down: 2 };
  for (const l of p.links) {
    if (!at.has(l.from) || !at.has(l.to)) continue;
    const key = JSON.stringify([l.from, l.to].sort());
    const old = worst.get(key);
    if (!old || rank[l.state] > rank[old.state]) worst.set(key, l);
  }
  const picture = svg("svg", { viewBox: "0 0 360 260", role: "img" });
  picture.append(svg("title", {}, "machines, and which of them reach each other's peer port"));
  for (const l of worst.values()) {
    const [x1, y1] = at.get(l.from), [x2, y2] = at.get(l.to);
    const line = svg("line", { x1, y1, x2, y2, class: l.state in rank ? l.state : "unknown" });
    line.append(svg("title", {}, l.from + " to " + l.to + ": " + l.state + (l.why ? ": " + l.why : "")));
    picture.append(line);
  }
  for (const m of p.machines) {
    const [x, y] = at.get(m.name), member = members.get(m.name);
    const ok = m.answers && (!member || member.healthy) && !m.diskBad;
    const kind = (ok ? "good" : "bad") + (member && member.leader ? " leader" : "");
    picture.append(svg("circle", { cx: x, cy: y, r: 21, class: kind }));
    picture.append(svg("text", { x, y: y + 5 }, m.answers ? (member ? (member.learner ? "L" : "V") : "-") : "?"));
    const under = member && member.leader ? "leader" : member ? (member.learner ? "learner" : "voter") : "no member";
    picture.append(svg("text", { x, y: y + 36 }, short(m.name)));
    picture.append(svg("text", { x, y: y + 49, class: "under" }, m.answers ? under : "no answer"));
  }
  fill("graph", p.machines.length ? [picture] : [element("p", "no machine is known", "bad")]);
  fill("broken", p.links.filter((l) => l.state === "down").map((l) => element("li",
    l.from + " does not reach " + l.to + (l.downSeconds ? " for " + span(l.downSeconds) : "") + ": " + l.why, "bad")));
}

function tag(text, kind) {
  return element("span", text, "tag " + kind);
}

function memberText(m) {
  const health = m.healthy ? m.state || "healthy" : "unhealthy" + (m.state ? ", " + m.state : "");
  return health + (m.why ? ": " + m.why : "") + (m.behindEntries ? "; " + m.behindEntries + " entries behind" : "");
}

function drawMachine(m, member) {
  const left = m.certificateSeconds, alarms = (member && member.alarms) || [];
  const ill = m.diskBad || m.problem || left < 0 || alarms.length > 0 || (member && !member.healthy);
  const kind = !m.answers ? "off" : ill ? "ill" : "well";
  const head = append(element("p"), m.coordinator && tag("coordinator", "good"),
    member && tag(member.leader ? "leader" : member.learner ? "learner" : "voter", member.leader ? "good" : "quiet"),
    !m.answers && tag("no answer", "bad"), ...alarms.map((a) => tag(a, "bad")));
  return append(element("div", undefined, "card " + kind), element("h3", m.name), head, append(element("dl"), ...rows([
    ["address", m.address],
    ["answered", !m.answers && ago(m.lastSeenSeconds), "bad"],
    ["member", member ? memberText(member) : "none", member && !member.healthy ? "bad" : ""],
    ["etcd", m.answers && [m.version, m.etcd].filter(Boolean).join(" ")],
    ["problem", m.problem, "bad"],
    ["database", member && member.dbBytes && bytes(member.dbBytes)],
    ["data", m.answers && !(member && m.data === "of " + member.id) && m.data],
    ["disk", m.answers && m.disk, m.diskBad ? "bad" : ""],
    ["free", m.answers && m.freeBytes && bytes(m.freeBytes)],
    ["set aside", m.setAsideBytes && bytes(m.setAsideBytes)],
    ["restore", m.restore, "warn"],
    ["certificate", left !== undefined && (left < 0 ? "EXPIRED " + ago(-left) : "ends in " + span(left)),
      left < 0 ? "bad" : left < 14 * 86400 ? "warn" : ""],
  ])));
}

function drawMachines(p, members) {
  const cards = p.machines.map((m) => drawMachine(m, members.get(m.name)));
  const known = new Set(p.machines.map((m) => m.name));
  for (const m of p.members) {
    if (!known.has(m.name)) {
      cards.push(drawMachine({ name: m.name || m.id, answers: false, address: "" }, m));
    }
  }
  fill("machines", cards);
}

function list(id, section, texts, tagName, kind) {
  fill(id, texts.map((t) => append(element("li"), element(tagName || "span", t, kind))));
  if (section) show(section, texts.length > 0);
}

function drawHolds(p) {
  fill("holds", p.holds.map((h) => append(element("div", undefined, "hold"), element("h3", h.reason),
    h.text && element("p", h.text), element("p", h.means, "quiet"), element("p", "Do: " + h.do))));
  show("held", p.holds.length > 0);
}

function drawBackups(b) {
  const parts = [];
  if (b.known && b.count === 0) parts.push("none");
  if (b.count > 0) parts.push(b.count + " known", "newest " + ago(b.newestSeconds));
  if (b.verifiedSeconds !== undefined) parts.push("last verified " + ago(b.verifiedSeconds));
  if (b.drilledSeconds !== undefined) parts.push("last restored for a trial " + ago(b.drilledSeconds));
  if (b.problem) parts.push(b.problem);
  $("backups").textContent = parts.join("; ") || "unknown";
  $("backups").className = b.problem || (b.known && b.count === 0) ? "bad" : "";
}

function drawTimeLine(p) {
  $("history-problem").textContent = p.historyProblem ? "the history cannot be read: " + p.historyProblem :
    p.historyNote || "";
  fill("timeline", p.timeLine.map((e) => {
    const when = element("time", ago(e.ageSeconds), "when");
    when.dateTime = e.at;
    when.title = e.at;
    const size = [e.bytes ? bytes(e.bytes) : "", e.tookSeconds >= 1 ? "took " + span(e.tookSeconds) : "", e.detail];
    return append(element("li"), when, e.kind === "backup" && tag("backup", "quiet"),
      element("code", e.text), append(element("div", undefined, "quiet"), size.filter(Boolean).join("; ")),
      e.problem && element("div", e.problem, "bad"));
  }));
}

function draw(p) {
  const members = new Map(p.members.filter((m) => m.name).map((m) => [m.name, m]));
  $("cluster").textContent = "etcd cluster " + p.cluster;
  list("because", "because", p.because);
  drawDoing(p);
  drawHolds(p);
  drawGraph(p, members);
  drawMachines(p, members);
  list("plan", null, p.plan, "code");
  $("plan-problem").textContent = p.planProblem || "";
  show("ahead", p.plan.length > 0 || !!p.planProblem);
  list("requests", "asked", p.requests);
  list("failures", "failed", p.failures, "span", "bad");
  list("gaps", "unreachable", p.gaps.map((g) => g.source + ": " + g.text));
  drawBackups(p.backups);
  drawTimeLine(p);
  $("foot").textContent = "served by " + p.node + ", etcdadm " + p.version;
}

let asking = false, next = 0;

async function ask() {
  if (asking || document.hidden) return;
  asking = true;
  clearTimeout(next);
  const began = performance.now();
  const abort = new AbortController();
  const timer = setTimeout(() => abort.abort(), giveUp);
  try {
    const answer = await fetch("status.json", { signal: abort.signal, cache: "no-store" });
    if (!answer.ok) throw new Error("it answers " + answer.status);
    const page = await answer.json();
    if (page.apiVersion !== "etcdadm.dev/v1") throw new Error("it is of another version: load the page again");
    last = page;
    came = began;
    problem = "";
    draw(page);
  } catch (e) {
    problem = e.name === "AbortError" ? "no answer within " + giveUp / 1000 + "s" : e.message;
  } finally {
    clearTimeout(timer);
    asking = false;
  }
  drawFreshness();
  next = setTimeout(ask, every);
}

setInterval(drawFreshness, 1000);
document.addEventListener("visibilitychange", () => {
  drawFreshness();
  ask();
});
ask();
