//go:build linux && cgo

package devices

import (
	"errors"
	"os"
	"unsafe"

	"github.com/NVIDIA/go-nvml/pkg/dl"
	"github.com/NVIDIA/go-nvml/pkg/nvml"
)

// otherPlaces are where distributions keep the library outside the loader's path.
var otherPlaces = []string{
	"/usr/lib/wsl/lib/libnvidia-ml.so.1",       // WSL2
	"/run/opengl-driver/lib/libnvidia-ml.so.1", // NixOS
}

// realNVML is NVML through go-nvml. go-nvml binds functions lazily: calling one that
// the library lacks ends the process, so each call asks has first. The same holds for every call
// after a failed Init, so a realNVML exists only after a good one.
type realNVML struct {
	api   nvml.Interface
	known map[string]bool
	hook  unsafe.Pointer // the library, for the calls in processes_cgo.go
}

// optional lists the functions that are called, each by its newest name and the older ones that go-nvml
// falls back to. They are looked up once, so that later calls need no lock.
var optional = [][]string{
	{"nvmlSystemGetDriverVersion"},
	{"nvmlDeviceGetCount_v2", "nvmlDeviceGetCount"},
	{"nvmlDeviceGetHandleByIndex_v2", "nvmlDeviceGetHandleByIndex"},
	{"nvmlDeviceGetUUID"},
	{"nvmlDeviceGetName"},
	{"nvmlDeviceGetPciInfo_v3", "nvmlDeviceGetPciInfo_v2", "nvmlDeviceGetPciInfo"},
	{"nvmlDeviceGetMemoryInfo_v2"},
	{"nvmlDeviceGetMemoryInfo"},
	{"nvmlDeviceGetComputeMode"},
	{"nvmlDeviceGetMigMode"},
	{"nvmlDeviceGetUtilizationRates"},
	{"nvmlDeviceGetTemperature"},
	{"nvmlDeviceGetPowerUsage"},
	{"nvmlDeviceGetEnforcedPowerLimit"},
	{"nvmlDeviceGetMaxMigDeviceCount"},
	{"nvmlDeviceGetMigDeviceHandleByIndex"},
	{"nvmlDeviceGetGpuInstanceId"},
	{"nvmlDeviceGetComputeInstanceId"},
	{"nvmlShutdown"},
}

// openLibrary loads NVML from path, or from where the system keeps it, and initializes it.
func openLibrary(path string) (library, error) {
	places := []string{path}
	if path == "" {
		places = append([]string{"libnvidia-ml.so.1"}, otherPlaces...)
	}
	var why error
	for _, place := range places {
		err := loadable(place)
		if err == nil {
			return initialize(place)
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

// loadable tells whether the library at place can be loaded and is NVML. go-nvml would swallow
// the loader's reason, and die on a library without nvmlInit.
func loadable(place string) error {
	lib := dl.New(place, dl.RTLD_LAZY|dl.RTLD_LOCAL)
	if err := lib.Open(); err != nil {
		return err
	}
	defer lib.Close()
	if lib.Lookup("nvmlInit_v2") != nil && lib.Lookup("nvmlInit") != nil {
		return errors.New(place + ": not NVML: it has no nvmlInit")
	}
	return nil
}

func initialize(place string) (library, error) {
	api := nvml.New(nvml.WithLibraryPath(place))
	if r := api.Init(); r != nvml.SUCCESS {
		return nil, &InitError{Code: Code(r)} // and never touch api again
	}
	lib := &realNVML{api: api, hook: hook(place)}
	lib.lookUp()
	return lib, nil
}

// lookUp finds out which functions the driver has.
func (l *realNVML) lookUp() {
	l.known = make(map[string]bool)
	for _, names := range optional {
		for _, n := range names {
			l.known[names[0]] = l.known[names[0]] || l.api.Extensions().LookupSymbol(n) == nil
		}
	}
}

// has returns codeNoFunction unless the driver has the function, by its newest name.
func (l *realNVML) has(name string) error {
	if l.known == nil {
		return codeUninitialized
	}
	if !l.known[name] {
		return codeNoFunction
	}
	return nil
}

// check turns what NVML returned into an error.
func check(r nvml.Return) error {
	if r == nvml.SUCCESS {
		return nil
	}
	return Code(r)
}

func (l *realNVML) driver() (string, error) {
	if err := l.has("nvmlSystemGetDriverVersion"); err != nil {
		return "", err
	}
	v, r := l.api.SystemGetDriverVersion()
	return v, check(r)
}

func (l *realNVML) count() (int, error) {
	if err := l.has("nvmlDeviceGetCount_v2"); err != nil {
		return 0, err
	}
	n, r := l.api.DeviceGetCount()
	return n, check(r)
}

func (l *realNVML) gpu(index int) (gpu, error) {
	if err := l.has("nvmlDeviceGetHandleByIndex_v2"); err != nil {
		return nil, err
	}
	d, r := l.api.DeviceGetHandleByIndex(index)
	if r != nvml.SUCCESS {
		return nil, Code(r)
	}
	return &realGPU{l, d}, nil
}

func (l *realNVML) shutdown() {
	if l.has("nvmlShutdown") == nil {
		l.api.Shutdown()
	}
}

// restart leaves the library without any known function when the driver is still away: after a failed Init a call ends
// the process.
func (l *realNVML) restart() error {
	if l.has("nvmlShutdown") == nil {
		l.api.Shutdown()
	}
	known := l.known
	l.known = nil
	if r := l.api.Init(); r != nvml.SUCCESS {
		return Code(r)
	}
	l.known = known
	if known == nil {
		l.lookUp()
	}
	return nil
}

type realGPU struct {
	lib *realNVML
	dev nvml.Device
}

func (g *realGPU) uuid() (string, error) {
	if err := g.lib.has("nvmlDeviceGetUUID"); err != nil {
		return "", err
	}
	s, r := g.dev.GetUUID()
	return s, check(r)
}

func (g *realGPU) name() (string, error) {
	if err := g.lib.has("nvmlDeviceGetName"); err != nil {
		return "", err
	}
	s, r := g.dev.GetName()
	return s, check(r)
}

func (g *realGPU) busID() (string, error) {
	if err := g.lib.has("nvmlDeviceGetPciInfo_v3"); err != nil {
		return "", err
	}
	p, r := g.dev.GetPciInfo()
	id := text(p.BusId[:])
	if id == "" { // all that version 1 fills in
		id = text(p.BusIdLegacy[:])
	}
	return id, check(r)
}

// text returns the C string in b.
func text(b []int8) string {
	var s []byte
	for _, c := range b {
		if c == 0 {
			break
		}
		s = append(s, byte(c))
	}
	return string(s)
}

func (g *realGPU) memory() (memory, error) {
	if g.lib.has("nvmlDeviceGetMemoryInfo_v2") == nil {
		m, r := g.dev.GetMemoryInfo_v2()
		if r != nvml.ERROR_ARGUMENT_VERSION_MISMATCH {
			return memory{m.Total, m.Used, m.Free, m.Reserved}, check(r)
		}
	}
	if err := g.lib.has("nvmlDeviceGetMemoryInfo"); err != nil {
		return memory{}, err
	}
	m, r := g.dev.GetMemoryInfo()
	return memory{total: m.Total, used: m.Used, free: m.Free}, check(r)
}

func (g *realGPU) computeMode() (ComputeMode, error) {
	if err := g.lib.has("nvmlDeviceGetComputeMode"); err != nil {
		return ModeUnknown, err
	}
	m, r := g.dev.GetComputeMode()
	if r != nvml.SUCCESS {
		return ModeUnknown, Code(r)
	}
	return ComputeMode(m), nil
}

// activity asks one figure after the other; one that the driver does not tell costs itself alone.
func (g *realGPU) activity() Activity {
	a := unobserved
	if g.lib.has("nvmlDeviceGetUtilizationRates") == nil {
		if u, r := g.dev.GetUtilizationRates(); r == nvml.SUCCESS {
			a.Utilization = int(u.Gpu)
		}
	}
	if g.lib.has("nvmlDeviceGetTemperature") == nil {
		if t, r := g.dev.GetTemperature(nvml.TEMPERATURE_GPU); r == nvml.SUCCESS {
			a.Temperature = int(t)
		}
	}
	if g.lib.has("nvmlDeviceGetPowerUsage") == nil {
		if p, r := g.dev.GetPowerUsage(); r == nvml.SUCCESS {
			a.Power = int(p)
		}
	}
	if g.lib.has("nvmlDeviceGetEnforcedPowerLimit") == nil {
		if p, r := g.dev.GetEnforcedPowerLimit(); r == nvml.SUCCESS {
			a.PowerLimit = int(p)
		}
	}
	return a
}

func (g *realGPU) migMode() (bool, error) {
	if err := g.lib.has("nvmlDeviceGetMigMode"); err != nil {
		return false, err
	}
	current, _, r := g.dev.GetMigMode()
	return current == nvml.DEVICE_MIG_ENABLE, check(r)
}

func (g *realGPU) instances() ([]gpu, error) {
	for _, f := range []string{"nvmlDeviceGetMaxMigDeviceCount", "nvmlDeviceGetMigDeviceHandleByIndex"} {
		if err := g.lib.has(f); err != nil {
			return nil, err
		}
	}
	n, r := g.dev.GetMaxMigDeviceCount()
	if r != nvml.SUCCESS {
		return nil, Code(r)
	}
	var parts []gpu
	for i := range n {
		d, r := g.dev.GetMigDeviceHandleByIndex(i)
		if r == nvml.ERROR_NOT_FOUND { // the numbers may have holes
			continue
		}
		if r != nvml.SUCCESS {
			return parts, Code(r)
		}
		parts = append(parts, &realGPU{g.lib, d})
	}
	return parts, nil
}

func (g *realGPU) ids() (int, int, error) {
	for _, f := range []string{"nvmlDeviceGetGpuInstanceId", "nvmlDeviceGetComputeInstanceId"} {
		if err := g.lib.has(f); err != nil {
			return -1, -1, err
		}
	}
	gi, r := g.dev.GetGpuInstanceId()
	if r != nvml.SUCCESS {
		return -1, -1, Code(r)
	}
	ci, r := g.dev.GetComputeInstanceId()
	return gi, ci, check(r)
}
