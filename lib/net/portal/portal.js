'use strict';
// The page of the portal (doc/portal.md): what all of it needs, sessions, views, and what comes by itself. It asks for what doc/api.md has: POST /api/OP
// with the request, without "op" and "token". The session is a cookie that no script sees.

const $ = id => document.getElementById(id);
let user = '', opened = 0, events = null, busy = 0, view = '';

// ---- words ----

const number = n => Number(n).toLocaleString('en');
const when = s => s ? new Date(s * 1000).toLocaleString() : '';
const lines = text => text.split('\n').map(l => l.trim()).filter(l => l);
const tasksOf = n => number(n) + (n === 1 ? ' task' : ' tasks');
const bytesOf = n => n < 1024 ? n + ' bytes' : n < 1 << 20 ? (n / 1024).toFixed(1) + ' KiB' : n < 1 << 30 ? (n / 1048576).toFixed(1) + ' MiB' : (n / 1073741824).toFixed(1) + ' GiB';

let saidAt = 0;
function say(text) { saidAt = Date.now(); $('status').textContent = text; $('alert').textContent = ''; delete $('alert').dataset.lost; }
function complain(error) {
  saidAt = Date.now();
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

// A row for a table, with the classes of its cells; the first one is its head.
function row(...classes) {
  const tr = document.createElement('tr');
  classes.forEach((c, i) => tr.append(el(i ? 'td' : 'th', '', { ...(i ? {} : { scope: 'row' }), ...(c ? { class: c } : {}) })));
  return tr;
}

function button(text, label, fn) {
  const b = el('button', text, { type: 'button' });
  if (label) b.setAttribute('aria-label', label);
  b.addEventListener('click', fn);
  return b;
}

function pill(e, text, kind) { put(e, text); if (e.className !== 'pill ' + kind) e.className = 'pill ' + kind; }

// ---- asking ----

async function send(path, headers, body) {
  let r, o;
  try {
    r = await fetch(path, { method: 'POST', headers: { 'X-HTC-Portal': '1', ...headers }, body, credentials: 'same-origin', cache: 'no-store' });
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
const post = (path, body) => send(path, { 'Content-Type': 'application/json' }, JSON.stringify(body));
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

const forget = []; // what each part does when a session has ended

function ended(text) {
  if (events) events.close();
  events = null;
  user = '';
  opened = 0;
  sessionStorage.removeItem('user');
  for (const fn of forget) fn();
  for (const id of ['app', 'nav', 'who']) $(id).hidden = true;
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
  show(false);
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

// ---- views: what stands behind # names one; "#job-12" and "#job-12.3" a job and a task ----

const views = ['overview', 'jobs', 'job', 'submit'], shows = {};

function show(move) {
  const words = location.hash.slice(1).match(/^(?:job-(\d+)(?:\.(\d+))?|(overview|jobs|submit))$/);
  const name = !words ? (jobsSeen() ? 'jobs' : 'overview') : words[3] || 'job';
  const job = words && words[1] ? Number(words[1]) : 0;
  view = name;
  for (const v of views) $('view-' + v).hidden = v !== name;
  for (const a of $('nav').children) {
    if (a.hash === '#' + (name === 'job' ? 'jobs' : name)) a.setAttribute('aria-current', 'page');
    else a.removeAttribute('aria-current');
  }
  const other = job !== opened;
  opened = job;
  if (other || !events) listen();
  if (shows[name]) shows[name](job, words && words[2] !== undefined ? Number(words[2]) : -1);
  if (move && Date.now() - saidAt > 1000 && !$('alert').dataset.lost) say(''); // what was said of something else
  if (move) { scrollTo(0, 0); $(name + '-h').focus(); }
}
const jobsSeen = () => false;
const go = hash => { if (location.hash === hash) show(true); else location.hash = hash; };
addEventListener('hashchange', () => { if (user && location.hash !== '#main') show(true); });

// ---- what comes by itself ----

const heard = {}; // event: functions of what it brings; null: it cannot be had
const on = (name, fn) => (heard[name] = heard[name] || []).push(fn);

function listen() {
  if (events) events.close();
  const source = events = new EventSource('/events' + (opened ? '?job=' + opened : ''));
  for (const name of ['jobs', 'users', 'agents', 'job', 'why'])
    source.addEventListener(name, e => {
      if (source !== events) return;
      const o = JSON.parse(e.data);
      if (o.error === 'HTC_EUNREACHABLE' && name === 'jobs') { complain(o); $('alert').dataset.waits = '1'; } // another gateway is active
      else if ($('alert').dataset.waits && !o.error) { delete $('alert').dataset.waits; say('The gateway answers again.'); for (const fn of heard.again || []) fn(); }
      if (!o.error || name === 'job') for (const fn of heard[name] || []) fn(o.error ? null : o);
    });
  source.addEventListener('over', () => { if (source === events) ended('Your session has ended. Log in again.'); });
  source.onopen = () => { if ($('alert').dataset.lost) { say('The gateway answers again.'); for (const fn of heard.again || []) fn(); } };
  source.onerror = () => {
    if (source !== events || !user) return;
    if (!$('alert').dataset.lost) { complain({ message: 'The gateway does not answer. The page tries again.' }); $('alert').dataset.lost = '1'; }
    if (source.readyState === EventSource.CLOSED) setTimeout(() => { if (source === events) ask('ping').then(listen, () => { if (user) setTimeout(() => source === events && listen(), 3000); }); }, 1000);
  };
}

// A page that nobody sees asks for nothing.
document.addEventListener('visibilitychange', () => {
  if (!user) return;
  if (document.hidden && events) { events.close(); events = null; }
  else if (!document.hidden && !events) { listen(); for (const fn of heard.again || []) fn(); }
});

// ---- the beginning: is there a session? ----

addEventListener('DOMContentLoaded', () => ask('status', { limit: 1 }).then(() => begun(''), e => {
  $('login').hidden = false;
  if (e.error === 'HTC_EAUTH' || e.error === 'HTC_EEXPIRED') $('login-name').focus();
  else complain(e);
}));
