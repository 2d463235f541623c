'use strict';
// Jobs and tasks: lists, one job, one task with what it has written.

let jobs = new Map(), older = false, shown = null, listed = { from: 0, next: null, seen: '' };

const words = { queued: ['queued', ''], waiting: ['waits for other jobs', ''], running: ['running', 'run'], done: ['done', 'good'], done_with_failures: ['done, with failures', 'bad'],
  cancelled: ['cancelled', 'warn'], paused: ['held', 'warn'] };
const kinds = { running: 'run', staging_out: 'run', leased: 'run', done: 'good', failed: 'bad', unreadable: 'bad', cancelled: 'warn' };
const terminal = t => t.done + t.failed + t.cancelled;

// Parts of a whole, with their numbers for whoever does not see it.
function bar(e, j) {
  const t = j.tasks, parts = { done: t.done, failed: t.failed, cancelled: t.cancelled, running: t.running + t.staging_out };
  if (!e.firstChild) {
    e.className = 'bar';
    e.setAttribute('role', 'img');
    for (const name of Object.keys(parts)) e.append(el('span', null, { class: name }));
  }
  Object.values(parts).forEach((n, i) => { e.children[i].style.width = (j.count ? 100 * n / j.count : 0) + '%'; });
  const text = number(t.done) + ' done, ' + number(t.failed) + ' failed, ' + number(t.cancelled) + ' cancelled, ' + number(parts.running) + ' running of ' + number(j.count);
  if (e.getAttribute('aria-label') !== text) e.setAttribute('aria-label', text);
}

forget.push(() => {
  jobs = new Map(); older = false; shown = null;
  for (const id of ['jobs-body', 'tasks-body', 'log', 'outputs']) $(id).replaceChildren();
  $('task').hidden = true;
});

// ---- the list ----

// The newest page is what it is; older ones stay as they were read.
on('jobs', page => {
  const last = page.jobs.length ? page.jobs[page.jobs.length - 1].id : 0, there = new Set(page.jobs.map(j => j.id));
  for (const id of [...jobs.keys()]) if (id >= last && !there.has(id)) jobs.delete(id);
  for (const j of page.jobs) jobs.set(j.id, j);
  if (!older) $('jobs-more').hidden = !page.more;
  showJobs();
});

function showJobs() {
  const list = [...jobs.values()].sort((a, b) => b.id - a.id);
  $('jobs-none').hidden = list.length > 0;
  $('jobs-table').hidden = list.length === 0;
  if (view !== 'jobs') return;
  rows($('jobs-body'), list, j => j.id, j => {
    const tr = row('', '', '', 'num wide', 'wide');
    tr.cells[0].append(el('a', j.id, { href: '#job-' + j.id, 'aria-label': 'Open job ' + j.id }), ' ', el('span', '', { class: 'note' }));
    tr.cells[1].append(el('span'));
    tr.cells[2].append(el('span', '', { class: 'note' }), el('div'));
    return tr;
  }, (tr, j) => {
    put(tr.cells[0].lastChild, j.name);
    pill(tr.cells[1].firstChild, ...(words[j.state] || [j.state, '']));
    put(tr.cells[2].firstChild, number(terminal(j.tasks)) + ' of ' + number(j.count));
    bar(tr.cells[2].lastChild, j);
    put(tr.cells[3], number(j.tasks.failed));
    put(tr.cells[4], when(j.submitted));
  });
}
shows.jobs = showJobs;

$('jobs-more').addEventListener('click', () => act('', async () => {
  const o = await ask('status', { before: Math.min(...jobs.keys()), limit: 50 });
  older = true;
  for (const j of o.jobs) jobs.set(j.id, j);
  $('jobs-more').hidden = !o.more;
  showJobs();
}));

// ---- one job ----

const known = { id: 0 };

shows.job = (id, task) => {
  if (known.id !== id) {
    known.id = id;
    listed = { from: 0, next: null, seen: '' };
    $('tasks-body').replaceChildren();
    $('tasks-from').value = 0;
    $('tasks-state').value = $('job-memory').value = $('job-time').value = '';
    for (const e of ['job-why', 'job-ended', 'job-pill']) $(e).textContent = '';
    for (const e of ['job-counts', 'job-bar']) $(e).replaceChildren();
    $('job-h').textContent = 'Job ' + id;
    $('job-archive').href = '/archive?job=' + id;
    if (jobs.has(id)) showJob(jobs.get(id));
    listTasks(false);
  }
  if (task >= 0) openTask(id, task);
  else closeTask();
};

on('job', o => {
  if (o) showJob(o.jobs[0]);
  else if (opened) { complain({ message: 'There is no job ' + opened + ', or it is not yours.' }); go('#jobs'); }
});
on('why', o => put($('job-why'), o.why.replace('done_with_failures', 'done, with failures')));

function showJob(j) {
  if (!j || j.id !== opened) return;
  put($('job-h'), 'Job ' + j.id + (j.name ? ': ' + j.name : ''));
  pill($('job-pill'), ...(words[j.state] || [j.state, '']));
  put($('job-ended'), number(terminal(j.tasks)) + ' of ' + tasksOf(j.count) + ' ended' + (j.reason ? '. ' + j.reason : ''));
  if (!$('job-bar').firstChild) $('job-bar').append(el('div'));
  bar($('job-bar').firstChild, j);
  const always = ['waiting', 'running', 'done', 'failed', 'attempts', 'cores'], counts = { ...j.tasks, attempts: j.attempts, lost: j.lost, cores: j.agents };
  rows($('job-counts'), Object.entries(counts).filter(c => c[1] || always.includes(c[0])), c => c[0], c => { const d = el('div'); d.append(el('dt', c[0].replace('_', ' ')), el('dd')); return d; },
    (d, c) => put(d.lastChild, number(c[1])));
  const over = ['done', 'done_with_failures', 'cancelled'].includes(j.state);
  $('job-cancel').disabled = over;
  $('job-hold').disabled = over || j.state === 'paused';
  $('job-release').disabled = j.state !== 'paused';
  $('job-retry').disabled = !j.tasks.failed;
  $('job-remove').disabled = !over;
  const seen = JSON.stringify(j.tasks);
  if (seen !== listed.seen) { listed.seen = seen; listTasks(false); }
}

// Of tasks that are tried again, if others are said.
function otherLimits() {
  const o = {};
  if ($('job-memory').value) o.memory = Number($('job-memory').value) * 1048576;
  if ($('job-time').value) o.time_limit = Number($('job-time').value) * 60;
  return o;
}

for (const [id, op, body, word] of [['job-cancel', 'cancel', {}, o => tasksOf(o.cancelled) + ' cancelled.'],
  ['job-hold', 'hold', {}, () => 'nothing more of it starts until it is released.'], ['job-release', 'release', {}, () => 'it may run now.'],
  ['job-retry', 'retry', { failed: true, limits: true }, o => tasksOf(o.retried) + (o.retried === 1 ? ' is' : ' are') + ' tried again.']])
  $(id).addEventListener('click', () => act('', async () => { const job = opened; const { limits, ...more } = body; return 'Job ' + job + ': ' + word(await ask(op, { id: String(job), ...more, ...(limits ? otherLimits() : {}) })); }));
$('job-again').addEventListener('click', () => act('Submitting…', async () => {
  const o = await ask('resubmit', { id: String(opened), key: drawn(), ...otherLimits() });
  go('#job-' + o.id);
  return 'Job ' + o.id + ' is submitted: ' + tasksOf(o.count) + '.';
}));
$('job-remove').addEventListener('click', () => {
  const id = opened;
  if (confirm('Remove job ' + id + ' and its outputs?')) act('', async () => { await ask('rm', { id: String(id) }); jobs.delete(id); known.id = 0; go('#jobs'); return 'Job ' + id + ' is removed.'; });
});

// ---- tasks ----

const PAGE = 50;
let listing = false, again = false;

async function listTasks(more) {
  if (listing) { again = true; return; }
  listing = true;
  const id = opened, state = $('tasks-state').value, from = more ? listed.next : Number($('tasks-from').value) || 0;
  try {
    let o = await ask('tasks', { id: String(id), from, limit: PAGE, ...(state ? { state } : {}) });
    for (let tries = 30; !o.tasks.length && o.next !== null && tries && id === opened; tries--) // an answer looks at 65,536 tasks
      o = await ask('tasks', { id: String(id), from: o.next, limit: PAGE, state });
    if (id === opened && state === $('tasks-state').value) {
      const have = more ? [...$('tasks-body').children].map(r => r.task) : [];
      showTasks(id, have.concat(o.tasks));
      listed.next = o.next;
      $('tasks-more').hidden = o.next === null;
    }
  } catch (e) { if (id === opened && id && user) complain(e); }
  listing = false;
  if (again && opened) { again = false; setTimeout(() => opened && listTasks(false), 500); }
}

function showTasks(job, tasks) {
  $('tasks-none').hidden = tasks.length > 0;
  rows($('tasks-body'), tasks, t => job + '.' + t.index, t => {
    const tr = row('', '', 'num wide', 'wide', 'wide', ''), one = job + '.' + t.index;
    tr.cells[0].textContent = t.index;
    tr.cells[1].append(el('span'));
    tr.cells[5].append(button('Show', 'Show task ' + t.index, () => go('#job-' + one)));
    tr.retry = button('Retry', 'Retry task ' + t.index, () => act('', async () => 'Task ' + one + ': ' + tasksOf((await ask('retry', { id: one })).retried) + ' is tried again.'));
    tr.cancel = button('Cancel', 'Cancel task ' + t.index, () => act('', async () => 'Task ' + one + ': ' + tasksOf((await ask('cancel', { id: one })).cancelled) + ' cancelled.'));
    tr.cells[5].append(tr.retry, tr.cancel);
    return tr;
  }, (tr, t) => {
    tr.task = t;
    pill(tr.cells[1].firstChild, t.state.replace('_', ' '), kinds[t.state] || '');
    put(tr.cells[2], t.attempt || '');
    put(tr.cells[3], t.node || '');
    put(tr.cells[4], t.reason || '');
    tr.retry.hidden = t.state !== 'failed';
    tr.cancel.hidden = ['done', 'failed', 'cancelled', 'unreadable'].includes(t.state);
  });
}

$('tasks-state').addEventListener('change', () => listTasks(false));
$('tasks-from').addEventListener('change', () => listTasks(false));
$('tasks-form').addEventListener('submit', e => { e.preventDefault(); listTasks(false); });
$('tasks-more').addEventListener('click', () => listTasks(true));

// ---- one task ----

const TAIL = 65536, OUTPUTS = 500;

function openTask(job, index) {
  shown = { job, index };
  $('task').hidden = false;
  $('task-h').textContent = 'Task ' + job + '.' + index;
  $('task-archive').href = '/archive?job=' + job + '&task=' + index;
  for (const id of ['log', 'outputs', 'task-why', 'log-note']) $(id).replaceChildren();
  readTask();
  setTimeout(() => { $('task-h').focus(); $('task').scrollIntoView({ block: 'nearest' }); });
}

function closeTask() { shown = null; $('task').hidden = true; }
$('task-close').addEventListener('click', () => go('#job-' + opened));

const same = t => t === shown;

function textOf(log) {
  if (log.base64 === undefined) return log.text;
  return new TextDecoder().decode(Uint8Array.from(atob(log.base64), c => c.charCodeAt(0)));
}

// The end of what it has written; from then on what comes.
async function readLog(t) {
  const id = t.job + '.' + t.index, stream = $('log-stream').value;
  let log = await ask('log', { id, stream, offset: t.at, length: TAIL });
  if (!t.at && log.size > TAIL) log = await ask('log', { id, stream, offset: log.size - TAIL, length: TAIL });
  if (!same(t) || stream !== $('log-stream').value) return;
  const pre = $('log'), text = textOf(log), below = pre.scrollHeight - pre.scrollTop - pre.clientHeight < 40;
  if (!t.at) pre.textContent = '';
  if (text) { pre.append(text); t.at = Math.min(log.size, log.offset + TAIL); }
  while (pre.textContent.length > 4 * TAIL && pre.firstChild !== pre.lastChild) pre.firstChild.remove();
  if (below) pre.scrollTop = pre.scrollHeight;
  put($('log-note'), log.size > TAIL ? 'The end of ' + bytesOf(log.size) + '; the output ' + stream + ' below has all of it.' : '');
  t.final = log.final;
}

// All of it from the start. What an earlier reading still brings is of no task that is shown.
function readTask() {
  const t = shown = { job: shown.job, index: shown.index, at: 0, final: false, reading: true };
  return readAll(t).catch(e => { if (same(t) && e.message) complain(e); }).then(() => { t.reading = false; });
}

async function readAll(t) {
  const id = t.job + '.' + t.index;
  await readLog(t);
  const why = await ask('why', { id });
  if (same(t)) $('task-why').textContent = why.why;
  const r = await ask('results', { id, limit: 1 });
  if (!same(t)) return;
  const list = [], all = r.results.length ? r.results[0].outputs : [];
  for (const o of all.slice(0, OUTPUTS)) {
    const li = el('li');
    if (o.type !== 'f' || o.error) continue;
    li.append(el('a', o.name, { href: '/output?job=' + t.job + '&task=' + t.index + '&name=' + encodeURIComponent(o.name), download: '' }), ' ', el('span', bytesOf(o.size), { class: 'note' }));
    list.push(li);
  }
  if (all.length > OUTPUTS || r.next_output) list.push(el('li', 'and more: the archive has all'));
  if (!list.length) list.push(el('li', 'none yet', { class: 'note' }));
  $('outputs').replaceChildren(...list);
}
$('log-stream').addEventListener('change', readTask);
$('log-again').addEventListener('click', readTask);

// While it runs.
setInterval(() => {
  const t = shown;
  if (!t || t.final || t.reading || view !== 'job' || document.hidden || busy) return;
  t.reading = true;
  readLog(t).then(() => { t.reading = false; if (t.final && same(t)) readTask(); }, () => { t.reading = false; });
}, 2000);
