package main

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"net/http"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"time"

	"golang.org/x/sync/errgroup"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/rest"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	kube "sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/ingot-metal/ingot/api/infrastructure/v1beta2"
	discoveryv1 "github.com/ingot-metal/ingot/api/metal3/discovery/v1alpha1"
	"github.com/ingot-metal/ingot/api/metal3/v1alpha1"
	"github.com/ingot-metal/ingot/config"
	"github.com/ingot-metal/ingot/internal/controlplane"
	"github.com/ingot-metal/ingot/test/process"
)

// hostNamespace is the namespace in which the bench creates hosts.
const hostNamespace = "bench"

// creators is how many objects the bench creates at the same time.
const creators = 16

// cluster is a Kubernetes API with the kinds of Ingot. Nothing else uses it.
type cluster struct {
	plane  *controlplane.ControlPlane
	config *rest.Config
	client kube.Client
}

// startCluster runs a control plane with an empty data folder below the folder of the section.
func (b *bench) startCluster(ctx context.Context) (*cluster, error) {
	return b.startClusterWith(ctx, controlplane.Options{})
}

// startClusterWith is startCluster with more than kube-apiserver.
func (b *bench) startClusterWith(ctx context.Context, opts controlplane.Options) (*cluster, error) {
	opts.DataDir = filepath.Join(b.folder, "cluster")
	plane, err := controlplane.Start(ctx, opts)
	if err != nil {
		return nil, err
	}
	c := &cluster{plane: plane, config: plane.Config()}
	if err := c.prepare(ctx); err != nil {
		return nil, errors.Join(err, plane.Stop())
	}
	return c, nil
}

// prepare installs the kinds and creates the namespace.
func (c *cluster) prepare(ctx context.Context) error {
	if err := controlplane.InstallCRDs(ctx, c.config, config.CRDs); err != nil {
		return err
	}
	scheme := runtime.NewScheme()
	if err := errors.Join(corev1.AddToScheme(scheme), v1alpha1.AddToScheme(scheme), discoveryv1.AddToScheme(scheme),
		v1beta2.AddToScheme(scheme), clusterv1.AddToScheme(scheme)); err != nil {
		return err
	}
	unlimited := rest.CopyConfig(c.config)
	unlimited.QPS = -1
	var err error
	if c.client, err = kube.New(unlimited, kube.Options{Scheme: scheme}); err != nil {
		return fmt.Errorf("connect to the control plane: %w", err)
	}
	return c.client.Create(ctx, &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: hostNamespace}})
}

func (c *cluster) stop() error { return c.plane.Stop() }

// createAll creates count objects, several at a time.
func (c *cluster) createAll(ctx context.Context, count int, object func(i int) kube.Object) error {
	return c.createEach(ctx, count, func(i int) error { return c.client.Create(ctx, object(i)) })
}

// createEach calls create count times, several at a time.
func (c *cluster) createEach(ctx context.Context, count int, create func(i int) error) error {
	group, _ := errgroup.WithContext(ctx)
	group.SetLimit(creators)
	for i := range count {
		group.Go(func() error { return create(i) })
	}
	return group.Wait()
}

// verify returns an error unless there are count hosts, all available, each with a node of its own.
func (c *cluster) verify(ctx context.Context, count int) error {
	var hosts v1alpha1.BareMetalHostList
	if err := c.client.List(ctx, &hosts); err != nil {
		return fmt.Errorf("list hosts: %w", err)
	}
	nodes := map[string]bool{}
	for i := range hosts.Items {
		if status := hosts.Items[i].Status; status.Provisioning.State == v1alpha1.StateAvailable {
			nodes[status.Provisioning.ID] = true
		}
	}
	if len(hosts.Items) != count || len(nodes) != count {
		return fmt.Errorf("%d hosts have %d nodes and are available, want %d of each", len(hosts.Items), len(nodes), count)
	}
	return nil
}

// written counts the writes to the API server, by all clients together. objects are writes of
// hosts, of their Secrets and of HardwareData; firmware are writes of their BIOS settings and
// firmware.
type written struct{ objects, firmware, machines, events, leases, discoveries float64 }

func (w written) minus(before written) written {
	return written{w.objects - before.objects, w.firmware - before.firmware, w.machines - before.machines, w.events - before.events, w.leases - before.leases, w.discoveries - before.discoveries}
}

// writes reads the counts of the API server.
func (c *cluster) writes(ctx context.Context) (w written, err error) {
	transport, err := rest.TransportFor(c.config)
	if err != nil {
		return w, err
	}
	samples, err := scrape(ctx, transport, c.config.Host+"/metrics", "apiserver_request_total")
	for _, s := range samples {
		switch s.labels["verb"] {
		case "POST", "PUT", "PATCH", "APPLY", "DELETE":
		default:
			continue
		}
		switch s.labels["resource"] {
		case "baremetalhosts", "hardwaredata", "secrets":
			w.objects += s.value
		case "hostfirmwaresettings", "hostfirmwarecomponents", "firmwareschemas":
			w.firmware += s.value
		case "metal3machines":
			w.machines += s.value
		case "events":
			w.events += s.value
		case "leases":
			w.leases += s.value
		case "baremetalhostdiscoveries":
			w.discoveries += s.value
		}
	}
	return w, err
}

// sample is one value of a metric.
type sample struct {
	labels map[string]string
	value  float64
}

// scrape reads all values of a counter or gauge.
func scrape(ctx context.Context, transport http.RoundTripper, url, metric string) ([]sample, error) {
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, url, http.NoBody)
	if err != nil {
		return nil, err
	}
	request.Header.Set("Accept-Encoding", "identity") // compression would be the largest cost of the answer
	answer, err := transport.RoundTrip(request)
	if err != nil {
		return nil, fmt.Errorf("read metrics: %w", err)
	}
	defer answer.Body.Close()
	var samples []sample
	lines := bufio.NewScanner(answer.Body)
	for lines.Scan() {
		if text, found := strings.CutPrefix(lines.Text(), metric+"{"); found {
			s, err := parseSample(text)
			if err != nil {
				return nil, fmt.Errorf("read metrics of %s: %w", url, err)
			}
			samples = append(samples, s)
		}
	}
	return samples, lines.Err()
}

// label is a label of a metric in the text format of Prometheus.
var label = regexp.MustCompile(`(\w+)="((?:[^"\\]|\\.)*)"`)

// parseSample reads a line of metrics without the name of the metric.
func parseSample(text string) (sample, error) {
	end := strings.LastIndexByte(text, ' ')
	s := sample{labels: map[string]string{}}
	var err error
	if s.value, err = strconv.ParseFloat(text[end+1:], 64); err != nil {
		return s, err
	}
	for _, match := range label.FindAllStringSubmatch(text[:max(end, 0)], -1) {
		s.labels[match[1]] = match[2]
	}
	return s, nil
}

// operatorProcess is an `ingot operator` that runs as a child of this process.
type operatorProcess struct {
	*process.Process
	metrics string // URL
}

// startOperator runs an operator with its default configuration and the given engine.
func (b *bench) startOperator(c *cluster, engine ...string) (*operatorProcess, error) {
	address, err := process.FreeAddress()
	if err != nil {
		return nil, err
	}
	args := append([]string{"operator", "--kubeconfig", c.plane.Kubeconfig(), "--metrics-addr", address, "--metrics-insecure"}, engine...)
	p, err := b.startProcess("operator", args...)
	if err != nil {
		return nil, err
	}
	return &operatorProcess{Process: p, metrics: "http://" + address + "/metrics"}, nil
}

// awaitAvailable waits until this many hosts are available, as the operator counts them.
func (o *operatorProcess) awaitAvailable(ctx context.Context, count int) error {
	states := map[string]int{}
	err := poll(ctx, metricsPause, func() (bool, error) {
		if o.Ended() {
			return false, o.Failure()
		}
		samples, err := scrape(ctx, http.DefaultTransport, o.metrics, "ingot_host_info")
		if err != nil {
			return false, nil // it has just been started
		}
		clear(states)
		for _, s := range samples {
			states[s.labels["state"]]++
		}
		return states["available"] >= count, nil
	})
	if err != nil {
		return fmt.Errorf("wait for %d available hosts, last seen %v: %w", count, states, err)
	}
	return nil
}

// metricsPause is the pause between two reads of an operator's metrics, of which each host has
// some.
const metricsPause = time.Second

// operatorTimeout bounds the wait for all hosts.
const operatorTimeout = 5 * time.Minute
