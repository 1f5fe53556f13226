package devices

import (
	"errors"
	"fmt"
	"os"
	"strconv"
	"strings"
)

// integrated names chips whose GPU has no memory of its own, so that NVML answers
// "not supported": they share the host's. Only these fall back to it; elsewhere the
// answer means that nothing is known.
var integrated = []string{"GB10", "Orin", "Thor", "Xavier", "Tegra"}

// measure reads the device's memory, and refuses numbers that cannot be.
func (s *Session) measure(d *Device) {
	m, err := d.handle.memory()
	if errors.Is(err, codeNotSupported) && isIntegrated(d.Name) {
		total, available, hostErr := s.host()
		if hostErr == nil {
			m, err, d.Unified = memory{total: total, free: available, used: total - min(available, total)}, nil, true
		}
	}
	if err != nil {
		d.because("memory: " + reasonOf(err))
		return
	}
	if why := m.senseless(); why != "" {
		d.because("memory: the driver's numbers make no sense: " + why)
		return
	}
	d.HasMemory = true
	d.Total, d.Used, d.Free, d.Reserved = m.total, m.used, m.free, m.reserved
}

func isIntegrated(name string) bool {
	for _, chip := range integrated {
		if strings.Contains(name, chip) {
			return true
		}
	}
	return false
}

// senseless says what is wrong with a device's memory, or "".
func (m memory) senseless() string {
	switch {
	case m.total == 0:
		return "a total of 0"
	case m.free > m.total:
		return fmt.Sprintf("%d of %d bytes free", m.free, m.total)
	case m.used > m.total:
		return fmt.Sprintf("%d of %d bytes used", m.used, m.total)
	case m.reserved > m.total:
		return fmt.Sprintf("%d of %d bytes reserved", m.reserved, m.total)
	}
	return ""
}

// hostMemory reads MemTotal and MemAvailable of /proc/meminfo, in bytes.
func hostMemory() (total, available uint64, err error) {
	b, err := os.ReadFile("/proc/meminfo")
	if err != nil {
		return 0, 0, err
	}
	for line := range strings.Lines(string(b)) {
		f := strings.Fields(line)
		if len(f) < 2 {
			continue
		}
		n, err := strconv.ParseUint(f[1], 10, 53) // KiB
		switch {
		case err != nil:
		case f[0] == "MemTotal:":
			total = n << 10
		case f[0] == "MemAvailable:":
			available = n << 10
		}
	}
	if total == 0 || available > total {
		return 0, 0, fmt.Errorf("/proc/meminfo: no MemTotal and MemAvailable")
	}
	return total, available, nil
}
