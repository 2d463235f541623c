#!/bin/bash
# usage: counted.sh PROGRAM_FOLDER
# GPUs and named resources for real: each task has devices of its own, never more run at once than there are, also across a gateway that is killed.
source "$(dirname "$0")/live.sh"
dir=$top/sys
H=("$htc" --dir "$dir")

# --- the configuration ---
printf '[site.local]\ngpus = 65\n' > bad.ini
refuse 1 'gpus = 65 is not allowed' "${H[@]}" up --config bad.ini
printf '[site.local]\nres.Big = 1\n' > bad.ini
refuse 1 'lower-case letters' "${H[@]}" up --config bad.ini
printf '[site.local]\nres.gpu = 1\n' > bad.ini
refuse 1 'site.NAME.gpus' "${H[@]}" up --config bad.ini
printf '[site.local]\ncores = 6\ngpus = 2\nres.matlab = 3\n[agent]\nheartbeat_s = 1\nlost_after_s = 4\n' > sys.ini
expect 0 "${H[@]}" up --config sys.ini

# --- the command line ---
refuse 1 "is not NAME=N" "${H[@]}" submit --res matlab -- true
refuse 1 "take 1 to 4294967295" "${H[@]}" submit --res matlab=0 -- true
refuse 1 "not the name of a resource" "${H[@]}" submit --res Big=1 -- true
expect 0 "${H[@]}" generate --gpus 2 --res matlab=1 --exe true
[[ $out == *'<htc:Resource name="gpu">2</htc:Resource><htc:Resource name="matlab">1</htc:Resource>'* ]] || fail "the document: $out"

# --- devices: whoever finds its device in use says so ---
cat > use.sh << 'END'
#!/bin/sh
[ "$CUDA_VISIBLE_DEVICES" = "$HTC_GPUS" ] || echo "$CUDA_VISIBLE_DEVICES is not $HTC_GPUS" >> "$1/wrong"
for d in $(echo "$HTC_GPUS" | tr , ' '); do mkdir "$1/gpu$d" || echo "$d twice" >> "$1/wrong"; done
echo "$HTC_GPUS" >> "$1/used"
sleep 0.1
for d in $(echo "$HTC_GPUS" | tr , ' '); do rmdir "$1/gpu$d"; done
END
chmod +x use.sh
mkdir devices
chmod 777 devices
expect 0 "${H[@]}" submit --gpus 1 -- "$PWD/use.sh" "$PWD/devices" ::: 1 2 3 4 5 6 7 8
expect 0 "${H[@]}" submit --gpus 2 -- "$PWD/use.sh" "$PWD/devices" ::: 1 2
daemon_pid htc-gateway
kill -9 "$pid"
ended() { "${H[@]}" wait 1 > wait.out 2>&1 && "${H[@]}" wait 2 > wait.out 2>&1; }
soon ended || fail "they do not end: $(cat wait.out)"
[ ! -e devices/wrong ] || fail "devices: $(cat devices/wrong)"
[ "$(sort devices/used | uniq -c | awk '{ print $2 }' | tr '\n' ' ')" = '0 0,1 1 ' ] || fail "devices that were used: $(sort devices/used | uniq -c)"

# --- licences: no more at once than there are, though slots are free ---
expect 0 "${H[@]}" submit --res matlab=2 -- sh -c "mkdir $PWD/one && sleep 0.1 && rmdir $PWD/one" ::: 1 2 3
expect 0 "${H[@]}" wait last
expect 0 "${H[@]}" submit --name held --res matlab=3 -- sh -c "touch $PWD/held; while [ -e $PWD/held ]; do sleep 0.05; done"
soon test -e held
expect 0 "${H[@]}" submit --res matlab=1 -- true
waits() { "${H[@]}" why last > why.out && grep -q 'asks for 1 of matlab, and at site local 0 of 3 are free' why.out; }
soon waits || fail "why: $(cat why.out)"
expect 0 "${H[@]}" submit --wait -- true
expect 0 "${H[@]}" sites
[[ $out == *'gpu 0/2 matlab 3/3'* ]] || fail "sites: $out"
rm held
expect 0 "${H[@]}" wait 5
refuse 5 'asks for 1 of ansys, and no site has it' "${H[@]}" submit --res ansys=1 -- true
refuse 5 'asks for 3 of gpu, and no site has more than 2' "${H[@]}" submit --gpus 3 -- true
expect 0 "${H[@]}" down
none_left
echo "all holds"
