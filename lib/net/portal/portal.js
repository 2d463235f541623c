'use strict';
// The page of the portal (doc/portal.md). It asks for what doc/api.md has: POST /api/OP with the request, without "op" and "token". The
// session is a cookie that no script sees.

const $ = id => document.getElementById(id);
let user = '', jobs = new Map(), older = [], opened = 0, shown = null, events = null, listed = { from: 0, seen: '' }, doc = null, busy = 0;

// ---- words ----

const number = n => Number(n).toLocaleString();
const when = s => s ? new Date(s * 1000).toLocaleString() : '';
const lines = text => text.split('\n').map(l => l.trim()).filter(l => l);
const words = { queued: 'queued', waiting: 'waits for other jobs', running: 'running', done: 'done', done_with_failures: 'done, with failures', cancelled: 'cancelled', paused: 'paused' };

function say(text) { $('status').textContent = text; $('alert').textContent = ''; }
function complain(error) {
  $('status').textContent = '';
  $('alert').textContent = error.message + (error.hint ? ' (' + error.hint + ')' : '') +
    (error.where && error.where.line ? ', line ' + error.where.line : '');
}

function el(tag, text, attributes) {
  const e = document.createElement(tag);
  if (text !== undefined && text !== null) e.textContent = text;
  for (const [name, value] of Object.entries(attributes || {})) e.setAttribute(name, value);
  return e;
}

function put(e, text) { if (e.textContent !== String(text)) e.textContent = text; }

// Rows are changed in place: who reads one, or has a button of it in focus, keeps it.
function rows(body, items, key, make, fill) {
  const old = new Map([...body.children].map(r => [r.dataset.key, r]));
  items.forEach((item, i) => {
    const k = String(key(item));
    let row = old.get(k);
    if (row) old.delete(k);
    else { row = make(item); row.dataset.key = k; }
    fill(row, item);
    if (body.children[i] !== row) body.insertBefore(row, body.children[i] || null);
  });
  for (const row of old.values()) row.remove();
}

function row(n, wide) {
  const tr = document.createElement('tr');
  tr.append(el('th', '', { scope: 'row' }));
  for (let i = 1; i < n; i++) tr.append(el('td', '', wide && wide.includes(i) ? { class: 'wide' } : {}));
  return tr;
}

function button(text, label, fn) {
  const b = el('button', text, { type: 'button' });
  if (label) b.setAttribute('aria-label', label);
  b.addEventListener('click', fn);
  return b;
}

// ---- asking ----

async function post(path, body) {
  let r, o;
  try {
    r = await fetch(path, { method: 'POST', headers: { 'Content-Type': 'application/json', 'X-HTC-Portal': '1' }, body: JSON.stringify(body), credentials: 'same-origin', cache: 'no-store' });
    o = await r.json();
  } catch (e) {
    throw { error: 'HTC_EUNREACHABLE', message: 'The gateway does not answer.', hint: 'is it running? the page tries again' };
  }
  if (o && o.error) {
    if ((o.error === 'HTC_EAUTH' || o.error === 'HTC_EEXPIRED') && path !== '/login' && user) ended('Your session has ended. Log in again.');
    throw o;
  }
  return o;
}
const ask = (op, body) => post('/api/' + op, body || {});

// An action of the user: one at a time, and its error where it is heard.
async function act(text, fn) {
  if (busy) return;
  busy = 1;
  if (text) say(text);
  try { const done = await fn(); if (done) say(done); } catch (e) { if (e.message) complain(e); }
  busy = 0;
}

// ---- sessions ----

function ended(text) {
  if (events) events.close();
  events = null;
  user = '';
  sessionStorage.removeItem('user');
  jobs = new Map(); older = []; opened = 0; shown = null; doc = null; samples.length = 0;
  for (const id of ['jobs-body', 'tasks-body', 'users-body', 'sites-body', 'agents-body', 'log', 'outputs', 'document-text', 'chart', 'chart-legend']) $(id).replaceChildren();
  for (const id of ['app', 'nav', 'who', 'job', 'task', 'document']) $(id).hidden = true;
  $('login').hidden = false;
  say(text);
  $('login-name').focus();
}

function begun(name) {
  user = name || sessionStorage.getItem('user') || 'logged in';
  sessionStorage.setItem('user', user);
  $('user').textContent = user;
  $('login').hidden = true;
  for (const id of ['app', 'nav', 'who']) $(id).hidden = false;
  listen();
}

$('login-form').addEventListener('submit', e => {
  e.preventDefault();
  act('Logging in…', async () => {
    const o = await post('/login', { name: $('login-name').value, password: $('login-password').value });
    $('login-password').value = '';
    begun(o.user);
    $('main').focus();
    return 'You are logged in as ' + o.user + '.';
  });
});

$('logout').addEventListener('click', () => act('Logging out…', async () => {
  await post('/logout', {});
  ended('You are logged out.');
}));

// ---- what comes by itself ----

function listen() {
  if (events) events.close();
  const source = events = new EventSource('/events' + (opened ? '?job=' + opened : ''));
  const on = (name, fn) => source.addEventListener(name, e => { if (source === events) { const o = JSON.parse(e.data); if (!o.error) fn(o); else if (name === 'job') fn(null); } });
  on('jobs', o => { for (const j of o.jobs) jobs.set(j.id, j); keep(o); showJobs(o); });
  on('users', showUsers);
  on('agents', showAgents);
  on('job', o => o ? showJob(o.jobs[0]) : closeJob());
  on('why', o => put($('job-why'), o.why));
  source.addEventListener('over', () => { if (source === events) ended('Your session has ended. Log in again.'); });
  source.onopen = () => { if ($('alert').dataset.lost) { delete $('alert').dataset.lost; say('The gateway answers again.'); } };
  source.onerror = () => {
    if (source !== events || !user) return;
    if (!$('alert').dataset.lost) { $('alert').dataset.lost = '1'; complain({ message: 'The gateway does not answer. The page tries again.' }); }
    if (source.readyState === EventSource.CLOSED) setTimeout(() => { if (source === events) ask('ping').then(listen, () => { if (user) setTimeout(() => source === events && listen(), 3000); }); }, 1000);
  };
}

// ---- jobs ----

const terminal = t => t.done + t.failed + t.cancelled;

// The newest page is what it is; older ones stay as they were read.
function keep(page) {
  const last = page.jobs.length ? page.jobs[page.jobs.length - 1].id : 0;
  const there = new Set(page.jobs.map(j => j.id));
  for (const id of [...jobs.keys()]) if (id >= last && !there.has(id)) jobs.delete(id);
}

function showJobs(page) {
  if (page && !older.length) $('jobs-more').hidden = !page.more;
  const list = [...jobs.values()].sort((a, b) => b.id - a.id);
  $('jobs-none').hidden = list.length > 0;
  $('jobs-table').hidden = list.length === 0;
  rows($('jobs-body'), list, j => j.id, j => {
    const tr = row(6, [4, 5]), a = el('a', j.id, { href: '#job', 'aria-label': 'Open job ' + j.id });
    a.addEventListener('click', e => { e.preventDefault(); openJob(j.id); });
    tr.cells[0].append(a);
    tr.cells[3].append(el('progress', null, { max: '1', 'aria-label': 'Ended tasks of job ' + j.id }), ' ', el('span'));
    return tr;
  }, (tr, j) => {
    tr.className = j.id === opened ? 'open' : '';
    put(tr.cells[1], j.name);
    put(tr.cells[2], words[j.state] || j.state);
    tr.cells[3].firstChild.value = j.count ? terminal(j.tasks) / j.count : 1;
    put(tr.cells[3].lastChild, number(terminal(j.tasks)) + ' of ' + number(j.count));
    put(tr.cells[4], number(j.tasks.failed));
    put(tr.cells[5], when(j.submitted));
  });
}

$('jobs-more').addEventListener('click', () => act('', async () => {
  const least = Math.min(...jobs.keys());
  const o = await ask('status', { before: least, limit: 50 });
  older.push(least);
  for (const j of o.jobs) jobs.set(j.id, j);
  $('jobs-more').hidden = !o.more;
  showJobs(null);
}));

function openJob(id) {
  opened = id;
  listed = { from: 0, seen: '' };
  shown = null;
  $('job').hidden = false;
  $('task').hidden = true;
  $('tasks-body').replaceChildren();
  $('job-why').textContent = '';
  $('job-h').textContent = 'Job ' + id;
  if (jobs.has(id)) showJob(jobs.get(id));
  showJobs(null);
  listen();
  $('job').focus();
  $('job').scrollIntoView();
}

function closeJob() {
  const id = opened;
  opened = 0; shown = null;
  $('job').hidden = true;
  showJobs(null);
  listen();
  const tr = [...$('jobs-body').children].find(r => r.dataset.key === String(id));
  (tr ? tr.querySelector('a') : $('jobs')).focus();
}

function showJob(j) {
  if (!j || j.id !== opened) return;
  put($('job-h'), 'Job ' + j.id + ': ' + j.name);
  $('job-progress').value = j.count ? terminal(j.tasks) / j.count : 1;
  put($('job-state'), (words[j.state] || j.state) + ', ' + number(terminal(j.tasks)) + ' of ' + number(j.count) + ' tasks have ended' + (j.reason ? '. ' + j.reason : ''));
  const counts = { ...j.tasks, attempts: j.attempts, lost: j.lost, cores: j.agents };
  rows($('job-counts'), Object.entries(counts), c => c[0], c => { const d = el('div'); d.append(el('dt', c[0].replace('_', ' ')), el('dd')); return d; },
    (d, c) => put(d.lastChild, number(c[1])));
  const over = ['done', 'done_with_failures', 'cancelled'].includes(j.state);
  $('job-cancel').disabled = over;
  $('job-release').disabled = j.state !== 'paused';
  $('job-retry').disabled = !j.tasks.failed;
  $('job-remove').disabled = !over;
  const seen = JSON.stringify(j.tasks);
  if (seen !== listed.seen) { listed.seen = seen; listTasks(false); }
}

for (const [id, op, body, word] of [['job-cancel', 'cancel', {}, o => number(o.cancelled) + ' tasks are cancelled.'],
  ['job-release', 'release', {}, () => 'The job may run now.'], ['job-retry', 'retry', { failed: true }, o => number(o.retried) + ' tasks are tried again.']])
  $(id).addEventListener('click', () => act('', async () => { const id = opened; return 'Job ' + id + ': ' + word(await ask(op, { id: String(id), ...body })); }));
$('job-remove').addEventListener('click', () => {
  const id = opened;
  if (confirm('Remove job ' + id + ' and its outputs?')) act('', async () => { await ask('rm', { id: String(id) }); jobs.delete(id); closeJob(); return 'Job ' + id + ' is removed.'; });
});
$('job-close').addEventListener('click', closeJob);

// ---- tasks ----

const PAGE = 50;
let listing = false, again = false;

async function listTasks(more) {
  if (listing) { again = true; return; }
  listing = true;
  const id = opened, state = $('tasks-state').value, from = more ? listed.from : 0;
  try {
    const o = await ask('tasks', { id: String(id), from, limit: PAGE, ...(state ? { state } : {}) });
    if (id === opened && state === $('tasks-state').value) {
      const have = more ? [...$('tasks-body').children].map(r => r.task) : [];
      showTasks(id, have.concat(o.tasks));
      listed.from = o.next;
      $('tasks-more').hidden = o.next === null;
    }
  } catch (e) { if (id === opened && user) complain(e); }
  listing = false;
  if (again && opened) { again = false; setTimeout(() => opened && listTasks(false), 500); }
}

function showTasks(job, tasks) {
  $('tasks-none').hidden = tasks.length > 0;
  rows($('tasks-body'), tasks, t => job + '.' + t.index, t => {
    const tr = row(6, [2, 3, 4]);
    tr.cells[0].textContent = t.index;
    tr.cells[5].append(button('Show', 'Show task ' + t.index, () => openTask(job, t.index)));
    tr.retry = button('Retry', 'Retry task ' + t.index, () => act('', async () => 'Task ' + job + '.' + t.index + ': ' + number((await ask('retry', { id: job + '.' + t.index })).retried) + ' task is tried again.'));
    tr.cells[5].append(tr.retry);
    return tr;
  }, (tr, t) => {
    tr.task = t;
    put(tr.cells[1], t.state.replace('_', ' '));
    put(tr.cells[2], t.attempt || '');
    put(tr.cells[3], t.node || '');
    put(tr.cells[4], t.reason || '');
    tr.retry.hidden = t.state !== 'failed';
  });
}

$('tasks-state').addEventListener('change', () => listTasks(false));
$('tasks-form').addEventListener('submit', e => e.preventDefault());
$('tasks-more').addEventListener('click', () => listTasks(true));

function openTask(job, index) {
  shown = { job, index };
  $('task').hidden = false;
  $('task-h').textContent = 'Task ' + job + '.' + index;
  readTask();
  $('task').focus();
  $('task').scrollIntoView();
}

const same = t => shown && t.job === shown.job && t.index === shown.index;

function readTask() {
  const t = shown, id = t.job + '.' + t.index;
  return act('', async () => {
    const stream = $('log-stream').value;
    const log = await ask('log', { id, stream, length: 65536 });
    if (!same(t)) return '';
    $('log').textContent = log.base64 !== undefined ? '(These bytes are no text: ' + number(log.size) + '. Download them.)' : log.text + (log.size > 65536 ? '\n… ' + number(log.size) + ' bytes in all: download it' : '');
    const why = await ask('why', { id });
    if (same(t)) $('task-why').textContent = why.why;
    const r = await ask('results', { id, limit: 1 });
    if (!same(t)) return '';
    const list = [];
    const link = (name, text) => { const li = el('li'); li.append(el('a', text, { href: '/output?job=' + t.job + '&task=' + t.index + '&name=' + encodeURIComponent(name), download: '' })); list.push(li); };
    for (const o of r.results.length ? r.results[0].outputs : []) if (o.type === 'f' && !o.error) link(o.name, o.name + ', ' + number(o.size) + ' bytes');
    if (!list.length) list.push(el('li', 'none yet'));
    $('outputs').replaceChildren(...list);
    return '';
  });
}
$('log-stream').addEventListener('change', readTask);
$('log-again').addEventListener('click', readTask);

// ---- submitting ----

const drawn = () => [...crypto.getRandomValues(new Uint8Array(16))].map(b => b.toString(16).padStart(2, '0')).join('');

function showDocument(o, jsdl) {
  doc = { jsdl, key: drawn() };
  $('document').hidden = false;
  $('document-count').textContent = number(o.count) + (o.count === 1 ? ' task' : ' tasks');
  $('document-warnings').replaceChildren(...o.warnings.map(w => el('li', 'Warning: ' + w)));
  $('document-text').textContent = jsdl.length > 200000 ? jsdl.slice(0, 200000) + '\n…' : jsdl;
  $('document').focus();
  $('document').scrollIntoView();
  return 'The document has ' + number(o.count) + (o.count === 1 ? ' task.' : ' tasks.');
}

function request() {
  const body = { exe: $('g-exe').value.trim(), args: $('g-args').value, sweeps: lines($('g-sweeps').value) }, env = lines($('g-env').value);
  if ($('g-name').value) body.name = $('g-name').value;
  if ($('g-time').value) body.time_limit = Number($('g-time').value);
  if ($('g-memory').value) body.memory = Number($('g-memory').value) * 1048576;
  if ($('g-cores').value) body.cores = Number($('g-cores').value);
  if (env.length) body.env = env;
  if (lines($('g-a').value).length) {
    const two = lines($('g-b').value).length > 0;
    body.files = { A: $('g-a').value, B: $('g-b').value };
    body.pairs = { a: 'A', b: two ? 'B' : 'A', unordered: $('g-unordered').checked };
  }
  return body;
}

$('generate-form').addEventListener('submit', e => {
  e.preventDefault();
  act('', async () => { const o = await ask('generate', request()); return showDocument(o, o.jsdl); });
});
$('generate-form').addEventListener('input', () => { $('document').hidden = true; doc = null; });
$('upload-form').addEventListener('submit', e => {
  e.preventDefault();
  act('', async () => { const text = await $('u-file').files[0].text(); return showDocument(await ask('validate', { jsdl: text }), text); });
});
$('submit-form').addEventListener('submit', e => {
  e.preventDefault();
  const what = doc;
  if (what) act('Submitting…', async () => {
    const body = { jsdl: what.jsdl, key: what.key };
    if ($('s-retries').value) body.retries = Number($('s-retries').value);
    const o = await ask('submit', body); // its key makes it safe to press again
    $('document').hidden = true;
    doc = null;
    openJob(o.id);
    return 'Job ' + o.id + ' is submitted: ' + number(o.count) + (o.count === 1 ? ' task.' : ' tasks.');
  });
});

// ---- the system ----

const WINDOW = 600; // seconds, and samples
const samples = [], order = [];
let cores = null;

function showUsers(o) {
  cores = new Map(o.users.map(u => [u.name, u.agents]));
  rows($('users-body'), o.users, u => u.name, () => row(6, [4, 5]), (tr, u) => {
    [u.name, number(u.agents), number(u.queued), number(u.running), number(u.weight), (u.core_s / 3600).toFixed(2)].forEach((t, i) => put(tr.cells[i], t));
  });
}

const AGENTS = 200;
function showAgents(o) {
  rows($('sites-body'), o.sites, s => s.name, () => row(3), (tr, s) => {
    [s.name, number(s.used) + ' of ' + number(s.slots), (s.paused ? 'paused' : 'open') + (s.reason ? ': ' + s.reason : '')].forEach((t, i) => put(tr.cells[i], t));
  });
  rows($('agents-body'), o.agents.slice(0, AGENTS), a => a.id, () => row(7, [4, 5, 6]), (tr, a) => {
    [a.id, a.user, a.state + (a.task ? ', task ' + a.task : ''), number(a.slots_filled) + ' of ' + number(a.slots), a.site, a.node, number(a.tasks_done)].forEach((t, i) => put(tr.cells[i], t));
  });
  put($('agents-note'), o.agents.length > AGENTS ? 'The first ' + AGENTS + ' of ' + number(o.agents.length) + ' are listed.' : o.agents.length ? '' : 'No agent is there.');
}

const svg = (tag, attributes) => { const e = document.createElementNS('http://www.w3.org/2000/svg', tag); for (const [n, v] of Object.entries(attributes)) e.setAttribute(n, v); return e; };

// A line for each of five users, by colour and by dashes, and one for all others.
function draw() {
  if (!user || !cores) return;
  for (const [name, n] of cores) if (n && !order.includes(name)) order.push(name);
  samples.push(cores);
  if (samples.length > WINDOW) samples.shift();
  const names = order.length > 6 ? order.slice(0, 5) : order;
  const line = (s, i) => i < names.length ? s.get(names[i]) || 0 : [...s].reduce((sum, [name, n]) => sum + (names.includes(name) ? 0 : n), 0);
  const n = names.length + (order.length > 6 ? 1 : 0);
  let top = 1;
  for (const s of samples) for (let i = 0; i < n; i++) top = Math.max(top, line(s, i));
  const paths = [], legend = [], span = Math.max(60, samples.length);
  for (let i = 0; i < n; i++) {
    const at = (s, k) => (600 - (samples.length - 1 - k) * 600 / (span - 1)).toFixed(1) + ' ' + (195 - 190 * line(s, i) / top).toFixed(1);
    paths.push(svg('path', { class: 'u' + i, d: 'M' + samples.map(at).join('L') }));
    const li = el('li'), key = svg('svg', { viewBox: '0 0 40 12', 'aria-hidden': 'true' });
    key.append(svg('line', { class: 'u' + i, x1: 0, y1: 6, x2: 40, y2: 6 }));
    li.append(key, ' ' + (i < names.length ? names[i] : 'others') + ': ' + number(line(cores, i)));
    legend.push(li);
  }
  $('chart').replaceChildren(...paths);
  $('chart-legend').replaceChildren(...legend);
  put($('chart-d'), n ? 'The last ' + Math.ceil(span / 60) + (span > 60 ? ' minutes' : ' minute') + '; the top is ' + number(top) + (top === 1 ? ' core.' : ' cores.') : 'No user has had a core yet.');
}
setInterval(draw, 1000);

// ---- the beginning: is there a session? ----

ask('status', { limit: 1 }).then(() => begun(''), e => {
  if (e.error === 'HTC_EAUTH' || e.error === 'HTC_EEXPIRED') { $('login').hidden = false; $('login-name').focus(); }
  else { $('login').hidden = false; complain(e); }
});
