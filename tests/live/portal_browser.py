#!/usr/bin/env python3
"""usage: portal_browser.py PROGRAM_FOLDER [SCREENSHOTS]
The portal in headless Chromium, by clicks and by keys alone: a login, a sweep by the form, its job live, logs, downloads, files that are sent, hold, release,
retry, cancel, remove and a logout; in light and dark, on a desktop, at 768 and at 360 px: nothing overflows, every text has contrast, everything that is used has
a name. Nothing but the portal is asked for anything."""
import hashlib
import http.server
import io
import json
import os
import sys
import tarfile
import threading

if "HTC_TEST_LIGHT" in os.environ:
    print("skipped: the light form looks at the programs, not at the browser: portal.py and portal_hostile.py have what they are asked")
    sys.exit(77)
from portal_chromium import Browser, says, visible
from portal_system import System, check


def state_starts(text):
    return "document.getElementById('job-state').textContent.startsWith(%s)" % json.dumps(text)


def text_of(id):
    return "document.getElementById('%s').textContent" % id


def open_view(b, name):
    b.click('#nav a[href="#%s"]' % name)
    b.until("the view is there", visible("view-" + name))
    check(b.js("document.activeElement.id") == name + "-h", "its heading has the focus")
    check(b.js("document.querySelector('#nav [aria-current=page]').hash") == "#" + name, "the navigation says where one is")


def log_in(b, s):
    b.call("Page.navigate", url="http://%s/" % s.address)
    b.until("the login is there", visible("login-name"))
    b.looks("login")
    b.js("document.getElementById('login-name').focus()")
    b.type(s.owner)
    b.key("Tab", 9)
    b.type("wrong")
    b.key("Enter", 13, "\r")
    b.until("a wrong password is said", "document.getElementById('alert').textContent.includes('wrong user name or password')")
    b.click("#login-password")
    b.js("document.getElementById('login-password').value = ''")
    b.type("open sesame")
    b.click("#login-form button")
    b.until("somebody is logged in", visible("view-overview"))
    check(b.js("document.cookie") == "" and "htc_session" not in b.js("JSON.stringify([{...localStorage}, {...sessionStorage}])"), "no script sees the session")


def sweep_by_clicks(b, s):
    open_view(b, "submit")
    b.click("#g-exe"); b.type("sh")
    b.click("#g-args"); b.type("-c 'echo out {x}; exit $(( {x} == 2 ))'")
    b.click("#g-sweeps"); b.type("x=1:5")
    b.click("#g-name"); b.type("five little tasks")
    b.click("#g-cores"); b.type("1")
    b.click("#g-time"); b.type("90")
    b.click("#g-memory"); b.type("64")
    b.click("#generate-form button.main")
    b.until("the document is shown", visible("document"))
    check(b.js("$('document-quota').hidden"), "nothing is said of a quota that there is not")
    s.htc("quota", s.owner, "--tasks", "5000", "--core-hours", "70")
    # Every field that htc generate has too.
    rare = [("gpus", "2"), ("project", "dock"), ("container", "busybox"), ("array", "1-100:2%5"), ("hosts", "a,b"), ("arch", "x86_64"), ("os", "linux"), ("workdir", "/scratch"),
            ("res", "matlab=3"), ("node-cores", "1"), ("env", "K={x}")]
    b.js("".join("$('g-%s').value = '%s';" % one for one in rare) + "$('generate-form').requestSubmit()")
    b.until("another document is shown", "document.getElementById('document-text').textContent.includes('dock')")
    want = s.htc("generate", "--exe", "sh", "--args", "-c 'echo out {x}; exit $(( {x} == 2 ))'", "--sweep", "x=1:5", "-J", "five little tasks", "-c", "1", "-t", "90m", "-m", "64M",
                 *[w for name, value in rare for w in ("--" + name, value)])
    check(b.js(text_of("document-text")) == want, "the document is the one of htc generate", want)
    b.until("what is left is said", "$('document-quota').textContent.startsWith('Left of your quota: 5,000 tasks, 70.0 core hours')")
    s.htc("quota", s.owner, "--tasks", "default", "--core-hours", "default")
    b.js("".join("$('g-%s').value = '';" % name for name, _ in rare) + "$('generate-form').requestSubmit()")
    b.until("the first document is shown", "!document.getElementById('document-text').textContent.includes('dock')")
    check(b.js(text_of("document-count")) == "5 tasks", "with its number of tasks")
    # Spec 7.27: a form that writes the same JSDL as htc generate.
    want = s.htc("generate", "--exe", "sh", "--args", "-c 'echo out {x}; exit $(( {x} == 2 ))'", "--sweep", "x=1:5", "-J", "five little tasks", "-c", "1", "-t", "90m", "-m", "64M")
    check(b.js(text_of("document-text")) == want, "the document is the one of htc generate", want)
    b.looks("submit")
    check(b.js("[...document.querySelectorAll('#generate-form details')].every(d => (d.open = true))") and b.js("$('s-mail').value = 'nobody', $('s-mail').checkValidity()") is False,
          "an address that is none is not taken")
    b.js("$('s-mail').value = ''; for (const d of document.querySelectorAll('#generate-form details')) d.open = true")
    b.looks("submit-open")
    b.js("for (const d of document.querySelectorAll('#generate-form details')) d.open = false; $('s-on-end').value = 'echo ended'; $('s-compat').value = 'slurm'")
    b.click("#s-priority"); b.type("7")
    b.click("#s-output"); b.type("out-%a.txt")
    b.js("$('s-begin').value = '2020-01-01T00:00'; $('s-hold').focus()")
    b.click("#s-retries"); b.type("0")
    b.click("#submit-form button.main")
    b.until("the job has run, and nothing was loaded again", state_starts("done, with failures 5 of 5"))
    job = json.loads(s.htc("status", str(b.js("known.id")), "--json"))["jobs"][0]
    check((job["name"], job["priority"], job["output"], job["on_end"]) == ("five little tasks", 7, "out-%a.txt", job["id"] + 1), "with what was said of it", job)
    b.js("$('s-on-end').value = $('s-compat').value = ''")
    s.htc("wait", str(job["on_end"]))
    s.htc("rm", str(job["on_end"]))
    b.until("its tasks are there", "document.querySelectorAll('#tasks-body tr').length === 5")
    b.until("why is said", "document.getElementById('job-why').textContent !== ''")
    b.click('[aria-label="Show task 0"]')
    b.until("a log is shown", text_of("log") + " === 'out 1\\n'")
    b.until("outputs are offered", "document.querySelector('#outputs a')?.getAttribute('href').includes('name=stdout')")
    b.looks("job")
    b.click("#job-archive")
    b.until_file("job-%d.tar" % job["id"], lambda data: set(tarfile.open(fileobj=io.BytesIO(data)).getnames()) == {"%d/stdout" % i for i in range(5)})
    b.click("#outputs a")
    b.until_file("%d.0-stdout" % job["id"], lambda data: data == b"out 1\n")
    b.click("#tasks-state"); b.js("document.getElementById('tasks-state').value = 'failed'; document.getElementById('tasks-state').dispatchEvent(new Event('change'))")
    b.until("failed tasks are listed", "document.querySelectorAll('#tasks-body tr').length === 1")
    b.click('[aria-label="Retry task 1"]')
    b.until("a task is tried again", says("1 task is tried again"))
    b.until("and fails again", "[...document.querySelectorAll('#job-counts div')].some(d => d.textContent === 'attempts6')")
    b.click("#job-limits summary")
    b.click("#job-memory"); b.type("32")
    b.click("#job-retry")
    b.until("all failed ones are tried again", "[...document.querySelectorAll('#job-counts div')].some(d => d.textContent === 'attempts7')")
    b.until("it has ended", state_starts("done, with failures"))
    check(json.loads(s.htc("tasks", str(job["id"]), "--failed", "--json"))["tasks"][0]["memory"] == 32 << 20, "with the memory that was said")
    b.click("#job-again")
    b.until("the job is there again", "known.id === %d && " % (job["id"] + 2) + state_starts("done, with failures"))
    b.click("#job-remove")
    b.until("the second is removed", says("is removed"))
    b.js("location.hash = '#job-%d'" % job["id"])
    b.until("the first is shown", "known.id === %d && " % job["id"] + state_starts("done, with failures"))
    b.until("with its tasks, so that nothing moves below the pointer", "document.querySelectorAll('#tasks-body tr').length >= 1 && document.querySelector('[aria-label=\"Retry task 1\"]') !== null")
    b.click("#job-remove")
    b.until("a job is removed", says("Job %d is removed" % job["id"]))
    b.until("and the list is shown", visible("view-jobs"))


def job_by_keys(b):
    b.js("document.activeElement.blur(), scrollTo(0, 0)")
    b.tab_until("document.activeElement.hash === '#submit'")
    b.key("Enter", 13, "\r")
    b.until("the form is there", visible("view-submit"))
    for id, text in (("g-exe", "sh"), ("g-args", "-c 'echo begun; sleep 600' {x}"), ("g-sweeps", "x=1:8")):
        b.tab_to(id); b.key("a", 65, modifiers=2); b.type(text)
    b.tab_until("document.activeElement.textContent === 'Show the document'")
    b.key("Enter", 13, "\r")
    b.until("the document is shown", visible("document"))
    b.tab_until("document.activeElement.textContent === 'Submit' && document.activeElement.tagName === 'BUTTON'")
    b.key("Enter", 13, "\r")
    b.until("the job runs", state_starts("running"))
    b.tab_until("document.activeElement.id === 'job-hold'")
    b.key("Enter", 13, "\r")
    b.until("the job is held", state_starts("held"))
    b.until("and may be released", "!document.getElementById('job-release').disabled")
    b.tab_to("job-release")
    b.key("Enter", 13, "\r")
    b.until("the job is released", state_starts("running"))
    b.tab_until("document.activeElement.getAttribute('aria-label') === 'Show task 0'")
    b.key("Enter", 13, "\r")
    b.until("the log of a running task is shown", text_of("log") + " === 'begun\\n'")
    b.looks("running")
    open_view(b, "overview")
    b.until("the chart has its user", "document.querySelectorAll('#chart path').length === 1 && " + text_of("chart-legend") + ".includes(': 2')")
    b.until("sites and users are there", "document.querySelectorAll('#sites-body tr').length === 1 && document.querySelectorAll('#users-body tr').length === 2")
    b.until("what is one's own is there", text_of("tiles") + ".includes('Your tasks at pilots')")
    b.until("why is said", visible("user-why"))
    b.click("#agents summary")
    b.until("pilots are there", "document.querySelectorAll('#agents-body tr').length > 0")
    b.looks("overview")
    open_view(b, "jobs")
    b.looks("jobs")
    b.click("#jobs-body tr:first-child a")
    b.until("the job is shown", visible("view-job") + " && " + state_starts("running"))
    b.tab_to("job-cancel")
    b.key("Enter", 13, "\r")
    b.until("a job is cancelled", state_starts("cancelled"))


def files(b, s):
    """Of a command, and of a document of one's own."""
    for name, text in (("in put.txt", "hello\n"), ("run.sh", "#!/bin/sh\ncat 'in put.txt' $1\n")):
        with open(os.path.join(s.top, name), "w") as f:
            f.write(text)
    b.js("location.hash = '#submit'")
    b.until("the form is there", visible("view-submit"))
    b.choose("#g-files", os.path.join(s.top, "in put.txt"), os.path.join(s.top, "run.sh"))
    b.until("both are sent", "document.querySelectorAll('#g-files-list li').length === 2 && [...document.querySelectorAll('#g-files-list .note')].every(e => e.textContent.endsWith('sent'))")
    check(b.js("[...document.querySelectorAll('#g-files-list input[type=checkbox]')].map(e => e.checked)") == [False, True], "a program is seen as one")
    for id, text in (("g-exe", "./run.sh"), ("g-args", "{x}"), ("g-sweeps", "x=run.sh,/dev/null")):
        b.click("#" + id); b.key("a", 65, modifiers=2); b.type(text)
    b.click("#generate-form button.main")
    b.until("the document is shown", visible("document"))
    b.looks("files")
    b.click("#submit-form button.main")
    b.until("the job has run", "known.id === 5 && " + state_starts("done 2 of 2"))
    b.js("busy = 1; 0") # what is asked for meanwhile does not keep a task from being shown
    b.click('[aria-label="Show task 1"]')
    b.until("a task has read its file", text_of("log") + " === 'hello\\n'")
    b.until("and its outputs are told", "document.querySelectorAll('#outputs li').length > 0")
    b.js("busy = 0; 0")
    path = os.path.join(s.top, "own.jsdl")
    with open(path, "w") as f:
        f.write(s.htc("generate", "--exe", "cat", "--args", "other {x}", "--sweep", "x=/dev/null,/dev/null", "-i", "other=in put.txt").replace("file:%s/in put.txt" % s.top, "file:in put.txt"))
    b.js("location.hash = '#submit'")
    b.until("the form is there", visible("view-submit"))
    b.choose("#u-file", path)
    b.click("#upload-form button")
    b.until("a file that is not there is said", text_of("alert") + ".includes('in put.txt')")
    b.choose("#u-files", os.path.join(s.top, "in put.txt"))
    b.until("it is known already", text_of("u-files-list") + ".includes('is there already')")
    b.click("#upload-form > p button")
    b.until("the document is read", text_of("document-count") + " === '2 tasks' && " + visible("document"))
    b.click("#submit-form button.main")
    b.until("and has run", "known.id === 6 && " + state_starts("done 2 of 2"))


EVIL = "<img src=x onerror=pwned=1>\"'"


def scripts_in_texts(b, s):
    """What users, tasks and files are called, and what tasks write, is text everywhere."""
    with open(os.path.join(s.top, "evil.sh"), "w") as f:
        f.write("#!/bin/sh\nprintf '%%s' '%s'\ntouch \"$HTC_OUTPUT_DIR/$1.html\"\n" % EVIL.replace("'", "'\\''"))
    os.chmod(os.path.join(s.top, "evil.sh"), 0o755)
    job = int(s.htc("submit", "--wait", "-J", EVIL, "--", "./evil.sh", EVIL).split()[1].rstrip(":"))
    b.until("its name is shown as it is", text_of("jobs-body") + ".includes(%s)" % json.dumps(EVIL))
    b.js("location.hash = '#job-%d.0'" % job)
    b.until("so is what it wrote", text_of("log") + " === %s" % json.dumps(EVIL))
    b.until("and the name of a file", text_of("outputs") + ".includes(%s)" % json.dumps(EVIL + ".html"))
    check(b.js("document.querySelector('#outputs a').pathname") == "/output", "a link leads to the portal")
    b.js("location.hash = '#submit'")
    b.until("the form is there", visible("view-submit"))
    path = os.path.join(s.top, EVIL)
    open(path, "w").close()
    b.choose("#g-files", path)
    b.until("a file is called so", "[...document.querySelectorAll('#g-files-list input')].some(e => e.value === %s)" % json.dumps(EVIL))
    b.until("and sent", "[...document.querySelectorAll('#g-files-list .note')].every(e => /sent|already/.test(e.textContent))")
    b.js("$('g-exe').value = 'true'; $('g-args').value = ''; $('g-sweeps').value = ''; $('g-env').value = '<img src>'; $('generate-form').requestSubmit()")
    b.until("an error says it", text_of("alert") + ".includes(\"'<img src>'\")")
    b.js("location.hash = '#job-1\"><img src=x onerror=pwned=1>'")
    b.until("an address that is none is none", visible("view-overview"))
    b.looks("evil")
    check(b.js("typeof pwned === 'undefined' && document.querySelectorAll('img').length === 0"), "nothing of it is more than text")


def other_sites(b, s):
    """A page of another site that is open in the same browser changes nothing and reads nothing."""
    job = int(s.htc("submit", "--", "sleep", "600").split()[1].rstrip(":"))
    body = json.dumps(json.dumps({"id": str(job)}))
    portal = "http://%s" % s.address
    page = """<!doctype html><title>evil</title><script>
      const portal = %s, body = %s, got = [];
      const attempt = (path, o) => fetch(portal + path, { credentials: 'include', ...o }).then(r => r.text()).then(t => { if (t) got.push(path + ' ' + t); }, () => {});
      (async () => {
        for (const mode of ['no-cors', 'cors'])
          for (const type of ['text/plain', 'application/json'])
            await attempt('/api/cancel', { method: 'POST', mode, body, headers: { 'Content-Type': type } });
        await attempt('/api/cancel', { method: 'POST', body, headers: { 'Content-Type': 'application/json', 'X-HTC-Portal': '1' } });
        await attempt('/api/status'); await attempt('/output?job=%d&task=0&name=stdout'); await attempt('/');
        await new Promise(next => { const e = new EventSource(portal + '/events', { withCredentials: true }); e.onmessage = m => got.push(m.data); e.onerror = () => { e.close(); next(); }; });
        document.title = 'tried'; window.got = got;
      })();
    </script><form id="f" method="post" enctype="text/plain" action="%s/api/cancel"><input name='{"id":"%d","x":"' value='"}'></form>""" % (json.dumps(portal), body, job, portal, job)

    class Evil(http.server.BaseHTTPRequestHandler):
        def do_GET(self):
            self.send_response(200)
            self.send_header("Content-Type", "text/html")
            self.end_headers()
            self.wfile.write(page.encode())

        def log_message(self, *_):
            pass

    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Evil)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    for name in ("localhost", "127.0.0.1"):  # of another site; and of the same, at another port, where the cookie comes along
        b.call("Page.navigate", url="http://%s:%d/" % (name, server.server_port))
        b.until("it has tried", "document.title === 'tried'")
        check(b.js("got.length") == 0, "another site reads nothing", b.js("got"))
        b.js("document.getElementById('f').submit()")
        b.until("a form is refused", "document.body && document.body.innerText.includes('HTC_E')")
        check("DENIED" in b.js("document.body.innerText"), "for where it comes from", b.js("document.body.innerText"))
    server.shutdown()
    check(json.loads(s.htc("status", str(job), "--json"))["jobs"][0]["state"] in ("running", "queued"), "nothing was changed")
    s.htc("cancel", str(job))
    b.errors.clear()


def work(b, s):
    log_in(b, s)
    got = b.js("[0, 1, 128, 129, 70001].map(n => new Blake2b().update(Uint8Array.from({ length: n }, (_, i) => i * 7)).hex())")
    check(got == [hashlib.blake2b(bytes(i * 7 & 255 for i in range(n)), digest_size=32).hexdigest() for n in (0, 1, 128, 129, 70001)], "the page hashes as the gateway does", got)
    sweep_by_clicks(b, s)
    job_by_keys(b)
    files(b, s)

    # Loaded again it is still the same session and the same place; after the logout it is none.
    b.call("Page.reload")
    b.until("the session goes on", "document.readyState === 'complete' && " + visible("view-job") + " && " + state_starts("done 2 of 2"))
    open_view(b, "jobs")
    b.until("the jobs are there", "document.querySelectorAll('#jobs-body tr').length === 3")
    scripts_in_texts(b, s)
    b.click("#logout")
    b.until("nobody is logged in", visible("login-name"))
    check(not b.js("document.getElementById('jobs-body').textContent + document.getElementById('log').textContent"), "what was seen is gone")
    check(not b.errors, "the browser complains of nothing", b.errors)
    strange = [u for u in b.urls if not u.startswith("http://%s/" % s.address) and not u.startswith("data:")]
    check(not strange, "nothing is loaded from elsewhere", strange)
    b.js("$('login-name').value = %s; $('login-password').value = 'open sesame'; $('login-form').requestSubmit()" % json.dumps(s.owner))
    b.until("somebody is logged in", visible("app"))
    other_sites(b, s)


with System(sys.argv[1]) as s:
    b = Browser(sys.argv[2] if len(sys.argv) > 2 else None)
    try:
        work(b, s)
    finally:
        b.end()
print("portal_browser: ok")
