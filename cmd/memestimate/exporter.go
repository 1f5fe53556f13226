//go:build !js

package main

import (
	"context"
	"errors"
	"net"
	"net/http"
	"strconv"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promhttp"
	"github.com/spf13/cobra"

	"github.com/memestimate/memestimate/devices"

	"fmt"
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
			registry := prometheus.NewRegistry()
			registry.MustRegister(&gpuMetrics{e, &g, session})
			mux := http.NewServeMux()
			mux.Handle("/metrics", promhttp.HandlerFor(registry, promhttp.HandlerOpts{}))
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

// gpuMetrics collects the metrics when they are asked for.
type gpuMetrics struct {
	e       *env
	gpus    *gpuSource
	session *devices.Session
}

var (
	gpuLabels  = []string{"uuid", "gpu", "name", "instance_id"}
	holdLabels = append(gpuLabels[:len(gpuLabels):len(gpuLabels)], "reservation", "user", "command", "share")

	upDesc     = prometheus.NewDesc("memestimate_up", "Whether the driver answered.", nil, nil)
	usableDesc = prometheus.NewDesc("memestimate_gpu_usable", "Whether a job could be given the GPU.", gpuLabels, nil)
	totalDesc  = prometheus.NewDesc("memestimate_gpu_memory_total_bytes", "Memory of the GPU.", gpuLabels, nil)
	usedDesc   = prometheus.NewDesc("memestimate_gpu_memory_used_bytes", "Memory that processes have.", gpuLabels, nil)
	freeDesc   = prometheus.NewDesc("memestimate_gpu_memory_free_bytes", "Free memory of the GPU.", gpuLabels, nil)
	boundDesc  = prometheus.NewDesc("memestimate_reservation_bytes",
		"Memory reserved: what the run was said or predicted to take, and its margin.", holdLabels, nil)
	pendingDesc = prometheus.NewDesc("memestimate_reservation_outstanding_bytes",
		"The part of the reserved memory that does not show as used yet.", holdLabels, nil)
	takenDesc = prometheus.NewDesc("memestimate_run_memory_bytes",
		"Memory that the run's processes have, where the driver tells.", holdLabels, nil)
	heldDesc = prometheus.NewDesc("memestimate_reservation_age_seconds", "How long the reservation has been held.",
		holdLabels, nil)
)

// Describe names the metrics.
func (m *gpuMetrics) Describe(ch chan<- *prometheus.Desc) {
	for _, d := range []*prometheus.Desc{upDesc, usableDesc, totalDesc, usedDesc, freeDesc, boundDesc, pendingDesc,
		takenDesc, heldDesc} {
		ch <- d
	}
}

// Collect asks the driver.
func (m *gpuMetrics) Collect(ch chan<- prometheus.Metric) {
	gauge := func(d *prometheus.Desc, v float64, labels ...string) {
		ch <- prometheus.MustNewConstMetric(d, prometheus.GaugeValue, v, labels...)
	}
	list, err := m.gpus.list(m.e, m.session)
	if err != nil {
		gauge(upDesc, 0)
		return
	}
	gauge(upDesc, 1)
	for i := range list.Devices {
		d := &list.Devices[i]
		if d.UUID == "" {
			continue
		}
		labels := []string{d.UUID, strconv.Itoa(d.Index), d.Name, ""}
		if d.MIG == devices.MIGInstance {
			labels[0], labels[3] = d.Parent, strconv.Itoa(d.GPUInstance) // as dcgm-exporter names them
		}
		gauge(usableDesc, map[bool]float64{true: 1}[d.Usable()], labels...)
		if d.HasMemory {
			gauge(totalDesc, float64(d.Total), labels...)
			gauge(usedDesc, float64(d.Used), labels...)
			gauge(freeDesc, float64(d.Free), labels...)
		}
		for n, r := range d.Reservations {
			id := r.ID
			if id == "" {
				id = "deleted-" + strconv.Itoa(n)
			}
			l := append(labels[:len(labels):len(labels)], id, r.User, r.Command, strconv.FormatBool(r.Share))
			gauge(boundDesc, float64(r.Bytes), l...)
			gauge(pendingDesc, float64(r.Outstanding), l...)
			if r.Followed {
				gauge(takenDesc, float64(r.Taken), l...)
			}
			if !r.Started.IsZero() {
				gauge(heldDesc, time.Since(r.Started).Seconds(), l...)
			}
		}
	}
}
