'use strict';
// The overview: cores by user over time, what is one's own, sites, users and pilots.

const WIDTH_OF_AXIS = 34, USERS = 6;
let hist = null, tail = [], cores = null, system = null, mine = null, whyAt = 0;

forget.push(() => {
  hist = system = mine = cores = null;
  tail = [];
  for (const id of ['users-body', 'sites-body', 'agents-body', 'chart', 'chart-legend', 'tiles']) $(id).replaceChildren();
  $('user-why').hidden = true;
});

// ---- tables and tiles ----

function tiles() {
  const list = [];
  if (system) list.push(['Cores in use', number(system.slots - system.free), ' of ' + number(system.slots)]);
  if (mine) list.push(['Your cores', number(mine.agents), ''], ['Your waiting tasks', number(mine.queued), ''], ['Your tasks at pilots', number(mine.running), ''], ['Your tasks done', number(mine.tasks_done), '']);
  rows($('tiles'), list, t => t[0], t => { const d = el('div'), dd = el('dd'); dd.append(el('span'), el('small')); d.append(el('dt', t[0]), dd); return d; },
    (d, t) => { put(d.lastChild.firstChild, t[1]); put(d.lastChild.lastChild, t[2]); });
}

on('users', o => {
  cores = new Map(o.users.map(u => [u.name, u.agents]));
  mine = o.users.find(u => u.name === user) || null;
  if (view === 'overview') showSystem();
  rows($('users-body'), o.users, u => u.name, () => row('', 'num', 'num', 'num', 'num wide', 'num wide'), (tr, u) => {
    [u.name, number(u.agents), number(u.queued), number(u.running), number(u.weight), (u.core_s / 3600).toFixed(2)].forEach((t, i) => put(tr.cells[i], t));
  });
  askWhy();
});

// One's own tasks wait: for what? Asked now and then, not with each change.
function askWhy() {
  if (!mine || !mine.queued) { $('user-why').hidden = true; return; }
  if (view !== 'overview' || Date.now() - whyAt < 5000) return;
  whyAt = Date.now();
  ask('why').then(o => { put($('user-why'), 'Why your tasks wait: ' + o.why); $('user-why').hidden = false; }, () => {});
}

const siteKinds = { open: 'good', paused: 'warn', drained: 'warn', away: 'bad', leaving: 'warn' };

on('agents', o => {
  system = o;
  tiles();
  rows($('sites-body'), o.sites, s => s.name, () => { const tr = row('', '', 'num', 'num wide', 'num wide'); tr.cells[1].append(el('span'), ' ', el('span', '', { class: 'note' })); return tr; }, (tr, s) => {
    put(tr.cells[0], s.name);
    pill(tr.cells[1].firstChild, s.state, siteKinds[s.state] || '');
    put(tr.cells[1].lastChild, s.reason);
    put(tr.cells[2], number(s.used) + ' of ' + number(s.slots));
    put(tr.cells[3], number(s.agents));
    put(tr.cells[4], number(s.queued));
  });
  put($('agents-count'), number(o.count));
  if ($('agents').open) showAgents();
});

function showAgents() {
  if (!system) return;
  rows($('agents-body'), system.agents, a => a.id, () => row('', '', '', 'num', 'wide', 'wide', 'num wide'), (tr, a) => {
    [a.id, a.user, a.state + (a.task ? ', task ' + a.task : ''), number(a.slots_filled) + ' of ' + number(a.slots), a.site, a.node, number(a.tasks_done)].forEach((t, i) => put(tr.cells[i], t));
  });
  put($('agents-note'), system.count > system.agents.length ? number(system.agents.length) + ' of ' + number(system.count) + ' are listed.' : system.count ? '' : 'No pilot is there.');
}
$('agents').addEventListener('toggle', showAgents);

// ---- the chart: means since the gateway began, then what was seen since ----

function history() {
  return ask('history').then(o => { hist = o; tail = []; draw(); }, () => {});
}
on('again', history);
function showSystem() { tiles(); if (!hist) { hist = { from: 0, step: 1, users: [], others: null }; history(); } draw(); }
shows.overview = showSystem;

setInterval(() => {
  if (!user || !cores || !hist || document.hidden) return;
  tail.push([Date.now() / 1000, cores]);
  if (tail.length > 120) history();
  else if (view === 'overview') draw();
}, 1000);

const svg = (tag, attributes, text) => { const e = document.createElementNS('http://www.w3.org/2000/svg', tag); for (const [n, v] of Object.entries(attributes)) e.setAttribute(n, v); if (text !== undefined) e.textContent = text; return e; };

// Samples as [time, Map of cores], the oldest first.
function samples() {
  const list = [], n = Math.max(0, ...hist.users.map(u => u.cores.length));
  for (let i = 0; i < n; i++) {
    const at = new Map(hist.users.map(u => [u.name, u.cores[i]]));
    if (hist.others) at.set(null, hist.others[i]);
    list.push([hist.from + (i + 0.5) * hist.step, at]);
  }
  return list.concat(tail);
}

function draw() {
  if (!user || !hist || !$('chart').clientWidth) return;
  const all = samples(), sums = new Map();
  for (const [, at] of all) for (const [name, c] of at) if (c) sums.set(name, (sums.get(name) || 0) + c);
  const by = [...sums.keys()].filter(n => n !== null).sort((a, b) => sums.get(b) - sums.get(a) || (a < b ? -1 : 1));
  const names = (by.length > USERS || sums.has(null) ? by.slice(0, USERS - 1) : by).sort();
  const rest = at => { let sum = 0; for (const [name, c] of at) if (!names.includes(name)) sum += c; return sum; };
  const more = by.length > names.length || sums.has(null), bands = names.length + (more ? 1 : 0);
  const value = (at, k) => k < names.length ? at.get(names[k]) || 0 : rest(at);
  const width = $('chart').clientWidth, height = $('chart').clientHeight - 20, slots = system ? system.slots : 0;
  const top = Math.max(1, slots, ...all.map(([, at]) => { let s = 0; for (let k = 0; k < bands; k++) s += value(at, k); return s; }));
  const end = Date.now() / 1000, from = Math.min(all.length ? all[0][0] : end, end - 60);
  const x = t => WIDTH_OF_AXIS + (width - WIDTH_OF_AXIS - 4) * (t - from) / (end - from), y = c => 6 + (height - 6) * (1 - c / top);
  const parts = [];
  for (const c of top > 1 ? [0, Math.round(top / 2), top] : [0, 1])
    parts.push(svg('line', { class: 'grid', x1: WIDTH_OF_AXIS, x2: width - 4, y1: y(c), y2: y(c) }), svg('text', { x: WIDTH_OF_AXIS - 6, y: y(c) + 4, 'text-anchor': 'end' }, number(Math.round(c))));
  const clock = t => new Date(t * 1000).toLocaleTimeString([], end - from > 86400 ? { weekday: 'short', hour: '2-digit', minute: '2-digit', hourCycle: 'h23' } : { hour: '2-digit', minute: '2-digit', ...(end - from < 300 ? { second: '2-digit' } : {}), hourCycle: 'h23' });
  for (const [t, anchor] of [[from, 'start'], [(from + end) / 2, 'middle'], [end, 'end']])
    parts.push(svg('text', { x: x(t).toFixed(1), y: height + 17, 'text-anchor': anchor }, t === end ? 'now' : clock(t)));
  const sum = all.map(() => 0);
  for (let k = 0; k < bands; k++) {
    const low = sum.map((s, i) => x(all[i][0]).toFixed(1) + ' ' + y(s).toFixed(1)).reverse();
    all.forEach(([, at], i) => { sum[i] += value(at, k); });
    const high = sum.map((s, i) => x(all[i][0]).toFixed(1) + ' ' + y(s).toFixed(1));
    if (high.length) parts.push(svg('path', { class: 'f' + (k < names.length ? k : USERS - 1), d: 'M' + high.concat(low).join('L') + 'Z' }));
  }
  parts.push(svg('line', { class: 'grid', x1: WIDTH_OF_AXIS, x2: width - 4, y1: y(0), y2: y(0) })); // above the edges of the areas
  $('chart').setAttribute('viewBox', '0 0 ' + width + ' ' + (height + 20));
  $('chart').replaceChildren(...parts);
  const seconds = end - from, span = seconds < 120 ? 'the last minute' : seconds < 7200 ? 'the last ' + Math.round(seconds / 60) + ' minutes' : seconds < 172800 ? 'the last ' + Math.round(seconds / 3600) + ' hours' : 'the last ' + Math.round(seconds / 86400) + ' days';
  put($('chart-d'), (bands ? '' : 'No user has had a core yet; ') + span + (slots ? '; ' + number(slots) + (slots === 1 ? ' core' : ' cores') + ' in all' : ''));
  rows($('chart-legend'), [...Array(bands).keys()].map(k => [k < names.length ? k : USERS - 1, k < names.length ? names[k] : 'others', cores ? value(cores, k) : 0]), b => b[1], b => {
    const li = el('li'), key = svg('svg', { viewBox: '0 0 10 10', 'aria-hidden': 'true' });
    key.append(svg('rect', { width: 10, height: 10, rx: 2 }));
    li.append(key, el('span'));
    return li;
  }, (li, b) => { li.firstChild.firstChild.setAttribute('class', 'f' + b[0]); put(li.lastChild, b[1] + ': ' + number(b[2])); });
}
addEventListener('resize', () => view === 'overview' && draw());
