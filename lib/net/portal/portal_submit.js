'use strict';
// Submitting: a command with parameters, or a document; files by their content; then a look at the document, and the options of the job.

const PIECE = 1 << 20;
let doc = null;
const drawn = () => [...crypto.getRandomValues(new Uint8Array(16))].map(b => b.toString(16).padStart(2, '0')).join('');

// ---- files: each is hashed and sent, one after the other, as it is chosen ----

const chosen = { 'g-files': [], 'u-files': [] };
let queue = Promise.resolve();

function progress(f, text, part) {
  put(f.note, text);
  f.bar.value = part;
  f.bar.hidden = f.ready || f.failed;
  f.again.hidden = !f.failed;
}

async function hashOf(f) {
  const h = new Blake2b(), size = f.file.size;
  for (let at = 0; at < size && !f.gone; at += PIECE) {
    h.update(new Uint8Array(await f.file.slice(at, at + PIECE).arrayBuffer()));
    progress(f, 'reading, ' + Math.floor(100 * at / size) + ' %', at / size);
    await new Promise(resume => setTimeout(resume)); // the page lives on
  }
  return h.hex();
}

async function sendPiece(f, at) {
  const query = '?hash=' + f.hash + '&size=' + f.file.size + '&offset=' + at;
  for (let left = 5; ; left--) {
    try { return await send('/upload' + query, { 'Content-Type': 'application/octet-stream' }, await f.file.slice(at, at + PIECE).arrayBuffer()); }
    catch (e) { if (!left || !['HTC_EBUSY', 'HTC_EUNREACHABLE'].includes(e.error)) throw e; }
    await new Promise(resume => setTimeout(resume, 2000));
  }
}

async function carry(f) {
  if (f.gone || !user) return;
  f.failed = false;
  try {
    f.hash = await hashOf(f);
    if (f.gone) return;
    const there = await ask('blob', { hash: f.hash }).then(() => true, e => { if (e.error === 'HTC_ENOTFOUND') return false; throw e; });
    let at = 0;
    if (!there) do {
      await sendPiece(f, at);
      at += PIECE;
      progress(f, 'sending, ' + Math.floor(100 * Math.min(at, f.file.size) / (f.file.size || 1)) + ' %', at / (f.file.size || 1));
    } while (at < f.file.size && !f.gone);
    f.ready = true;
    progress(f, bytesOf(f.file.size) + (there ? ', is there already' : ', sent'), 1);
  } catch (e) {
    f.failed = true;
    progress(f, 'not sent: ' + (e.message || e), 0);
  }
}

async function add(of, file) {
  const f = { file, name: file.webkitRelativePath || file.name, ready: false, failed: false, gone: false }, li = el('li');
  const two = new Uint8Array(await file.slice(0, 4).arrayBuffer());
  f.executable = (two[0] === 35 && two[1] === 33) || (two[0] === 127 && two[1] === 69 && two[2] === 76 && two[3] === 70); // "#!", ELF
  const name = el('input', null, { type: 'text', 'aria-label': 'Name for tasks', spellcheck: 'false' });
  name.value = f.name;
  name.addEventListener('input', () => { f.name = name.value.trim(); changed(); });
  f.note = el('span', 'waits', { class: 'note' });
  f.bar = el('progress', null, { max: '1', value: '0', 'aria-label': 'Progress of ' + f.name });
  f.again = button('Again', 'Send ' + f.name + ' again', () => { f.again.hidden = true; queue = queue.then(() => carry(f)); });
  f.again.hidden = true;
  li.append(name, f.note, f.bar, f.again);
  if (of === 'g-files') {
    const run = el('input', null, { type: 'checkbox', id: 'x-' + drawn() }), check = el('span', null, { class: 'check' });
    run.checked = f.executable;
    run.addEventListener('change', () => { f.executable = run.checked; changed(); });
    check.append(run, el('label', 'program', { for: run.id }));
    li.append(check);
  }
  li.append(button('Remove', 'Remove ' + f.name, () => { f.gone = true; chosen[of].splice(chosen[of].indexOf(f), 1); li.remove(); changed(); $(of).focus(); }));
  chosen[of].push(f);
  $(of + '-list').append(li);
  changed();
  queue = queue.then(() => carry(f));
}

for (const of of Object.keys(chosen))
  $(of).addEventListener('change', async () => { const files = [...$(of).files]; $(of).value = ''; for (const file of files) await add(of, file); });

function ready(of) {
  for (const f of chosen[of])
    if (!f.ready) throw { message: f.failed ? f.name + ' was not sent.' : f.name + ' is still being sent.', hint: f.failed ? 'send it again or remove it' : 'a moment' };
  return chosen[of];
}

// ---- the document ----

function changed() { $('document').hidden = true; doc = null; }

forget.push(() => {
  changed();
  for (const id of ['generate-form', 'upload-form', 'submit-form']) $(id).reset();
  $('document-text').textContent = $('document-quota').textContent = '';
  for (const of of Object.keys(chosen)) { for (const f of chosen[of]) f.gone = true; chosen[of].length = 0; $(of + '-list').replaceChildren(); }
});

// Of what there is a limit; without one nothing is said.
async function showLeft() {
  const o = (await ask('quota')).quota, left = (name, text) => o[name].left === null ? [] : [text(o[name].left)];
  const parts = [...left('tasks', tasksOf), ...left('processes', n => n + ' at once'), ...left('core_hours', n => n.toFixed(1) + ' core hours'), ...left('bytes', bytesOf)];
  put($('document-quota'), 'Left of your quota: ' + parts.join(', ') + '.');
  $('document-quota').hidden = !parts.length;
}

function showDocument(o, jsdl) {
  showLeft().catch(() => { $('document-quota').hidden = true; }); // the document is there without it
  doc = { jsdl, key: drawn() };
  $('document').hidden = false;
  $('document-count').textContent = tasksOf(o.count);
  $('document-warnings').replaceChildren(...o.warnings.map(w => el('li', 'Warning: ' + w)));
  $('document-text').textContent = jsdl.length > 200000 ? jsdl.slice(0, 200000) + '\n…' : jsdl;
  $('document-h').focus();
  $('document').scrollIntoView({ block: 'nearest' });
  return 'The document has ' + tasksOf(o.count) + '.';
}

function request() {
  const body = { exe: $('g-exe').value.trim(), args: $('g-args').value, sweeps: lines($('g-sweeps').value) }, env = lines($('g-env').value);
  const a = lines($('g-a').value).length > 0, b = lines($('g-b').value).length > 0, files = {}, inputs = ready('g-files');
  if ($('g-name').value) body.name = $('g-name').value;
  if ($('g-time').value) body.time_limit = Number($('g-time').value) * Number($('g-time-unit').value);
  if ($('g-memory').value) body.memory = Math.round(Number($('g-memory').value) * Number($('g-memory-unit').value));
  if ($('g-cores').value) body.cores = Number($('g-cores').value);
  if ($('g-gpus').value) body.gpus = Number($('g-gpus').value);
  if ($('g-node-cores').value) body.node_cores = Number($('g-node-cores').value);
  for (const name of ['project', 'container', 'array', 'hosts', 'arch', 'os', 'workdir', 'stdin']) if ($('g-' + name).value.trim()) body[name] = $('g-' + name).value.trim();
  if (lines($('g-res').value).length) body.res = lines($('g-res').value);
  if (env.length) body.env = env;
  if (a) files.A = $('g-a').value;
  if (b) files.B = $('g-b').value;
  if (a || b) body.files = files;
  if ($('g-pairs').checked) body.pairs = { a: 'A', b: b ? 'B' : 'A', unordered: $('g-unordered').checked };
  if (inputs.length) body.inputs = inputs.map(f => ({ name: f.name, hash: f.hash, executable: f.executable }));
  return body;
}

$('generate-form').addEventListener('submit', e => {
  e.preventDefault();
  act('', async () => { const o = await ask('generate', request()); return showDocument(o, o.jsdl); });
});
$('generate-form').addEventListener('input', changed);

// What a document names beside it becomes what was sent.
function stage(text) {
  const named = new Map(ready('u-files').map(f => [f.name, f.hash])), missing = new Set();
  const staged = text.replace(/(<(?:[\w-]+:)?URI>\s*)file:(?!\/)(?:\.\/)?([^<]*?)(\s*<)/g, (all, before, name, after) => {
    if (named.has(name)) return before + 'htc:' + named.get(name) + after;
    missing.add(name);
    return all;
  });
  if (missing.size) throw { message: 'The document names files that are not here: ' + [...missing].slice(0, 10).join(', ') + '.', hint: 'choose them too' };
  return staged;
}

$('upload-form').addEventListener('submit', e => {
  e.preventDefault();
  act('', async () => { const text = stage(await $('u-file').files[0].text()); return showDocument(await ask('validate', { jsdl: text }), text); });
});

// "12, 13:any"
function after(text) {
  return text.split(/[\s,]+/).filter(w => w).map(w => {
    const m = w.match(/^(\d{1,15})(?::(ok|any|failed))?$/);
    if (!m) throw { message: 'After jobs: ' + w + ' is no job.', hint: 'write 12, 13:any or 14:failed' };
    return { id: Number(m[1]), when: m[2] || 'ok' };
  });
}

$('submit-form').addEventListener('submit', e => {
  e.preventDefault();
  const what = doc;
  if (what) act('Submitting…', async () => {
    const body = { jsdl: what.jsdl, key: what.key }, waits = after($('s-after').value), end = $('s-on-end').value.trim();
    for (const [id, name] of [['s-retries', 'retries'], ['s-priority', 'priority'], ['s-max', 'max_running']]) if ($(id).value) body[name] = Number($(id).value);
    for (const [id, name] of [['s-output', 'output'], ['s-error', 'error_output'], ['s-signal', 'signal'], ['s-mail', 'mail_to'], ['s-compat', 'compat']]) if ($(id).value.trim()) body[name] = $(id).value.trim();
    if (waits.length) body.after = waits;
    if ($('s-begin').value) body.begin = new Date($('s-begin').value).getTime() / 1000;
    if (body.mail_to) body.mail_on = $('s-mail-on').value;
    if (end) body.on_end = (await ask('generate', { exe: end.split(/\s+/)[0], args: end.replace(/^\S+\s*/, '') })).jsdl;
    if ($('s-hold').checked) body.paused = true;
    const o = await ask('submit', body); // its key makes it safe to press again
    changed();
    go('#job-' + o.id);
    return 'Job ' + o.id + ' is submitted: ' + tasksOf(o.count) + '.';
  });
});
