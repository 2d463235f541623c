#!/bin/bash
# A day with the system: up, submit, watch, fetch, fail, retry, cancel, down. Nothing may be left behind.
source "$(dirname "$0")/live.sh"
dir=$top/state
H=("$htc" --dir "$dir")

printf '[agent]\nheartbeat_s = 0.5\n[task]\nretry_backoff_s = 0.1\nothers_as_owner = confined\n' > htc.ini
expect 0 "${H[@]}" up --slots 2 --config htc.ini
others=$out
[[ "$(id -u) $(stat -c %a "$dir")" =~ ^0\ 711$|\ 700$ ]] || fail "the state directory is open to others"

# A sweep with a staged executable and an input.
printf '#!/bin/sh\necho "$1 $(cat data.txt)" > "$HTC_OUTPUT_DIR/answer.txt"\necho "task $HTC_TASK_INDEX of $HTC_TASK_COUNT"\n' > run.sh
chmod +x run.sh
echo molecules > data.txt
expect 0 "${H[@]}" submit --name sweep --input data.txt --output 'out-%j-%3a.txt' --wait -- run.sh '{x}' ::: x=5:9
[[ $out == "job 1: 5 tasks"* ]] || fail "submit said: $out"
expect 0 "${H[@]}" fetch 1 --to results
for i in 0 1 2 3 4; do
    [ "$(cat results/$i/answer.txt)" = "$((i + 5)) molecules" ] || fail "answer of task $i"
    [ "$(cat results/out-1-00$i.txt)" = "task $i of 5" ] || fail "standard output of task $i"
done
python3 - results << 'END' || fail "the manifest does not describe the files"
import hashlib, json, os, sys
d = sys.argv[1]
m = json.load(open(d + "/manifest.json"))
assert m["job"] == 1 and m["count"] == 5 and [t["index"] for t in m["tasks"]] == list(range(5)), m
for t in m["tasks"]:
    assert t["status"] == "HTC_OK" and t["exit_code"] == 0 and t["attempt"] == 1, t
    for o in t["outputs"]:
        if o["type"] != "f":
            continue
        data = open(os.path.join(d, o["file"]), "rb").read()
        assert len(data) == o["size"] and hashlib.blake2b(data, digest_size=32).hexdigest() == o["hash"], o
END
expect 0 "${H[@]}" fetch 1 --tar results.tar
tar xf results.tar --one-top-level=unpacked && diff -r results unpacked || fail "the archive differs from the directory"
# A damaged file is noticed and fetched again; the others are kept.
echo rubbish > results/2/answer.txt
expect 0 "${H[@]}" fetch 1 --to results --json
[ "$(json "$out" 'v["kept"]')" = 9 ] || fail "kept: $out"
[ "$(cat results/2/answer.txt)" = "7 molecules" ] || fail "a damaged file stayed"

# A failing task, its reason, and a retry of those that failed alone.
printf '#!/bin/sh\necho trouble >&2\n[ "$HTC_TASK_INDEX" != 1 ] || [ -e "%s/fixed" ]\n' "$top" > moody.sh
chmod +x moody.sh
expect 5 "${H[@]}" submit --retries 1 --wait -- moody.sh '{}' ::: a b c
expect 0 "${H[@]}" tasks 2 --failed --json
[ "$(json "$out" '[(t["index"], t["tries"]) for t in v["tasks"]]')" = "[(1, 2)]" ] || fail "failed tasks: $out"
expect 0 "${H[@]}" logs 2.1 --stderr
[ "$out" = trouble ] || fail "standard error of 2.1: $out"
: > "$top/fixed"
expect 0 "${H[@]}" retry 2 --failed
expect 0 "${H[@]}" wait 2
expect 0 "${H[@]}" status 2 --json
[ "$(json "$out" '(v["jobs"][0]["tasks"]["done"], v["jobs"][0]["state"])')" = "(3, 'done')" ] || fail "after the retry: $out"
expect 0 "${H[@]}" tasks 2 --json
[ "$(json "$out" '[(t["exit_code"], t["ended"] > t["started"], t["node"] != "") for t in v["tasks"]]')" = "[(0, True, True), (0, True, True), (0, True, True)]" ] || fail "ended tasks: $out"
expect 0 "${H[@]}" tasks 2.1 --json
[ "$(json "$out" 'v["tasks"][0]["attempt"]')" = 3 ] || fail "an attempt's number only grows: $out"

# Logs while it runs, why the next one waits, cancelling.
expect 0 "${H[@]}" submit --name long -- sh -c 'echo begun; sleep 600'
expect 0 "${H[@]}" submit --name wide -- sleep 600 ::: 1 2 3
one_runs()
{
    expect 0 "${H[@]}" status 4 --json
    [ "$(json "$out" 'v["jobs"][0]["tasks"]["running"]')" -ge 1 ]
}
soon one_runs || fail "no task of job 4 runs: $out"
timeout 300 "$htc" --dir "$dir" logs 3 -f > followed &
follower=$!
soon grep -q begun followed || fail "the log of a running task does not show"
kill $follower
wait $follower 2> /dev/null
expect 0 "${H[@]}" why 4
[ -n "$out" ] && [ "$(printf '%s\n' "$out" | wc -l)" = 1 ] || fail "why: $out"
echo "why: $out"
expect 0 "${H[@]}" why
[[ $out == *"$(id -un)"* ]] || fail "why of the operator: $out"
expect 0 "${H[@]}" agents --json
[ "$(json "$out" 'v["slots"]')" = 2 ] || fail "slots: $out"
expect 0 "${H[@]}" cancel 3
expect 0 "${H[@]}" cancel 4
refuse 5 '3 of 3 tasks were cancelled: htc tasks 4 --state cancelled lists them' "${H[@]}" wait 4
expect 5 "${H[@]}" wait 3
expect 0 "${H[@]}" report 4 --json
[ "$(json "$out" '(v["jobs"][0]["failed"], v["jobs"][0]["cancelled"])')" = '(0, 3)' ] || fail "what was cancelled while it ran has not failed: $out"
expect 0 "${H[@]}" rm 3
refuse 4 'no job|not found|no such' "${H[@]}" status 3

# A pattern without the task's number: none takes another's place.
expect 0 "${H[@]}" submit --name same --output '%n.txt' --wait -- echo '{}' ::: a b
expect 0 "${H[@]}" fetch last --to same
[ "$(cat same/0/same.txt same/1/same.txt)" = $'a\nb' ] || fail "one name for two tasks: $(find same)"
refuse 1 'one file' "${H[@]}" submit -o '%a' -e '%a' -- true
refuse 4 'cannot make the directory' "${H[@]}" fetch last --to /proc/nowhere
expect 0 "${H[@]}" rm last

# One at a time: each finds the directory of the one before gone. A job that goes first is no job of others.
expect 0 "${H[@]}" submit --max-running 1 --priority -7 --wait -- sh -c 'mkdir "$0" && sleep 0.02 && rmdir "$0"' "$PWD/alone" '{}' ::: 1 2 3 4 5 6 7 8
expect 0 "${H[@]}" status last --json
[ "$(json "$out" '(v["jobs"][0]["max_running"], v["jobs"][0]["priority"])')" = '(1, -7)' ] || fail "what was asked for: $out"
expect 0 "${H[@]}" rm last
refuse 1 '-1000 to 1000' "${H[@]}" submit --priority 1001 -- true
refuse 1 'not a count' "${H[@]}" submit --max-running -1 -- true

# One job after another: what the first leaves is there. What can never run is cancelled, with the reason, down the chain.
job_of_line() { sed -nE 's/^job ([0-9]+): .*/\1/p' <<< "$out"; }
expect 0 "${H[@]}" submit --hold -- sh -c 'echo 1 > "$0"' "$PWD/first"
first=$(job_of_line)
expect 0 "${H[@]}" submit --after "$first" -- sh -c 'cp "$0" "$1"' "$PWD/first" "$PWD/second"
second=$(job_of_line)
expect 0 "${H[@]}" submit --after "$first:failed" -- true
never=$(job_of_line)
expect 0 "${H[@]}" submit --after "$first,$second:any" --after last:any -- true
all=$(job_of_line)
expect 0 "${H[@]}" why "$second" --json
[ "$(json "$out" 'v["code"]')" = After ] || fail "what it waits for: $out"
expect 0 "${H[@]}" status "$all"
grep -q "^after job $first (ok), job $second (any), job $never (any)$" <<< "$out" && grep -q "^job $all  waiting" <<< "$out" || fail "its parents: $out"
refuse 6 'not all jobs have ended' "${H[@]}" wait "$all" --timeout 0
refuse 6 'has not ended' "${H[@]}" rm "$first"
expect 0 "${H[@]}" release "$first"
expect 0 "${H[@]}" wait "$all"
[ "$(cat second)" = 1 ] || fail "the second was before the first"
expect 5 "${H[@]}" wait "$never"
expect 0 "${H[@]}" why "$never"
grep -q "job $first ended well" <<< "$out" || fail "why it was cancelled: $out"
expect 0 "${H[@]}" report "$never"
grep -q "^job $never was cancelled: job $first ended well" <<< "$out" || fail "a report without the reason: $out"
expect 0 "${H[@]}" submit --after "$never" -- true
refuse 5 'cancelled' "${H[@]}" wait last
expect 0 "${H[@]}" rm "$first"
refuse 4 "job $first is removed" "${H[@]}" submit --after "$first" -- true
refuse 4 'there is no job 999 ' "${H[@]}" submit --after 999:any -- true
refuse 1 'no way for a job to end' "${H[@]}" submit --after "$second:well" -- true
refuse 1 'is no job' "${H[@]}" submit --after "$second,,x" -- true
for id in "$second" "$never" "$all" last; do expect 0 "${H[@]}" rm "$id"; done

# What a task prints comes back byte by byte, whatever it is; a reader that goes ends a following.
expect 0 "${H[@]}" submit --wait -- sh -c 'head -c 300000 /dev/zero; printf "\\377\\n"'
[ "$("${H[@]}" logs last | sha256sum)" = "$( (head -c 300000 /dev/zero; printf '\377\n') | sha256sum)" ] || fail "zero bytes in a log"
expect 0 "${H[@]}" submit --name talker -- sh -c 'while sleep 0.1; do echo on; done'
talks() { "${H[@]}" logs last 2> /dev/null | grep on > /dev/null; }
soon talks || fail "the log of a running task does not show"
timeout 120 "${H[@]}" logs last -f 2> said | head -n 1 > /dev/null
[ "${PIPESTATUS[0]}" != 124 ] && [ ! -s said ] || fail "logs -f and a reader that goes: $(cat said)"
expect 0 "${H[@]}" cancel last

# Users and passwords.
echo secret > password
echo wrong > wrong
expect 0 "${H[@]}" user add ada --weight 2 --uid 65102:65102 --password-file password
refuse 4 'exists already: htc user set' "${H[@]}" user add ada --password-file password
refuse 4 'password' "${H[@]}" login ada --password-file wrong
expect 0 "${H[@]}" login ada --password-file password
[ "$(stat -c %a "$dir/tokens/ada")" = 600 ] || fail "the token can be read by others"
if [[ $others == *"tasks are refused"* ]]; then
    refuse 4 'refused' "${H[@]}" --user ada submit -- true
else
    expect 0 "${H[@]}" --user ada submit --wait -- true
fi
expect 0 "${H[@]}" users --json
[ "$(json "$out" '[u["weight"] for u in v["users"] if u["name"] == "ada"]')" = "[2]" ] || fail "users: $out"
expect 0 "${H[@]}" report all --svg chart.svg
grep -q '</svg>' chart.svg || fail "no picture"
# Equation 2: NT tasks of PTE seconds on NCU cores, over the makespan; no better than whole rounds allow.
expect 0 "${H[@]}" report all --json
[ "$(json "$out" '(lambda t: t["tasks"] > 5 and t["pte_s"] > 0 and
    abs(t["efficiency"] - t["tasks"] * t["pte_s"] / t["ncu"] / t["last_end_s"]) < 1e-6 and
    abs(t["efficiency_bound"] - t["tasks"] / t["ncu"] / -(-t["tasks"] // t["ncu"])) < 1e-6)(v["total"])')" = True ] || fail "equation 2: $out"

expect 0 "${H[@]}" down
refuse 3 'no system runs' "${H[@]}" status
none_left
# What was acknowledged is still there after a restart, with another format refused.
expect 0 "${H[@]}" up --slots 2 --config htc.ini
expect 0 "${H[@]}" status 1 --json
[ "$(json "$out" 'v["jobs"][0]["tasks"]["done"]')" = 5 ] || fail "after a restart: $out"
expect 0 "${H[@]}" submit -- sleep 600
expect 0 "${H[@]}" down --now
none_left
echo "smoke: all is well"
