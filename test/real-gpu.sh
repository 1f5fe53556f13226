#!/bin/sh
# Tries memestimate's GPU commands on real NVIDIA GPUs and prints a transcript. It changes no setting of the
# GPUs, takes under two minutes, and exits 1 when anything was not as it should be.
#
#   sh test/real-gpu.sh PATH-OF-MEMESTIMATE > transcript.txt 2>&1
#
# It needs nvidia-smi, and python3 for a job: with PyTorch when it is there, otherwise through libcuda alone.
set -u
ME=$(realpath "${1:?usage: real-gpu.sh PATH-OF-MEMESTIMATE}")
DIR=$(mktemp -d)
export MEMESTIMATE_STATE_DIR="$DIR/state"
unset CUDA_VISIBLE_DEVICES
failures=0
trap 'kill $(jobs -p) 2>/dev/null; rm -rf "$DIR"' EXIT
mkdir "$DIR/bin" && ln -s "$ME" "$DIR/bin/memestimate" && PATH="$DIR/bin:$PATH"

section() { printf '\n## %s\n\n' "$*"; }
# show prints a command as one would type it, and runs it.
show() { printf '$ %s\n' "$*"; "$@"; code=$?; [ $code = 0 ] || echo "(exit code $code)"; return $code; }
# verdict says whether the last thing was as expected: verdict CODE WHAT.
verdict() { if [ "$1" = 0 ]; then echo "OK: $2"; else echo "FAILED: $2"; failures=$((failures + 1)); fi; }

# job.py takes MIB of memory on the first GPU that it sees, says what it sees, holds it for SECONDS.
cat > "$DIR/job.py" <<'PY'
import ctypes, os, sys, time
mib, seconds = int(sys.argv[1]), float(sys.argv[2])
try:
    import torch
    n = torch.cuda.device_count()
    p = torch.cuda.get_device_properties(0)
    uuid = "GPU-" + str(p.uuid) if hasattr(p, "uuid") else "unknown"
    print("torch", torch.__version__, "sees", n, "GPU:", p.name, uuid, flush=True)
    if mib:
        x = torch.zeros(mib << 20, dtype=torch.uint8, device="cuda")
        torch.cuda.synchronize()
        print("allocated", torch.cuda.memory_allocated() >> 20, "MiB", flush=True)
except ImportError:
    cu = ctypes.CDLL("libcuda.so.1")
    def call(name, *args):
        r = getattr(cu, name)(*args)
        if r:
            sys.exit("%s: CUDA error %d" % (name, r))
    n, dev, ctx, ptr = ctypes.c_int(), ctypes.c_int(), ctypes.c_void_p(), ctypes.c_uint64()
    raw = (ctypes.c_ubyte * 16)()
    call("cuInit", 0)
    call("cuDeviceGetCount", ctypes.byref(n))
    call("cuDeviceGet", ctypes.byref(dev), 0)
    call("cuDeviceGetUuid", ctypes.byref(raw), dev)
    h = bytes(raw).hex()
    uuid = "GPU-%s-%s-%s-%s-%s" % (h[:8], h[8:12], h[12:16], h[16:20], h[20:])
    n = n.value
    print("libcuda sees", n, "GPU:", uuid, flush=True)
    if mib:
        call("cuCtxCreate_v2", ctypes.byref(ctx), 0, dev)
        call("cuMemAlloc_v2", ctypes.byref(ptr), ctypes.c_size_t(mib << 20))
        print("allocated", mib, "MiB", flush=True)
visible = os.environ.get("CUDA_VISIBLE_DEVICES", "")
print("CUDA_VISIBLE_DEVICES =", visible, flush=True)
time.sleep(seconds)
if visible and (n != 1 or uuid not in (visible, "unknown")):
    sys.exit("this is not the GPU that was chosen")
PY

section "The machine"
show nvidia-smi --query-gpu=index,name,uuid,driver_version,compute_mode,mig.mode.current --format=csv
uname -sr
python3 -c 'import torch; print("torch", torch.__version__)' 2>/dev/null || echo "no torch: the job talks to libcuda"
show memestimate version

section "devices agrees with nvidia-smi to the MiB"
show memestimate devices
# Both round bytes to MiB in their own way and read at two moments: three tries, and a last digit apart is said.
agree=1
for try in 1 2 3; do
	nvidia-smi --query-gpu=uuid,memory.total,memory.used,memory.free --format=csv,noheader,nounits | sort > "$DIR/smi"
	memestimate devices --format json > "$DIR/list.json"
	python3 - "$DIR/smi" "$DIR/list.json" > "$DIR/compare" <<'PY'
import json, sys
ours = {d["uuid"]: d for d in json.load(open(sys.argv[2]))["devices"]}
worst = 0
for line in open(sys.argv[1]):
    uuid, *smi = [w.strip() for w in line.split(",")]
    d = ours[uuid]
    for what, theirs in zip(("total", "used", "free"), smi):
        b = d[what + "_bytes"]
        off = abs(b / 2**20 - int(theirs))
        worst = max(worst, off)
        print("%s %-5s nvidia-smi %8s MiB, memestimate %13d bytes = %10.2f MiB" % (uuid, what, theirs, b, b / 2**20))
print("largest difference: %.2f MiB" % worst)
sys.exit(worst >= 1)
PY
	agree=$?
	[ $agree = 0 ] && break
	sleep 0.5
done
cat "$DIR/compare"
verdict $agree "devices and nvidia-smi differ by less than 1 MiB"

section "How long a listing takes"
python3 - <<'PY'
import subprocess, time
t = []
for _ in range(10):
    s = time.perf_counter(); subprocess.run(["memestimate", "devices"], stdout=subprocess.DEVNULL, check=True); t.append(time.perf_counter() - s)
print("memestimate devices: best %.0f ms, worst %.0f ms of 10" % (1000 * min(t), 1000 * max(t)))
t = []
for _ in range(3):
    s = time.perf_counter(); subprocess.run(["nvidia-smi", "-L"], stdout=subprocess.DEVNULL, check=True); t.append(time.perf_counter() - s)
print("nvidia-smi -L:       best %.0f ms, worst %.0f ms of 3" % (1000 * min(t), 1000 * max(t)))
PY

section "run starts a job that sees exactly the chosen GPU"
show memestimate run --print --need 4GiB
show memestimate run --verbose --need 4GiB -- python3 "$DIR/job.py" 2048 0
verdict $? "the job saw the chosen GPU and no other"
show memestimate run --need 4GiB -- sh -c 'exit 7'
[ $? = 7 ]; verdict $? "the exit code is the command's"
show memestimate run --need 9000GiB -- true
[ $? = 125 ]; verdict $? "what fits nowhere is refused"

section "A held GPU is not offered again, and is free at once when its holder is killed"
count=$(nvidia-smi -L | grep -c '^GPU')
holders=
for i in $(seq "$count"); do
	memestimate run --need 4GiB -- python3 "$DIR/job.py" 2048 60 > "$DIR/holder$i" 2>&1 &
	holders="$holders $!"
done
for i in $(seq 150); do
	[ "$(cat "$DIR"/holder* | grep -c allocated)" = "$count" ] && break
	sleep 0.2
done
cat "$DIR"/holder*
[ "$(grep -h CUDA_VISIBLE "$DIR"/holder* | sort -u | wc -l)" = "$count" ]; verdict $? "$count jobs have $count different GPUs"
show memestimate devices
show memestimate run --need 4GiB -- true
[ $? = 125 ]; verdict $? "with all GPUs held a launcher is refused"
show memestimate run --need 4GiB --wait=0.5 -- true
[ $? = 124 ]; verdict $? "a wait that runs out is 124"
memestimate run --need 4GiB --wait=30 -- date +%s.%N > "$DIR/waiter" 2>&1 &
waiter=$!
sleep 1
first=${holders# }; first=${first%% *}
killed=$(date +%s.%N)
kill -9 "$first"
wait "$waiter"
code=$?
got=$(tail -n 1 "$DIR/waiter")
python3 -c 'import sys; print("the waiter had the GPU %.0f ms after its holder was killed" % (1000 * (float(sys.argv[2]) - float(sys.argv[1]))))' "$killed" "$got"
verdict $code "the waiter ran"
kill -9 $holders 2>/dev/null
wait 2>/dev/null
sleep 1

section "trace of a job that allocates 4096 MiB"
show memestimate trace -- python3 "$DIR/job.py" 4096 1
show memestimate trace --format json --output "$DIR/trace.json" -- python3 "$DIR/job.py" 4096 1
show memestimate trace --format json --output "$DIR/context.json" -- python3 "$DIR/job.py" 1 1
python3 - "$DIR/trace.json" "$DIR/context.json" <<'PY'
import json, sys
big, small = [max(json.load(open(f))["gpus"], key=lambda g: g["peaked_bytes"]) for f in sys.argv[1:]]
mib = 2**20
print("by %s: peaked %.1f MiB; a job of 1 MiB peaks at %.1f MiB, its context" % (big["by"], big["peaked_bytes"] / mib, small["peaked_bytes"] / mib))
print("the difference is %.1f MiB for 4095 MiB more allocated" % ((big["peaked_bytes"] - small["peaked_bytes"]) / mib))
sys.exit(not (4096 * mib <= big["peaked_bytes"] <= 4096 * mib + 1536 * mib and abs(big["peaked_bytes"] - small["peaked_bytes"] - 4095 * mib) < 64 * mib))
PY
verdict $? "trace reports what was allocated, within the context's size"

section "Two jobs share a GPU"
gpu=$(nvidia-smi --query-gpu=uuid --format=csv,noheader | head -n 1)
CUDA_VISIBLE_DEVICES=$gpu memestimate run --share --need 4GiB -- python3 "$DIR/job.py" 2048 15 > "$DIR/share1" 2>&1 &
for i in $(seq 100); do grep -q allocated "$DIR/share1" && break; sleep 0.2; done
show env CUDA_VISIBLE_DEVICES="$gpu" memestimate run --verbose --share --need 4GiB -- python3 "$DIR/job.py" 2048 1
verdict $? "a second job that shares fits beside the first"
show memestimate devices

section "Result"
kill $(jobs -p) 2>/dev/null
wait 2>/dev/null
sleep 0.5
left=$(memestimate devices --format json | grep -c '"outstanding_bytes"')
[ "$left" = 0 ]; verdict $? "no GPU is left held"
if [ $failures = 0 ]; then echo "all as expected"; else echo "$failures not as expected"; exit 1; fi
