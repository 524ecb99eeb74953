//go:build fault

package fault_test

import (
	"encoding/pem"
	"fmt"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"

	"github.com/ingot-metal/ingot/internal/controlplane"
	"github.com/ingot-metal/ingot/internal/sim/effect"
	"github.com/ingot-metal/ingot/test/cluster"
)

// clusterLife is a cluster on its way from its first machines to its end. Its operator is killed
// now and then.
type clusterLife struct {
	*cluster.Cluster
	t          *testing.T
	shape      clusterShape
	deployment *clusterv1.MachineDeployment // nil for a control plane
	writes     *writes
	operator   *killableOperator
	there      there
	asked      map[string]int // images that were asked for, by the names of hosts
	marked     []string       // hosts with a mark on their data disks
	notes      []string
}

// clusterShape is a kind of life of clusters.
type clusterShape struct {
	name string
	// used are the hosts with which the machines begin. Unless full is set, another host comes
	// later. All machines prefer that host.
	used []string
	// controlPlane says that the machines are those of a control plane.
	controlPlane bool
	// full says that no other host comes later.
	full bool
	// edited says that the first template keeps no hosts until it is edited.
	edited bool
	// lives is how many there are at the same time.
	lives int
	steps []clusterStep
}

// clusterStep is a part of a life.
type clusterStep struct {
	name string
	live func(*clusterLife)
}

// free is the host that comes later.
const free = "free"

// clusterShapes are all kinds of lives.
var clusterShapes = []clusterShape{
	{name: "workers", used: []string{"used-1", "used-2", "used-3"}, lives: 2, steps: []clusterStep{
		{"deployment", (*clusterLife).deploy},
		{"upgrade", (*clusterLife).upgrade},
		{"recovery by annotation", (*clusterLife).recoverByAnnotation},
		{"recovery by reboot", (*clusterLife).recoverByReboot},
		{"recovery with a BMC that is away", (*clusterLife).recoverWithoutBMC},
		{"end of reuse", (*clusterLife).stopReuse},
		{"scale-down", (*clusterLife).scaleDown},
		{"scaling to hosts", (*clusterLife).scaleToHosts},
		{"deletion", (*clusterLife).delete},
	}},
	{name: "broken worker", used: []string{"used-1"}, lives: 1, steps: []clusterStep{
		{"deployment", (*clusterLife).deploy},
		{"replacement on the same host", (*clusterLife).replaceOnSameHost},
		{"replacement", (*clusterLife).replace},
		{"deletion", (*clusterLife).delete},
	}},
	{name: "plugged in", used: []string{"used-1", "used-2"}, full: true, lives: 1, steps: []clusterStep{
		{"deployment", (*clusterLife).deploy},
		{"replacement by a machine that is plugged in", (*clusterLife).replaceByPluggedIn},
		// A machine without a BMC is not cleared without a person, so the cluster is not deleted.
	}},
	{name: "edited", used: []string{"used-1", "used-2"}, full: true, edited: true, lives: 1, steps: []clusterStep{
		{"deployment", (*clusterLife).deploy},
		{"upgrade after an edit of the template, beside a competitor", (*clusterLife).upgradeEdited},
		{"host for the competitor", (*clusterLife).giveToCompetitor},
		{"deletion", (*clusterLife).delete},
	}},
	{name: "moving", used: []string{"used-1", "used-2", "used-3"}, lives: 1, steps: []clusterStep{
		{"deployment", (*clusterLife).deploy},
		{"move", (*clusterLife).move},
		{"deletion", (*clusterLife).delete},
	}},
	{name: "control plane", used: []string{"used-1", "used-2", "used-3"}, controlPlane: true, lives: 1, steps: []clusterStep{
		{"deployment", (*clusterLife).deploy},
		{"upgrade", (*clusterLife).upgrade},
		{"deletion", (*clusterLife).delete},
	}},
}

// hosts is how many hosts a life takes.
func (s clusterShape) hosts() int {
	if s.full {
		return len(s.used)
	}
	return len(s.used) + 1
}

// clusters counts the lives of clusters.
var clusters atomic.Int32

// startClusterLife makes a cluster in a namespace of its own, and starts its operator.
func startClusterLife(t *testing.T, w *cluster.World, s clusterShape, points kills) *clusterLife {
	t.Helper()
	name := fmt.Sprint("life-", clusters.Add(1))
	var plane *controlplane.ControlPlane
	var controlPlane *clusterv1.ContractVersionedObjectReference
	if s.controlPlane {
		plane, controlPlane = w.NewPlane(t), cluster.ControlPlaneRef(name)
	} else {
		plane = w.WorkerPlane(t)
	}
	l := &clusterLife{t: t, shape: s, Cluster: w.NewCluster(t, name, plane, controlPlane), writes: killAt(points), asked: map[string]int{}}
	l.there.writes = killAt(points) // the names of writes differ there
	l.reachThroughProxy()
	l.operator = l.startOperator(w.Config(), l.writes, "")
	t.Cleanup(func() {
		if t.Failed() {
			t.Logf("what happened:\n%s\nwrites of the operator:\n%s", strings.Join(l.notes, "\n"), strings.Join(slices.Concat(l.writes.written(), l.there.writes.written()), "\n"))
		}
	})
	return l
}

// startOperator starts an operator of a management cluster.
func (l *clusterLife) startOperator(config *rest.Config, w *writes, title string) *killableOperator {
	l.t.Helper()
	proxy := newKubeProxy(l.t, config, w, managementNames(l.t, config, l.Name, title).name)
	proxy.Start()
	return startKillableOperator(l.t, proxy, "--engine", l.EngineURL(), "--namespace", l.Name,
		"--controllers", "host,discovery,firmware,cluster,remediation,autoscale")
}

// reachThroughProxy makes everybody reach the workload cluster through a proxy. The proxy kills the
// operator at some of its writes there.
func (l *clusterLife) reachThroughProxy() {
	l.t.Helper()
	config := l.Plane.Config()
	proxy := newKubeProxy(l.t, config, l.writes, workloadNames(l.t, config, "").ofIngot)
	moved := newKubeProxy(l.t, config, l.there.writes, workloadNames(l.t, config, thereTitle).ofIngot)
	proxy.Config.Handler = http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if l.there.rules.Load() {
			moved.ServeHTTP(w, r)
		} else {
			proxy.ServeHTTP(w, r)
		}
	})
	proxy.StartTLS() // Cluster API refuses a kubeconfig without TLS
	kubeconfig, err := clientcmd.LoadFromFile(l.Plane.Kubeconfig())
	if err != nil {
		l.t.Fatal(err)
	}
	// The client certificate is of no use here, but Cluster API looks for one in the Secret.
	for _, c := range kubeconfig.Clusters {
		c.Server, c.CertificateAuthorityData = proxy.URL, pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: proxy.Certificate().Raw})
	}
	text, err := clientcmd.Write(*kubeconfig)
	if err != nil {
		l.t.Fatal(err)
	}
	cluster.Change(l.t, l.Cluster, &corev1.Secret{ObjectMeta: l.Meta(l.Name + "-kubeconfig")}, func(s *corev1.Secret) {
		s.Data = map[string][]byte{"value": text}
	})
}

// live leads the cluster through everything.
func (l *clusterLife) live() {
	l.t.Helper()
	for _, step := range l.shape.steps {
		l.note(step.name)
		step.live(l)
		for _, operator := range l.operators() {
			operator.check()
		}
		l.checkDisks(step.name)
	}
	l.note("end")
	for _, operator := range l.operators() {
		operator.stop()
		for _, line := range operator.panics() {
			l.t.Error(line)
		}
	}
	fmt.Printf("%s, %s: %s; %d writes, %d kills\n", l.shape.name, l.Name, strings.Join(l.notes, ", "),
		len(l.writes.written())+len(l.there.writes.written()), len(l.writes.killedAt())+len(l.there.writes.killedAt()))
}

// note writes down what begins now.
func (l *clusterLife) note(what string) {
	l.notes = append(l.notes, time.Now().Format(time.TimeOnly)+" "+what)
}

// ask notes that an image is to be written to each of these hosts.
func (l *clusterLife) ask(hosts ...string) {
	for _, host := range hosts {
		l.asked[host]++
	}
}

// checkDisks checks what was written to the disks, and what is still on them.
func (l *clusterLife) checkDisks(step string) {
	l.t.Helper()
	for host := range l.Hosts {
		for _, e := range l.effectsOf(host, 0) {
			if e.Kind == effect.Wipe {
				l.t.Errorf("%s: the disks of %s were wiped: %s", step, host, e.Detail)
			}
		}
		if images := l.images(host); images != l.asked[host] {
			l.t.Errorf("%s: %d images were written to %s, want %d", step, images, host, l.asked[host])
		}
		if content, _ := l.Machine(host).Disks().ReadFile(dataDisk, mark); slices.Contains(l.marked, host) && string(content) != host {
			l.t.Errorf("%s: the mark on the data disk of %s is %q", step, host, content)
		}
	}
}

// images counts those that were written to a host.
func (l *clusterLife) images(host string) (n int) {
	for _, e := range l.effectsOf(host, 0) {
		if e.Kind == effect.Write {
			n++
		}
	}
	return n
}

// effectsOf are what was done to the machine of a host after an effect.
func (l *clusterLife) effectsOf(host string, since int64) []effect.Effect {
	return l.MachinesWithBMC().Recorder().Effects(strconv.Itoa(l.Hosts[host]), since)
}
