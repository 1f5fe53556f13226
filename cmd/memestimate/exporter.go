//go:build !js

package main

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/memestimate/memestimate/devices"
)

// exporterCommand serves this host's GPUs and reservations to Prometheus.
func exporterCommand(e *env) *cobra.Command {
	var g gpuSource
	var listen string
	cmd := &cobra.Command{
		Use:   "exporter",
		Short: "Serve this host's GPUs and reservations to Prometheus",
		Long: `Exporter serves, at /metrics, the memory of this host's GPUs, what "memestimate run" holds on each,
and what the commands that hold it have taken: the bound that was predicted beside what is measured.
It asks the driver when it is scraped, and holds nothing itself.

docs/cluster has an alert for a run that exceeds its bound, and a Grafana dashboard.`,
		Args: exactly(),
		RunE: func(cmd *cobra.Command, args []string) error {
			session, err := g.open()
			if err != nil {
				return err
			}
			defer session.Close()
			mux := http.NewServeMux()
			mux.Handle("/metrics", &gpuMetrics{e, &g, session})
			return serve(cmd.Context(), e, listen, "", "", mux)
		},
	}
	g.flags(cmd.Flags())
	cmd.Flags().StringVar(&listen, "listen", "127.0.0.1:9834", "address to serve on")
	return cmd
}

// serve answers on an address until a signal ends it: with TLS when there is a certificate.
func serve(ctx context.Context, e *env, listen, cert, key string, handler http.Handler) error {
	l, err := net.Listen("tcp", listen)
	if err != nil {
		return fail(exitOutput, "%w", err)
	}
	fmt.Fprintf(e.stderr, "memestimate: serving on %s\n", l.Addr())
	ctx, caught := catchSignals(ctx)
	server := &http.Server{Handler: handler, ReadHeaderTimeout: 10 * time.Second, ReadTimeout: 30 * time.Second}
	stopped := make(chan error, 1)
	go func() {
		if cert != "" {
			stopped <- server.ServeTLS(l, cert, key)
		} else {
			stopped <- server.Serve(l)
		}
	}()
	select {
	case err = <-stopped:
	case <-ctx.Done():
		end, cancel := context.WithTimeout(context.Background(), 5*time.Second)
		defer cancel()
		err = server.Shutdown(end)
	}
	caught()
	if err != nil && !errors.Is(err, http.ErrServerClosed) {
		return fail(exitOutput, "%w", err)
	}
	return nil
}

// A gauge is a metric as it is declared.
type gauge struct {
	name, help string
	labels     []string
}

var (
	gpuLabels  = []string{"uuid", "gpu", "name", "instance_id"}
	holdLabels = append(gpuLabels[:len(gpuLabels):len(gpuLabels)], "reservation", "user", "command", "share")
)

// gauges are what is served, in the order of their names.
var gauges = []*gauge{freeGauge, totalGauge, usedGauge, usableGauge, heldGauge, boundGauge, pendingGauge, takenGauge,
	upGauge}

var (
	upGauge     = &gauge{"memestimate_up", "Whether the driver answered.", nil}
	usableGauge = &gauge{"memestimate_gpu_usable", "Whether a job could be given the GPU.", gpuLabels}
	totalGauge  = &gauge{"memestimate_gpu_memory_total_bytes", "Memory of the GPU.", gpuLabels}
	usedGauge   = &gauge{"memestimate_gpu_memory_used_bytes", "Memory that processes have.", gpuLabels}
	freeGauge   = &gauge{"memestimate_gpu_memory_free_bytes", "Free memory of the GPU.", gpuLabels}
	boundGauge  = &gauge{"memestimate_reservation_bytes",
		"Memory reserved: what the run was said or predicted to take, and its margin.", holdLabels}
	pendingGauge = &gauge{"memestimate_reservation_outstanding_bytes",
		"The part of the reserved memory that does not show as used yet.", holdLabels}
	takenGauge = &gauge{"memestimate_run_memory_bytes",
		"Memory that the run's processes have, where the driver tells.", holdLabels}
	heldGauge = &gauge{"memestimate_reservation_age_seconds", "How long the reservation has been held.", holdLabels}
)

// gpuMetrics serves the metrics, in the text format that every Prometheus reads. Prometheus's client and encoder, which
// would do the same, are not linked: to initialise them and what they import is a good tenth of what every start of
// this program takes.
type gpuMetrics struct {
	e       *env
	gpus    *gpuSource
	session *devices.Session
}

// ServeHTTP asks the driver, and answers.
func (m *gpuMetrics) ServeHTTP(w http.ResponseWriter, _ *http.Request) {
	samples := map[*gauge]*strings.Builder{}
	m.collect(func(g *gauge, v float64, values ...string) {
		if samples[g] == nil {
			samples[g] = &strings.Builder{}
		}
		g.sample(samples[g], v, values)
	})
	w.Header().Set("Content-Type", "text/plain; version=0.0.4; charset=utf-8")
	for _, g := range gauges {
		if samples[g] != nil {
			fmt.Fprintf(w, "# HELP %s %s\n# TYPE %[1]s gauge\n%[3]s", g.name, g.help, samples[g])
		}
	}
}

// labelText writes a label's value between quotes.
var labelText = strings.NewReplacer(`\`, `\\`, "\n", `\n`, `"`, `\"`)

// sample writes a line with a value of the gauge, its labels in the order of their names.
func (g *gauge) sample(b *strings.Builder, v float64, values []string) {
	pairs := make([]string, len(values))
	for i, text := range values {
		pairs[i] = g.labels[i] + `="` + labelText.Replace(text) + `"`
	}
	slices.Sort(pairs)
	labels := strings.Join(pairs, ",")
	if labels != "" {
		labels = "{" + labels + "}"
	}
	fmt.Fprintf(b, "%s%s %s\n", g.name, labels, strconv.FormatFloat(v, 'g', -1, 64))
}

// collect asks the driver.
func (m *gpuMetrics) collect(gauge func(g *gauge, v float64, labels ...string)) {
	list, err := m.gpus.list(m.e, m.session)
	if err != nil {
		gauge(upGauge, 0)
		return
	}
	gauge(upGauge, 1)
	for i := range list.Devices {
		d := &list.Devices[i]
		if d.UUID == "" {
			continue
		}
		labels := []string{d.UUID, strconv.Itoa(d.Index), d.Name, ""}
		if d.MIG == devices.MIGInstance {
			labels[0], labels[3] = d.Parent, strconv.Itoa(d.GPUInstance) // as dcgm-exporter names them
		}
		gauge(usableGauge, map[bool]float64{true: 1}[d.Usable()], labels...)
		if d.HasMemory {
			gauge(totalGauge, float64(d.Total), labels...)
			gauge(usedGauge, float64(d.Used), labels...)
			gauge(freeGauge, float64(d.Free), labels...)
		}
		for n, r := range d.Reservations {
			id := r.ID
			if id == "" {
				id = "deleted-" + strconv.Itoa(n)
			}
			l := append(labels[:len(labels):len(labels)], id, r.User, r.Command, strconv.FormatBool(r.Share))
			gauge(boundGauge, float64(r.Bytes), l...)
			gauge(pendingGauge, float64(r.Outstanding), l...)
			if r.Followed {
				gauge(takenGauge, float64(r.Taken), l...)
			}
			if !r.Started.IsZero() {
				gauge(heldGauge, time.Since(r.Started).Seconds(), l...)
			}
		}
	}
}
