"""Headless Chromium by its own protocol, for portal_browser.py and tests/bench/portal: clicks, keys, files, and what a page has to be."""
import base64
import json
import os
import shutil
import subprocess
import sys
import tarfile
import tempfile
import time
import urllib.request

try:
    import websocket
except ImportError:
    try: # of the distribution, where another Python comes first
        sys.path.append("/usr/lib/python3/dist-packages")
        import websocket
    except ImportError:
        print("skipped: no module websocket (Debian: python3-websocket)")
        sys.exit(77)
from portal_system import check, fail

CHROMIUM = shutil.which("chromium") or shutil.which("chromium-browser")
if not CHROMIUM:
    print("skipped: no chromium")
    sys.exit(77)

# Contrast of each text that is seen with what is behind it (WCAG 2, 1.4.3).
CONTRAST = """(() => {
  const canvas = document.createElement('canvas').getContext('2d', { willReadFrequently: true });
  const rgb = c => { canvas.clearRect(0, 0, 1, 1); canvas.fillStyle = c; canvas.fillRect(0, 0, 1, 1); return [...canvas.getImageData(0, 0, 1, 1).data]; };
  const light = c => { const l = c.slice(0, 3).map(v => (v /= 255) <= 0.03928 ? v / 12.92 : ((v + 0.055) / 1.055) ** 2.4); return 0.2126 * l[0] + 0.7152 * l[1] + 0.0722 * l[2]; };
  const behind = e => { for (; e; e = e.parentElement) { const c = rgb(getComputedStyle(e).backgroundColor); if (c[3] === 255) return c; } return rgb(getComputedStyle(document.documentElement).colorScheme ? 'Canvas' : '#fff'); };
  const bad = [];
  for (const e of document.querySelectorAll('body *')) {
    const own = [...e.childNodes].some(n => n.nodeType === 3 && n.data.trim()) || (['INPUT', 'TEXTAREA'].includes(e.tagName) && e.value);
    if (!own || !e.checkVisibility() || e.closest('script,noscript')) continue;
    const a = light(rgb(getComputedStyle(e).color)), b = light(behind(e)), ratio = (Math.max(a, b) + 0.05) / (Math.min(a, b) + 0.05);
    if (ratio < 4.5) bad.push(e.tagName + '#' + e.id + ' ' + e.textContent.trim().slice(0, 30) + ' ' + ratio.toFixed(2));
  }
  return bad;
})()"""
OVERFLOW = """(() => {
  const width = document.documentElement.clientWidth, bad = [];
  if (document.documentElement.scrollWidth > width) bad.push('the page is ' + document.documentElement.scrollWidth + ' wide');
  for (const e of document.querySelectorAll('body *')) {
    if (!e.checkVisibility() || e.closest('.table, pre, svg') || e.classList.contains('skip')) continue;
    const r = e.getBoundingClientRect();
    if (r.width && (r.right > width + 1 || r.left < -1)) bad.push(e.tagName + '#' + e.id + ' ends at ' + r.right);
  }
  for (const e of document.querySelectorAll('.table'))
    if (e.checkVisibility() && e.scrollWidth > e.clientWidth + 1) bad.push(e.querySelector('caption').textContent + ' has to be scrolled');
  return bad;
})()"""
SMALL = """[...document.querySelectorAll('a, button, input, select, textarea, summary')].filter(e => e.checkVisibility() && !e.classList.contains('skip')).filter(e => {
  const r = e.getBoundingClientRect(); return r.height < 24 || (r.width < 20 && e.type !== 'checkbox'); }).map(e => e.tagName + '#' + e.id + ' ' + e.textContent)"""


class Browser:
    def __init__(self, shots=None):
        self.shots = shots  # a folder for screenshots
        self.home = tempfile.mkdtemp(prefix="htc-chromium-")
        self.p = subprocess.Popen([CHROMIUM, "--headless=new", "--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage", "--remote-debugging-port=0",
                                   "--remote-allow-origins=*", "--no-first-run", "--disable-background-networking", "--disable-sync", "--window-size=1200,900",
                                   "--user-data-dir=" + self.home, "about:blank"], stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        port_file = os.path.join(self.home, "DevToolsActivePort")
        end = time.monotonic() + 120
        while not (os.path.exists(port_file) and "\n" in open(port_file).read()):
            check(self.p.poll() is None and time.monotonic() < end, "chromium begins")
            time.sleep(0.1)
        port = int(open(port_file).read().split()[0])
        pages = json.load(urllib.request.urlopen("http://127.0.0.1:%d/json" % port))
        self.ws = websocket.create_connection([p for p in pages if p["type"] == "page"][0]["webSocketDebuggerUrl"], timeout=120)
        self.n, self.errors, self.urls = 0, [], set()
        for domain in ("Page", "Runtime", "Network", "Log", "Accessibility"):
            self.call(domain + ".enable")
        self.call("Browser.setDownloadBehavior", behavior="allow", downloadPath=os.path.join(self.home, "got"))
        self.media("light")

    def end(self):
        self.p.terminate()
        try:
            self.p.wait(30)
        except subprocess.TimeoutExpired:
            self.p.kill()
        shutil.rmtree(self.home, ignore_errors=True)

    def call(self, method, **params):
        self.n += 1
        self.ws.send(json.dumps({"id": self.n, "method": method, "params": params}))
        while True:
            m = json.loads(self.ws.recv())
            if m.get("method") == "Runtime.exceptionThrown":
                self.errors.append(m["params"]["exceptionDetails"]["exception"].get("description", "?"))
            elif m.get("method") == "Log.entryAdded" and m["params"]["entry"]["source"] in ("security", "javascript"):
                self.errors.append(m["params"]["entry"]["text"])
            elif m.get("method") == "Network.requestWillBeSent":
                self.urls.add(m["params"]["request"]["url"])
            elif m.get("method") == "Page.javascriptDialogOpening":
                self.n += 1
                self.ws.send(json.dumps({"id": self.n, "method": "Page.handleJavaScriptDialog", "params": {"accept": True}}))
            elif m.get("id") == self.n or ("id" in m and "result" in m and m["id"] == self.n - 1):
                check("error" not in m, method, m)
                return m["result"]

    def js(self, text):
        r = self.call("Runtime.evaluate", expression=text, returnByValue=True, awaitPromise=True)
        check("exceptionDetails" not in r, text, r)
        return r["result"].get("value")

    def until(self, what, text):
        end = time.monotonic() + 120
        while not self.js(text):
            if time.monotonic() > end:
                self.shot("failed")
                fail("%s; the page says: %s" % (what, self.js("document.body.innerText")))
            time.sleep(0.1)

    def click(self, selector):
        """Where it is when it can be clicked: enabled, and under the pointer. A page that changes as it is looked at may move it away before the
        pointer comes, as from under a person's hand: what got the click is seen, and the click is done again if that was something else."""
        where = """(() => { const e = document.querySelector(%s); if (!e || e.disabled) return null; e.scrollIntoView({ block: 'center', behavior: 'instant' });
            const r = e.getBoundingClientRect(), x = r.left + r.width / 2, y = r.top + r.height / 2, hit = document.elementFromPoint(x, y);
            if (!hit || !(e.contains(hit) || hit.contains(e))) return null;
            window.missed = true; e.addEventListener('click', () => { window.missed = false; }, { capture: true, once: true });
            return [x, y]; })()""" % json.dumps(selector)
        for _ in range(100):
            self.until(selector + " can be clicked", where)
            x, y = self.js(where)
            for kind in ("mousePressed", "mouseReleased"):
                self.call("Input.dispatchMouseEvent", type=kind, x=x, y=y, button="left", clickCount=1)
            if not self.js("window.missed"): # nothing is known of it on the page that the click led to
                return
        fail(selector + " is clicked")

    def type(self, text):
        self.call("Input.insertText", text=text)

    def key(self, key, code=0, text=None, modifiers=0):
        more = {"text": text} if text else {}
        self.call("Input.dispatchKeyEvent", type="keyDown", key=key, code=key, windowsVirtualKeyCode=code, modifiers=modifiers, **more)
        self.call("Input.dispatchKeyEvent", type="keyUp", key=key, code=key, windowsVirtualKeyCode=code, modifiers=modifiers)

    def tab_until(self, text):
        for _ in range(200):
            self.key("Tab", 9)
            if self.js(text):
                return
        fail("no key leads to " + text)

    def tab_to(self, id):
        self.tab_until("document.activeElement.id === " + json.dumps(id))

    def choose(self, selector, *paths):
        root = self.call("DOM.getDocument")["root"]["nodeId"]
        self.call("DOM.setFileInputFiles", nodeId=self.call("DOM.querySelector", nodeId=root, selector=selector)["nodeId"], files=list(paths))

    def until_file(self, name, good):
        path, end = os.path.join(self.home, "got", name), time.monotonic() + 120
        while True:
            if os.path.exists(path):
                with open(path, "rb") as f:
                    data = f.read()
                try:
                    if good(data):
                        return
                except tarfile.ReadError:
                    pass
            check(time.monotonic() < end, "a file is downloaded", name, os.listdir(os.path.dirname(path)) if os.path.isdir(os.path.dirname(path)) else "nothing")
            time.sleep(0.1)

    def shot(self, name):
        if self.shots:
            os.makedirs(self.shots, exist_ok=True)
            with open(os.path.join(self.shots, name + ".png"), "wb") as f:
                f.write(base64.b64decode(self.call("Page.captureScreenshot", captureBeyondViewport=True)["data"]))

    # Everything that is used has a name, and the page its headings in order.
    def tree(self):
        nodes = [n for n in self.call("Accessibility.getFullAXTree")["nodes"] if not n.get("ignored")]
        for n in nodes:
            role = n["role"]["value"]
            if role in ("button", "link", "textbox", "combobox", "checkbox", "spinbutton", "progressbar", "table", "image", "region", "heading", "form"):
                named = n.get("name", {}).get("value", "").strip()
                check(named or role == "form", "a %s has a name" % role, n)
        levels = [int(p["value"]["value"]) for n in nodes if n["role"]["value"] == "heading" for p in n["properties"] if p["name"] == "level"]
        check(levels[0] == 1 and all(b <= a + 1 for a, b in zip(levels, levels[1:])), "headings follow each other", levels)
        return nodes

    def memory(self):
        """Bytes that all of its processes take, what they share counted in parts."""
        pids, sum_of = [self.p.pid], 0
        for pid in pids:
            try:
                for task in os.listdir("/proc/%d/task" % pid):
                    with open("/proc/%d/task/%s/children" % (pid, task)) as f:
                        pids += map(int, f.read().split())
                with open("/proc/%d/smaps_rollup" % pid) as f:
                    sum_of += sum(int(line.split()[1]) << 10 for line in f if line.startswith("Pss:"))
            except OSError:
                pass  # it has ended
        return sum_of

    def media(self, scheme): # nothing moves while it is clicked
        self.call("Emulation.setEmulatedMedia", features=[{"name": "prefers-color-scheme", "value": scheme}, {"name": "prefers-reduced-motion", "value": "reduce"}])

    def looks(self, name):
        for width, height, mobile in ((1200, 900, False), (768, 1024, True), (360, 740, True)):
            self.call("Emulation.setDeviceMetricsOverride", width=width, height=height, deviceScaleFactor=1, mobile=mobile)
            for scheme in ("light", "dark"):
                self.media(scheme)
                where = "%s at %d, %s" % (name, width, scheme)
                for what, text in (("contrast", CONTRAST), ("overflow", OVERFLOW), ("size", SMALL)):
                    bad = self.js(text)
                    if bad:
                        self.shot("failed")
                    check(not bad, "%s: %s:" % (where, what), bad)
                self.shot("%s-%d-%s" % (name, width, scheme))
        self.call("Emulation.clearDeviceMetricsOverride")
        self.tree()


def visible(id):
    return "(document.getElementById('%s')?.checkVisibility() || false)" % id


def says(text):
    return "document.getElementById('status').textContent.includes(%s)" % json.dumps(text)
