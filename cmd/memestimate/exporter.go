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

	dto "github.com/prometheus/client_model/go"
	"github.com/prometheus/common/expfmt"
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

// gpuMetrics serves the metrics. The registry of Prometheus's client, which would do the same, is not linked: to
// initialise that package and what it imports is a good tenth of what every start of this program takes.
type gpuMetrics struct {
	e       *env
	gpus    *gpuSource
	session *devices.Session
}

// ServeHTTP asks the driver, and answers in the format that is asked for.
func (m *gpuMetrics) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	values := map[*gauge][]*dto.Metric{}
	m.collect(func(g *gauge, v float64, labels ...string) {
		metric := &dto.Metric{Gauge: &dto.Gauge{Value: &v}}
		for i := range labels {
			metric.Label = append(metric.Label, &dto.LabelPair{Name: &g.labels[i], Value: &labels[i]})
		}
		slices.SortFunc(metric.Label, func(a, b *dto.LabelPair) int { return strings.Compare(*a.Name, *b.Name) })
		values[g] = append(values[g], metric)
	})
	format := expfmt.Negotiate(r.Header)
	w.Header().Set("Content-Type", string(format))
	encoder := expfmt.NewEncoder(w, format)
	for _, g := range gauges {
		if len(values[g]) == 0 {
			continue
		}
		family := &dto.MetricFamily{Name: &g.name, Help: &g.help, Type: dto.MetricType_GAUGE.Enum(), Metric: values[g]}
		if encoder.Encode(family) != nil {
			return // nobody reads on
		}
	}
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
