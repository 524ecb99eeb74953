//go:build fault

package fault_test

import (
	"net/http/httptest"
	"net/url"
	"strings"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// hostPlace is a cluster where a host may be, with an operator that dies now and then.
type hostPlace struct {
	name     string
	kube     client.Client
	writes   *writes
	operator *killableOperator
}

// placeNames are the names of the clusters. Names of writes do not have the name of the first one.
var placeNames = []string{"here", "there"}

// startPlace starts the operator in a cluster, in the namespace of the host. The first place
// chooses the name of the namespace. It is the same everywhere, as it has to be for a host that
// moves.
func (l *hostLife) startPlace(name string, config *rest.Config, operatorAt kills) *hostPlace {
	l.t.Helper()
	p := &hostPlace{name: name, kube: kubeClient(l.t, config), writes: killAt(operatorAt)}
	space := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{GenerateName: "host-", Name: l.host.Namespace}}
	if err := p.kube.Create(l.t.Context(), space); err != nil {
		l.t.Fatal(err)
	}
	l.host.Namespace = space.Name
	names := hostNames{kube: p.kube, namespace: space.Name}
	if len(l.places) > 0 {
		names.prefix = name + ": "
	}
	proxy := newKubeProxy(l.t, config, p.writes, names.name)
	proxy.wrapWrite = l.proofs.wrapWrite
	proxy.Start()
	address, err := url.Parse(l.api.url)
	if err != nil {
		l.t.Fatal(err)
	}
	engine := httptest.NewUnstartedServer(l.calls.pass(name, address))
	engine.Config.ErrorLog = proxy.Config.ErrorLog // of connections that were cut
	engine.Start()
	l.t.Cleanup(engine.CloseClientConnections)
	p.operator = startKillableOperator(l.t, proxy, "--engine", engine.URL, "--namespace", space.Name)
	l.t.Cleanup(func() {
		if l.t.Failed() {
			l.at(p, func() {
				l.t.Logf("writes of the operator %s:\n%s\nthe host: %+v", name, strings.Join(p.writes.written(), "\n"), l.read())
			})
		}
	})
	return p
}

// learn notes what the operators wrote, and where they were killed.
func (l *hostLife) learn(places *places) {
	for _, p := range l.places {
		places.learn(p.writes)
	}
}

// at does something in another place than that of the host.
func (l *hostLife) at(p *hostPlace, do func()) {
	back := l.hostPlace
	l.hostPlace = p
	defer func() { l.hostPlace = back }()
	do()
}
