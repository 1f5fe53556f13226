//go:build linux && cgo

package devices

/*
#cgo LDFLAGS: -ldl
#include <dlfcn.h>
#include <stdint.h>
#include <stdlib.h>

// dlerror speaks of its own thread, so both are asked in one call.
static void *load(const char *path, const char **why) {
	void *lib = dlopen(path, RTLD_LAZY | RTLD_LOCAL);
	*why = lib ? 0 : dlerror();
	return lib;
}

// The shapes that NVML's functions have. One with fewer arguments leaves the rest where it is, in registers.
typedef uintptr_t u; // nvmlDevice_t or a number
static int call_p(void *f, void *a, u n) { return ((int (*)(void *, u))f)(a, n); }
static int call_up(void *f, u d, void *a, u n) { return ((int (*)(u, void *, u))f)(d, a, n); }
static int call_uup(void *f, u d, u n, void *a) { return ((int (*)(u, u, void *))f)(d, n, a); }
static int call_upp(void *f, u d, void *a, void *b) { return ((int (*)(u, void *, void *))f)(d, a, b); }
*/
import "C"

import (
	"errors"
	"os"
	"slices"
	"strings"
	"unsafe"
)

// otherPlaces are where distributions keep the library outside the loader's path.
var otherPlaces = []string{
	"/usr/lib/wsl/lib/libnvidia-ml.so.1",       // WSL2
	"/run/opengl-driver/lib/libnvidia-ml.so.1", // NixOS
}

// realNVML is NVML, loaded while the program runs: names, layouts and versions are those of nvml.h. A function that
// the driver lacks is codeNoFunction. NVML may end the process when it is called without a good nvmlInit, so every
// call asks for its function first, which there is none of until then.
type realNVML struct {
	lib   unsafe.Pointer
	ready bool // nvmlInit was good
}

// openLibrary loads NVML from path, or from where the system keeps it, and initializes it.
func openLibrary(path string) (library, error) {
	places := []string{path}
	if path == "" {
		places = append([]string{"libnvidia-ml.so.1"}, otherPlaces...)
	}
	var why error
	for _, place := range places {
		l, err := load(place)
		if err == nil {
			if err := l.init(); err != nil {
				return nil, err
			}
			return l, nil
		}
		if why == nil {
			why = err
		}
	}
	e := &InitError{Code: codeNoLibrary, Detail: why.Error()}
	if _, err := os.Stat("/proc/driver/nvidia/version"); err == nil {
		e.cure = "the driver runs on the host, but its library is not here: in a container ask for the GPUs with the " +
			"utility capability (docker run --gpus all, NVIDIA_DRIVER_CAPABILITIES=compute,utility)"
	}
	return nil, e
}

// load loads the library at place, or says why the loader would not or that it is not NVML.
func load(place string) (*realNVML, error) {
	path := C.CString(place)
	defer C.free(unsafe.Pointer(path))
	var why *C.char
	lib := C.load(path, &why)
	if lib == nil {
		return nil, errors.New(C.GoString(why))
	}
	l := &realNVML{lib: lib}
	if l.lookUp("nvmlInit_v2", "nvmlInit") == nil {
		return nil, errors.New(place + ": not NVML: it has no nvmlInit")
	}
	return l, nil
}

// lookUp returns the first of the functions that the driver has, or nil.
func (l *realNVML) lookUp(names ...string) unsafe.Pointer {
	for _, name := range names {
		symbol := C.CString(name)
		f := C.dlsym(l.lib, symbol)
		C.free(unsafe.Pointer(symbol))
		if f != nil {
			return f
		}
	}
	return nil
}

// function returns the first of the functions that the driver has: the newest is named first.
func (l *realNVML) function(names ...string) (unsafe.Pointer, error) {
	if !l.ready {
		return nil, codeUninitialized
	}
	if f := l.lookUp(names...); f != nil {
		return f, nil
	}
	return nil, codeNoFunction
}

// check turns what NVML returned into an error.
func check(code C.int) error {
	if code == 0 {
		return nil
	}
	return Code(code)
}

func (l *realNVML) init() error {
	if err := check(C.call_p(l.lookUp("nvmlInit_v2", "nvmlInit"), nil, 0)); err != nil {
		return &InitError{Code: err.(Code)}
	}
	l.ready = true
	return nil
}

func (l *realNVML) shutdown() {
	if f, err := l.function("nvmlShutdown"); err == nil {
		C.call_p(f, nil, 0)
	}
	l.ready = false
}

func (l *realNVML) restart() error {
	l.shutdown()
	if err := l.init(); err != nil {
		return errors.Unwrap(err)
	}
	return nil
}

// maxText is more than any name of NVML's takes, in bytes.
const maxText = 256

// text returns the C string at the beginning of b.
func text(b []byte) string {
	s, _, _ := strings.Cut(string(b), "\x00")
	return s
}

func (l *realNVML) driver() (string, error) {
	f, err := l.function("nvmlSystemGetDriverVersion")
	if err != nil {
		return "", err
	}
	var b [maxText]byte
	err = check(C.call_p(f, unsafe.Pointer(&b), maxText))
	return text(b[:]), err
}

func (l *realNVML) count() (int, error) {
	f, err := l.function("nvmlDeviceGetCount_v2", "nvmlDeviceGetCount")
	if err != nil {
		return 0, err
	}
	var n C.uint
	err = check(C.call_p(f, unsafe.Pointer(&n), 0))
	return int(n), err
}

func (l *realNVML) gpu(index int) (gpu, error) {
	f, err := l.function("nvmlDeviceGetHandleByIndex_v2", "nvmlDeviceGetHandleByIndex")
	if err != nil {
		return nil, err
	}
	g := &realGPU{lib: l}
	if err := check(C.call_up(f, C.u(index), unsafe.Pointer(&g.handle), 0)); err != nil {
		return nil, err
	}
	return g, nil
}

type realGPU struct {
	lib    *realNVML
	handle C.u
}

// ask calls a function that fills in what to points to, of a size that NVML is told where it asks.
func (g *realGPU) ask(to unsafe.Pointer, size uintptr, names ...string) error {
	f, err := g.lib.function(names...)
	if err != nil {
		return err
	}
	return check(C.call_up(f, g.handle, to, C.u(size)))
}

func (g *realGPU) text(name string) (string, error) {
	var b [maxText]byte
	err := g.ask(unsafe.Pointer(&b), maxText, name)
	return text(b[:]), err
}

func (g *realGPU) number(name string) (int, error) {
	var n C.uint
	err := g.ask(unsafe.Pointer(&n), 0, name)
	return int(n), err
}

func (g *realGPU) uuid() (string, error) { return g.text("nvmlDeviceGetUUID") }

func (g *realGPU) name() (string, error) { return g.text("nvmlDeviceGetName") }

// busID reads nvmlPciInfo_t: 16 bytes of a shorter spelling, which is all that versions 1 and 2 have, five numbers,
// and 32 bytes.
func (g *realGPU) busID() (string, error) {
	var b [maxText]byte
	if err := g.ask(unsafe.Pointer(&b), 0, "nvmlDeviceGetPciInfo_v3"); err != codeNoFunction {
		return text(b[36:68]), err
	}
	err := g.ask(unsafe.Pointer(&b), 0, "nvmlDeviceGetPciInfo_v2", "nvmlDeviceGetPciInfo")
	return text(b[:16]), err
}

// memory reads nvmlMemory_v2_t, or nvmlMemory_t from a driver that does not know it.
func (g *realGPU) memory() (memory, error) {
	var m struct {
		version                     uint32
		total, reserved, free, used uint64
	}
	m.version = uint32(unsafe.Sizeof(m)) | 2<<24
	err := g.ask(unsafe.Pointer(&m), 0, "nvmlDeviceGetMemoryInfo_v2")
	if err != codeNoFunction && err != codeStructVersion {
		return memory{m.total, m.used, m.free, m.reserved}, err
	}
	var old struct{ total, free, used uint64 }
	err = g.ask(unsafe.Pointer(&old), 0, "nvmlDeviceGetMemoryInfo")
	return memory{total: old.total, used: old.used, free: old.free}, err
}

func (g *realGPU) computeMode() (ComputeMode, error) {
	m, err := g.number("nvmlDeviceGetComputeMode")
	if err != nil {
		return ModeUnknown, err
	}
	return ComputeMode(m), nil
}

// activity asks one figure after the other; one that the driver does not tell costs itself alone.
func (g *realGPU) activity() Activity {
	a := unobserved
	var use struct{ gpu, memory C.uint } // nvmlUtilization_t, in percent
	if g.ask(unsafe.Pointer(&use), 0, "nvmlDeviceGetUtilizationRates") == nil {
		a.Utilization = int(use.gpu)
	}
	if f, err := g.lib.function("nvmlDeviceGetTemperature"); err == nil {
		var t C.uint
		if C.call_uup(f, g.handle, 0, unsafe.Pointer(&t)) == 0 { // NVML_TEMPERATURE_GPU
			a.Temperature = int(t)
		}
	}
	if p, err := g.number("nvmlDeviceGetPowerUsage"); err == nil {
		a.Power = p
	}
	if p, err := g.number("nvmlDeviceGetEnforcedPowerLimit"); err == nil {
		a.PowerLimit = p
	}
	return a
}

func (g *realGPU) migMode() (bool, error) {
	f, err := g.lib.function("nvmlDeviceGetMigMode")
	if err != nil {
		return false, err
	}
	var current, pending C.uint
	err = check(C.call_upp(f, g.handle, unsafe.Pointer(&current), unsafe.Pointer(&pending)))
	return current == 1, err
}

func (g *realGPU) instances() ([]gpu, error) {
	f, err := g.lib.function("nvmlDeviceGetMigDeviceHandleByIndex")
	if err != nil {
		return nil, err
	}
	n, err := g.number("nvmlDeviceGetMaxMigDeviceCount")
	if err != nil {
		return nil, err
	}
	var parts []gpu
	for i := range n {
		part := &realGPU{lib: g.lib}
		err := check(C.call_uup(f, g.handle, C.u(i), unsafe.Pointer(&part.handle)))
		if err == codeNotFound { // the numbers may have holes
			continue
		}
		if err != nil {
			return parts, err
		}
		parts = append(parts, part)
	}
	return parts, nil
}

func (g *realGPU) ids() (int, int, error) {
	gi, err := g.number("nvmlDeviceGetGpuInstanceId")
	if err != nil {
		return -1, -1, err
	}
	ci, err := g.number("nvmlDeviceGetComputeInstanceId")
	return gi, ci, err
}

// maxProcesses is far more than a GPU has; a driver that wants more room fails.
const maxProcesses = 4096

// notAvailable is NVML_VALUE_NOT_AVAILABLE as a process's memory.
const notAvailable = ^uint64(0)

// list asks for one of the driver's lists of processes, by the function's name without its version.
func (g *realGPU) list(name, kind string) ([]Process, error) {
	f, err := g.lib.function(name+"_v3", name+"_v2")
	size := 6 // 4-byte words of nvmlProcessInfo_t: pid, padding, bytes in two, two instances
	if err == codeNoFunction {
		f, err = g.lib.function(name)
		size = 4 // without the instances
	}
	if err != nil {
		return nil, err
	}
	n, words := C.uint(maxProcesses), make([]uint32, maxProcesses*6)
	if err := check(C.call_upp(f, g.handle, unsafe.Pointer(&n), unsafe.Pointer(&words[0]))); err != nil {
		return nil, err
	}
	if n > maxProcesses {
		return nil, codeTooSmall
	}
	all := make([]Process, n)
	for i := range all {
		w := words[i*size:]
		bytes := *(*uint64)(unsafe.Pointer(&w[2]))
		all[i] = Process{PID: int(w[0]), Kind: kind, Bytes: bytes, Known: bytes != notAvailable}
	}
	return all, nil
}

// processes merges the driver's three lists. A process that both draws and computes is one, of the
// first kind that names it, with the memory of whichever list knew it.
func (g *realGPU) processes() ([]Process, error) {
	all, err := g.list("nvmlDeviceGetComputeRunningProcesses", "compute")
	if err != nil {
		return nil, err // without the processes that compute there is no list
	}
	mps, _ := g.list("nvmlDeviceGetMPSComputeRunningProcesses", "mps")
	graphics, _ := g.list("nvmlDeviceGetGraphicsRunningProcesses", "graphics")
	var merged []Process
	for _, p := range slices.Concat(all, mps, graphics) {
		merged = addProcess(merged, p)
	}
	return merged, nil
}

func addProcess(all []Process, p Process) []Process {
	if !p.Known {
		p.Bytes = 0
	}
	for i := range all {
		if all[i].PID == p.PID {
			all[i].Known = all[i].Known || p.Known
			all[i].Bytes = max(all[i].Bytes, p.Bytes)
			return all
		}
	}
	return append(all, p)
}
